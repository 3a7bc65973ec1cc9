'use strict';

// The connection to Redis: options checked, one native client per URL, failures as this package's errors.

const { binding } = require('../native.js');
const { QuotaCoreError, fromNative, invalidArgument } = require('../errors.js');
const { describe, requireNumber, requireObject, requireString } = require('../args.js');

const DEFAULT_PREFIX = 'omniroute:';
const DEFAULT_TIMEOUT_MS = 1000;
/** As long as a lease of one process lasts. */
const DEFAULT_LEASE_MS = 120_000;
const MAX_LEASE_MS = 86_400_000;
/** The part of a key that chooses its slot in a cluster. */
const HASH_TAG = /\{[^}]+\}/;

function optionalString(value, name) {
  return value === undefined || value === null ? undefined : requireString(value, name);
}

function strings(value, name) {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw invalidArgument(`${name} must be an array of strings, not ${describe(value)}`);
  return value.map((item) => requireString(item, `an item of ${name}`));
}

/**
 * The option `redis` as the native client takes it.
 * @param {object} options
 * @returns {{ keyPrefix: string, leaseMs: number, target: object }} `target` lacks its URL where the options have none
 */
function readRedisOptions(options = {}) {
  requireObject(options, 'options.redis');
  const {
    cluster = false,
    timeoutMs = DEFAULT_TIMEOUT_MS,
    keyPrefix = DEFAULT_PREFIX,
    leaseMs = DEFAULT_LEASE_MS,
  } = options;
  if (typeof cluster !== 'boolean')
    throw invalidArgument(`options.redis.cluster must be a boolean, not ${describe(cluster)}`);
  requireNumber(timeoutMs, 'options.redis.timeoutMs');
  requireString(keyPrefix, 'options.redis.keyPrefix');
  if (!(requireNumber(leaseMs, 'options.redis.leaseMs') >= 1 && leaseMs <= MAX_LEASE_MS)) {
    throw invalidArgument(`options.redis.leaseMs must be from 1 to ${MAX_LEASE_MS}`);
  }
  if (cluster && !HASH_TAG.test(keyPrefix)) {
    throw invalidArgument('options.redis.keyPrefix must hold a {hash tag} with a cluster, such as {quota}:');
  }
  const tls = options.tls === undefined ? {} : requireObject(options.tls, 'options.redis.tls');
  const sentinel = options.sentinel === undefined ? null : requireObject(options.sentinel, 'options.redis.sentinel');
  return {
    keyPrefix,
    leaseMs,
    target: {
      url: optionalString(options.url, 'options.redis.url'),
      cluster,
      nodes: strings(options.nodes, 'options.redis.nodes'),
      sentinelMaster: sentinel ? requireString(sentinel.master, 'options.redis.sentinel.master') : undefined,
      sentinelNodes: sentinel ? strings(sentinel.nodes, 'options.redis.sentinel.nodes') : [],
      ca: optionalString(tls.ca, 'options.redis.tls.ca'),
      cert: optionalString(tls.cert, 'options.redis.tls.cert'),
      key: optionalString(tls.key, 'options.redis.tls.key'),
      timeoutMs,
    },
  };
}

/** Waits for a native call; its failure becomes an error. */
async function answerOf(call) {
  const { code, message, numbers } = await call;
  if (code === 'ERR_QUOTA_INVALID_ARGUMENT') throw invalidArgument(message);
  if (code !== undefined && code !== null) throw new QuotaCoreError(code, message);
  return numbers;
}

/**
 * The clients of one instance.
 * @param {object} ctx see lib/context.js
 */
function createRedisClients(ctx) {
  const { keyPrefix, leaseMs, target } = readRedisOptions(ctx.options.redis);
  const clients = new Map();

  /** The client of a URL: the same one each time. */
  function client(url = target.url) {
    ctx.assertOpen();
    requireString(url, 'options.redis.url');
    const known = clients.get(url);
    if (known) return known;
    try {
      const made = new binding.RedisClient({ ...target, url }, keyPrefix);
      clients.set(url, made);
      return made;
    } catch (error) {
      throw fromNative(error);
    }
  }

  ctx.onClose(() => {
    for (const native of clients.values()) native.disconnect();
    clients.clear();
  });

  return { client, leaseMs, timeoutMs: target.timeoutMs, url: target.url };
}

module.exports = { answerOf, createRedisClients };
