// An instance with a clock that the test sets.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { createQuotaCore } = require('../../index.js');
const { createContext } = require('../../lib/context.js');
const { createScheduling } = require('../../lib/share/scheduling.js');

export function schedInstance({ now = 0, env = {}, ...options } = {}) {
  const clock = { now };
  return { ...createQuotaCore({ env, clock: () => clock.now, ...options }), clock };
}

/** The scheduling part alone, with what it gives to the enforcement and not to the public. */
export function schedulingPart({ now = 0, ...options } = {}) {
  const ctx = createContext({ env: {}, clock: () => now, ...options });
  const { functions, saturationFor } = createScheduling(ctx);
  return { ...functions, saturationFor, reset: () => ctx.reset() };
}
