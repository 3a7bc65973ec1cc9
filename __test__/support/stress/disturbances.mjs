// What happens to the host's connection between the questions of the stress test.
import { MINUTE } from '../host.mjs';
import { randomRoute } from './questions.mjs';
import { hostChange, oddRow, reshape, tidy } from './statements.mjs';

const here = (world, sql) => world.run(sql);

/** Changes of the instances' own. */
const own = {
  record(world) {
    const { core } = world.anyInstance();
    const route = randomRoute(world.random);
    if (!world.mayWrite()) return;
    core.recordRequest(...route);
    core.recordTokens(...route, world.random.int(0, 400));
  },
  settle(world) {
    if (!world.mayWrite()) return;
    const { core } = world.anyInstance();
    const [platform, modelId, keyId] = randomRoute(world.random);
    const limits = { rpm: null, rpd: null, tpm: null, tpd: null };
    const { leaseId } = core.admit({ platform, modelId, keyId, limits, account: false, estimatedTokens: 9 });
    if (leaseId !== undefined) core.settle(leaseId);
  },
  bench(world) {
    if (!world.mayWrite()) return;
    world.anyInstance().core.setCooldown(...randomRoute(world.random), world.random.int(0, MINUTE), 'credit');
  },
  unbench(world) {
    if (world.mayWrite()) world.anyInstance().core.clearCooldownEarly(...randomRoute(world.random));
  },
  unbenchKey(world) {
    if (world.mayWrite()) world.anyInstance().core.clearCooldownsForKey(1);
  },
};

/** Changes of the host's, on its connection. */
const host = {
  change: (world) => world.mayWrite() && here(world, hostChange(world.random, world.now)),
  truncate: (world) => world.mayWrite() && here(world, 'DELETE FROM rate_limit_usage'),
  truncateBenches: (world) => world.mayWrite() && here(world, 'DELETE FROM rate_limit_cooldowns'),
  odd: (world) => world.mayWrite() && here(world, oddRow(world.random, world.now)),
  tidy: (world) => world.mayWrite() && here(world, tidy(world.now)),
  // Rows that the failing statement reports make up for those that the truncation does not.
  failAndTruncate(world) {
    if (!world.mayWrite()) return;
    const rows = world.db.prepare('SELECT COUNT(*) AS n FROM rate_limit_usage').get().n;
    here(world, 'DELETE FROM once; INSERT INTO once VALUES (0)');
    const values = Array.from({ length: rows }, (_, place) => `(${place + 1})`);
    if (!world.inTransaction) world.ask();
    here(world, `INSERT INTO once VALUES ${[...values, '(0)'].join(', ')}`);
    here(world, 'DELETE FROM rate_limit_usage');
  },
  replaceKey(world) {
    if (!world.mayWrite()) return;
    const id = world.random.int(1, 3);
    here(
      world,
      `INSERT OR REPLACE INTO api_keys (id, platform, encrypted_key, iv, auth_tag, status) VALUES (${id}, '${id === 3 ? 'navy' : 'groq'}', 'x', 'x', 'x', 'healthy')`,
    );
  },
  pragma: (world) =>
    !world.inTransaction &&
    here(
      world,
      world.random.pick([
        'PRAGMA foreign_keys = OFF',
        'PRAGMA foreign_keys = ON',
        'PRAGMA recursive_triggers = ON',
        'PRAGMA recursive_triggers = OFF',
        `PRAGMA user_version = ${world.random.int(0, 9)}`,
        'PRAGMA cache_size = 10',
        'PRAGMA cache_size = -2000',
      ]),
    ),
};

const SCRATCH = [
  'CREATE TABLE IF NOT EXISTS scratch (x)',
  'DROP TABLE IF EXISTS scratch',
  'CREATE INDEX IF NOT EXISTS extra ON rate_limit_usage (created_at_ms)',
  'DROP INDEX IF EXISTS extra',
  'ANALYZE',
];
const TRIGGERS = [
  'CREATE TRIGGER IF NOT EXISTS noting AFTER INSERT ON rate_limit_usage BEGIN INSERT INTO once VALUES (NULL); END',
  'CREATE TRIGGER IF NOT EXISTS doubling AFTER INSERT ON rate_limit_usage BEGIN UPDATE rate_limit_usage SET tokens = tokens + 1 WHERE platform = new.platform AND created_at_ms = new.created_at_ms; END',
  "CREATE TRIGGER IF NOT EXISTS refusing BEFORE INSERT ON rate_limit_usage WHEN new.model_id = 'm:1' BEGIN SELECT RAISE(IGNORE); END",
  'CREATE TRIGGER IF NOT EXISTS emptying AFTER INSERT ON rate_limit_usage BEGIN DELETE FROM rate_limit_cooldowns; END',
  'CREATE TEMP TRIGGER IF NOT EXISTS passing AFTER INSERT ON rate_limit_cooldowns BEGIN DELETE FROM rate_limit_usage WHERE key_id = new.key_id; END',
];
const SHADOWS = [
  'CREATE TEMP TABLE rate_limit_usage AS SELECT * FROM main.rate_limit_usage LIMIT 5',
  "CREATE TEMP VIEW rate_limit_usage AS SELECT * FROM main.rate_limit_usage WHERE model_id <> 'm'",
  'CREATE TEMP VIEW rate_limit_cooldowns AS SELECT * FROM main.rate_limit_cooldowns WHERE key_id = 1',
  'CREATE TEMP VIEW api_keys AS SELECT * FROM main.api_keys WHERE id < 3',
  'CREATE TEMP TABLE other (x)',
];

