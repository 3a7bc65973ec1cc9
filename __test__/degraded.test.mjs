// When the database refuses or is away: no exception, one warning, and counts that are right again afterwards.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { DAY, Host, MINUTE, noLimits } from './support/host.mjs';
import { tempFolder } from './support/temp.mjs';
import { Writer } from './support/writer.mjs';

const route = ['p', 'm', 1];
const used = (host) => host.core.getRateLimitStatus(...route, noLimits).rpm.used;
const rows = (host) => host.value("SELECT COUNT(*) FROM rate_limit_usage WHERE platform = 'p'");

function record(host, count = 1) {
  for (let index = 0; index < count; index += 1) host.core.recordRequest(...route);
}

function watch(host) {
  const seen = [];
  for (const name of ['degraded', 'recovered']) host.core.on(name, () => seen.push(name));
  return seen;
}

// Everything a router calls, for its lack of exceptions.
function callEverything({ core }) {
  const limits = { rpm: 5, rpd: 50, tpm: 500, tpd: 5000 };
  core.canMakeRequest(...route, limits);
  core.canUseTokens(...route, 10, limits);
  core.getRateLimitStatus(...route, limits);
  core.canUseProvider('openrouter', 1);
  core.canUseProviderMinute('nvidia', 1);
  core.canUseProviderTokens('navy', 1, 'm', 10);
  core.providerDailyRequestCount('p', 1);
  core.providerMinuteRequestCount('p', 1);
  core.providerDailyTokenCount('p', 1);
  core.releaseLease(core.acquireLease(...route, 5));
  core.setCooldown('p', 'other', 2, MINUTE);
  core.isOnCooldown('p', 'other', 2);
  core.getActiveCooldownsForKeys([1, 2]);
  core.getProbeableCooldowns();
  core.getSoonestCooldownExpiry();
  core.getCooldownDecisionForLimit(...route, { rpd: null, tpd: null });
  core.clearCooldownEarly('p', 'other', 2);
  core.clearCooldownsForKey(2);
  core.cleanupExpiredCooldowns();
  core.isLocalEndpointKey(1);
  core.learnLimitFromError(1, { message: 'requests per day: limit 5' });
  core.modelWindowUsedFraction({ platform: 'p', modelId: 'm' }, limits);
  core.invalidateWindowUsage();
}

// Ways in which an open connection refuses to write, and how it comes round again.
const refusals = {
  'a full disk': {
    refuse(host) {
      host.sql('PRAGMA wal_checkpoint(TRUNCATE)');
      host.sql(`PRAGMA max_page_count = ${host.value('PRAGMA page_count')}`);
      // What room the last pages still have is used up by the host.
      const fill = host.db.prepare(
        "INSERT INTO rate_limit_usage (platform, model_id, key_id, kind, created_at_ms) VALUES ('fill', ?, 1, 'request', 1)",
      );
      for (const size of [2000, 200, 20, 1]) {
        assert.throws(() => {
          for (;;) fill.run('x'.repeat(size));
        }, /full/);
      }
    },
    relent: (host) => host.sql('PRAGMA max_page_count = 100000'),
  },
  'a read-only connection': {
    refuse: (host) => host.reopen({ readonly: true }),
    relent: (host) => host.reopen(),
  },
  'PRAGMA query_only': {
    refuse: (host) => host.sql('PRAGMA query_only = ON'),
    relent: (host) => host.sql('PRAGMA query_only = OFF'),
  },
};

