'use strict';

// Which usage windows of an account are used up ('5h', '7d', '7d:<model>'), as the provider last reported.

const { finiteNumber, requireNumber, requireString, stringOrNone } = require('../args.js');

/** An instant as providers write it, in epoch ms; NaN for none. */
function instantOf(text) {
  return typeof text === 'string' && text !== '' ? Date.parse(text) : Number.NaN;
}

function createBuckets(ctx, scheduler) {
  const { native, idOf } = scheduler;
  const at = (now) => (now === undefined ? ctx.now() : finiteNumber(now, 'now'));

  return {
    recordUsage(connectionId, windowKey, usedPct, resetAt, now) {
      ctx.assertOpen();
      requireString(connectionId, 'connectionId');
      requireString(windowKey, 'windowKey');
      requireNumber(usedPct, 'usedPct');
      const reset = instantOf(stringOrNone(resetAt, 'resetAt'));
      const instant = at(now);
      if (connectionId === '' || windowKey === '') return;
      scheduler.trim();
      native.recordUsage(idOf(connectionId), windowKey, usedPct, reset, instant);
    },

    isBucketSaturated(connectionId, windowKey, now) {
      ctx.assertOpen();
      requireString(connectionId, 'connectionId');
      requireString(windowKey, 'windowKey');
      const instant = at(now);
      if (connectionId === '') return false;
      scheduler.trim();
      return native.isWindowSaturated(idOf(connectionId), windowKey, instant);
    },

    /** What is no quota of a provider's answer is passed over: the answer is not ours to refuse. */
    updateAccountBuckets(connectionId, usage, now) {
      ctx.assertOpen();
      requireString(connectionId, 'connectionId');
      const instant = at(now);
      const quotas = usage?.quotas;
      if (connectionId === '' || quotas === null || typeof quotas !== 'object') return;
      scheduler.trim();
      const id = idOf(connectionId);
      for (const [name, quota] of Object.entries(quotas)) {
        const used = quota?.used;
        if (typeof used === 'number') native.recordQuota(id, name, used, instantOf(quota.resetAt), instant);
      }
    },
  };
}

module.exports = { createBuckets };
