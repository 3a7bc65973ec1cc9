// One account and five keys: what each gets alone, in a crowd and in bursts, and how targets are picked by weight. Ends with 1
// when a decision of the engine is not what the rules of quota sharing say.

import { alone, bursts, crowded, KEYS, LIMIT, picks, THRESHOLD } from './account.mjs';
import { HOUR, MINUTE, table } from './world.mjs';

const percent = (part, digits = 1) => `${(100 * part).toFixed(digits)} %`;

function duration(ms) {
  if (ms < MINUTE) return ms === 0 ? 0 : '< 1 min';
  return ms < HOUR ? `${Math.round(ms / MINUTE)} min` : `${(ms / HOUR).toFixed(1)} h`;
}

function printAccount(title, account, days) {
  const all = account.keys.reduce((sum, key) => sum + key.tokens, 0);
  const rows = account.keys.map((key) => [
    `${key.id} (${key.policy})`,
    `${key.weight} %`,
    percent(key.tokens / all),
    percent(key.highest / LIMIT),
    key.asked,
    key.served,
    key.behind,
    duration(key.longestWait),
  ]);
  console.log(`\n${title}: ${days} days, the account at most ${percent(account.highest / LIMIT)} full\n`);
  console.log(table(['key', 'weight', 'of tokens', 'at most', 'asked', 'served', 'behind', 'longest wait'], rows));
}

async function printAlone(seed) {
  console.log('Alone for a day: how much of the whole limit a key reaches\n');
  const rows = [];
  const broken = [];
  for (const { id, weight, policy } of KEYS) {
    const [told, untold] = [await alone(id, { seed }), await alone(id, { seed, reports: false })];
    rows.push([`${id} (${policy})`, `${weight} %`, percent(told.reached), percent(untold.reached)]);
    broken.push(...told.broken, ...untold.broken);
  }
  console.log(table(['key', 'weight', 'provider reports use', 'it does not'], rows));
  return broken;
}

function printPicks(seed) {
  const turns = 10_000;
  const releases = ['at once', 'late', 'never'];
  const results = releases.map((release) => picks(release, { seed, turns }));
  console.log(`\n${turns} picks by weight; requests released …\n`);
  const rows = KEYS.map(({ id, weight }, index) => [
    id,
    `${weight} %`,
    ...results.map((result) => `${result[index].part.toFixed(2)} %`),
  ]);
  console.log(table(['target', 'weight', ...releases], rows));
}

/** @param {string[]} args `--seed=N`, `--days=N` */
export async function main(args) {
  const option = (name, otherwise) =>
    Number(args.find((arg) => arg.startsWith(`--${name}=`))?.split('=')[1] ?? otherwise);
  const [seed, days] = [option('seed', 7), option('days', 14)];
  console.log(`A limit of ${LIMIT} tokens in 5 hours, saturated from ${percent(THRESHOLD, 0)} (seed ${seed})\n`);
  const broken = await printAlone(seed);
  const [crowd, coming] = [await crowded({ seed, days }), await bursts({ seed, days })];
  printAccount('Everyone, all the time', crowd, days);
  printAccount('Everyone in bursts', coming, days);
  printPicks(seed);
  broken.push(...crowd.broken, ...coming.broken);
  console.log(
    broken.length === 0
      ? '\nEvery decision was the one the rules give.'
      : `\n${broken.length} decisions broke the rules:\n  ${broken.slice(0, 10).join('\n  ')}`,
  );
  return broken.length === 0 ? 0 : 1;
}
