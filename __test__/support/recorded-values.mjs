// The value notation of the recorded runs: JSON plus `$` forms for what JSON cannot say.
import { inspect } from 'node:util';

const numbers = { NaN, Infinity, '-Infinity': -Infinity, '-0': -0 };

/** Turns recorded arguments into JavaScript values. */
export function decode(value) {
  if (Array.isArray(value)) return value.map(decode);
  if (value === null || typeof value !== 'object') return value;
  if ('$undefined' in value) return undefined;
  if ('$num' in value) return numbers[value.$num];
  if ('$map' in value) return new Map(value.$map.map(([key, item]) => [decode(key), decode(item)]));
  if ('$response' in value) return response(value.$response);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, decode(item)]));
}

function response({ status, headers }) {
  return headers === null ? { status } : new Response(null, { status, headers });
}

/**
 * Compares a value with its recorded form. Numbers compare as doubles with their sign; the order of keys does not count.
 * @returns {string | null} where they differ first, or null
 */
export function difference(actual, recorded, path = 'result') {
  if (recorded === '$any') return null;
  if (recorded === null || typeof recorded !== 'object') {
    return Object.is(actual, recorded) ? null : differs(path, actual, recorded);
  }
  if (Array.isArray(recorded)) {
    if (!Array.isArray(actual)) return differs(path, actual, recorded);
    return listDifference(actual, recorded, path);
  }
  if ('$undefined' in recorded) return actual === undefined ? null : differs(path, actual, undefined);
  if ('$num' in recorded) return Object.is(actual, numbers[recorded.$num]) ? null : differs(path, actual, recorded);
  if ('$text' in recorded) return textDifference(actual, recorded, path);
  if ('$map' in recorded) {
    if (!(actual instanceof Map)) return differs(path, actual, recorded);
    return listDifference([...actual], recorded.$map, path);
  }
  if (actual === null || typeof actual !== 'object') return differs(path, actual, recorded);
  const keys = new Set([...Object.keys(actual), ...Object.keys(recorded)]);
  for (const key of keys) {
    if (!(key in recorded)) return `${path}.${key} is there and was not recorded: ${inspect(actual[key])}`;
    if (!(key in actual)) return `${path}.${key} is missing, recorded ${inspect(recorded[key])}`;
    const found = difference(actual[key], recorded[key], `${path}.${key}`);
    if (found) return found;
  }
  return null;
}

function listDifference(actual, recorded, path) {
  if (actual.length !== recorded.length) return differs(path, actual, recorded);
  for (const [index, item] of recorded.entries()) {
    const found = difference(actual[index], item, `${path}[${index}]`);
    if (found) return found;
  }
  return null;
}

// A message may be worded freely as long as it names the recorded parts.
function textDifference(actual, { $text: parts }, path) {
  const good = typeof actual === 'string' && actual !== '' && parts.every((part) => actual.includes(part));
  return good ? null : `${path} is ${inspect(actual)}, recorded a text with ${inspect(parts)}`;
}

function differs(path, actual, recorded) {
  return `${path} is ${inspect(actual, { depth: 6 })}, recorded ${inspect(recorded, { depth: 6 })}`;
}
