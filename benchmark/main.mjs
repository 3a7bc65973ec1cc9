// `npm run bench`: every suite of benchmark/suites, each case against its baselines in the same run.
//
// npm run bench -- <word> …        only suites or cases whose name holds a word
// npm run bench -- --rows 0,1000   only these sizes
// npm run bench -- --json <file>   the figures as JSON too

import { readdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { table } from '../demo/world.mjs';
import { duration, measure, ratio } from './measure.mjs';
import * as shared from './shared.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rows: { type: 'string' }, json: { type: 'string' } },
});
const onlyRows = values.rows?.split(',').map(Number);
const report = {
  node: process.version,
  platform: `${process.platform}-${process.arch}`,
  cpu: cpus()[0].model,
  suites: {},
};

const matches = (...names) =>
  positionals.length === 0 || positionals.some((word) => names.some((name) => name.includes(word)));

/** A case's row: each contender's time, and how many times ours fits into each of the others. */
function toRow(name, figures, contenders) {
  const ours = figures.ours.ns;
  return [
    name,
    ...contenders.flatMap((contender) => {
      const figure = figures[contender];
      if (!figure) return contender === 'ours' ? ['—'] : ['—', ''];
      return contender === 'ours' ? [duration(ours)] : [duration(figure.ns), ratio(figure.ns / ours)];
    }),
  ];
}

const files = readdirSync(new URL('suites/', import.meta.url))
  .filter((file) => file.endsWith('.mjs'))
  .sort();
console.log(`Node ${report.node}, ${report.platform}, ${report.cpu}. Medians; "2x" = ours is twice as fast.`);
for (const file of files) {
  const suite = await import(`./suites/${file}`);
  const cases = suite.cases.filter(({ name }) => matches(suite.name, name));
  if (cases.length === 0) continue;
  report.suites[suite.name] = {};
  for (const size of suite.sizes.filter((rows) => !onlyRows || onlyRows.includes(rows))) {
    const stage = await suite.setup(size);
    const results = [];
    try {
      for (const { name, contenders, ...options } of cases) {
        const runs = await contenders(stage);
        if (runs) results.push([name, await measure(runs, options)]);
        await stage.afterCase?.();
      }
    } finally {
      await stage.close();
    }
    const names = [...new Set(results.flatMap(([, figures]) => Object.keys(figures)))];
    const head = ['', ...names.flatMap((name) => (name === 'ours' ? ['ours'] : [name, '']))];
    console.log(`\n${suite.title(size)}\n`);
    console.log(
      table(
        head,
        results.map(([name, figures]) => toRow(name, figures, names)),
      ),
    );
    report.suites[suite.name][size] = Object.fromEntries(results);
  }
}
// Processes and a server of their own: not one function against another.
if (matches(shared.name)) report.suites[shared.name] = await shared.runSuite();
if (values.json) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
