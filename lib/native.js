// The native addon, and the path of the very file that was loaded: a host connection must load that file as its SQLite
// extension, not a copy of it.

const { createRequire } = require('node:module');
const path = require('node:path');

const { bindingError } = require('./binding-error.js');

function load() {
  try {
    return require('../binding.js');
  } catch (cause) {
    throw bindingError(cause);
  }
}

const binding = load();

/** The newest `.node` file of this package among the loaded shared objects. */
function loadedFile() {
  const candidates = Object.keys(createRequire(__filename).cache ?? {}).filter(
    (file) => path.extname(file) === '.node' && path.basename(file).startsWith('quota-core'),
  );
  return candidates.find((file) => require.cache[file].exports === binding) ?? candidates.at(-1);
}

module.exports = { binding, loadedFile };
