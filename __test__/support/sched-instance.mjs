// The scheduling part on its own, with a clock that the test sets.
import { createRequire } from 'node:module';

const { createScheduling } = createRequire(import.meta.url)('../../lib/share/scheduling.js');

export function schedInstance({ env = {}, ...options } = {}) {
  const clock = { now: 0 };
  const hooks = { reset: [], close: [], inspect: [] };
  const { functions, saturationFor } = createScheduling({
    options,
    now: () => clock.now,
    env: () => env,
    onReset: (fn) => hooks.reset.push(fn),
    onClose: (fn) => hooks.close.push(fn),
    onInspect: (fn) => hooks.inspect.push(fn),
  });
  return {
    ...functions,
    saturationFor,
    clock,
    reset: () =>
      hooks.reset.forEach((fn) => {
        fn();
      }),
    close: () =>
      hooks.close.forEach((fn) => {
        fn();
      }),
    inspect: () => Object.assign({}, ...hooks.inspect.map((fn) => fn())),
  };
}
