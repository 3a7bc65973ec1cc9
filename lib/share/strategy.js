'use strict';

// Which target of a pool serves a request, and how many requests each connection has in flight.

const { binding } = require('../native.js');
const { invalidArgument } = require('../errors.js');
const { finiteNumber, optionalObject, requireObject, requireString, stringOrNone } = require('../args.js');

/** How long a slot lasts that nobody gives back. */
const SLOT_TTL_MS = binding.slotTtlMs();

/** Columns of the native table: execution key, connection, weight, cap. */
const COLUMNS = 4;

/** Caps come as a Map or as a plain object; whatever is no number is no cap. */
function capReader(caps) {
  if (caps === undefined || caps === null) return () => Number.NaN;
  requireObject(caps, 'options.maxConcurrentByConnection');
  const read =
    typeof caps.get === 'function' ? (id) => caps.get(id) : (id) => (Object.hasOwn(caps, id) ? caps[id] : undefined);
  return (id) => {
    const cap = read(id);
    return typeof cap === 'number' ? cap : Number.NaN;
  };
}

/** Reads a target once; the names of what is wrong are only built when something is. */
function requireTarget(target, index) {
  const { executionKey, connectionId, weight } =
    target !== null && typeof target === 'object' ? target : requireObject(target, `targets[${index}]`);
  if (typeof executionKey !== 'string') requireString(executionKey, `targets[${index}].executionKey`);
  if (typeof connectionId !== 'string') stringOrNone(connectionId, `targets[${index}].connectionId`);
  return { executionKey, connectionId, weight };
}

function createStrategy(ctx, scheduler) {
  const { native, idOf } = scheduler;
  const at = (now) => (now === undefined ? ctx.now() : finiteNumber(now, 'now'));
  let table = new Float64Array(16 * COLUMNS);

  function fill(targets, caps) {
    if (table.length < targets.length * COLUMNS) table = new Float64Array(2 * targets.length * COLUMNS);
    for (let index = 0, row = 0; index < targets.length; index += 1, row += COLUMNS) {
      const { executionKey, connectionId, weight } = requireTarget(targets[index], index);
      table[row] = idOf(executionKey);
      table[row + 1] = connectionId ? idOf(connectionId) : Number.NaN;
      table[row + 2] = typeof weight === 'number' ? weight : Number.NaN;
      table[row + 3] = connectionId ? caps(connectionId) : Number.NaN;
    }
  }

  function selectQuotaShareTarget(targets, comboName, modelStr, now, options) {
    ctx.assertOpen();
    if (!Array.isArray(targets)) throw invalidArgument('targets must be an array');
    requireString(comboName, 'comboName');
    requireString(modelStr, 'modelStr');
    const instant = at(now);
    const caps = capReader(optionalObject(options, 'options')?.maxConcurrentByConnection);
    // A copy: a getter of one target may change the list while the others are read.
    const list = [...targets];
    scheduler.trim();
    fill(list, caps);
    const chosen = native.select(table, list.length, comboName, modelStr, instant);
    const [connection, expires, serial] = chosen;
    const orderedTargets = [];
    for (let at = 3; at < chosen.length; at += 1) orderedTargets.push(list[chosen[at]]);
    const { generation } = scheduler;
    let held = !Number.isNaN(connection);
    return {
      target: orderedTargets[0] ?? null,
      orderedTargets,
      decrementInflight() {
        if (!held) return;
        held = false;
        if (generation === scheduler.generation && !ctx.isClosed())
          native.giveBack(connection, expires, serial, ctx.now());
      },
    };
  }

  function withConnection(connectionId, otherwise, use) {
    ctx.assertOpen();
    const connection = stringOrNone(connectionId, 'connectionId');
    if (!connection) return otherwise;
    scheduler.trim();
    return use(idOf(connection));
  }

  return {
    selectQuotaShareTarget,

    incrementInflight(connectionId, ttlMs, now) {
      const ttl = ttlMs === undefined ? SLOT_TTL_MS : finiteNumber(ttlMs, 'ttlMs');
      const instant = at(now);
      return withConnection(connectionId, 0, (id) => native.takeSlot(id, ttl, instant));
    },

    decrementInflight(connectionId, now) {
      const instant = at(now);
      withConnection(connectionId, undefined, (id) => native.giveBackOne(id, instant));
    },

    getInflight(connectionId, now) {
      const instant = at(now);
      return withConnection(connectionId, 0, (id) => native.inFlight(id, instant));
    },
  };
}

module.exports = { createStrategy };
