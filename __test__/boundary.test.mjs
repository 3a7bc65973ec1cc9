// What may cross from JavaScript: wrong types are refused by name, odd values do no harm, nothing crashes the process.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import quotaCore from '../index.js';
import { Host, noLimits } from './support/host.mjs';
import { good, goodArgs, limits, signatures } from './support/signatures.mjs';

const values = {
  undefined: undefined,
  null: null,
  true: true,
  'a number': 7,
  'a string': 'x',
  'a symbol': Symbol('s'),
  'a BigInt': 7n,
  'a function': () => 7,
  'an array': [],
  'an object': {},
  'a Proxy': new Proxy({}, {}),
  'an object that throws when converted': {
    [Symbol.toPrimitive]() {
      throw new Error('converted');
    },
  },
};
// Kind → the values above that it takes. What is not listed must be refused.
const takes = {
  source: [],
  string: ['a string'],
  number: ['a number'],
  limits: ['an array', 'an object', 'a Proxy', 'an object that throws when converted'],
  numbers: ['an array'],
  object: ['an array', 'an object', 'a Proxy', 'an object that throws when converted'],
};

const isInvalidArgument = (error) => error instanceof TypeError && error.code === 'ERR_QUOTA_INVALID_ARGUMENT';

describe('wrong types are TypeErrors with a code', () => {
  for (const [name, kinds] of Object.entries(signatures)) {
    test(name, (t) => {
      const { core } = new Host(t);
      const args = goodArgs(kinds);
      core[name](...args);
      for (const [position, kind] of kinds.entries()) {
        const optional = kind.endsWith('?');
        const taken = takes[kind.replaceAll('?', '')];
        for (const [what, value] of Object.entries(values)) {
          if (taken.includes(what) || (optional && value === undefined)) continue;
          if (kind.endsWith('??') && value === null) continue;
          const wrong = args.with
            ? args.with(position, value)
            : args.map((arg, index) => (index === position ? value : arg));
          assert.throws(() => core[name](...wrong), isInvalidArgument, `${name}, argument ${position + 1}: ${what}`);
        }
      }
      if (!kinds[0].endsWith('?')) assert.throws(() => core[name](), isInvalidArgument);
    });
  }
});

test('what a provider threw may be any value', (t) => {
  const { core } = new Host(t);
  const route = { platform: 'p', modelId: 'm', keyId: 1, rpdLimit: 5, tpdLimit: null };
  const bench = { durationMs: 90_000, source: 'heuristic' };
  for (const [what, value] of Object.entries(values)) {
    assert.equal(core.learnLimitFromError(1, value), null, what);
    assert.equal(core.learnLimitFromError(1, { message: value }), null, what);
    assert.deepEqual(core.cooldownDecisionForError(route, value), bench, what);
    assert.equal(core.cooldownDecisionForError(route, { status: value, message: value }).durationMs, 90_000, what);
  }
});

describe('objects with wrong fields are refused', () => {
  const models = [5, {}, { platform: 'p' }, { platform: 'p', modelId: 5 }, { platform: 'p', modelId: 'm', keyId: 'x' }];
  const routes = [5, {}, { platform: 'p', modelId: 'm' }, { platform: 'p', modelId: 'm', keyId: 1, rpdLimit: '5' }];
  const calls = {
    modelWindowUsedFraction: (core) => models.map((model) => () => core.modelWindowUsedFraction(model, limits)),
    'modelWindowUsedFraction, limits': (core) =>
      [undefined, null, 5, 'x'].map(
        (value) => () => core.modelWindowUsedFraction({ platform: 'p', modelId: 'm' }, value),
      ),
    cooldownDecisionForError: (core) => routes.map((route) => () => core.cooldownDecisionForError(route, {})),
    startCooldownProbe: (core) => [undefined, null, 5, {}].map((value) => () => core.startCooldownProbe(value)),
    parseProviderLimit: (core) => [5, {}, Symbol('x')].map((value) => () => core.parseProviderLimit(value)),
    isLoopbackOrPrivateUrl: (core) => [5, {}, Symbol('x')].map((value) => () => core.isLoopbackOrPrivateUrl(value)),
  };
  for (const [name, make] of Object.entries(calls)) {
    test(name, (t) => {
      for (const call of make(new Host(t).core)) assert.throws(call, isInvalidArgument);
    });
  }

  test('runCooldownProbePass rejects', async (t) => {
    const { core } = new Host(t);
    const probe = async () => 'valid';
    for (const options of [
      5,
      'x',
      { probe, now: 'x' },
      { probe: 5 },
      { probe, jitter: 5 },
      { probe, maxProbes: 'x' },
    ]) {
      await assert.rejects(core.runCooldownProbePass(options), isInvalidArgument);
    }
    await assert.rejects(core.runCooldownProbePass({}), { code: 'ERR_QUOTA_NO_PROBE' });
  });
});

