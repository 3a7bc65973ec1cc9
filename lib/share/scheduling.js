'use strict';

// Scheduling inside a pool and the signals it reads: the parts, put together.

const { createBuckets } = require('./buckets.js');
const { createHeaders } = require('./headers.js');
const { naming } = require('./naming.js');
const { createPenalty } = require('./penalty.js');
const { createSaturation } = require('./saturation.js');
const { createScheduler } = require('./scheduler.js');
const { createSlots } = require('./slots.js');
const { createStrategy } = require('./strategy.js');

/**
 * @param {object} ctx see lib/context.js
 * @returns functions of the public interface, and `saturationFor` for the enforcement
 */
function createScheduling(ctx) {
  const scheduler = createScheduler(ctx);
  const buckets = createBuckets(ctx, scheduler);
  const headers = createHeaders(ctx, scheduler);
  const { saturationFor, functions } = createSaturation(ctx, scheduler, { ...buckets, ...headers });
  return {
    saturationFor,
    functions: {
      ...naming,
      ...buckets,
      ...headers,
      ...functions,
      ...createStrategy(ctx, scheduler),
      ...createSlots(ctx),
      ...createPenalty(ctx),
    },
  };
}

module.exports = { createScheduling };
