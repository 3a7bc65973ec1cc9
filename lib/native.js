'use strict';

// The native addon, and the path of the very file that was loaded: a host connection must load that file as its SQLite
// extension, not a copy of it.

const { bindingError } = require('./binding-error.js');

function load() {
  try {
    return require('../binding.js');
  } catch (cause) {
    throw bindingError(cause);
  }
}

const binding = load();
/** The calls of every request: functions of numbers, without the glue of the others. */
const hot = binding.hot();
const path = binding.libraryPath();

/** The file that this process loaded the addon from. */
function libraryPath() {
  return path;
}

module.exports = { binding, hot, libraryPath };
