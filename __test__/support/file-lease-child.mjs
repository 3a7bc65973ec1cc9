// A process that shares a file with others: takes leases, holds them a while, ends them, and says when.
//
// node file-lease-child.mjs <file> <options as JSON>: attempts, holdMs, limits, env; `hang` = never end a lease
import { createRequire } from 'node:module';
import { setTimeout as wait } from 'node:timers/promises';

const { createQuotaCore } = createRequire(import.meta.url)('../../index.js');

const [, , file, text] = process.argv;
const { attempts, parallel = 1, holdMs, limits, env, hang = false } = JSON.parse(text);
const core = createQuotaCore({ database: file, leases: 'file', env });
/** The same clock in all processes of the machine. */
const now = () => Number(process.hrtime.bigint() / 1000n);
const spans = [];
let refused = 0;
let left = attempts;

async function work() {
  while (left > 0) {
    left -= 1;
    const answer = core.admit({ platform: 'groq', modelId: 'm', keyId: 1, limits, estimatedTokens: 3 });
    if (!answer.admitted) {
      refused += 1;
      await wait(2);
      continue;
    }
    const from = now();
    if (hang) continue;
    await wait(holdMs * (0.5 + Math.random()));
    spans.push([from, now()]);
    if (Math.random() < 0.2) core.cancel(answer.leaseId);
    else core.settle(answer.leaseId);
  }
}

await Promise.all(Array.from({ length: parallel }, work));
console.log(JSON.stringify({ spans, refused, warned: core.inspect().degraded }));
if (hang) await wait(60_000);
core.close();
