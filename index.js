'use strict';

// The package: `createQuotaCore`, and the same functions on a default instance that `configure` sets up.

const { createQuotaCore } = require('./lib/core.js');
const { QuotaCoreError } = require('./lib/errors.js');
const constants = require('./lib/constants.js');

let current = null;

/** The default instance, made when it is first needed. */
function defaultCore() {
  current ??= createQuotaCore();
  return current;
}

/** Replaces the default instance: the one before is closed. */
function configure(options = {}) {
  const next = createQuotaCore(options);
  current?.close();
  current = next;
}

module.exports = { createQuotaCore, configure, QuotaCoreError, ...constants };

// An instance that is never used tells which functions there are.
const model = createQuotaCore();
for (const name of Object.keys(model)) {
  // A class is called with `new`, which an arrow function refuses.
  module.exports[name] = /^[A-Z]/.test(name)
    ? function construct(...args) {
        return Reflect.construct(defaultCore()[name], args);
      }
    : (...args) => defaultCore()[name](...args);
}
model.close();
