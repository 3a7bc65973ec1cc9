// A process that uses a host database and ends in one of several ways; with the addon, or without it as the control.
//
// node lifecycle-child.mjs <how it ends> <database file> <with | without>

import { createRequire } from 'node:module';
import { openDatabase } from './driver.mjs';

const [how, file, addon] = process.argv.slice(2);
const db = openDatabase(file);
db.exec('PRAGMA journal_mode = WAL');
db.exec(`CREATE TABLE IF NOT EXISTS rate_limit_usage (
  id INTEGER PRIMARY KEY, platform TEXT NOT NULL, model_id TEXT NOT NULL, key_id INTEGER NOT NULL, kind TEXT NOT NULL,
  tokens INTEGER NOT NULL DEFAULT 0, created_at_ms INTEGER NOT NULL)`);

let core;
if (addon === 'with') {
  const { createQuotaCore } = createRequire(import.meta.url)('../..');
  core = createQuotaCore({ database: db, probe: () => new Promise(() => {}) });
  core.recordRequest('groq', 'm', 1);
} else {
  db.prepare(
    "INSERT INTO rate_limit_usage (platform, model_id, key_id, kind, created_at_ms) VALUES ('groq', 'm', 1, 'request', ?)",
  ).run(Date.now());
}

const ways = {
  'natural end': () => {},
  'natural end after close': () => {
    core?.close();
    db.close();
  },
  'work pending': () => {
    core?.scheduleRecordConsumption({ apiKeyId: 'k', connectionId: 'c', provider: 'p', cost: { tokens: 1 } });
    core?.setCooldown('groq', 'm', 1, 600_000);
    core?.startCooldownProbe({ every: (ms, run) => clearInterval.bind(null, setInterval(run, ms).unref()) });
    core?.runCooldownProbePass();
  },
  'process.exit': () => process.exit(7),
  'process.exit in a transaction': () => {
    db.exec('BEGIN IMMEDIATE');
    core?.recordRequest('groq', 'm', 1);
    process.exit(7);
  },
  'uncaught exception': () => {
    setImmediate(() => {
      throw new Error('on purpose');
    });
  },
  SIGTERM: () => {
    setInterval(() => core?.recordRequest('groq', 'm', 1), 1);
    process.stdout.write('ready\n');
  },
};
ways[how]();
