import { quotaCore } from '../lib/quota/core.js';

export const { incrementInflight, decrementInflight, getInflight } = quotaCore;
export const _clearInflightForTest = quotaCore.reset;
