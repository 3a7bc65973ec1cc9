// Recorded runs of scheduling and signals, replayed in recorded mode.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decode, difference } from './support/recorded-values.mjs';
import { schedInstance } from './support/sched-instance.mjs';
import { readTrace } from './support/traces.mjs';

function stubs(calls) {
  const plans = new Map();
  const fetcher =
    (name) =>
    async (...args) => {
      calls.push([name, ...args.map((arg) => arg?.id ?? arg)]);
      const plan = plans.get(name);
      if (plan && 'throw' in plan) throw new Error(plan.throw);
      return plan ? plan.return : null;
    };
  const names = ['generic', 'loadConnection', 'fetchUsage', 'codex', 'bailian'];
  return { plans, fetchers: Object.fromEntries(names.map((name) => [name, fetcher(name)])) };
}

async function replay(trace) {
  let steps = 0;
  for (const run of trace.cases) {
    const core = schedInstance({ compat: 'recorded', env: run.env ?? {} });
    const targets = decode(run.targets ?? []);
    const selections = new Map();
    const candidates = [];
    const calls = [];
    const { plans, fetchers } = stubs(calls);
    core.setSaturationFetchers(fetchers);
    core.clock.now = run.t0 ?? 0;
    const flags = () => candidates.map((candidate) => candidate.quotaSoftPenalty);
    const helpers = {
      $stub: (name, plan) => void plans.set(name, plan),
      $select(indexes, combo, model, now, caps) {
        const chosen = indexes.map((index) => targets[index]);
        const selection = core.selectQuotaShareTarget(chosen, combo, model, now, { maxConcurrentByConnection: caps });
        const { drr } = core.inspect();
        const order = [];
        for (const target of selection.orderedTargets) {
          order.push(chosen.findIndex((other, at) => other === target && !order.includes(at)));
        }
        const deficits = chosen.map(({ executionKey }) => drr[combo]?.[executionKey] ?? 0);
        return [selection, { target: selection.target?.executionKey ?? null, order, deficits }];
      },
      $release: (as) => selections.get(as).decrementInflight(),
      $deficit: (combo, key) => core.inspect().drr[combo]?.[key] ?? 0,
      $buckets: () => core.inspect().accountBuckets,
      $inflightSize: () => core.inspect().inflightConnections,
      $softFactor: () => core.applySoftPenalty(1, true),
      $registerCandidates(list) {
        candidates.push(...list);
        core.registerExecutionCandidates(list);
        return flags();
      },
      $unregisterCandidates(keys) {
        core.unregisterExecutionCandidates(keys);
        return flags();
      },
      setCandidateQuotaSoftPenalty(...args) {
        core.setCandidateQuotaSoftPenalty(...args);
        return flags();
      },
    };
    for (const [index, step] of run.steps.entries()) {
      if (step.t !== undefined) core.clock.now = step.t;
      calls.length = 0;
      let result = await (helpers[step.fn] ?? core[step.fn])(...step.args.map(decode));
      if (step.fn === '$select') {
        selections.set(step.as, result[0]);
        result = result[1];
      }
      if ('ret' in step) assert.equal(difference(result, step.ret), null, `${run.name}, step ${index}: ${step.fn}`);
      assert.equal(difference(calls, step.log?.fetches ?? []), null, `${run.name}, step ${index}: fetches`);
      steps += 1;
    }
  }
  return steps;
}

for (const name of [
  'account-buckets',
  'inflight',
  'saturation',
  'strategy-weights',
  'strategy-gating',
  'strategy-eviction',
  'strategy-soft-penalty',
]) {
  test(`recorded runs: ${name}`, async (t) => {
    t.diagnostic(`${await replay(readTrace('quota-share', name))} steps`);
  });
}

test('recorded runs: naming, without a database', async () => {
  const trace = readTrace('quota-share', 'naming');
  await replay({ cases: trace.cases.filter(({ name }) => name === 'pure') });
});
