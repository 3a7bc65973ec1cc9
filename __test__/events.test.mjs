// Events of an instance, and warnings that also go to the host's own log table.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { HOUR, Host, MINUTE } from './support/host.mjs';

const route = ['groq', 'm', 1];

function collect(core, name) {
  const seen = [];
  const stop = core.on(name, (event) => seen.push(event));
  return { seen, stop };
}

describe('events', () => {
  test('cooldown_set', (t) => {
    const { core, now } = new Host(t);
    const { seen, stop } = collect(core, 'cooldown_set');
    core.setCooldown(...route, 1000, 'credit');
    const expected = { platform: 'groq', modelId: 'm', keyId: 1, expiresAtMs: now + 1000, source: 'credit' };
    assert.deepEqual(seen, [expected]);
    stop();
    stop();
    core.setCooldown(...route, 2000);
    assert.equal(seen.length, 1);
  });

  test('cooldown_recovered, once per key', async (t) => {
    const host = new Host(t);
    const { seen } = collect(host.core, 'cooldown_recovered');
    host.core.setCooldown(...route, HOUR);
    host.core.setCooldown('groq', 'n', 1, HOUR + 1);
    const ends = host.now + HOUR;
    host.advance(31 * MINUTE);
    const pass = () => host.core.runCooldownProbePass({ jitter: () => 0, probe: async () => 'valid' });
    await pass();
    await pass();
    assert.equal(seen.length, 1);
    assert.equal(seen[0].keyId, 1);
    assert.deepEqual(seen[0].cooldowns, [
      { platform: 'groq', modelId: 'm', expiresAtMs: ends },
      { platform: 'groq', modelId: 'n', expiresAtMs: ends + 1 },
    ]);
  });

  test('limit_learned', (t) => {
    const host = new Host(t);
    host.addModel('groq', 'm', { id: 7 });
    const { seen } = collect(host.core, 'limit_learned');
    host.core.learnLimitFromError(7, { message: 'requests per minute: Limit 30' });
    host.core.learnLimitFromError(7, { message: 'requests per minute: Limit 31' });
    assert.deepEqual(seen, [{ modelDbId: 7, kind: 'rpm', limit: 30 }]);
  });

  test('degraded and recovered alternate', (t) => {
    const host = new Host(t);
    const seen = [];
    for (const name of ['degraded', 'recovered']) host.core.on(name, (event) => seen.push([name, typeof event.reason]));
    host.core.recordRequest(...route);
    for (let round = 0; round < 3; round += 1) {
      host.close();
      host.core.recordRequest(...route);
      host.core.recordRequest(...route);
      host.open();
      host.core.recordRequest(...route);
      host.core.recordRequest(...route);
    }
    const round = [
      ['degraded', 'string'],
      ['recovered', 'undefined'],
    ];
    assert.deepEqual(seen, [...round, ...round, ...round]);
  });

  test('a listener may call the instance, add and remove listeners', (t) => {
    const host = new Host(t);
    const calls = [];
    const stop = host.core.on('cooldown_set', ({ modelId }) => {
      calls.push(modelId);
      stop();
      host.core.on('cooldown_set', (event) => calls.push(`later ${event.modelId}`));
      host.core.setCooldown('groq', 'inner', 1, 1000);
      assert.equal(host.core.isOnCooldown(...route), true);
    });
    host.core.setCooldown(...route, 1000);
    assert.deepEqual(calls, ['m', 'later inner']);
  });

  test('a listener that throws is logged and stops no other', (t) => {
    const host = new Host(t);
    host.core.on('cooldown_set', () => {
      throw new Error('first');
    });
    const { seen } = collect(host.core, 'cooldown_set');
    host.core.setCooldown(...route, 1000);
    assert.equal(seen.length, 1);
    assert.equal(host.warnings.length, 1);
    assert.equal(host.core.isOnCooldown(...route), true);
  });

  test('an unknown event or listener is refused', (t) => {
    const { core } = new Host(t);
    const invalid = { code: 'ERR_QUOTA_INVALID_ARGUMENT' };
    assert.throws(() => core.on('nothing', () => {}), invalid);
    assert.throws(() => core.on('__proto__', () => {}), invalid);
    assert.throws(() => core.on('cooldown_set', 'listener'), invalid);
  });
});

describe('serverLogs', () => {
  const table =
    'CREATE TABLE server_logs (id INTEGER PRIMARY KEY, level TEXT NOT NULL, source TEXT, message TEXT NOT NULL, created_at_ms INTEGER NOT NULL)';
  const withLogs = { core: { serverLogs: true } };

  // A number without sense: the simplest way to a warning while the database answers.
  const provoke = (host) => {
    host.core.isOnCooldown(...route);
    host.core.recordTokens(...route, NaN);
  };

  test('a warning becomes a row of the host', (t) => {
    const host = new Host(t, withLogs);
    host.sql(table);
    provoke(host);
    const [row, ...rest] = host.all('SELECT * FROM server_logs');
    assert.deepEqual(rest, []);
    assert.equal(row.level, 'warn');
    assert.match(row.source, /^quota:/);
    assert.match(row.message, /tokens/);
    assert.ok(row.created_at_ms > 0);
    assert.equal(host.warnings.length, 1);
  });

  test('nothing without the option', (t) => {
    const host = new Host(t);
    host.sql(table);
    provoke(host);
    assert.equal(host.value('SELECT COUNT(*) FROM server_logs'), 0);
  });

  const shapes = {
    'no such table': null,
    'a table without a message': 'CREATE TABLE server_logs (id INTEGER PRIMARY KEY, level TEXT)',
    'a table that wants more': 'CREATE TABLE server_logs (message TEXT NOT NULL, tenant TEXT NOT NULL)',
    'a view': 'CREATE VIEW server_logs AS SELECT 1 AS message',
  };
  for (const [name, sql] of Object.entries(shapes)) {
    test(`${name}: the warning goes to the logger alone`, (t) => {
      const host = new Host(t, withLogs);
      if (sql) host.sql(sql);
      provoke(host);
      assert.equal(host.warnings.length, 1);
      assert.equal(host.core.getRateLimitStatus(...route, {}).tpm.used, 0);
    });
  }

  test('a database that is away costs no exception', (t) => {
    const host = new Host(t, withLogs);
    host.sql(table);
    host.core.recordRequest(...route);
    host.close();
    host.core.recordRequest(...route);
    provoke(host);
    assert.equal(host.warnings.length, 2);
  });

  test("inside the host's transaction the row shares its fate", (t) => {
    const host = new Host(t, withLogs);
    host.sql(table);
    host.sql('BEGIN');
    provoke(host);
    assert.equal(host.value('SELECT COUNT(*) FROM server_logs'), 1);
    host.sql('ROLLBACK');
    assert.equal(host.value('SELECT COUNT(*) FROM server_logs'), 0);
  });
});
