// A Redis server of a test's own: on a free loopback port, in a folder of its own, gone when the test ends.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** One command over a connection of its own, as any other client would send it; the raw reply, line ends stripped. */
export async function command(port, ...parts) {
  const socket = createConnection(port, '127.0.0.1');
  socket.setEncoding('utf8');
  const encoded = parts.map((part) => `$${Buffer.byteLength(String(part))}\r\n${part}\r\n`).join('');
  socket.end(`*${parts.length}\r\n${encoded}`);
  let reply = '';
  for await (const chunk of socket) reply += chunk;
  return reply.trimEnd();
}

/** The payload of a bulk reply, null when there is none. */
export function bulk(reply) {
  if (reply === '$-1') return null;
  return reply.slice(reply.indexOf('\r\n') + 2);
}

export class RedisServer {
  #process = null;
  #folder = mkdtempSync(join(tmpdir(), 'quota-redis-'));
  #args;
  #config;

  constructor(port, args, config) {
    this.port = port;
    this.#args = args;
    this.#config = config;
  }

  get url() {
    return `redis://127.0.0.1:${this.port}`;
  }

  get pid() {
    return this.#process.pid;
  }

  /** @param {string[]} [args] in place of those it was made with */
  async start(args = this.#args) {
    // A sentinel knows no snapshots.
    const settings = ['--port', this.port, '--bind', '127.0.0.1', '--dir', this.#folder];
    if (this.#config === undefined) settings.push('--save', '');
    else settings.unshift(this.#config);
    this.#process = spawn('redis-server', [...settings, ...args].map(String), { stdio: 'ignore' });
    await once(this.#process, 'spawn').catch((cause) => {
      throw new Error('this test needs redis-server on the PATH, and there is none: install Redis', { cause });
    });
    for (let attempt = 0; ; attempt += 1) {
      try {
        if (/^[+-]/.test(await command(this.port, 'PING'))) return this;
      } catch (error) {
        if (attempt > 200) throw error;
      }
      await wait(25);
    }
  }

  /** A bulk or integer value by a plain command, as the other side would read it. */
  async value(...parts) {
    const reply = await command(this.port, ...parts);
    if (reply.startsWith('-')) throw new Error(reply);
    return reply.startsWith('$') ? bulk(reply) : reply.slice(1);
  }

  pause() {
    this.#process.kill('SIGSTOP');
  }

  resume() {
    this.#process.kill('SIGCONT');
  }

  async stop(signal = 'SIGKILL') {
    if (this.#process?.pid === undefined || this.#process.exitCode !== null || this.#process.signalCode !== null)
      return;
    const ended = once(this.#process, 'exit');
    this.#process.kill('SIGCONT');
    this.#process.kill(signal);
    await ended;
  }

  async remove() {
    await this.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Starts a server that ends with the test; a sentinel takes a configuration file. */
export async function startRedis(t, args = [], config = undefined) {
  const server = new RedisServer(await freePort(), args, config);
  t.after(() => server.remove());
  return server.start();
}
