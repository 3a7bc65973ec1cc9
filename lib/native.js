'use strict';

// The native addon, and the path of the very file that was loaded: a host connection must load that file as its SQLite
// extension, not a copy of it.

const binding = require('../binding.js');

const path = binding.libraryPath();

/** The file that this process loaded the addon from. */
function libraryPath() {
  return path;
}

module.exports = { binding, libraryPath };
