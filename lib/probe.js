'use strict';

// Early recovery of heuristic cooldowns: the loop around the host's key validation. What is ripe, due and lifted is the
// engine's to say.

const { binding } = require('./native.js');
const { QuotaCoreError } = require('./errors.js');
const { optionalNumber, requireFunction, requireNumber, requireObject } = require('./args.js');

const PASS_EVERY_MS = 60_000;
const DEFAULT_MAX_PROBES = 3;

function createProbe(ctx, { rate }) {
  /** Keys that some pass is asking about right now: an overlapping pass leaves them alone. */
  const pending = new Set();
  let cancelJob = null;
  let jobRunning = false;

  function maxProbesOf(value) {
    if (value === undefined || value === null) {
      const text = ctx.env().COOLDOWN_PROBE_MAX_PER_PASS;
      const stated = text === undefined || text === null ? null : binding.positiveInteger(String(text));
      return stated ?? DEFAULT_MAX_PROBES;
    }
    return requireNumber(value, 'maxProbes');
  }

  async function ask(probe, keyId) {
    try {
      return await probe(keyId);
    } catch (error) {
      if (ctx.recorded) throw error;
      ctx.log('debug', 'quota:probe', 'a key validation failed', error);
      return 'error';
    }
  }

  async function runCooldownProbePass(options = {}) {
    requireObject(options, 'options');
    const probe = options.probe ?? ctx.options.probe;
    if (probe === undefined) {
      throw new QuotaCoreError(
        'ERR_QUOTA_NO_PROBE',
        "a pass needs the host's key validation: give `probe` to createQuotaCore or to the pass",
      );
    }
    requireFunction(probe, 'probe');
    const jitter = requireFunction(options.jitter ?? ctx.options.random ?? Math.random, 'jitter');
    const maxProbes = maxProbesOf(options.maxProbes);
    const now = optionalNumber(options.now, 'now', ctx.now());
    ctx.sync();
    const probedKeyIds = [];
    let clearedCooldowns = 0;
    for (const candidate of rate.probeCandidates(now)) {
      if (!(probedKeyIds.length < maxProbes)) break;
      const { keyId } = candidate;
      const turn = rate.probeTurn(keyId, now);
      if (turn === 'new') rate.scheduleProbe(keyId, now, jitter());
      if (turn !== 'due' || pending.has(keyId)) continue;
      probedKeyIds.push(keyId);
      pending.add(keyId);
      let outcome;
      try {
        outcome = await ask(probe, keyId);
      } finally {
        pending.delete(keyId);
      }
      ctx.sync();
      if (outcome === 'valid') clearedCooldowns += rate.probeSucceeded(candidate);
      else rate.probeFailed(keyId, now);
      ctx.drain();
    }
    ctx.drain();
    return { probedKeyIds, clearedCooldowns };
  }

  async function job() {
    if (jobRunning) return;
    jobRunning = true;
    try {
      await runCooldownProbePass();
    } catch (error) {
      if (error?.code !== 'ERR_QUOTA_CLOSED')
        ctx.warn('quota:probe', `a probe pass failed: ${error?.message ?? error}`);
    } finally {
      jobRunning = false;
    }
  }

  function startCooldownProbe(scheduler) {
    requireObject(scheduler, 'scheduler');
    requireFunction(scheduler.every, 'scheduler.every');
    ctx.sync();
    if (cancelJob !== null || ctx.env().COOLDOWN_PROBE_DISABLED === '1') return;
    const cancel = scheduler.every(PASS_EVERY_MS, job, { name: 'cooldown-probe' });
    cancelJob = typeof cancel === 'function' ? cancel : () => {};
  }

  function stopCooldownProbe() {
    cancelJob?.();
    cancelJob = null;
  }

  function resetCooldownProbeState() {
    ctx.sync();
    rate.resetProbe();
  }

  ctx.onClose(stopCooldownProbe);
  ctx.onReset(() => pending.clear());

  return { runCooldownProbePass, startCooldownProbe, stopCooldownProbe, resetCooldownProbeState };
}

module.exports = { createProbe };
