'use strict';

// Why the native addon did not load, and what to do about it.

const { QuotaCoreError } = require('./errors.js');

/** The platform packages that a release publishes: `quota-core-<name>`. */
const PLATFORMS = [
  'linux-x64-gnu',
  'linux-arm64-gnu',
  'linux-x64-musl',
  'linux-arm64-musl',
  'darwin-x64',
  'darwin-arm64',
  'win32-x64-msvc',
  'win32-arm64-msvc',
];

/** The name of the running platform, as the platform packages spell it. */
function platformName({ platform, arch, report } = process) {
  if (platform === 'win32') return `${platform}-${arch}-msvc`;
  if (platform !== 'linux') return `${platform}-${arch}`;
  // glibc reports its version; the other C library that Node is built for is musl.
  const libc = report?.getReport()?.header?.glibcVersionRuntime ? 'gnu' : 'musl';
  return `${platform}-${arch}-${libc}`;
}

/** The first reason of a chain of causes that is more than "not found": the file is there and does not load. */
function refusal(error) {
  for (let cause = error, depth = 0; cause && depth < 16; cause = cause.cause, depth++) {
    if (cause.code === 'ERR_DLOPEN_FAILED') return cause.message;
  }
  return null;
}

/**
 * The error for an addon that cannot be loaded.
 * @param {Error} cause what the generated loader threw
 * @param {string} name see `platformName`
 */
function bindingError(cause, name = platformName()) {
  const options = { cause };
  const refused = refusal(cause);
  if (refused) {
    return new QuotaCoreError(
      'ERR_QUOTA_NATIVE_LOAD',
      `The native addon for ${name} does not load: ${refused}`,
      options,
    );
  }
  if (!PLATFORMS.includes(name)) {
    const message =
      `quota-core has no prebuilt addon for ${name} (there is one for ${PLATFORMS.join(', ')}). ` +
      'Build it from the sources with "npm run build".';
    return new QuotaCoreError('ERR_QUOTA_NATIVE_MISSING', message, options);
  }
  const message =
    `The package quota-core-${name} is not installed; it holds the native addon for this platform. ` +
    'It is an optional dependency of quota-core, left out by --omit=optional, by a lockfile made on another platform, ' +
    'or when node_modules was copied from one. Reinstall with: npm install quota-core --include=optional --force';
  return new QuotaCoreError('ERR_QUOTA_NATIVE_MISSING', message, options);
}

module.exports = { bindingError, platformName, PLATFORMS };
