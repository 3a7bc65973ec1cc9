'use strict';

// One instance: its parts put together.

const { createContext } = require('./context.js');
const { requireObject } = require('./args.js');
const createProviderQuota = require('./provider-quota.js');
const { createAdmission } = require('./admission.js');
const { createProbe } = require('./probe.js');
const { createRateLimit } = require('./ratelimit.js');
const { createRedisClients } = require('./redis/client.js');
const { createShared } = require('./redis/shared.js');
const { createShare } = require('./share/index.js');

function createQuotaCore(options = {}) {
  const ctx = createContext({ ...requireObject(options, 'options') });
  const rateLimit = createRateLimit(ctx);
  const admission = createAdmission(ctx, rateLimit);
  const redis = createRedisClients(ctx);
  return {
    ...rateLimit.api,
    ...admission.api,
    ...createShared(ctx, redis, admission.local, rateLimit.api),
    ...createProbe(ctx, rateLimit),
    ...createProviderQuota(ctx),
    ...createShare(ctx, redis),
    on: ctx.on,
    attach: (database) => ctx.attach(database),
    detach: () => ctx.detach(),
    close: () => ctx.close(),
    reset: () => ctx.reset(),
    inspect: () => ctx.inspect(),
  };
}

module.exports = { createQuotaCore };
