// Many replicas: consumption and limits held in Redis or Valkey.
//
// Every call is answered within `redis.timeoutMs`, or rejected with a QuotaCoreError: `ERR_QUOTA_STORE_UNAVAILABLE` (nobody
// answers), `ERR_QUOTA_STORE_TIMEOUT` (no answer in time: what was asked may have happened), `ERR_QUOTA_STORE_REFUSED`
// (credentials, permissions, memory). No message holds a URL or a password. The connection is made by the first call and
// again after it broke; it keeps no process alive.

import type { PoolUsage, QuotaDimensionKey, QuotaPlanDimension, QuotaStore } from './quota-share.js';

/** Where Redis is. One server unless `sentinel` or `cluster` is given. */
export interface RedisOptions {
  /**
   * `redis://[user[:password]@]host[:port][/database]`, `rediss://` for TLS, `redis+unix:///path`. With `sentinel` only its
   * credentials, database and scheme count.
   */
  url?: string;
  /** What every key begins with. Default `omniroute:`. With a cluster it must hold a `{hash tag}`. */
  keyPrefix?: string;
  /** Bound of each call in ms. Default 1000. */
  timeoutMs?: number;
  /** Ask these sentinels for the server. */
  sentinel?: { master: string; nodes: readonly string[] };
  /** The server is a node of a cluster. Default false. */
  cluster?: boolean;
  /** More nodes of the cluster to begin with. */
  nodes?: readonly string[];
  /** PEM texts: an authority beside the system's, a client certificate and its key. */
  tls?: { ca?: string; cert?: string; key?: string };
}

/**
 * Consumption counted in Redis, under the keys `<prefix>quota:<apiKeyId>:<poolId>:<unit>:<window>:<bucket>` that replicas
 * with the host's own driver use too. Pools and allocations stay in the database. A pool's total is that of its allocated
 * keys, and of keys that spent through this object.
 */
export declare class RedisQuotaStore implements QuotaStore {
  /** @param url default: `redis.url` */
  constructor(url?: string);
  /** Resolves when the server answers. */
  ready(): Promise<void>;
  consume(apiKeyId: string, dim: QuotaDimensionKey, cost: number): Promise<number>;
  peek(apiKeyId: string, dim: QuotaDimensionKey): Promise<number>;
  poolConsumedTotal(poolId: string, dim: QuotaDimensionKey): Promise<number>;
  poolUsage(poolId: string): Promise<PoolUsage>;
  poolUsageWithDimensions(poolId: string, dims: readonly QuotaPlanDimension[]): Promise<PoolUsage>;
  clear(apiKeyId: string, dim: QuotaDimensionKey): Promise<void>;
}

/** The instance's one store of a URL (default `redis.url`). Throws a TypeError for a URL that is none. */
export declare function getRedisQuotaStore(url?: string): RedisQuotaStore;
/** The next `getRedisQuotaStore()` gives another object. */
export declare function resetRedisQuotaStore(): void;

/** Options of `createQuotaCore` for many replicas. */
export interface ReplicaOptions {
  /** Where Redis is. Without it `QUOTA_STORE_REDIS_URL` or the setting `quotaStore.redisUrl` gives the URL of the store. */
  redis?: RedisOptions;
}
