// Host SQL of the stress test: small changes to the tables that the index remembers, for the host and for other processes.
import { DAY, HOUR, MINUTE } from '../host.mjs';

export const PLATFORMS = ['groq', 'navy'];
export const MODELS = ['m', 'a:b', 'm:1'];
export const KEYS = [1, 2, 3];

/** Rows that are kept at most, so that the comparing SQL stays fast. */
const MOST_ROWS = 240;

const literal = (value) => (typeof value === 'number' ? String(value) : `'${value}'`);

function usageRow(random, now) {
  const age = random.pick([random.int(0, 2 * MINUTE), random.int(0, 26 * HOUR), -random.int(0, 5000)]);
  return [
    literal(random.pick(PLATFORMS)),
    literal(random.pick(MODELS)),
    random.pick(KEYS),
    literal(random.pick(['request', 'tokens'])),
    random.int(0, 500),
    now - age,
  ].join(', ');
}

const COLUMNS = 'platform, model_id, key_id, kind, tokens, created_at_ms';

const where = (random) =>
  `platform = ${literal(random.pick(PLATFORMS))} AND model_id = ${literal(random.pick(MODELS))} AND key_id = ${random.pick(KEYS)}`;

/** Statements by name; each makes its SQL from a generator and the present. */
const changes = {
  insert: (random, now) => `INSERT INTO rate_limit_usage (${COLUMNS}) VALUES (${usageRow(random, now)})`,
  insertTwo: (random, now) =>
    `INSERT INTO rate_limit_usage (${COLUMNS}) VALUES (${usageRow(random, now)}), (${usageRow(random, now)})`,
  update: (random) =>
    `UPDATE rate_limit_usage SET tokens = tokens + 7, created_at_ms = created_at_ms - 500 WHERE ${where(random)}`,
  move: (random) => `UPDATE rate_limit_usage SET key_id = ${random.pick(KEYS)} WHERE ${where(random)}`,
  remove: (random) => `DELETE FROM rate_limit_usage WHERE ${where(random)}`,
  trim: () =>
    `DELETE FROM rate_limit_usage WHERE created_at_ms < (SELECT created_at_ms FROM rate_limit_usage ORDER BY created_at_ms DESC LIMIT 1 OFFSET ${MOST_ROWS})`,
  bench: (random, now) =>
    `INSERT OR REPLACE INTO rate_limit_cooldowns (platform, model_id, key_id, expires_at_ms, source) VALUES (${literal(random.pick(PLATFORMS))}, ${literal(random.pick(MODELS))}, ${random.pick(KEYS)}, ${now + random.int(-2000, MINUTE)}, 'credit')`,
  unbench: (random) => `DELETE FROM rate_limit_cooldowns WHERE ${where(random)}`,
  cap: (random) =>
    `UPDATE api_keys SET ${random.pick(['provider_rpm_limit', 'provider_rpd_limit', 'provider_tpd_limit'])} = ${random.pick(['NULL', 0, random.int(1, 60)])} WHERE id = ${random.pick(KEYS)}`,
  key: (random) => `UPDATE api_keys SET enabled = ${random.int(0, 1)} WHERE id = ${random.pick(KEYS)}`,
  budget: (random) =>
    `UPDATE models SET monthly_token_budget = '${random.pick(['', '2x', '1.5x'])}' WHERE model_id = ${literal(random.pick(MODELS))}`,
};

const WEIGHTS = {
  insert: 20,
  insertTwo: 6,
  update: 4,
  move: 2,
  remove: 4,
  trim: 8,
  bench: 6,
  unbench: 4,
  cap: 3,
  key: 1,
  budget: 1,
};

/** SQL of one change. */
export function hostChange(random, now) {
  return changes[random.weighted(WEIGHTS)](random, now);
}

/** Rows that SQL reads in its own way: other types, other names, other keys. */
export function oddRow(random, now) {
  const row = {
    platform: "'groq'",
    model_id: "'m'",
    key_id: 1,
    kind: "'tokens'",
    tokens: 5,
    created_at_ms: now - 100,
  };
  const [column, value] = random.pick([
    ['tokens', '1.5'],
    ['tokens', "'many'"],
    ['tokens', "x'31'"],
    ['tokens', '1099511627777'],
    ['created_at_ms', "'late'"],
    ['created_at_ms', `${now - 100}.5`],
    ['created_at_ms', "x'00'"],
    ['key_id', "'one'"],
    ['key_id', '1.5'],
    ['key_id', '9007199254740993'],
    ['model_id', "x'6d'"],
    ['model_id', "x'ff'"],
    ['platform', "x'67726f71'"],
  ]);
  row[column] = value;
  return `INSERT INTO rate_limit_usage (${COLUMNS}) VALUES (${Object.values(row).join(', ')})`;
}

/** How the usage table may be declared; the index may remember only some of them. */
const DECLARED = `platform TEXT NOT NULL, model_id TEXT NOT NULL, key_id INTEGER NOT NULL, kind TEXT NOT NULL, tokens INTEGER NOT NULL DEFAULT 0, created_at_ms INTEGER NOT NULL`;
const SHAPES = {
  plain: `id INTEGER PRIMARY KEY AUTOINCREMENT, ${DECLARED}`,
  withoutRowid: null,
  cascade: `id INTEGER PRIMARY KEY, ${DECLARED}, FOREIGN KEY (key_id) REFERENCES api_keys (id) ON DELETE CASCADE ON UPDATE CASCADE`,
  replace: `id INTEGER PRIMARY KEY, ${DECLARED}, UNIQUE (platform, model_id, key_id, kind, created_at_ms) ON CONFLICT REPLACE`,
  ignore: `id INTEGER PRIMARY KEY, ${DECLARED}, UNIQUE (platform, model_id, key_id, kind, created_at_ms) ON CONFLICT IGNORE`,
  nocase: `id INTEGER PRIMARY KEY, ${DECLARED.replace('model_id TEXT', 'model_id TEXT COLLATE NOCASE')}`,
  untyped: `id INTEGER PRIMARY KEY, ${DECLARED.replace('tokens INTEGER', 'tokens REAL')}`,
};

/** Gives the usage table another declaration and keeps its rows, those apart that it would refuse. */
export function reshape(random) {
  const name = random.pick(['plain', 'plain', 'plain', ...Object.keys(SHAPES)]);
  const declared = SHAPES[name] ?? `lot INTEGER PRIMARY KEY DEFAULT (abs(random())), ${DECLARED}`;
  // A table without rowids has none to name: its own key stands in.
  const rowid = SHAPES[name] === null ? ') WITHOUT ROWID' : ')';
  return `CREATE TABLE reshaped (${declared}${rowid};
    INSERT OR IGNORE INTO reshaped (${COLUMNS}) SELECT ${COLUMNS} FROM main.rate_limit_usage WHERE typeof(key_id) = 'integer' AND key_id < 4;
    DROP TABLE main.rate_limit_usage; ALTER TABLE reshaped RENAME TO rate_limit_usage;
    CREATE INDEX idx_rate_limit_usage_lookup ON rate_limit_usage (platform, model_id, key_id, kind, created_at_ms)`;
}

/** A day before which nothing counts: what the host's own retention would delete. */
export const tidy = (now) =>
  `DELETE FROM rate_limit_usage WHERE created_at_ms <= ${now - 2 * DAY} OR typeof(created_at_ms) <> 'integer' OR typeof(tokens) <> 'integer' OR tokens > 9999 OR typeof(key_id) <> 'integer' OR key_id > 3 OR typeof(model_id) <> 'text' OR typeof(platform) <> 'text'`;
