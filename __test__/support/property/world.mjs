// The world of the property test: one host, one instance and the naive model, driven by random operations that are
// applied to both sides. An operation that asks something compares the two answers at once.
import { openDatabase } from '../driver.mjs';
import { DAY, HOUR, Host, MINUTE } from '../host.mjs';
import * as actions from './actions.mjs';
import * as hostActions from './host-actions.mjs';
import { NaiveModel } from './naive-model.mjs';
import * as questions from './questions.mjs';

const PLATFORMS = ['openrouter', 'navy', 'nvidia', 'groq'];
const MODELS = ['a:b', 'm', 'm:1'];
const KEYS = [1, 2, 11];
const NAVY_MULTIPLIERS = { 'a:b': 2, m: 1.5, 'm:1': 1 };
const TRAIL = 20;

// How often each operation comes, against the others. A closed database is opened again soon.
const WEIGHTS = {
  record: 240,
  compareUsage: 240,
  compareAccount: 110,
  lease: 60,
  release: 50,
  setCooldown: 40,
  compareCooldown: 90,
  compareCooldownLists: 20,
  decide: 40,
  ladder: 10,
  clearCooldown: 10,
  clearKey: 6,
  cleanup: 6,
  learn: 10,
  changeCaps: 4,
  hostSql: 60,
  transaction: 20,
  endTransaction: 12,
  ddl: 2,
  midStatement: 6,
  switchJournal: 1,
  closeOrReopen: 2,
  refuseOrRelent: 2,
  restart: 1,
  compareTables: 2,
};
// What goes on while the connection refuses to write: events and questions about them.
const WEIGHTS_REFUSED = { record: 10, compareUsage: 10, compareAccount: 5, lease: 2, release: 2, refuseOrRelent: 1 };
const operations = { ...questions, ...actions, ...hostActions };

export class World {
  /**
   * @param {import('node:test').TestContext} t
   * @param {import('../random.mjs').Random} random
   * @param {object} coreOptions options of the instance
   */
  constructor(t, random, coreOptions) {
    this.random = random;
    this.host = new Host(t, { core: coreOptions });
    this.coreOptions = coreOptions;
    this.model = new NaiveModel();
    this.gone = 'closed handle';
    this.extraColumns = 0;
    this.trail = [];
    this.caps = { day: 30, minute: 40, tokens: 5000 };
    this.applyCaps();
    this.openOther();
    t.after(() => this.other.close());
    this.seedModels();
  }

  /** A second connection of the host to the same file. */
  openOther() {
    this.other = openDatabase(this.host.file);
    this.other.exec('PRAGMA synchronous = OFF');
  }

  seedModels() {
    for (const [modelId, multiplier] of Object.entries(NAVY_MULTIPLIERS)) {
      this.host.addModel('navy', modelId, { monthly_token_budget: multiplier === 1 ? '' : `${multiplier}x` });
    }
    for (const modelId of MODELS) this.host.addModel('groq', modelId);
    for (const row of this.host.all(
      "SELECT id, rpm_limit, rpd_limit, tpm_limit, tpd_limit FROM models WHERE platform = 'groq'",
    )) {
      this.model.tables.models.set(row.id, row);
    }
    this.modelIds = [...this.model.tables.models.keys()];
  }

  applyCaps() {
    const { day, minute, tokens } = this.caps;
    this.host.env.PROVIDER_DAILY_REQUEST_CAP_OPENROUTER = String(day);
    this.host.env.PROVIDER_MINUTE_REQUEST_CAP_NVIDIA = String(minute);
    this.host.env.PROVIDER_DAILY_TOKEN_CAP_NAVY = String(tokens);
  }

  cap(axis, platform) {
    const capped = { day: 'openrouter', minute: 'nvidia', tokens: 'navy' };
    const defaults = { day: { modelscope: 1800 }, minute: {}, tokens: {} };
    return platform === capped[axis] ? this.caps[axis] : (defaults[axis][platform] ?? null);
  }

  multiplier(platform) {
    return platform === 'navy' ? (modelId) => NAVY_MULTIPLIERS[modelId] : () => 1;
  }

  get core() {
    return this.host.core;
  }

  get now() {
    return this.host.now;
  }

  get inTransaction() {
    return this.model.saved.length > 0;
  }

  note(...what) {
    this.trail.push(what.map((part) => (typeof part === 'string' ? part : JSON.stringify(part))).join(' '));
    if (this.trail.length > TRAIL) this.trail.shift();
  }

  route() {
    return [this.random.pick(PLATFORMS), this.random.pick(MODELS), this.key()];
  }

  key() {
    return this.random.pick(KEYS);
  }

  limits() {
    const axis = (low, high) => (this.random.chance(0.3) ? null : this.random.int(low, high));
    return { rpm: axis(0, 6), rpd: axis(0, 25), tpm: axis(0, 600), tpd: axis(0, 4000) };
  }

  /** Time mostly creeps, sometimes jumps to where a window ends, and now and then steps back. */
  tick() {
    const { random } = this;
    const jump = random.weighted({ creep: 180, minutes: 16, hours: 4, boundary: 2, back: 1 });
    const midnight = Math.ceil(this.now / DAY) * DAY;
    this.host.now = {
      creep: () => this.now + random.int(0, 2000),
      minutes: () => this.now + random.int(0, 3 * MINUTE),
      hours: () => this.now + random.int(0, 2 * HOUR),
      boundary: () =>
        random.pick([midnight, midnight + 1, this.now + MINUTE, this.now + 2 * MINUTE, this.now + 2 * MINUTE + 1]),
      // What was refused may be forgotten a day later, for good: stepping back then would show when exactly that was.
      back: () => this.now - (this.model.refused.length > 0 ? 0 : random.int(1, 2 * MINUTE)),
    }[jump]();
  }

  weights() {
    if (this.model.refuses) return WEIGHTS_REFUSED;
    return this.model.open ? WEIGHTS : { ...WEIGHTS, closeOrReopen: 30 };
  }

  /** One random operation. */
  step() {
    this.tick();
    operations[this.random.weighted(this.weights())](this);
  }
}
