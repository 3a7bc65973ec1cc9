// Attaching to what cannot be used: an error with a code that says what to do, never a crash. And several SQLite
// libraries, connections and threads in one process.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import quotaCore from '../index.js';
import { hasNodeSqlite, openDatabase } from './support/driver.mjs';
import { Host, noLimits } from './support/host.mjs';
import { runNode } from './support/run-node.mjs';
import { tempFolder } from './support/temp.mjs';

const require = createRequire(import.meta.url);
const root = fileURLToPath(new URL('..', import.meta.url));

// Copies of the addon stay until the end: a library is known by its inode, which a deleted file hands on.
const copies = mkdtempSync(join(tmpdir(), 'quota-core-copies-'));
after(() => rmSync(copies, { recursive: true, force: true }));

function refusal(action) {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new assert.AssertionError({ message: 'it was not refused' });
}

/** What `attach` says: its code, after checking that it is an error of ours with a message that helps. */
function attachCode(db) {
  const core = quotaCore.createQuotaCore();
  try {
    const error = refusal(() => core.attach(db));
    assert.match(error.code, /^ERR_QUOTA_/);
    assert.ok(error.message.length > 20, error.message);
    return error.code;
  } finally {
    core.close();
  }
}

describe('attach refuses', () => {
  test('what is no connection', () => {
    for (const value of [undefined, null, 42, true, 7n, Symbol('db'), {}, { raw: { raw: null } }, []]) {
      assert.equal(attachCode(value), 'ERR_QUOTA_ATTACH_NOT_A_CONNECTION', String(value));
    }
  });

  test('an object without loadExtension', () => {
    assert.equal(attachCode({ prepare() {}, exec() {} }), 'ERR_QUOTA_ATTACH_NOT_A_CONNECTION');
  });

  test('an object whose loadExtension loads nothing', () => {
    assert.equal(attachCode({ prepare() {}, exec() {}, loadExtension() {} }), 'ERR_QUOTA_ATTACH_OTHER_COPY');
  });

  test('a closed connection', () => {
    const db = openDatabase(':memory:');
    db.close();
    assert.equal(attachCode(db), 'ERR_QUOTA_ATTACH_CLOSED');
  });

  test('a loadExtension that loads another copy of the file', (t) => {
    const addon = readdirSync(root).find((name) => /^quota-core\..*\.node$/.test(name));
    const copy = join(copies, addon);
    cpSync(join(root, addon), copy);
    const db = openDatabase(':memory:');
    t.after(() => db.close());
    const detour = { prepare() {}, exec() {}, loadExtension: () => db.loadExtension(copy) };
    assert.equal(attachCode(detour), 'ERR_QUOTA_ATTACH_OTHER_COPY');
  });

  if (hasNodeSqlite()) {
    const { DatabaseSync } = process.getBuiltinModule('node:sqlite');

    test('node:sqlite without allowExtension', (t) => {
      const db = new DatabaseSync(':memory:');
      t.after(() => db.close());
      const core = quotaCore.createQuotaCore();
      const error = refusal(() => core.attach(db));
      core.close();
      assert.equal(error.code, 'ERR_QUOTA_ATTACH_EXTENSION_REFUSED');
      assert.match(error.message, /allowExtension/);
    });

    if (typeof DatabaseSync.prototype.setAuthorizer === 'function') {
      test('a connection whose authorizer denies everything', (t) => {
        const db = new DatabaseSync(':memory:', { allowExtension: true });
        t.after(() => db.close());
        db.setAuthorizer(() => 1);
        assert.match(attachCode(db), /^ERR_QUOTA_ATTACH/);
        db.setAuthorizer(null);
        const core = quotaCore.createQuotaCore();
        core.attach(db);
        core.close();
      });

      test('an authorizer that denies later: memory answers', (t) => {
        const host = new Host(t, { driver: 'node:sqlite' });
        host.core.recordRequest('p', 'm', 1);
        host.db.setAuthorizer(() => 1);
        host.core.reset();
        host.core.recordRequest('p', 'other', 1);
        host.core.canUseProvider('openrouter', 1);
        host.core.getActiveCooldownsForKeys([1]);
        host.db.setAuthorizer(null);
        host.core.recordRequest('p', 'm', 1);
        assert.equal(host.core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 2);
      });
    }

    test('--permission: extensions are forbidden, and the error says so', async (t) => {
      const folder = tempFolder(t);
      writeFileSync(join(folder, 'package.json'), '{}');
      const { code, stdout, stderr } = await runNode('permission-child.mjs', [folder], {
        flags: ['--permission', '--allow-addons', '--allow-fs-read=*', '--allow-fs-write=*'],
      });
      assert.equal(code, 0, stderr);
      const { attach, used } = JSON.parse(stdout);
      assert.equal(attach, 'ERR_QUOTA_ATTACH_EXTENSION_REFUSED');
      assert.equal(used, 2);
    });
  }
});