for (const [name, { refuse, relent }] of Object.entries(refusals)) {
  describe(name, () => {
    test('refused events stay counted and are written once the database takes them', (t) => {
      const host = new Host(t);
      const seen = watch(host);
      record(host, 2);
      refuse(host);
      record(host, 3);
      assert.equal(rows(host), 2);
      assert.equal(used(host), 5);
      assert.equal(host.core.providerMinuteRequestCount('p', 1), 5);
      assert.equal(host.core.providerDailyRequestCount('p', 1), 5);
      assert.equal(host.core.canMakeRequest(...route, { ...noLimits, rpm: 5 }), false);
      assert.equal(host.core.canMakeRequest(...route, { ...noLimits, rpm: 6 }), true);
      host.advance(1);
      relent(host);
      assert.equal(used(host), 5);
      record(host);
      assert.equal(rows(host), 6);
      assert.equal(used(host), 6);
      assert.deepEqual(seen, ['degraded', 'recovered']);
      const times = host
        .all("SELECT created_at_ms AS at FROM rate_limit_usage WHERE platform = 'p' ORDER BY at")
        .map((row) => row.at);
      assert.deepEqual(
        times,
        [0, 0, 0, 0, 0, 1].map((later) => host.now - 1 + later),
      );
    });

    test('nothing throws, and it warns once', (t) => {
      const host = new Host(t);
      refuse(host);
      record(host, 20);
      callEverything(host);
      record(host, 20);
      assert.equal(host.warnings.length, 1, JSON.stringify(host.warnings));
    });

    test('a transaction of the host that is rolled back does not take the refused events with it', (t) => {
      const host = new Host(t);
      refuse(host);
      record(host, 2);
      relent(host);
      host.sql('BEGIN');
      record(host);
      assert.equal(used(host), 3);
      host.sql('ROLLBACK');
      assert.equal(used(host), 2);
      record(host);
      assert.equal(used(host), 3);
      assert.equal(rows(host), 3);
    });

    test('refused events leave the windows like any other', (t) => {
      const host = new Host(t);
      refuse(host);
      record(host, 2);
      host.advance(MINUTE);
      assert.equal(used(host), 0);
      assert.equal(host.core.providerDailyRequestCount('p', 1), 2);
      host.advance(2 * DAY);
      record(host);
      assert.equal(host.core.providerDailyRequestCount('p', 1), 1);
      relent(host);
      record(host);
      assert.equal(rows(host), 2);
    });
  });
}

test('recorded mode reads the database alone while it answers', (t) => {
  const host = new Host(t, { core: { compat: 'recorded' } });
  record(host, 2);
  host.sql('PRAGMA query_only = ON');
  record(host, 3);
  assert.equal(used(host), 2);
});

test('a bench that was refused holds to its end', (t) => {
  const host = new Host(t);
  host.sql('PRAGMA query_only = ON');
  host.core.setCooldown(...route, 10_000);
  assert.equal(host.core.isOnCooldown(...route), true);
  host.sql('PRAGMA query_only = OFF');
  host.advance(10_000);
  assert.equal(host.core.isOnCooldown(...route), true);
  host.advance(1);
  assert.equal(host.core.isOnCooldown(...route), false);
});

for (const journal of ['WAL', 'DELETE']) {
  test(`another process holds the lock past the busy timeout (${journal})`, async (t) => {
    const host = new Host(t);
    host.sql(`PRAGMA journal_mode = ${journal}`);
    host.sql('PRAGMA busy_timeout = 20');
    const writer = new Writer(t, { file: host.file, mode: 'sql', platform: 'theirs', now: host.now });
    record(host, 2);
    await writer.ask('hold');
    record(host, 3);
    callEverything(host);
    assert.equal(host.warnings.length, 1, JSON.stringify(host.warnings));
    // Readers of a WAL file see past a writer; elsewhere what is known is what memory has.
    if (journal === 'WAL') assert.equal(used(host), 5);
    else assert.equal(used(host), 3);
    await writer.ask('let');
    record(host);
    assert.equal(used(host), 6);
    assert.equal(rows(host), 6);
    await writer.end();
  });
}

const absences = {
  'a closed connection': (host) => host.close(),
  'a provider that returns nothing': (host) => {
    host.close();
    host.db = null;
  },
};

