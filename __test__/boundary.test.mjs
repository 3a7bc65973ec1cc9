// What may cross from JavaScript: wrong types are refused by name, odd values do no harm, nothing crashes the process.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import quotaCore from '../index.js';
import { openDatabase } from './support/driver.mjs';
import { createHostTables, Host, noLimits } from './support/host.mjs';

const limits = { rpm: 1, rpd: 1, tpm: 1, tpd: 1 };

// Function → the kinds of its arguments. `?` may be left out, `??` may be null as well; `limits` must be an object.
const signatures = {
  acquireLease: ['string', 'string', 'number', 'number', 'number?'],
  canMakeRequest: ['string', 'string', 'number', 'limits'],
  canUseKeyConcurrency: ['string', 'number', 'number?'],
  canUseProvider: ['string', 'number', 'number?'],
  canUseProviderMinute: ['string', 'number', 'number?'],
  canUseProviderTokens: ['string', 'number', 'string', 'number', 'number?'],
  canUseTokens: ['string', 'string', 'number', 'number', 'limits'],
  cleanupExpiredCooldowns: ['number?'],
  clearCooldownEarly: ['string', 'string', 'number'],
  clearCooldownsForKey: ['number'],
  getActiveCooldownsForKeys: ['numbers', 'number?'],
  getCooldownDecisionForLimit: ['string', 'string', 'number', 'limits', 'number??', 'object??'],
  getCooldownDurationForLimit: ['string', 'string', 'number', 'limits', 'number??', 'object??'],
  getKeyConcurrencyLimit: ['string'],
  getNextCooldownDuration: ['string', 'string', 'number'],
  getProbeableCooldowns: ['number?'],
  getProviderDailyRequestCap: ['string', 'number??'],
  getProviderDailyTokenCap: ['string', 'number??'],
  getProviderMinuteRequestCap: ['string', 'number??'],
  getRateLimitStatus: ['string', 'string', 'number', 'limits'],
  getSoonestCooldownExpiry: ['number?'],
  inFlightForKey: ['string', 'number', 'number?'],
  isLocalEndpointKey: ['number'],
  isOnCooldown: ['string', 'string', 'number'],
  providerDailyRequestCount: ['string', 'number', 'number?'],
  providerDailyTokenCount: ['string', 'number', 'number?'],
  providerMinuteRequestCount: ['string', 'number', 'number?'],
  recentHitCount: ['string', 'string', 'number', 'number?', 'number?'],
  recordRequest: ['string', 'string', 'number'],
  recordTokens: ['string', 'string', 'number', 'number'],
  releaseLease: ['number??'],
  setCooldown: ['string', 'string', 'number', 'number?', 'source?'],
};

const good = { string: 'p', number: 1, limits, numbers: [1], object: {}, source: 'tier' };

/** Arguments of the right types for a function. */
function goodArgs(kinds) {
  return kinds.map((kind) => good[kind.replaceAll('?', '')]);
}
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

describe('what a provider may return', () => {
  test('nothing, as long as the host has not opened its database: memory answers', (t) => {
    for (const value of [undefined, null]) {
      const { core, warnings } = new Host(t, { core: { database: () => value } });
      core.recordRequest('p', 'm', 1);
      assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 1);
      assert.deepEqual(warnings, []);
    }
  });

  const useless = {
    'a number': 42,
    'an empty object': {},
    'an object with another loadExtension': { prepare() {}, exec() {}, loadExtension() {} },
    'an object whose loadExtension throws': {
      loadExtension() {
        throw new Error('not allowed');
      },
    },
    'a Proxy that throws': new Proxy(
      {},
      {
        get() {
          throw new Error('trap');
        },
      },
    ),
  };
  for (const [name, value] of Object.entries(useless)) {
    test(`${name}: memory answers, with one warning`, (t) => {
      const { core, warnings } = new Host(t, { core: { database: () => value } });
      for (let count = 0; count < 5; count += 1) core.recordRequest('p', 'm', 1);
      assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 5);
      assert.equal(warnings.length, 1, JSON.stringify(warnings));
    });
  }

  test('an adapter that holds the connection in raw', (t) => {
    const host = new Host(t);
    const core = quotaCore.createQuotaCore({ database: () => ({ raw: host.db }) });
    core.recordRequest('p', 'm', 1);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 1);
    core.close();
  });

  test('a private database in memory', (t) => {
    const host = new Host(t, { memory: true });
    host.core.recordRequest('p', 'm', 1);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 1);
    assert.equal(host.core.canMakeRequest('p', 'm', 1, limits), false);
    host.sql('DELETE FROM rate_limit_usage');
    assert.equal(host.core.canMakeRequest('p', 'm', 1, limits), true);
  });

  test('two connections in turn: each answers for its own database', (t) => {
    const dbs = [openDatabase(':memory:'), openDatabase(':memory:')];
    for (const db of dbs) createHostTables(db);
    let current = 0;
    const core = quotaCore.createQuotaCore({ database: () => dbs[current] });
    t.after(() => {
      core.close();
      for (const db of dbs) db.close();
    });
    const used = () => core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used;
    for (let round = 1; round <= 20; round += 1) {
      current = 0;
      core.recordRequest('p', 'm', 1);
      assert.equal(used(), round);
      current = 1;
      assert.equal(used(), 0);
    }
  });

  test('many instances share one connection', (t) => {
    const host = new Host(t);
    const cores = Array.from({ length: 200 }, () =>
      quotaCore.createQuotaCore({ database: host.db, clock: () => host.now }),
    );
    for (const core of cores) core.recordRequest('p', 'm', 1);
    for (const core of cores) assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 200);
    for (const core of cores.slice(1)) core.close();
    cores[0].recordRequest('p', 'm', 1);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 201);
    cores[0].close();
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 201);
  });
});

