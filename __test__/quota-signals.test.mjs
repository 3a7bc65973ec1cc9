// Signals and scheduling where the runs do not speak, and where the corrected mode differs from them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { schedInstance, schedulingPart } from './support/sched-instance.mjs';

const T0 = 1_790_000_000_000;
const dimension = { unit: 'percent', window: '5h' };
const modes = ['corrected', 'recorded'];

const instance = (options) => schedInstance({ now: T0, ...options });

const requests = { 'x-ratelimit-limit-requests': '50', 'x-ratelimit-remaining-requests': '20' };
const tokens = {
  'x-ratelimit-limit-tokens': '100',
  'x-ratelimit-remaining-tokens': '25',
  'x-ratelimit-reset-tokens': '6m',
};

test('headers of claude and anthropic are found under both names; recorded: under their own', async () => {
  for (const [compat, expected] of [
    ['corrected', 0.6],
    ['recorded', 0],
  ]) {
    const core = instance({ compat });
    core.storeRateLimitHeaders('c', 'claude', requests);
    assert.equal(await core.getSaturation('c', 'claude', dimension), expected, compat);
    core.storeRateLimitHeaders('c', 'claude', tokens);
    const found = core.getTokenHeaderSaturation('anthropic', 'c');
    assert.deepEqual(found, compat === 'recorded' ? null : { saturation: 0.75, resetAt: T0 + 360_000 });
    assert.deepEqual(core.getTokenHeaderSaturation('claude', 'c'), { saturation: 0.75, resetAt: T0 + 360_000 });
  }
});

test('a `::` in a name does not mix two accounts; recorded: it does', () => {
  for (const compat of modes) {
    const core = instance({ compat });
    core.recordUsage('x::y', 'z', 100, null);
    assert.equal(core.isBucketSaturated('x', 'y::z'), compat === 'recorded');
  }
});

test('a slot that is never released expires in a steady stream; recorded: it is renewed', () => {
  for (const compat of modes) {
    const core = instance({ compat });
    core.incrementInflight('c', 120_000, T0);
    core.incrementInflight('c', 120_000, T0 + 100_000);
    assert.equal(core.getInflight('c', T0 + 130_000), compat === 'recorded' ? 2 : 1);
  }
});

test('a late release takes no slot of another request; recorded: it does', () => {
  for (const compat of modes) {
    const core = instance({ compat });
    const targets = [{ executionKey: 'e', connectionId: 'c' }];
    const late = core.selectQuotaShareTarget(targets, 'combo', 'p/m', T0);
    core.selectQuotaShareTarget(targets, 'combo', 'p/m', T0 + 200_000);
    core.clock.now = T0 + 200_001;
    late.decrementInflight();
    assert.equal(core.getInflight('c'), compat === 'recorded' ? 0 : 1);
  }
});

test('weights hold while requests overlap; recorded: the less loaded of two gets half', () => {
  for (const [compat, first] of [
    ['corrected', 750],
    ['recorded', 500],
  ]) {
    const core = instance({ compat });
    const targets = [
      { executionKey: 'a', connectionId: 'a', weight: 3 },
      { executionKey: 'b', connectionId: 'b', weight: 1 },
    ];
    let picks = 0;
    for (let turn = 0; turn < 1000; turn++) {
      if (core.selectQuotaShareTarget(targets, 'combo', 'p/m', T0 + turn).target.executionKey === 'a') picks += 1;
    }
    assert.equal(picks, first, compat);
  }
});

test('a soft factor that is no factor counts as not set; recorded: NaN', () => {
  for (const compat of modes) {
    const core = instance({ compat, env: { QUOTA_SOFT_DEPRIORITIZE_FACTOR: 'abc' } });
    assert.equal(core.applySoftPenalty(10, true), compat === 'recorded' ? Number.NaN : 7);
    assert.equal(core.applySoftPenalty(10, false), 10);
  }
  const env = {};
  const core = instance({ env });
  for (const [text, factor] of [
    ['0', 0],
    ['1', 1],
    ['0.25', 0.25],
    ['1.5', 0.7],
    ['-1', 0.7],
    [' ', 0.7],
    [undefined, 0.7],
  ]) {
    env.QUOTA_SOFT_DEPRIORITIZE_FACTOR = text;
    assert.equal(core.applySoftPenalty(1, true), factor, `${text}`);
  }
});

test('a cached signal is a number at once, an uncached one a promise; one question at a time', async () => {
  const core = schedulingPart({ now: T0 });
  let asked = 0;
  core.setSaturationFetchers({
    generic: async () => {
      asked += 1;
      return { percentUsed: 0.5 };
    },
  });
  const first = core.saturationFor('c', 'openai', dimension);
  assert.ok(first instanceof Promise);
  assert.deepEqual(await Promise.all([first, core.getSaturation('c', 'openai', dimension)]), [0.5, 0.5]);
  assert.equal(asked, 1);
  assert.equal(core.saturationFor('c', 'openai', dimension), 0.5);
  // Names are kept apart whatever they contain.
  await core.getSaturation('co', 'penai', dimension);
  assert.equal(asked, 2);
  core.reset();
  await core.getSaturation('c', 'openai', dimension);
  assert.equal(asked, 3);
});

