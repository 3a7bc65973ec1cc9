import { quotaCore } from './core.js';

export const { getSaturation, registerSaturationFetcher } = quotaCore;
export const { storeRateLimitHeaders, getTokenHeaderSaturation } = quotaCore;
export const _clearSaturationCacheForTest = quotaCore.reset;
