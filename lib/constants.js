'use strict';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** Benches of a router's own error path, in milliseconds. */
module.exports = {
  PAYMENT_REQUIRED_COOLDOWN_MS: DAY,
  MODEL_FORBIDDEN_COOLDOWN_MS: DAY,
  LOCAL_ENDPOINT_COOLDOWN_MS: 5000,
  AUTH_FAILURE_COOLDOWN_MS: 5 * MINUTE,
};