test('an answer that arrives after a reset is not kept', async () => {
  const core = instance();
  let answer;
  core.setSaturationFetchers({
    generic: () =>
      new Promise((resolve) => {
        answer = resolve;
      }),
  });
  const early = core.getSaturation('c', 'openai', dimension);
  await Promise.resolve();
  core.reset();
  answer({ percentUsed: 0.9 });
  assert.equal(await early, 0.9);
  core.setSaturationFetchers({ generic: null });
  assert.equal(await core.getSaturation('c', 'openai', dimension), 0);
});

test('a registered fetcher speaks for its provider; its failure leaves the headers', async () => {
  const core = instance();
  const seen = [];
  core.registerSaturationFetcher('glm', (connectionId, asked) => {
    seen.push([connectionId, asked]);
    return 0.3;
  });
  assert.equal(await core.getSaturation('c', 'glm', { ...dimension, extra: 1 }), 0.3);
  assert.deepEqual(seen, [['c', dimension]]);
  core.registerSaturationFetcher('other', () => {
    throw new Error('secret token');
  });
  core.storeRateLimitHeaders('c', 'other', tokens);
  assert.equal(await core.getSaturation('c', 'other', dimension), 0.75);
  core.registerSaturationFetcher('wild', async () => 17);
  assert.equal(await core.getSaturation('c', 'wild', dimension), 1);
});

test('the option `saturation` replaces everything and is asked every time', async () => {
  let value = 0.25;
  const core = schedulingPart({
    now: T0,
    saturation: (connectionId, provider, asked) => {
      if (value === 'throw') throw new Error('no');
      assert.deepEqual([connectionId, provider, asked], ['c', 'codex', dimension]);
      return value;
    },
  });
  assert.equal(core.saturationFor('c', 'codex', dimension), 0.25);
  value = Promise.resolve(0.5);
  assert.equal(await core.getSaturation('c', 'codex', dimension), 0.5);
  for (value of ['throw', Number.NaN, null, 'x', -3])
    assert.equal(await core.getSaturation('c', 'codex', dimension), 0);
  value = 99;
  assert.equal(await core.getSaturation('c', 'codex', dimension), 1);
});

test('headers come as Headers, as a Map, as lists and as numbers', () => {
  const core = instance();
  const forms = [
    new Headers(tokens),
    new Map(Object.entries(tokens)),
    Object.fromEntries(Object.entries(tokens).map(([name, value]) => [name, [value, 'second']])),
    { 'x-ratelimit-limit-tokens': 100, 'x-ratelimit-remaining-tokens': 25, 'x-ratelimit-reset-tokens': '6m' },
  ];
  for (const [index, headers] of forms.entries()) {
    core.storeRateLimitHeaders(`c${index}`, 'p', headers);
    assert.deepEqual(core.getTokenHeaderSaturation('p', `c${index}`), { saturation: 0.75, resetAt: T0 + 360_000 });
  }
});

test('a selection before a reset gives nothing back after it', () => {
  for (const compat of modes) {
    const core = instance({ compat });
    const targets = [{ executionKey: 'e', connectionId: 'c' }];
    const before = core.selectQuotaShareTarget(targets, 'combo', 'p/m');
    core.reset();
    core.selectQuotaShareTarget(targets, 'combo', 'p/m');
    before.decrementInflight();
    assert.equal(core.getInflight('c'), 1);
  }
});

test('more names than are kept: credit and slots in use survive', () => {
  const core = instance();
  const kept = [
    { executionKey: 'keep-a', connectionId: 'a', weight: 3 },
    { executionKey: 'keep-b', connectionId: 'b', weight: 1 },
  ];
  core.selectQuotaShareTarget(kept, 'kept', 'p/m');
  const credit = core.inspect().drr.kept;
  for (let index = 0; index < 25_000; index++) core.getInflight(`passer-by ${index}`);
  assert.deepEqual(core.inspect().drr.kept, credit);
  assert.equal(core.getInflight('a'), 1);
  core.selectQuotaShareTarget(kept, 'kept', 'p/m');
  assert.deepEqual(core.inspect().drr.kept, { 'keep-a': 0.5, 'keep-b': -0.5 });
});

test('candidates are marked in place; what is unknown, unnamed or frozen is passed over', () => {
  const core = instance();
  const [plain, frozen] = [{ executionKey: 'x', stepId: '1' }, Object.freeze({ executionKey: 'y', stepId: '1' })];
  core.registerExecutionCandidates([plain, frozen, { executionKey: 'x' }, {}]);
  for (const key of ['x', 'y', 'nope', '__proto__', null]) core.setCandidateQuotaSoftPenalty(key, '1', true);
  assert.deepEqual([plain.quotaSoftPenalty, frozen.quotaSoftPenalty], [true, undefined]);
  core.unregisterExecutionCandidates([plain, null, 'nope']);
  core.setCandidateQuotaSoftPenalty('x', '1', false);
  assert.equal(plain.quotaSoftPenalty, true);
});

