// A second process that writes to the host's file.
//   node writer-child.mjs '{"file":…,"mode":…,"platform":…}'
// mode 'addon': through an instance of its own; 'sql': plain host SQL.
// Obeys lines on stdin: `record <n>` (n requests), `remove` (all of its rows), `hold` and `let` (the write lock), `end`;
// answers each with a line when it is done.
import { createInterface } from 'node:readline';
import quotaCore from '../../index.js';
import { openDatabase } from './driver.mjs';

const { file, mode, platform, now } = JSON.parse(process.argv[2]);
const db = openDatabase(file);
db.exec('PRAGMA synchronous = OFF');
const core = quotaCore.createQuotaCore({ database: mode === 'addon' ? db : () => null, clock: () => now });
const insert = db.prepare(
  "INSERT INTO rate_limit_usage (platform, model_id, key_id, kind, created_at_ms) VALUES (?, 'm', 1, 'request', ?)",
);
const remove = db.prepare('DELETE FROM rate_limit_usage WHERE platform = ?');

const commands = {
  record(count) {
    for (let index = 0; index < Number(count); index += 1) {
      if (mode === 'addon') core.recordRequest(platform, 'm', 1);
      else insert.run(platform, now);
    }
  },
  remove() {
    remove.run(platform);
  },
  hold() {
    db.exec('BEGIN EXCLUSIVE');
  },
  let() {
    db.exec('COMMIT');
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [command, argument] = line.split(' ');
  commands[command]?.(argument);
  console.log(`done ${line}`);
  if (command === 'end') break;
}
core.close();
db.close();
process.stdin.destroy();
