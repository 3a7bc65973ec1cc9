'use strict';

// What the parts of quota sharing have in common: the native engine, calls into it, and the host's listeners.

const { binding } = require('../native.js');
const { fromNative } = require('../errors.js');
const { requireFunction } = require('../args.js');

/** @param {object} ctx see lib/context.js */
function createState(ctx) {
  const { recorded } = ctx;
  const native = new binding.ShareEngine(ctx.link, recorded);
  const listeners = { poolChanged: new Set(), poolRemoved: new Set(), quotaExceeded: new Set() };

  /** Runs a native call on the host's connection as it is now; its errors become this package's. */
  function call(work) {
    ctx.sync();
    try {
      return work(native);
    } catch (error) {
      throw fromNative(error);
    } finally {
      if (ctx.link.pending) ctx.drain();
    }
  }

  function listen(event, callback) {
    requireFunction(callback, 'callback');
    // A wrapper of its own: the same function registered twice is called twice, and removed one at a time.
    const entry = { callback };
    listeners[event].add(entry);
    return () => {
      listeners[event].delete(entry);
    };
  }

  /** Tells the listeners after the caller is done; their failures are the host's, not the caller's. */
  function notify(event, payload) {
    if (listeners[event].size === 0) return;
    queueMicrotask(() => {
      for (const { callback } of [...listeners[event]]) {
        Promise.resolve()
          .then(() => callback(payload))
          .catch((error) => ctx.warn('quota:listener', `a listener of ${event} failed: ${error?.message ?? error}`));
      }
    });
  }

  ctx.onReset(() => native.reset());
  return { native, recorded, call, listen, notify };
}

module.exports = { createState };