for (const [name, leave] of Object.entries(absences)) {
  test(`${name}: events are counted in memory and dropped when the database answers again`, (t) => {
    const host = new Host(t);
    const seen = watch(host);
    record(host, 2);
    leave(host);
    assert.equal(used(host), 0);
    record(host, 3);
    host.core.recordTokens(...route, 70);
    assert.equal(used(host), 3);
    assert.equal(host.core.getRateLimitStatus(...route, noLimits).tpm.used, 70);
    assert.equal(host.core.providerDailyRequestCount('p', 1), 3);
    assert.equal(host.core.canMakeRequest(...route, { ...noLimits, rpm: 3 }), false);
    callEverything(host);
    assert.equal(host.warnings.length, 1, JSON.stringify(host.warnings));
    host.open();
    assert.equal(used(host), 2);
    assert.equal(host.core.getRateLimitStatus(...route, noLimits).tpm.used, 0);
    record(host);
    assert.equal(used(host), 3);
    assert.equal(rows(host), 3);
    assert.deepEqual(seen, ['degraded', 'recovered']);
  });
}

test('a provider that throws is a database that is not there yet', (t) => {
  let open = false;
  const host = new Host(t, {
    core: {
      database: () => {
        if (!open) throw new Error('not initialised');
        return host.db;
      },
    },
  });
  record(host, 2);
  callEverything(host);
  assert.equal(used(host), 2);
  assert.deepEqual(host.warnings, []);
  open = true;
  assert.equal(used(host), 0);
  record(host);
  assert.equal(rows(host), 1);
});

test('a row that the host itself refuses is its decision, and costs nothing else', (t) => {
  const host = new Host(t);
  host.sql(
    "CREATE TRIGGER no BEFORE INSERT ON rate_limit_usage WHEN new.model_id = 'm' BEGIN SELECT RAISE(ABORT, 'no'); END",
  );
  record(host, 3);
  host.core.recordRequest('p', 'other', 1);
  assert.equal(host.core.getRateLimitStatus('p', 'other', 1, noLimits).rpm.used, 1);
  host.sql('DROP TRIGGER no');
  record(host);
  assert.equal(rows(host), 2);
});

test('missing tables: nothing throws, and the rest of the engine goes on', (t) => {
  const host = new Host(t);
  for (const table of ['rate_limit_usage', 'rate_limit_cooldowns', 'models', 'api_keys'])
    host.sql(`DROP TABLE ${table}`);
  callEverything(host);
  record(host, 3);
  assert.equal(used(host), 3);
  assert.equal(host.core.canMakeRequest(...route, { ...noLimits, rpm: 3 }), false);
  host.core.setCooldown(...route, 1000);
  assert.equal(host.core.isOnCooldown(...route), true);
});

test('a table that was renamed away comes back with the refused events', (t) => {
  const host = new Host(t);
  record(host, 2);
  host.sql('ALTER TABLE rate_limit_usage RENAME TO elsewhere');
  record(host, 3);
  assert.equal(used(host), 3);
  host.sql('ALTER TABLE elsewhere RENAME TO rate_limit_usage');
  record(host);
  assert.equal(used(host), 6);
  assert.equal(rows(host), 6);
});

// The operating system's limit on file sizes stands for a disk that fails in the middle of a write.
test('a file that cannot grow any more', async (t) => {
  const script = fileURLToPath(new URL('support/small-disk-child.mjs', import.meta.url));
  const child = spawn('sh', ['-c', 'ulimit -S -f 600; exec "$0" "$@"', process.execPath, script, tempFolder(t)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_NO_WARNINGS: '1' },
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  const [code] = await once(child, 'close');
  assert.equal(code, 0);
  const { recorded, refused, usedThen, usedAfter, rowsAfter, warnings } = JSON.parse(output);
  assert.ok(refused > 0, 'the limit was met');
  assert.equal(usedThen, recorded);
  assert.equal(usedAfter, recorded + 1);
  assert.equal(rowsAfter, recorded + 1);
  assert.equal(warnings, 1);
});
