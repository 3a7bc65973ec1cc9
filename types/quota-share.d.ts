// Quota sharing: one provider account among several API keys. Pools, plans, counters, enforcement, recording.
//
// A pool stands on one or several connections (accounts) of one provider and gives API keys weights in it. A plan says
// what the account allows per dimension. Consumption is counted per key and dimension by a sliding counter.
//
// Errors: a wrong argument type throws a TypeError with the code `ERR_QUOTA_INVALID_ARGUMENT`. Functions on the database
// throw a QuotaCoreError: `ERR_QUOTA_DATABASE` (no open connection, or SQLite refuses; the message has SQLite's own text),
// `ERR_QUOTA_CLOSED` after `close()`. Asynchronous functions reject with the same. Times are epoch milliseconds, from the
// instance's clock unless given. The rules follow the recorded runs in __test__/traces/quota-share; docs/differences.md
// lists what `compat: 'recorded'` does otherwise.

import type { SaturationDimension } from './quota-share-sched.js';

/** What is counted. Of `percent` nothing is added up: the provider reports it. */
export type QuotaUnit = 'percent' | 'requests' | 'tokens' | 'usd';
/** Over which time. `monthly` is 30 days. */
export type QuotaWindow = 'hourly' | '5h' | 'daily' | 'weekly' | 'monthly';
/** What a key over its share meets: refused, ranked behind others, or let through while the account has room. */
export type QuotaPolicy = 'hard' | 'soft' | 'burst';

/** A counter of a pool. */
export interface QuotaDimensionKey {
  poolId: string;
  unit: QuotaUnit;
  window: QuotaWindow;
}

/** One limit of a plan, for the whole account. At or below `Number.EPSILON` it is unknown: counted, never enforced. */
export interface QuotaPlanDimension {
  unit: QuotaUnit;
  window: QuotaWindow;
  limit: number;
}

/** One limit of an account and what is known about it now. */
export interface FairShareDimension {
  key: QuotaDimensionKey;
  limit: number;
  /** Used by all keys together. */
  consumedTotal: number;
  /** What the provider reports as used, 0 to 1. */
  globalUsedPercent: number;
}

/** What a fair-share decision is made of. */
export interface FairShareInput {
  dimensions: readonly FairShareDimension[];
  allocation: {
    /** Percent of the account, 0 to 100. */
    weight: number;
    capValue?: number | undefined;
    capUnit?: QuotaUnit | undefined;
    /** An unknown one counts as hard. */
    policy: QuotaPolicy;
  };
  /** By `dimensionKeyToString`; what is missing is 0. */
  consumedByThisKey: Readonly<Record<string, number>>;
  /** From here on each key is held to its share, 0 to 1. */
  saturationThreshold: number;
}

/** Which rule refused. */
export type FairShareBlockReason = 'cap-absolute' | 'global-saturated' | 'fair-share';

/** `penalized`: allowed, and over its share under the policy `soft`. */
export type FairShareDecision =
  | { kind: 'allow'; reason: 'ok'; penalized?: true | undefined }
  | {
      kind: 'block';
      reason: FairShareBlockReason;
      /** How long until the counters alone let the key through, at the latest; absent when they never do. */
      retryAfterMs?: number;
    };

/**
 * May a key spend? Dimensions in order, the first block decides: the key's absolute cap, then the full account, then,
 * at or above the threshold, the key's share (`weight / 100 * limit`). Below it a key may borrow what others leave.
 */
export declare function decideFairShare(input: FairShareInput): FairShareDecision;
/** `<poolId>:<unit>:<window>` */
export declare function dimensionKeyToString(key: QuotaDimensionKey): string;

/** How fast a budget is used up. */
export interface BurnRate {
  /** Never negative. */
  tokensPerSecond: number;
  /** Null: not burning, or the rest is unknown. */
  timeToExhaustionMs: number | null;
}

/**
 * Moving average (alpha 0.3) of the rates between samples; pairs with no time between them are skipped.
 * @param history what was consumed in all, at `ts` (ms)
 * @param remaining what is left of the budget
 */
export declare function computeBurnRate(
  history: readonly { ts: number; consumed: number }[],
  remaining?: number,
): BurnRate;
/** The rate since the window's current bucket began, at least 1 ms ago. */
export declare function computeBurnRateFromWindow(
  consumedTotal: number,
  windowMs: number,
  remaining?: number,
): BurnRate;

/** Usage of one dimension of a pool. */
export interface PoolUsageDimension {
  unit: QuotaUnit;
  window: QuotaWindow;
  limit: number;
  consumedTotal: number;
  /** By key, in the order of their ids. `deficit` is `consumed - fairShare`. */
  perKey: { apiKeyId: string; consumed: number; fairShare: number; deficit: number; borrowing: boolean }[];
}

