'use strict';

// The rate-limit headers of a provider's last response, as a signal of how used up its token limit is.

const { binding } = require('../native.js');
const { requireObject, requireString } = require('../args.js');

/** Token triples (limit, remaining, reset), then request pairs. */
const HEADERS = binding.rateLimitHeaders();
const RESETS = HEADERS.flatMap((name, index) => (name.includes('reset') ? [index] : []));
const INSTANT = /^\d{4}-\d{2}-\d{2}T/;

/** Headers come as fetch's `Headers`, a Map, or Node's plain object (where a repeated one is an array). */
function readHeader(headers, name) {
  const raw = typeof headers.get === 'function' ? headers.get(name) : headers[name];
  const value = Array.isArray(raw) ? raw[0] : raw;
  if (typeof value === 'string') return value;
  return typeof value === 'number' ? String(value) : null;
}

function createHeaders(ctx, { native }) {
  return {
    storeRateLimitHeaders(connectionId, provider, headers) {
      ctx.assertOpen();
      requireString(connectionId, 'connectionId');
      requireString(provider, 'provider');
      requireObject(headers, 'headers');
      const values = HEADERS.map((name) => readHeader(headers, name));
      const instants = RESETS.map((index) => {
        const text = values[index];
        return text !== null && INSTANT.test(text) ? Date.parse(text) : Number.NaN;
      });
      native.storeHeaders(connectionId, provider, values, Float64Array.from(instants), ctx.now());
    },

    getTokenHeaderSaturation(provider, connectionId) {
      ctx.assertOpen();
      requireString(provider, 'provider');
      requireString(connectionId, 'connectionId');
      const signal = native.tokenSignal(provider, connectionId, ctx.now());
      return signal ? { saturation: signal.saturation, resetAt: signal.resetAt ?? null } : null;
    },
  };
}

module.exports = { createHeaders };
