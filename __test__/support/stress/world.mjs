// The world of the stress test: one connection of a host, several instances on it, and SQL to compare with.
import assert from 'node:assert/strict';
import { NOON } from '../host.mjs';
import { disturbances, WEIGHTS } from './disturbances.mjs';
import { ENV, Oracle, QUESTION_WEIGHTS, questions, randomRoute } from './questions.mjs';

const TRAIL = 25;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

export class StressWorld {
  /**
   * @param {{ db: object, random: object, packages: object[], exclude?: string[] }} options `packages`: copies of this
   *   package, each gets two instances; `exclude`: disturbances that do not apply here
   */
  constructor({ db, random, packages, exclude = [] }) {
    this.random = random;
    this.now = NOON;
    this.reads = 0;
    this.compared = 0;
    this.wrong = [];
    this.trail = [];
    this.inTransaction = false;
    this.readOnly = false;
    this.weights = Object.fromEntries(Object.entries(WEIGHTS).filter(([name]) => !exclude.includes(name)));
    this.use(db);
    this.instances = packages.flatMap((quotaCore) =>
      [false, true].map((sliding) => ({
        sliding,
        core: quotaCore.createQuotaCore({
          database: () => this.db,
          clock: () => this.now,
          env: ENV,
          logger: silent,
          dayWindow: sliding ? 'sliding-24h' : 'utc-day',
        }),
      })),
    );
  }

  /** From here on this connection is the host's. */
  use(db) {
    this.db = db;
    this.oracle = new Oracle(db);
    this.version = db.prepare('PRAGMA data_version');
  }

  close() {
    for (const { core } of this.instances) core.close();
  }

  anyInstance() {
    // The first is asked most: the others would all keep each other's answers stale.
    return this.random.chance(0.7) ? this.instances[0] : this.random.pick(this.instances);
  }

  note(what) {
    this.trail.push(what);
    if (this.trail.length > TRAIL) this.trail.shift();
  }

  /** Runs SQL that may fail without harm: the tables may have another shape by now. Whether it did not. */
  run(sql) {
    this.note(sql.slice(0, 160));
    try {
      this.db.exec(sql);
      return true;
    } catch (error) {
      this.note(`failed: ${error.message}`);
      return false;
    }
  }

  /** Statements that belong together. */
  whole(sql) {
    this.note(sql.slice(0, 160));
    try {
      this.db.exec(this.inTransaction ? 'SAVEPOINT whole' : 'BEGIN IMMEDIATE');
      this.db.exec(`${sql}; ${this.inTransaction ? 'RELEASE whole' : 'COMMIT'}`);
    } catch (error) {
      this.note(`failed: ${error.message}`);
      this.run(this.inTransaction ? 'ROLLBACK TO whole; RELEASE whole' : 'ROLLBACK');
    }
  }

  /** SQL that needs the file for itself: given up soon when it is in use. */
  impatient(sql) {
    this.db.exec('PRAGMA busy_timeout = 30');
    this.run(sql);
    this.db.exec('PRAGMA busy_timeout = 5000');
  }

  begin(sql) {
    if (!this.run(sql)) return;
    this.inTransaction = true;
    this.readOnly = sql === 'BEGIN';
  }

  end(sql) {
    if (!this.run(sql)) this.run('ROLLBACK');
    this.inTransaction = false;
    this.readOnly = false;
  }

  /** A transaction that began by reading may be refused a write: that would be the host's fault. */
  mayWrite() {
    return !this.readOnly;
  }

  /** One question, to be compared with SQL at the same moment each fourth time. */
  ask() {
    this.reads += 1;
    const name = this.random.weighted(QUESTION_WEIGHTS);
    if (this.readOnly && name === 'cooldown') return;
    const instance = this.anyInstance();
    const route = randomRoute(this.random);
    const { now } = this;
    if (this.reads % 4 !== 0) {
      questions[name](instance, route, this.random, now);
      return;
    }
    // The same moment: no other connection committed between the answer and the comparison.
    for (let tries = 0; tries < 20; tries += 1) {
      const before = this.version.get().data_version;
      const [answer, expect] = questions[name](instance, route, this.random, now);
      const expected = expect(this.oracle);
      if (this.version.get().data_version !== before) continue;
      this.compared += 1;
      try {
        assert.deepEqual(answer, expected);
      } catch {
        this.wrong.push({ read: this.reads, name, route, now, answer, expected, trail: [...this.trail] });
      }
      return;
    }
  }

  disturb() {
    const name = this.random.weighted(this.weights);
    this.note(name);
    disturbances[name](this);
    this.now += this.random.weighted({ 0: 30, 5: 30, 400: 30, 20000: 2, '-300': 4, '-20000': 1 }) * 1;
  }

  /** Asks so many questions, with something happening every few of them. */
  go(reads) {
    const until = this.reads + reads;
    while (this.reads < until && this.wrong.length === 0) {
      for (let count = this.random.int(1, 60); count > 0; count -= 1) this.ask();
      this.disturb();
    }
    if (this.inTransaction) this.end('COMMIT');
  }
}