/** A snapshot of a pool. */
export interface PoolUsage {
  poolId: string;
  /** ISO text. */
  generatedAt: string;
  /** Empty for an unknown pool. */
  dimensions: PoolUsageDimension[];
  /** From the first tokens dimension, when it has consumption. */
  burnRate?: BurnRate | undefined;
}

/** Where consumption is counted. A host may pass one of its own as the option `quotaStore`. */
export interface QuotaStore {
  /** Adds to a counter; its new value. */
  consume(apiKeyId: string, dim: QuotaDimensionKey, cost: number): Promise<number>;
  /** The value of a counter. */
  peek(apiKeyId: string, dim: QuotaDimensionKey): Promise<number>;
  /** The value of a counter over all keys. */
  poolConsumedTotal(poolId: string, dim: QuotaDimensionKey): Promise<number>;
  /** Usage in the dimensions of the plan of the pool's first connection. */
  poolUsage(poolId: string): Promise<PoolUsage>;
  /** Usage in given dimensions; ones of an unknown window are left out. See the option `usageView`. */
  poolUsageWithDimensions(poolId: string, dims: readonly QuotaPlanDimension[]): Promise<PoolUsage>;
  /** Sets a counter to nothing. */
  clear(apiKeyId: string, dim: QuotaDimensionKey): Promise<void>;
}

/** The built-in store: the instance's SQLite database. */
export declare class SqliteQuotaStore implements QuotaStore {
  consume(apiKeyId: string, dim: QuotaDimensionKey, cost: number): Promise<number>;
  peek(apiKeyId: string, dim: QuotaDimensionKey): Promise<number>;
  poolConsumedTotal(poolId: string, dim: QuotaDimensionKey): Promise<number>;
  poolUsage(poolId: string): Promise<PoolUsage>;
  poolUsageWithDimensions(poolId: string, dims: readonly QuotaPlanDimension[]): Promise<PoolUsage>;
  clear(apiKeyId: string, dim: QuotaDimensionKey): Promise<void>;
}

/** The instance's one built-in store. */
export declare function getSqliteQuotaStore(): SqliteQuotaStore;
/** The next `getSqliteQuotaStore()` gives another object. */
export declare function resetSqliteQuotaStore(): void;
/**
 * The store that counts: the option `quotaStore`, or by driver (setting `quotaStore.driver`, then `QUOTA_STORE_DRIVER`).
 * A driver that cannot be used gives SQLite, with a warning `quota:factory`.
 */
export declare function getQuotaStore(): Promise<QuotaStore>;
/** The store without waiting. Throws QuotaCoreError (`ERR_QUOTA_STORE_NOT_READY`) before the first `getQuotaStore()`. */
export declare function getQuotaStoreSync(): QuotaStore;
/** The next `getQuotaStore()` looks again. */
export declare function resetQuotaStoreSingleton(): void;
/**
 * Deletes counters last written more than `QUOTA_CONSUMPTION_RETENTION_DAYS` (default 14) days ago; how many. Those that
 * still count stay. Also done in passing, at most once an hour.
 */
export declare function collectQuotaGarbage(now?: number): number;

/** Creates the tables and indexes of quota sharing that are missing; their names. What exists is not touched. */
export declare function ensureQuotaSchema(): string[];

/** What one key has in a pool. A cap counts where `capUnit` is a dimension's unit. */
export interface QuotaAllocation {
  apiKeyId: string;
  /** Percent of the account, 0 to 100. */
  weight: number;
  policy: QuotaPolicy;
  capValue?: number | undefined;
  capUnit?: QuotaUnit | undefined;
}

/** A pool as it is stored. */
export interface QuotaPool {
  id: string;
  /** The first of `connectionIds`. */
  connectionId: string;
  connectionIds: string[];
  name: string;
  groupId: string;
  createdAt: string;
  /** By key id. */
  allocations: QuotaAllocation[];
}

/** A pool to be made. */
export interface NewQuotaPool {
  connectionId: string;
  /** When given and not empty, instead of `connectionId`. */
  connectionIds?: readonly string[] | undefined;
  name: string;
  /** Default: `group-demo`. */
  groupId?: string | undefined;
  allocations?: readonly QuotaAllocation[] | undefined;
}

