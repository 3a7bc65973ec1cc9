import { quotaCore } from '../quota/core.js';

export const { getModelCap, listModelCaps, setModelCap, deleteModelCap } = quotaCore;