describe('one file, one SQLite library', () => {
  test('a path that a host connection already has open is refused', (t) => {
    const host = new Host(t);
    host.core.recordRequest('p', 'm', 1);
    const error = refusal(() => quotaCore.createQuotaCore({ database: host.file }));
    assert.equal(error.code, 'ERR_QUOTA_ATTACH_FILE_IN_USE');
    assert.match(error.message, /connection/);
  });

  test('a path is a path, not a URI that leads to the same file', (t) => {
    const host = new Host(t);
    const error = refusal(() => quotaCore.createQuotaCore({ database: `file:${host.file}` }));
    assert.equal(error.code, 'ERR_QUOTA_OPEN');
  });

  test('a host connection on a path that the engine opened is refused', (t) => {
    const host = new Host(t);
    const file = join(tempFolder(t), 'own.db');
    const own = quotaCore.createQuotaCore({ database: file });
    t.after(() => own.close());
    own.recordRequest('p', 'm', 1);
    const db = openDatabase(file);
    t.after(() => db.close());
    assert.equal(refusal(() => host.core.attach(db)).code, 'ERR_QUOTA_ATTACH_FILE_IN_USE');
    own.close();
  });

  test('after the first has let go, the other may have it', (t) => {
    const file = join(tempFolder(t), 'own.db');
    const own = quotaCore.createQuotaCore({ database: file });
    own.recordRequest('p', 'm', 1);
    own.close();
    const db = openDatabase(file);
    const core = quotaCore.createQuotaCore({ database: db });
    core.recordRequest('p', 'm', 1);
    assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 2);
    core.close();
    db.close();
    assert.deepEqual(readdirSync(join(file, '..')), ['own.db']);
  });

  test('an own file gets its tables, WAL and foreign keys, and is left tidy', (t) => {
    const folder = tempFolder(t);
    const core = quotaCore.createQuotaCore({ database: join(folder, 'own.db') });
    core.recordRequest('p', 'm', 1);
    core.setCooldown('p', 'm', 1, 60_000);
    assert.deepEqual(readdirSync(folder), ['own.db', 'own.db-shm', 'own.db-wal']);
    core.close();
    assert.deepEqual(readdirSync(folder), ['own.db']);
    const db = openDatabase(join(folder, 'own.db'));
    assert.equal(db.prepare('SELECT COUNT(*) AS n FROM rate_limit_usage').get().n, 1);
    assert.equal(db.prepare('PRAGMA journal_mode').get().journal_mode, 'wal');
    db.close();
  });

  test('a path that cannot be opened is an error at once', (t) => {
    const error = refusal(() =>
      quotaCore.createQuotaCore({ database: join(tempFolder(t), 'no', 'such', 'folder.db') }),
    );
    assert.equal(error.code, 'ERR_QUOTA_OPEN');
  });

  test('two libraries at once, each with a file of its own', (t) => {
    const hosts = ['better-sqlite3', ...(hasNodeSqlite() ? ['node:sqlite'] : [])].map(
      (driver) => new Host(t, { driver }),
    );
    const own = quotaCore.createQuotaCore({ database: join(tempFolder(t), 'own.db'), clock: () => hosts[0].now });
    t.after(() => own.close());
    const cores = [...hosts.map((host) => host.core), own];
    for (let round = 1; round <= 100; round += 1) {
      for (const [index, core] of cores.entries()) {
        for (let count = 0; count <= index; count += 1) core.recordRequest('p', 'm', 1);
        assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, round * (index + 1));
      }
    }
  });
});

/** A second installation of the package: its own JavaScript and its own `.node` file. */
function copyPackage(folder) {
  mkdirSync(folder);
  for (const name of readdirSync(root)) {
    if (/^(package\.json|index\.m?js|binding\.js|lib|quota-core\..*\.node)$/.test(name)) {
      cpSync(join(root, name), join(folder, name), { recursive: true });
    }
  }
  return require(folder);
}

if (hasNodeSqlite()) {
  test('a DatabaseSync that is closed and opened again is taken over again', (t) => {
    const host = new Host(t, { driver: 'node:sqlite' });
    host.core.recordRequest('p', 'm', 1);
    host.db.close();
    host.core.recordRequest('p', 'm', 1);
    host.db.open();
    host.core.recordRequest('p', 'm', 1);
    assert.equal(host.core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 2);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 2);
  });
}