/** All pools, oldest first. */
export declare function listPools(): QuotaPool[];
/** One pool, null when there is none. */
export declare function getPool(id: string): QuotaPool | null;
/** Pools of a group, oldest first. */
export declare function getPoolsByGroup(groupId: string): QuotaPool[];
/** Throws QuotaCoreError (`ERR_QUOTA_POOL_PROVIDERS`) when the connections are of more than one provider. */
export declare function createPool(input: NewQuotaPool): QuotaPool;
/** What is absent stays. Null: no such pool. Throws as `createPool`. */
export declare function updatePool(
  id: string,
  changes: {
    name?: string | undefined;
    groupId?: string | undefined;
    connectionIds?: readonly string[] | undefined;
    allocations?: readonly QuotaAllocation[] | undefined;
  },
): QuotaPool | null;
/** Deletes a pool with what belongs to it, and takes it out of the keys' `allowed_quotas`. Whether there was one. */
export declare function deletePool(id: string): boolean;
/** Replaces the allocations of the pool and of every pool of its group. Weights that are all zero become equal. */
export declare function upsertAllocations(poolId: string, allocations: readonly QuotaAllocation[]): void;
/** What a key has in all pools, oldest first. */
export declare function listAllocationsForApiKey(apiKeyId: string): { poolId: string; allocation: QuotaAllocation }[];
/** Calls back after a pool was created or changed, with its id. Returns a function that ends it. */
export declare function onPoolChanged(callback: (poolId: string) => unknown): () => void;
/** Calls back after a pool was to be deleted, whether there was one or not. Returns a function that ends it. */
export declare function onPoolRemoved(callback: (poolId: string) => unknown): () => void;

/** A group of pools that share their allocations. */
export interface QuotaGroup {
  id: string;
  name: string;
  createdAt: string;
}

/** All groups, oldest first. */
export declare function listGroups(): QuotaGroup[];
/** One group, null when there is none. */
export declare function getGroup(id: string): QuotaGroup | null;
/** The name of a group, null when there is none. */
export declare function getGroupName(id: string): string | null;
/** Makes a group with a new id. */
export declare function createGroup(name: string): QuotaGroup;
/** Whether there is such a group. */
export declare function renameGroup(id: string, name: string): boolean;
/** Whether there was one. Throws QuotaCoreError (`ERR_QUOTA_GROUP_IN_USE`) for the default group and one with pools. */
export declare function deleteGroup(id: string): boolean;

/** What an account allows. */
export interface QuotaPlan {
  /** Null: not stored for a connection, but known of the provider, or no plan at all. */
  connectionId: string | null;
  provider: string;
  dimensions: QuotaPlanDimension[];
  source: 'auto' | 'manual';
}

/** Providers of the catalog. */
export declare function knownProviders(): string[];
/** What is known of a provider; null when nothing is. */
export declare function getKnownPlan(provider: string): { provider: string; dimensions: QuotaPlanDimension[] } | null;
/** The plan that applies: the stored one when it has dimensions, else the known one, else an empty one. Never throws. */
export declare function resolvePlan(connectionId: string, provider: string): QuotaPlan;
/** The stored plan of a connection as it is, null when there is none. Text that is no JSON has no dimensions. */
export declare function getProviderPlan(connectionId: string): QuotaPlan | null;
/** Stored plans, by provider. */
export declare function listProviderPlans(): QuotaPlan[];
/** Stores or replaces the plan of a connection. */
export declare function upsertProviderPlan(
  connectionId: string,
  provider: string,
  dimensions: readonly QuotaPlanDimension[],
  source: 'auto' | 'manual',
): void;
/** Whether there was one. */
export declare function deleteProviderPlan(connectionId: string): boolean;
/** As `getProviderPlan`. */
export declare const getPlan: typeof getProviderPlan;
/** As `listProviderPlans`. */
export declare const listPlans: typeof listProviderPlans;
/** As `upsertProviderPlan`. */
export declare const upsertPlan: typeof upsertProviderPlan;
/** As `deleteProviderPlan`. */
export declare const deletePlan: typeof deleteProviderPlan;

/** What a key of a pool may use of one model per hour. */
export interface QuotaModelCap {
  poolId: string;
  apiKeyId: string;
  model: string;
  /** Above 0. */
  capValue: number;
  capUnit: QuotaUnit;
}

/** One cap, null when there is none. */
export declare function getModelCap(poolId: string, apiKeyId: string, model: string): QuotaModelCap | null;
/** All caps of a key in a pool, oldest first. */
export declare function listModelCaps(poolId: string, apiKeyId: string): QuotaModelCap[];
/** Stores or replaces a cap. A `capValue` of 0 or less is refused by the table (`ERR_QUOTA_DATABASE`). */
export declare function setModelCap(cap: QuotaModelCap): void;
/** Deletes a cap; nothing happens when there is none. */
export declare function deleteModelCap(poolId: string, apiKeyId: string, model: string): void;

/** A stored bucket of a counter. */
export interface QuotaConsumptionRow {
  apiKeyId: string;
  dimensionKey: string;
  unit: string;
  window: string;
  bucketIndex: number;
  consumed: number;
  updatedAt: number;
}

