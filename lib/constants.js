'use strict';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** The routing strategy of a pool's combo: internal, never in a list that users choose from. */
const QUOTA_SHARE_STRATEGY = 'quota-share';

module.exports = {
  // Benches of a router's own error path, in milliseconds.
  PAYMENT_REQUIRED_COOLDOWN_MS: DAY,
  MODEL_FORBIDDEN_COOLDOWN_MS: DAY,
  LOCAL_ENDPOINT_COOLDOWN_MS: 5000,
  AUTH_FAILURE_COOLDOWN_MS: 5 * MINUTE,
  WINDOW_USAGE_TTL_MS: 5000,
  QUOTA_SHARE_STRATEGY,
  INTERNAL_ROUTING_STRATEGY_VALUES: Object.freeze([QUOTA_SHARE_STRATEGY]),
};
