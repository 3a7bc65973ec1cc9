// Shared admissions per second and their latency, by 1, 2 and 4 processes, against rate-limiter-flexible on the same server
// in the same run. Ours checks all axes at once and takes a lease (and settles it, where said); theirs counts one limit.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { table } from '../demo/world.mjs';
import { ratio } from './measure.mjs';

export const name = 'shared-admission';

const PROCESSES = [1, 2, 4];
const IN_FLIGHT = [1, 64];
const CONTENDERS = ['ours', 'ours, settled too', 'rate-limiter-flexible'];
const ROUNDS = 5;
const MILLISECONDS = 500;

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

async function startServer() {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'quota-bench-'));
  const child = spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder], {
    stdio: 'ignore',
  });
  await once(child, 'spawn');
  for (;;) {
    const socket = createConnection(port, '127.0.0.1');
    const connected = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (connected) break;
    await wait(20);
  }
  return {
    url: `redis://127.0.0.1:${port}`,
    /** So that no run begins with the leases that another left behind. */
    async empty() {
      const socket = createConnection(port, '127.0.0.1').end('FLUSHALL\r\n');
      await once(socket.resume(), 'close');
    },
    async stop() {
      child.kill();
      await once(child, 'exit');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** All processes of one contender at once: admissions per second together, the median of their quantiles. */
async function run(contender, { url, empty }, processes, inFlight) {
  await empty();
  const children = Array.from({ length: processes }, () => {
    const args = [contender, url, String(MILLISECONDS), String(inFlight)];
    const script = new URL('shared-worker.mjs', import.meta.url).pathname;
    const child = spawn(process.execPath, [script, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
    return { child, ready: once(child.stdout, 'data'), ended: once(child, 'close').then(() => text) };
  });
  await Promise.all(children.map(({ ready }) => ready));
  for (const { child } of children) child.stdin.write('go\n');
  const outputs = await Promise.all(children.map(({ ended }) => ended));
  const results = outputs.map((text) => JSON.parse(text.trim().split('\n').at(-1)));
  return {
    perSecond: results.reduce((sum, { perSecond }) => sum + perSecond, 0),
    p50: median(results.map(({ p50 }) => p50)),
    p99: median(results.map(({ p99 }) => p99)),
  };
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** Rounds alternate between the contenders, so that a slow moment of the machine hits both. */
async function compare(server, processes, inFlight) {
  const rounds = Object.fromEntries(CONTENDERS.map((contender) => [contender, []]));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const contender of CONTENDERS) rounds[contender].push(await run(contender, server, processes, inFlight));
  }
  const middle = (contender, figure) => median(rounds[contender].map((result) => result[figure]));
  return Object.fromEntries(
    CONTENDERS.map((contender) => [
      contender,
      Object.fromEntries(['perSecond', 'p50', 'p99'].map((figure) => [figure, middle(contender, figure)])),
    ]),
  );
}

/** Runs the suite and prints it; its figures. */
export async function runSuite() {
  const server = await startServer();
  const figures = {};
  const rows = [];
  try {
    for (const inFlight of IN_FLIGHT) {
      for (const processes of PROCESSES) {
        const result = await compare(server, processes, inFlight);
        figures[`${processes} processes, ${inFlight} in flight each`] = result;
        const [ours, settled, theirs] = CONTENDERS.map((contender) => result[contender]);
        const latency = ({ p50, p99 }) => `${p50.toFixed(2)} / ${p99.toFixed(2)} ms`;
        rows.push([
          `${processes} × ${inFlight}`,
          Math.round(ours.perSecond),
          Math.round(theirs.perSecond),
          ratio(ours.perSecond / theirs.perSecond),
          Math.round(settled.perSecond),
          latency(ours),
          latency(theirs),
        ]);
      }
    }
  } finally {
    await server.stop();
  }
  console.log('\nShared admissions a second, processes × requests in flight each, and latency at p50 / p99\n');
  console.log(
    table(['', 'ours', 'rate-limiter-flexible', '', 'ours, settled too', 'ours', 'rate-limiter-flexible'], rows),
  );
  return figures;
}
