import { quotaCore } from '../quota/core.js';

export const { listGroups, getGroup, getGroupName, createGroup, renameGroup, deleteGroup } = quotaCore;