test('an adapter whose connection is replaced', (t) => {
  const host = new Host(t);
  const adapter = { raw: { raw: host.db } };
  const core = quotaCore.createQuotaCore({ database: () => adapter, clock: () => host.now });
  t.after(() => core.close());
  core.recordRequest('p', 'm', 1);
  host.reopen();
  adapter.raw = { raw: host.db };
  core.recordRequest('p', 'm', 1);
  host.reopen();
  adapter.raw.raw = host.db;
  core.recordRequest('p', 'm', 1);
  assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 3);
});

test('two copies of the package on one connection', (t) => {
  const host = new Host(t);
  const other = copyPackage(join(copies, 'package'));
  assert.notEqual(other.createQuotaCore, quotaCore.createQuotaCore);
  const second = other.createQuotaCore({ database: host.db, clock: () => host.now });
  t.after(() => second.close());
  for (let round = 1; round <= 5; round += 1) {
    host.core.recordRequest('p', 'm', 1);
    second.recordRequest('p', 'm', 1);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 2 * round);
    assert.equal(host.core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 2 * round);
    assert.equal(second.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 2 * round);
  }
  assert.deepEqual(host.warnings, []);
  host.close();
  assert.deepEqual(readdirSync(join(host.file, '..')), ['host.db']);
});

test('a connection first met while the host iterates over it is taken over right after', (t) => {
  const host = new Host(t);
  for (const id of [1, 2, 3]) host.addKey(id, 'p');
  const used = () => host.core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used;
  for (const _ of host.db.prepare('SELECT id FROM api_keys').iterate()) host.core.recordRequest('p', 'm', 1);
  assert.equal(used(), 3, 'what was recorded in the loop counts after it');
  host.core.recordRequest('p', 'm', 1);
  assert.equal(used(), 4);
  assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 4);
});

test('ten worker threads, each with its own connection to the file', async (t) => {
  const host = new Host(t);
  host.core.recordRequest('p', 'm', 0);
  const workers = 10;
  const each = 200;
  const codes = await Promise.all(
    Array.from(
      { length: workers },
      (_, index) =>
        new Promise((resolve, reject) => {
          const worker = new Worker(new URL('support/recording-worker.mjs', import.meta.url), {
            workerData: { file: host.file, keyId: index + 1, count: each, now: host.now },
          });
          worker.once('error', reject);
          worker.once('exit', resolve);
        }),
    ),
  );
  assert.deepEqual(
    codes,
    Array.from({ length: workers }, () => 0),
  );
  assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), workers * each + 1);
  for (let keyId = 1; keyId <= workers; keyId += 1) {
    assert.equal(host.core.getRateLimitStatus('p', 'm', keyId, noLimits).rpm.used, each);
  }
});

test('a module loaded again shares the connection with the first', (t) => {
  const host = new Host(t);
  host.core.recordRequest('p', 'm', 1);
  const ours = Object.keys(require.cache).filter(
    (file) => file.startsWith(root) && !file.includes('node_modules') && file.endsWith('.js'),
  );
  const saved = ours.map((file) => [file, require.cache[file]]);
  for (const [file] of saved) delete require.cache[file];
  const fresh = require('../index.js');
  for (const [file, module] of saved) require.cache[file] = module;
  assert.notEqual(fresh.createQuotaCore, quotaCore.createQuotaCore);
  const core = fresh.createQuotaCore({ database: host.db, clock: () => host.now });
  core.recordRequest('p', 'm', 1);
  assert.equal(host.core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 2);
  assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 2);
  core.close();
  host.core.recordRequest('p', 'm', 1);
  assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 3);
  host.close();
  assert.deepEqual(readdirSync(join(host.file, '..')), ['host.db']);
});

test('an own file in memory', () => {
  const core = quotaCore.createQuotaCore({ database: ':memory:' });
  core.recordRequest('p', 'm', 1);
  assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 1);
  core.close();
});

test('a function may return the path of an own file', (t) => {
  const file = join(tempFolder(t), 'own.db');
  let database = null;
  const core = quotaCore.createQuotaCore({ database: () => database });
  core.recordRequest('p', 'm', 1);
  database = file;
  core.recordRequest('p', 'm', 1);
  core.recordRequest('p', 'm', 1);
  assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 2);
  database = null;
  assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 1);
  database = file;
  assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 2);
  core.close();
  assert.deepEqual(readdirSync(join(file, '..')), ['own.db']);
});
