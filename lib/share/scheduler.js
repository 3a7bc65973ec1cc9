'use strict';

// The native scheduling state of one instance, and the interned names that selections are made of.

const { binding } = require('../native.js');

/** Names kept on this side; more, and both sides forget those that no state mentions. */
const MAX_NAMES = 20_000;

/** @param {object} ctx see lib/context.js */
function createScheduler(ctx) {
  const native = new binding.Scheduler(ctx.recorded);
  const ids = new Map();
  let generation = 0;

  ctx.onReset(() => {
    generation += 1;
    native.reset();
  });
  ctx.onInspect(() => ({
    inflightConnections: native.connectionsInFlight,
    accountBuckets: native.saturatedWindows,
    drr: JSON.parse(native.credits()),
  }));

  return {
    native,

    /** Counts resets: what was taken before one must not be given back after it. */
    get generation() {
      return generation;
    },

    /** Call before the first `idOf` of an operation: ids taken before it are not valid any more. */
    trim() {
      if (ids.size <= MAX_NAMES) return;
      ids.clear();
      native.forgetUnusedNames();
    },

    idOf(name) {
      let id = ids.get(name);
      if (id === undefined) {
        id = native.intern(name);
        ids.set(name, id);
      }
      return id;
    },
  };
}

module.exports = { createScheduler };
