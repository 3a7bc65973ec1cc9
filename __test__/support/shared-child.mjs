// A replica in a process of its own: asks for admission again and again, and says what it got, a line of JSON each.
//
// node shared-child.mjs <options as JSON>
//   url, keyPrefix, leaseMs, limits, estimatedTokens; count requests, one every everyMs; each lease is held holdMs and
//   settled with `tokens`; with `hang` the process never settles
import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as wait } from 'node:timers/promises';

const { createQuotaCore } = createRequire(import.meta.url)('../../index.js');

const options = JSON.parse(process.argv[2]);
const { url, leaseMs, limits, count, everyMs, holdMs = 0, tokens, estimatedTokens = 0, hang = false } = options;
const core = createQuotaCore({ redis: { url, leaseMs }, logger: { warn: (...args) => console.error(...args) } });
const request = { platform: 'groq', modelId: 'm', keyId: 1, limits, estimatedTokens };
// At once, so that a process that is killed has told everything.
const tell = (event) => writeSync(1, `${JSON.stringify(event)}\n`);

async function ask() {
  const answer = await core.admitShared(request);
  if (!answer.admitted) return tell({ refused: answer.refusals[0].axis });
  tell({ admitted: Date.now(), lease: answer.leaseId });
  if (hang) return;
  if (holdMs > 0) await wait(holdMs);
  tell({ settling: Date.now(), lease: answer.leaseId });
  const { settled } = await core.settleShared(answer.leaseId, { tokens });
  tell({ settled, lease: answer.leaseId });
}

const started = performance.now();
const asked = [];
for (let index = 0; index < count; index += 1) {
  const ahead = started + index * everyMs - performance.now();
  if (ahead > 0) await wait(ahead);
  asked.push(ask());
  if (asked.length >= 500) await Promise.all(asked.splice(0, 250));
}
await Promise.all(asked);
if (hang) await wait(60_000);