const ddl = {
  scratch: (world) => world.mayWrite() && here(world, world.random.pick(SCRATCH)),
  trigger: (world) => world.mayWrite() && here(world, world.random.pick(TRIGGERS)),
  noTriggers: (world) =>
    world.mayWrite() &&
    ['noting', 'doubling', 'refusing', 'emptying', 'passing'].forEach((name) => {
      here(world, `DROP TRIGGER IF EXISTS ${name}`);
    }),
  reshape(world) {
    if (!world.mayWrite()) return;
    world.whole(reshape(world.random));
  },
  rename(world) {
    if (!world.mayWrite()) return;
    // The other processes never see the table missing.
    world.whole(
      'ALTER TABLE main.rate_limit_usage RENAME TO kept; CREATE TABLE main.rate_limit_usage AS SELECT * FROM kept LIMIT 0',
    );
    for (let count = 0; count < 20; count += 1) world.ask();
    world.whole('DROP TABLE main.rate_limit_usage; ALTER TABLE main.kept RENAME TO rate_limit_usage');
  },
  shadow(world) {
    if (!world.mayWrite()) return;
    const sql = world.random.pick(SHADOWS);
    here(world, sql);
    for (let count = 0; count < 20; count += 1) world.ask();
    const [, kind, name] = /^CREATE TEMP (\w+) (\w+)/.exec(sql);
    here(world, `DROP ${kind} IF EXISTS temp.${name}`);
  },
  attach(world) {
    if (world.inTransaction) return;
    here(world, "ATTACH ':memory:' AS aux");
    here(world, 'CREATE TABLE aux.rate_limit_usage AS SELECT * FROM main.rate_limit_usage');
    world.ask();
    here(world, 'DELETE FROM aux.rate_limit_usage WHERE key_id = 1');
    world.ask();
    here(world, 'DETACH aux');
  },
};

/** Transactions: most are short, since inside one SQL answers. */
const transactions = {
  begin(world) {
    if (!world.inTransaction) world.begin(world.random.pick(['BEGIN', 'BEGIN IMMEDIATE', 'BEGIN IMMEDIATE']));
  },
  savepoint(world) {
    if (!world.inTransaction) return;
    here(world, 'SAVEPOINT inner_one');
    world.ask();
    host.change(world);
    world.ask();
    here(world, world.random.pick(['RELEASE inner_one', 'ROLLBACK TO inner_one']));
  },
  end(world) {
    if (world.inTransaction) world.end(world.random.pick(['COMMIT', 'ROLLBACK']));
  },
  midStatement(world) {
    for (const row of world.db.prepare('SELECT kind FROM rate_limit_usage LIMIT 3').iterate()) {
      if (typeof row.kind === 'string') world.ask();
    }
  },
};

const storage = {
  checkpoint: (world) =>
    !world.inTransaction &&
    world.impatient(`PRAGMA wal_checkpoint(${world.random.pick(['PASSIVE', 'FULL', 'RESTART', 'TRUNCATE'])})`),
  vacuum: (world) => !world.inTransaction && world.impatient('VACUUM'),
  journal: (world) =>
    !world.inTransaction &&
    world.impatient(`PRAGMA journal_mode = ${world.random.pick(['WAL', 'WAL', 'DELETE', 'TRUNCATE', 'PERSIST'])}`),
  exclusive(world) {
    if (world.inTransaction) return;
    world.impatient('PRAGMA locking_mode = EXCLUSIVE; SELECT COUNT(*) FROM rate_limit_usage');
    for (let count = 0; count < 20; count += 1) world.ask();
    host.change(world);
    world.ask();
    here(world, 'PRAGMA locking_mode = NORMAL');
    here(world, 'SELECT COUNT(*) FROM rate_limit_usage');
  },
};

export const disturbances = { ...own, ...host, ...ddl, ...transactions, ...storage };

export const WEIGHTS = {
  record: 200,
  settle: 40,
  bench: 40,
  unbench: 20,
  unbenchKey: 4,
  change: 200,
  truncate: 6,
  truncateBenches: 4,
  odd: 10,
  tidy: 20,
  failAndTruncate: 4,
  replaceKey: 8,
  pragma: 8,
  scratch: 6,
  trigger: 6,
  noTriggers: 12,
  reshape: 4,
  rename: 3,
  shadow: 8,
  attach: 4,
  begin: 24,
  savepoint: 20,
  end: 120,
  midStatement: 10,
  checkpoint: 6,
  vacuum: 1,
  journal: 6,
  exclusive: 1,
};