describe('the life of an instance', () => {
  test('functions are its own and bound', (t) => {
    const { core } = new Host(t);
    const { canMakeRequest, recordRequest } = core;
    assert.equal(canMakeRequest('p', 'm', 1, limits), true);
    recordRequest('p', 'm', 1);
    assert.equal(canMakeRequest('p', 'm', 1, limits), false);
    for (const name of Object.keys(signatures)) assert.ok(Object.hasOwn(core, name), name);
  });

  test('after close every function throws ERR_QUOTA_CLOSED', (t) => {
    const host = new Host(t);
    host.core.close();
    host.core.close();
    const closed = (error) => error instanceof quotaCore.QuotaCoreError && error.code === 'ERR_QUOTA_CLOSED';
    for (const [name, kinds] of Object.entries(signatures)) {
      assert.throws(() => host.core[name](...goodArgs(kinds)), closed, name);
    }
    assert.throws(() => host.core.attach(host.db), closed);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 0);
  });

  test('attach and detach by hand', (t) => {
    const host = new Host(t);
    const core = quotaCore.createQuotaCore({ logger: { debug() {}, info() {}, warn() {}, error() {} } });
    t.after(() => core.close());
    core.attach(host.db);
    core.recordRequest('p', 'm', 1);
    core.attach(host.db);
    core.recordRequest('p', 'm', 1);
    core.detach();
    core.detach();
    core.recordRequest('p', 'm', 1);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 2);
    core.attach(host.db);
    core.recordRequest('p', 'm', 1);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 3);
  });

  test('reset forgets memory and keeps the database', (t) => {
    const { core } = new Host(t);
    core.recordRequest('p', 'm', 1);
    core.acquireLease('p', 'm', 1, 5);
    core.getNextCooldownDuration('p', 'm', 1);
    assert.equal(core.inspect().leases, 1);
    core.reset();
    assert.equal(core.inspect().leases, 0);
    assert.equal(core.inFlightForKey('p', 1), 0);
    assert.equal(core.getNextCooldownDuration('p', 'm', 1), 120_000);
    assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 1);
  });

  test('lease ids are positive integers and not handed out twice while in use', (t) => {
    const { core } = new Host(t);
    const ids = Array.from({ length: 100 }, () => core.acquireLease('p', 'm', 1, 1));
    assert.equal(new Set(ids).size, 100);
    for (const id of ids) assert.ok(Number.isInteger(id) && id > 0);
    for (const odd of [0, -1, 1.5, NaN, Infinity, 1e300, ids[0] + 0.5]) core.releaseLease(odd);
    assert.equal(core.inFlightForKey('p', 1), 100);
    for (const id of ids) core.releaseLease(id);
    core.releaseLease(ids[0]);
    assert.equal(core.inFlightForKey('p', 1), 0);
  });

  test('far more routes than are kept at hand: leases and counts stay with their own', (t) => {
    const { core } = new Host(t);
    core.acquireLease('p', 'leased', 1, 5);
    core.recordRequest('p', 'counted', 1);
    for (let keyId = 2; keyId < 120_000; keyId += 1) core.inFlightForKey('p', keyId);
    for (let keyId = 2; keyId < 120_000; keyId += 1) core.getNextCooldownDuration('q', 'm', keyId);
    assert.equal(core.inFlightForKey('p', 1), 1);
    assert.equal(core.canMakeRequest('p', 'leased', 1, limits), false);
    assert.equal(core.canMakeRequest('p', 'counted', 1, limits), false);
    for (let keyId = 1; keyId < 1000; keyId += 1) {
      assert.equal(core.canMakeRequest('fresh', 'm', keyId, limits), true);
      assert.equal(core.providerDailyRequestCount('fresh', keyId), 0);
    }
    assert.equal(core.getNextCooldownDuration('q', 'm', 7), 600_000);
  });

  test('the host may close under it at any time', (t) => {
    const host = new Host(t);
    host.core.recordRequest('p', 'm', 1);
    host.close();
    host.core.recordRequest('p', 'm', 1);
    assert.equal(host.core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 1);
    host.core.close();
  });
});