test('the message names the argument and never its content', (t) => {
  const { core } = new Host(t);
  const secret = { apiKey: 'sk-secret' };
  assert.throws(
    () => core.recordRequest(secret, 'm', 1),
    (error) => /platform/.test(error.message) && !/secret/.test(error.message),
  );
  assert.throws(() => core.canMakeRequest('p', 'm', 1, 60), /limits/);
  assert.throws(() => core.canMakeRequest('p', 'm', 1), /limits/);
});

test('limits that are undefined or missing count as null; other types are refused', (t) => {
  const { core } = new Host(t);
  core.recordRequest('p', 'm', 1);
  assert.equal(core.canMakeRequest('p', 'm', 1, {}), true);
  assert.equal(core.canMakeRequest('p', 'm', 1, { rpm: undefined, rpd: null }), true);
  assert.equal(core.canUseTokens('p', 'm', 1, 1e9, { tpm: undefined }), true);
  assert.deepEqual(core.getRateLimitStatus('p', 'm', 1, { rpm: undefined }).rpm, { used: 1, limit: null });
  for (const rpm of ['60', 60n, true, {}, Symbol('60'), () => 60]) {
    assert.throws(() => core.canMakeRequest('p', 'm', 1, { rpm }), isInvalidArgument);
  }
});

describe('odd values', () => {
  test('strings of every kind are kept as they are', (t) => {
    const host = new Host(t);
    const long = 'x'.repeat(5_000_000);
    for (const modelId of [
      '',
      ' ',
      'a\0b',
      '🦀',
      'a\u0301',
      '\u00e1',
      "'; DROP TABLE rate_limit_usage; --",
      '%',
      '"',
      long,
    ]) {
      host.core.recordRequest('p', modelId, 1);
      host.core.setCooldown('p', modelId, 1, 1000);
      assert.equal(host.core.getRateLimitStatus('p', modelId, 1, noLimits).rpm.used, 1, modelId.slice(0, 20));
      assert.equal(host.core.isOnCooldown('p', modelId, 1), true, modelId.slice(0, 20));
      assert.equal(host.core.getRateLimitStatus('p', `${modelId}!`, 1, noLimits).rpm.used, 0);
    }
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 10);
  });

  test('lone surrogates do no harm', (t) => {
    const { core } = new Host(t);
    core.recordRequest('p', '\ud800', 1);
    assert.equal(core.getRateLimitStatus('p', '\ud800', 1, noLimits).rpm.used, 1);
    core.parseProviderLimit('limit \udfff 5 rpm');
    core.isLoopbackOrPrivateUrl('http://\ud800/');
  });

  test('numbers of every kind never throw', (t) => {
    const { core } = new Host(t);
    const numbers = [NaN, Infinity, -Infinity, -0, 1.5, -1, 2 ** 31, 2 ** 53, 1e300, -1e300, Number.MIN_VALUE];
    for (const number of numbers) {
      const odd = {
        ...good,
        number,
        numbers: [number],
        limits: { rpm: number, rpd: number, tpm: number, tpd: number },
      };
      for (const [name, kinds] of Object.entries(signatures)) {
        core[name](...kinds.map((kind) => odd[kind.replaceAll('?', '')]));
        for (const position of kinds.keys()) {
          core[name](
            ...goodArgs(kinds).map((arg, index) => (index === position ? odd[kinds[index].replaceAll('?', '')] : arg)),
          );
        }
      }
    }
    core.resetLeases();
    assert.equal(core.canMakeRequest('fresh', 'm', 5, limits), true);
  });

  test('a limits object whose getter throws passes the error on and does no harm', (t) => {
    const { core } = new Host(t);
    const hostile = {
      get rpm() {
        throw new RangeError('a getter of the host');
      },
    };
    assert.throws(() => core.canMakeRequest('p', 'm', 1, hostile), RangeError);
    assert.throws(
      () => core.getRateLimitStatus('p', 'm', 1, new Proxy({}, { get: () => assert.fail('trap') })),
      assert.AssertionError,
    );
    assert.equal(core.canMakeRequest('p', 'm', 1, limits), true);
  });

  test('a getter that calls the instance again is fine', (t) => {
    const { core } = new Host(t);
    const reentrant = {
      get rpm() {
        core.recordRequest('p', 'm', 1);
        return 1;
      },
    };
    assert.equal(core.canMakeRequest('p', 'm', 1, reentrant), false);
  });

  test('a SQL function of the host that calls the instance gets an error, and the instance goes on', (t) => {
    const host = new Host(t);
    let refusal;
    host.db.function('again', () => {
      // An error that leaves a SQL function while another library runs the statement is more than a host can catch.
      try {
        host.core.getRateLimitStatus('p', 'm', 1, noLimits);
      } catch (error) {
        refusal = error.code;
      }
      return 1;
    });
    host.addUsage('p', 'm', 1, 'request', 0, host.now);
    host.sql('ALTER TABLE rate_limit_usage RENAME TO base');
    host.sql('CREATE TEMP VIEW rate_limit_usage AS SELECT * FROM base WHERE again()');
    assert.equal(host.core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 1);
    assert.equal(refusal, 'ERR_QUOTA_REENTRANT');
  });
});

