'use strict';

// Soft policies: a key over its share is ranked lower, not refused.

const { invalidArgument } = require('../errors.js');
const { requireNumber, requireObject } = require('../args.js');

const DEFAULT_FACTOR = 0.7;
/** Executions whose candidates are known; beyond that the oldest is taken as one that never unregistered. */
const MAX_EXECUTIONS = 10_000;

const isName = (value) => typeof value === 'string' && value !== '';

function createPenalty(ctx) {
  /** executionKey → stepId → candidate */
  const executions = new Map();
  ctx.onReset(() => executions.clear());

  /** In the runs a factor that is no number makes every score NaN. Corrected: it counts as not set. */
  function factor() {
    const stated = ctx.env().QUOTA_SOFT_DEPRIORITIZE_FACTOR;
    const text = stated === undefined ? undefined : String(stated);
    if (ctx.recorded) return text === undefined ? DEFAULT_FACTOR : Number(text);
    const value = text === undefined || text.trim() === '' ? Number.NaN : Number(text);
    return value >= 0 && value <= 1 ? value : DEFAULT_FACTOR;
  }

  function requireList(value, name) {
    if (!Array.isArray(value)) throw invalidArgument(`${name} must be an array`);
    return value;
  }

  return {
    applySoftPenalty(score, penalized) {
      ctx.assertOpen();
      requireNumber(score, 'score');
      return penalized ? score * factor() : score;
    },

    registerExecutionCandidates(candidates) {
      ctx.assertOpen();
      for (const candidate of requireList(candidates, 'candidates')) {
        const { executionKey, stepId } = requireObject(candidate, 'candidate');
        if (!isName(executionKey) || !isName(stepId)) continue;
        const steps = executions.get(executionKey) ?? new Map();
        executions.delete(executionKey);
        executions.set(executionKey, steps.set(stepId, candidate));
        if (executions.size > MAX_EXECUTIONS) executions.delete(executions.keys().next().value);
      }
    },

    /** Takes execution keys, or the candidates themselves. */
    unregisterExecutionCandidates(keys) {
      ctx.assertOpen();
      for (const key of requireList(keys, 'executionKeys')) {
        executions.delete(isName(key) ? key : key?.executionKey);
      }
    },

    setCandidateQuotaSoftPenalty(executionKey, stepId, penalized) {
      ctx.assertOpen();
      const candidate = executions.get(executionKey)?.get(stepId);
      // A frozen candidate of the host stays as it is.
      if (candidate) Reflect.set(candidate, 'quotaSoftPenalty', Boolean(penalized));
    },
  };
}

module.exports = { createPenalty };