test('wrong arguments are TypeErrors with a code, and change nothing', async () => {
  const core = instance();
  const wrong = { name: 'TypeError', code: 'ERR_QUOTA_INVALID_ARGUMENT' };
  const target = { executionKey: 'e', connectionId: 'c' };
  const calls = {
    selectQuotaShareTarget: [
      [null, 'c', 'm'],
      [[null], 'c', 'm'],
      [[{ connectionId: 'c' }], 'c', 'm'],
      [[{ ...target, connectionId: 7 }], 'c', 'm'],
      [[target], 5, 'm'],
      [[target], 'c', undefined],
      [[target], 'c', 'm', Number.NaN],
      [[target], 'c', 'm', T0, 'options'],
      [[target], 'c', 'm', T0, { maxConcurrentByConnection: 3 }],
    ],
    incrementInflight: [[5], ['c', Number.NaN], ['c', 1, '0'], ['c', Number.POSITIVE_INFINITY]],
    decrementInflight: [[{}], ['c', Number.NaN]],
    getInflight: [[Symbol('c')], ['c', null]],
    recordUsage: [
      [null, '5h', 1, null],
      ['c', 5, 1, null],
      ['c', '5h', '100', null],
      ['c', '5h', 1, 5],
      ['c', '5h', 1, null, 'x'],
    ],
    isBucketSaturated: [
      [undefined, '5h'],
      ['c', null],
      ['c', '5h', Number.NaN],
    ],
    updateAccountBuckets: [
      [7, null],
      ['c', null, 'now'],
    ],
    storeRateLimitHeaders: [
      [null, 'p', {}],
      ['c', null, {}],
      ['c', 'p', null],
      ['c', 'p', 'x: 1'],
    ],
    getTokenHeaderSaturation: [
      [null, 'c'],
      ['p', 5],
    ],
    setSaturationFetchers: [[null], [{ codex: 'fetch' }]],
    registerSaturationFetcher: [
      ['', () => 0],
      [null, () => 0],
      ['p', null],
    ],
    applySoftPenalty: [
      ['1', true],
      [undefined, true],
    ],
    registerExecutionCandidates: [[null], [[5]]],
    unregisterExecutionCandidates: [['x']],
    quotaGroupSlug: [[null]],
    quotaModelName: [
      [null, 'p', 'm'],
      ['g', 5, 'm'],
      ['g', 'p', undefined],
    ],
    parseQuotaModelName: [[null]],
    isQuotaModelName: [[7]],
    constrainConnectionsToQuota: [
      [null, []],
      [['a'], [5]],
      ['a', []],
    ],
  };
  for (const [name, list] of Object.entries(calls)) {
    for (const args of list) assert.throws(() => core[name](...args), wrong, `${name} ${args.length}`);
  }
  for (const args of [
    [null, 'p', dimension],
    ['c', 5, dimension],
    ['c', 'p', null],
    ['c', 'p', { unit: 'x' }],
  ]) {
    await assert.rejects(core.getSaturation(...args), wrong);
  }
  const { inflightConnections, accountBuckets, drr } = core.inspect();
  assert.deepEqual(
    { inflightConnections, accountBuckets, drr },
    { inflightConnections: 0, accountBuckets: 0, drr: {} },
  );
});

test('hostile values do not crash', () => {
  const core = instance();
  const huge = 'x'.repeat(2 ** 20);
  const trap = () => {
    throw new Error('trap');
  };
  const hostile = new Proxy({}, { get: trap, ownKeys: trap, has: trap });
  assert.throws(() => core.selectQuotaShareTarget([hostile], 'c', 'm'), /trap/);
  assert.throws(() => core.storeRateLimitHeaders('c', 'p', hostile), /trap/);
  assert.equal(
    core.selectQuotaShareTarget([{ executionKey: huge, connectionId: huge }], huge, huge).target.executionKey,
    huge,
  );
  core.storeRateLimitHeaders(huge, huge, {
    'x-ratelimit-limit-tokens': huge,
    'x-ratelimit-remaining-tokens': '1h'.repeat(1e5),
  });
  core.recordUsage('__proto__', 'constructor', 1e308, huge);
  core.updateAccountBuckets('c', { quotas: [1, null, 'x', { used: 100 }] });
  core.updateAccountBuckets('c', 'text');
  for (const name of ['\ud800', '\0', 'é\u{1f4a1}']) {
    core.incrementInflight(name);
    assert.equal(core.getInflight(name), 1);
    assert.equal(typeof core.quotaModelName(name, name, name), 'string');
  }
  const targets = [
    { executionKey: 'a', weight: Number.MAX_VALUE },
    { executionKey: 'b', weight: Number.MAX_VALUE },
  ];
  assert.equal(core.selectQuotaShareTarget(targets, '__proto__', '').orderedTargets.length, 2);
  assert.ok(Object.hasOwn(core.inspect().drr, '__proto__'));
});