describe('options', () => {
  const wrong = [
    { clock: 5 },
    { compat: 'other' },
    { compat: 1 },
    { dayWindow: 'month' },
    { env: 'x' },
    { logger: 'loud' },
    { probe: 'x' },
    'options',
    7,
  ];
  for (const options of wrong) {
    test(`${typeof options === 'object' ? JSON.stringify(options, (_, value) => (typeof value === 'symbol' ? 'symbol' : value)) : options} is refused`, () => {
      assert.throws(() => quotaCore.createQuotaCore(options), isInvalidArgument);
    });
  }

  test('a database that is none is refused', () => {
    for (const database of [42, true, {}, Symbol('db')]) {
      assert.throws(() => quotaCore.createQuotaCore({ database }), { code: 'ERR_QUOTA_ATTACH_NOT_A_CONNECTION' });
    }
  });

  test('none are needed', () => {
    for (const core of [quotaCore.createQuotaCore(), quotaCore.createQuotaCore({})]) {
      core.recordRequest('p', 'm', 1);
      assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 1);
      core.close();
    }
  });

  test('the clock and the environment are read at each call', (t) => {
    const host = new Host(t);
    host.env.PROVIDER_DAILY_REQUEST_CAP_X = '3';
    assert.equal(host.core.getProviderDailyRequestCap('x'), 3);
    delete host.env.PROVIDER_DAILY_REQUEST_CAP_X;
    assert.equal(host.core.getProviderDailyRequestCap('x'), null);
    t.mock.timers.enable({ apis: ['Date'], now: 1000 });
    const core = quotaCore.createQuotaCore({ database: host.db });
    core.setCooldown('p', 'm', 1, 500);
    assert.equal(core.getSoonestCooldownExpiry(), 1500);
    t.mock.timers.setTime(2000);
    assert.equal(core.isOnCooldown('p', 'm', 1), false);
    core.close();
  });

  test('functions that throw where the host gave them', (t) => {
    const { core, warnings } = new Host(t, {
      core: {
        database: () => {
          throw new Error('not yet');
        },
      },
    });
    assert.equal(core.canMakeRequest('p', 'm', 1, limits), true);
    core.recordRequest('p', 'm', 1);
    assert.equal(core.canMakeRequest('p', 'm', 1, limits), false);
    assert.deepEqual(warnings, []);
    const broken = quotaCore.createQuotaCore({
      clock: () => {
        throw new Error('no time');
      },
    });
    assert.throws(() => broken.recordRequest('p', 'm', 1), /no time/);
    broken.close();
  });

  test('a logger that throws changes nothing', () => {
    const shout = () => {
      throw new Error('logger');
    };
    const core = quotaCore.createQuotaCore({
      database: () => null,
      logger: { debug: shout, info: shout, warn: shout, error: shout },
    });
    core.recordRequest('p', 'm', 1);
    assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 1);
    core.close();
  });
});

