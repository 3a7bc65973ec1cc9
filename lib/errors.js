'use strict';

/** An error of this package. `code` is one of the `ERR_QUOTA_…` codes in docs/errors.md. */
class QuotaCoreError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {ErrorOptions} [options]
   */
  constructor(code, message, options) {
    super(message, options);
    this.name = 'QuotaCoreError';
    this.code = code;
  }
}

/** A wrong argument: a TypeError with the code `ERR_QUOTA_INVALID_ARGUMENT`. */
function invalidArgument(message) {
  const error = new TypeError(message);
  error.code = 'ERR_QUOTA_INVALID_ARGUMENT';
  return error;
}

/** Errors of the native layer carry a code already: they only become the class that callers test for. */
function fromNative(error) {
  if (error === null || typeof error !== 'object' || typeof error.code !== 'string') return error;
  if (error.code === 'ERR_QUOTA_INVALID_ARGUMENT') return invalidArgument(error.message);
  if (error.code.startsWith('ERR_QUOTA_')) return new QuotaCoreError(error.code, error.message, { cause: error });
  return error;
}

module.exports = { QuotaCoreError, invalidArgument, fromNative };
