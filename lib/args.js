'use strict';

const { invalidArgument } = require('./errors.js');

/** What a value is, for a message: never its content, which may be a secret or a megabyte. */
function describe(value) {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  const type = typeof value;
  if (type === 'object') return 'an object';
  return type === 'undefined' ? 'undefined' : `a ${type}`;
}

function requireString(value, name) {
  if (typeof value !== 'string') throw invalidArgument(`${name} must be a string, not ${describe(value)}`);
  return value;
}

function requireNumber(value, name) {
  if (typeof value !== 'number') throw invalidArgument(`${name} must be a number, not ${describe(value)}`);
  return value;
}

function requireFunction(value, name) {
  if (typeof value !== 'function') throw invalidArgument(`${name} must be a function, not ${describe(value)}`);
  return value;
}

function requireObject(value, name) {
  if (value === null || typeof value !== 'object') {
    throw invalidArgument(`${name} must be an object, not ${describe(value)}`);
  }
  return value;
}

/** An optional number: absent and `undefined` give the fallback. */
function optionalNumber(value, name, fallback) {
  return value === undefined ? fallback : requireNumber(value, name);
}

/** A limit or another nullable number: null and undefined are `NaN`, which the native side reads as "none". */
function numberOrNone(value, name) {
  if (value === null || value === undefined) return Number.NaN;
  if (typeof value !== 'number') throw invalidArgument(`${name} must be a number or null, not ${describe(value)}`);
  return value;
}

/** A time or a count: NaN and the infinities are wrong arguments too. */
function finiteNumber(value, name) {
  if (!Number.isFinite(requireNumber(value, name))) throw invalidArgument(`${name} must be a finite number`);
  return value;
}

/** An optional text: null and undefined are the empty one, which names nothing. */
function stringOrNone(value, name) {
  return value === null || value === undefined ? '' : requireString(value, name);
}

function requireArray(value, name) {
  if (!Array.isArray(value)) throw invalidArgument(`${name} must be an array, not ${describe(value)}`);
  return value;
}

/** An optional object: null and undefined are none. */
function optionalObject(value, name) {
  return value === null || value === undefined ? undefined : requireObject(value, name);
}

module.exports = {
  describe,
  requireString,
  requireNumber,
  requireFunction,
  requireObject,
  requireArray,
  optionalNumber,
  numberOrNone,
  finiteNumber,
  stringOrNone,
  optionalObject,
};