/** One bucket; 0 when there is none. */
export declare function getBucket(apiKeyId: string, dimensionKey: string, bucketIndex: number): number;
/** Adds to one bucket, making it when there is none. */
export declare function incrementBucket(
  apiKeyId: string,
  dimensionKey: string,
  bucketIndex: number,
  cost: number,
  now?: number,
): void;
/** A bucket and the one before it. */
export declare function getPair(
  apiKeyId: string,
  dimensionKey: string,
  bucketIndex: number,
): { curr: number; prev: number };
/** The same over all keys. */
export declare function sumPoolDimension(
  dimensionKey: string,
  bucketIndex: number,
): { currTotal: number; prevTotal: number };
/** Rows of a pool, last written first. @param limit 1 to 500, default 50 */
export declare function listConsumptionForPool(poolId: string, limit?: number): QuotaConsumptionRow[];
/** Deletes every bucket last written before a time; how many. */
export declare function gcOlderThan(timestampMs: number): number;

/** Who asks, on which connection, for what. */
export interface EnforceRequest {
  apiKeyId: string;
  connectionId: string;
  provider: string;
  model?: string | null | undefined;
  /** Not used by the decision; part of the host's call. */
  estimatedCost?: unknown;
}

/** The answer to a request. */
export type EnforceDecision =
  | {
      kind: 'allow';
      /** Rank the request behind others. Absent when there was nothing to enforce. */
      deprioritize?: boolean;
    }
  | {
      kind: 'block';
      /** A text for the caller of the API: names the provider and the rule that refused, nothing of other keys. */
      reason: string;
      httpStatus: 429;
      /** When the counters alone let the key through again; absent when they never do. */
      retryAfterSeconds?: number | undefined;
    };

/**
 * May this key spend on this connection now? Whatever fails on the way (no database, the store, the plan, the signal)
 * lets the request through, with one warning `quota:enforce`. On the built-in store with cached signals the promise is
 * settled when it is returned.
 */
export declare function enforceQuotaShare(request: EnforceRequest): Promise<EnforceDecision>;

/** A refusal by `enforceQuotaShare`. */
export interface QuotaExceededEvent {
  apiKeyId: string;
  provider: string;
  connectionId: string;
  reason: FairShareBlockReason | 'model-cap';
  /** With the reason `model-cap`. */
  model?: string;
}

/** Calls back on every refusal. Returns a function that ends it. */
export declare function onQuotaExceeded(callback: (event: QuotaExceededEvent) => unknown): () => void;

/** What a request cost; parts that are not above 0 are not recorded. */
export interface ConsumptionCost {
  tokens?: number | undefined;
  usd?: number | undefined;
  /** Default: 1. */
  requests?: number | undefined;
}

/** A finished request. */
export interface ConsumptionRecord {
  apiKeyId: string;
  connectionId: string;
  provider: string;
  model?: string | null | undefined;
  cost: ConsumptionCost;
}

/** Adds a cost to the key's counters, and to its model's where that has a cap. Failures are logged (`quota:record`). */
export declare function recordConsumption(record: ConsumptionRecord): Promise<void>;
/** The same after the current turn of the event loop. */
export declare function scheduleRecordConsumption(
  record: ConsumptionRecord,
  log?: { warn?(tag: string, message: string): void } | null,
): void;
/** The cost of a response: `prompt_tokens` and `completion_tokens` of its usage, a price above zero, one request. */
export declare function buildConsumptionCost(
  usage: unknown,
  estimatedCost: number,
): { tokens: number; usd: number; requests: number };

/** A finished stream, as the host saw it. Without a key or a connection nothing is recorded. */
export interface StreamingConsumption {
  apiKeyId?: string | null | undefined;
  connectionId?: string | null | undefined;
  provider?: string | null | undefined;
  model?: string | null | undefined;
  streamUsage?: unknown;
  /** Only 200 is recorded. */
  streamStatus?: number | undefined;
  serviceTier?: string | undefined;
}

/** Prices and records a finished stream. A price that cannot be had is 0. */
export declare function recordStreamingConsumption(
  params: StreamingConsumption,
  deps: {
    calculateCost(
      provider: string,
      model: string | null | undefined,
      usage: object,
      options: { serviceTier: string | undefined },
    ): number | Promise<number>;
    /** Default: the instance's own. */
    scheduleRecordConsumption?: (record: ConsumptionRecord) => void;
  },
): Promise<void>;

/** Options of `createQuotaCore` for quota sharing. */
export interface QuotaShareOptions {
  /** The host's own store: enforcement and recording count there. Pools and plans stay in the database. */
  quotaStore?: QuotaStore;
  /** The host's own signal instead of the fetchers': 0 to 1, asked at each enforcement. */
  saturation?: (connectionId: string, provider: string, dimension: SaturationDimension) => number | Promise<number>;
  /** The host's settings; read are `quotaStore.driver` and `quotaStore.redisUrl`, dotted or nested. */
  settings?: () => unknown;
  /** Whether snapshots show stored weights and plain limits (`recorded`, default) or what enforcement goes by. */
  usageView?: 'recorded' | 'enforced';
}