describe('quota sharing', () => {
  const code = 'ERR_QUOTA_INVALID_ARGUMENT';
  const pool = { connectionId: 'c', name: 'n' };
  const row = { apiKeyId: 'k', weight: 50 };
  const calls = {
    'createPool: group': (core) => core.createPool({ ...pool, groupId: 5 }),
    'createPool: connections': (core) => core.createPool({ ...pool, connectionIds: 'c' }),
    'createPool: allocations': (core) => core.createPool({ ...pool, allocations: {} }),
    'createPool: policy': (core) => core.createPool({ ...pool, allocations: [{ ...row, policy: 1 }] }),
    'createPool: cap': (core) => core.createPool({ ...pool, allocations: [{ ...row, capValue: '5' }] }),
    'createPool: unit of a cap': (core) => core.createPool({ ...pool, allocations: [{ ...row, capUnit: 5n }] }),
    'updatePool: name': (core) => core.updatePool('p', { name: 5 }),
    'updatePool: allocations': (core) => core.updatePool('p', { allocations: 5 }),
    upsertAllocations: (core) => core.upsertAllocations('p', 'text'),
    upsertProviderPlan: (core) => core.upsertProviderPlan('c', 'openai', [{ limit: 5n }], 'manual'),
    'decideFairShare: dimensions': (core) => core.decideFairShare({ dimensions: 5, allocation: {} }),
    'decideFairShare: key': (core) => core.decideFairShare({ dimensions: [{}], allocation: {} }),
    'decideFairShare: weight': (core) =>
      core.decideFairShare({ dimensions: [{ key: {} }], allocation: { weight: '5' } }),
    computeBurnRate: (core) => core.computeBurnRate({ length: 2 ** 40 }),
    'computeBurnRate: sample': (core) => core.computeBurnRate([null]),
    dimensionKeyToString: (core) => core.dimensionKeyToString(null),
  };
  for (const [name, call] of Object.entries(calls)) {
    test(`${name}: a wrong type is a TypeError with a code`, (t) => {
      const { core } = new Host(t);
      core.ensureQuotaSchema();
      assert.throws(() => call(core), { name: 'TypeError', code });
      assert.deepEqual(core.listPools(), []);
    });
  }

  test('a model that is no text lets the request pass, and is not recorded', async (t) => {
    const { core, warnings } = new Host(t);
    for (const model of [5, 10n, {}, Symbol('m')]) {
      const request = { apiKeyId: 'k', connectionId: 'c', provider: 'openai', model };
      assert.deepEqual(await core.enforceQuotaShare(request), { kind: 'allow' });
      await core.recordConsumption({ ...request, cost: { tokens: 1 } });
    }
    assert.equal(warnings.length, 8);
  });

  test('variables that are numbers are read as their text', async (t) => {
    const { core, env } = new Host(t);
    Object.assign(env, { QUOTA_SATURATION_THRESHOLD: 0.5, QUOTA_SOFT_DEPRIORITIZE_FACTOR: 0.25 });
    assert.equal(core.applySoftPenalty(8, true), 2);
    core.ensureQuotaSchema();
    core.createPool({ connectionId: 'c', name: 'n', allocations: [{ apiKeyId: 'k', weight: 100 }] });
    core.upsertProviderPlan('c', 'openai', [{ unit: 'tokens', window: 'daily', limit: 100 }], 'manual');
    const decision = await core.enforceQuotaShare({ apiKeyId: 'k', connectionId: 'c', provider: 'openai' });
    assert.equal(decision.kind, 'allow');
  });
});

test('a clock that says no instant is the system clock', (t) => {
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY, 1e300]) {
    const host = new Host(t);
    host.now = value;
    const { core } = host;
    core.ensureQuotaSchema();
    core.recordRequest('p', 'm', 1);
    assert.equal(core.getRateLimitStatus('p', 'm', 1, limits).rpm.used, 1);
    assert.ok(Date.now() - Date.parse(core.createPool({ connectionId: 'c', name: 'n' }).createdAt) < 60_000);
    assert.ok(core.selectQuotaShareTarget([{ executionKey: 'e', connectionId: 'c' }], 'combo', 'p/m').target);
  }
});
