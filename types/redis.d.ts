// Many replicas: consumption and limits held in Redis or Valkey.
//
// Every call is answered within `redis.timeoutMs`, or rejected with a QuotaCoreError: `ERR_QUOTA_STORE_UNAVAILABLE` (nobody
// answers), `ERR_QUOTA_STORE_TIMEOUT` (no answer in time: what was asked may have happened), `ERR_QUOTA_STORE_REFUSED`
// (credentials, permissions, memory). No message holds a URL or a password. The connection is made by the first call and
// again after it broke; it keeps no process alive.

import type { AdmissionRefusal, AdmissionRequest } from './admission.js';
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
  /** How long a lease of shared admission counts when nobody ends it, in ms. Default 120000. */
  leaseMs?: number;
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

/** A gate of shared admission that refuses; `store` is the one that refuses while Redis is away (`onStoreLoss: 'closed'`). */
export type SharedRefusal = Omit<AdmissionRefusal, 'axis'> & { axis: AdmissionRefusal['axis'] | 'store' };

/** What `admitShared` answers. */
export type SharedAdmissionResult =
  | {
      admitted: true;
      /** Which of the requests. */
      index: number;
      /** To be settled or cancelled, by any replica. */
      leaseId: string;
    }
  | {
      admitted: false;
      /** Every gate that refuses, of every request. */
      refusals: SharedRefusal[];
      /** The first instant at which one of the requests would pass by itself; `null` when there is none. */
      retryAtMs: number | null;
    };

/**
 * `admit` for all replicas together: usage, leases and cooldowns are those in Redis, checked and taken in one step of the
 * server and by its clock. Account-wide caps, concurrency and the key's own caps come from this replica's environment and
 * database, as in `admit`. Cooldowns that `setCooldown` sets on any replica count. While Redis is away `onStoreLoss` decides.
 *
 * @param requests one request, or several in order of preference
 * @throws (rejects) TypeError for a request of a wrong type, or without `redis.url`
 */
export declare function admitShared(
  requests: AdmissionRequest | readonly AdmissionRequest[],
): Promise<SharedAdmissionResult>;

/**
 * Records what a lease was used for and releases it: in Redis, and in this replica's database for its own gates. A lease
 * that ended by its age is recorded all the same, for an hour. Twice is once. While Redis is away it is recorded here, and
 * in Redis when it answers again.
 *
 * @param usage `tokens` used (default: the estimate), `requests` made (default 1, an integer from 0 to 1000)
 * @returns `settled: false` when there was nothing to settle; `expired: true` when the lease had ended by its age
 */
export declare function settleShared(
  leaseId: string,
  usage?: { tokens?: number | null | undefined; requests?: number | undefined },
): Promise<{ settled: boolean; expired: boolean }>;

/**
 * Gives a lease back unused.
 *
 * @returns whether there was one
 */
export declare function cancelShared(leaseId: string): Promise<boolean>;

/** Options of `createQuotaCore` for many replicas. */
export interface ReplicaOptions {
  /** Where Redis is. Without it `QUOTA_STORE_REDIS_URL` or the setting `quotaStore.redisUrl` gives the URL of the store. */
  redis?: RedisOptions;
  /**
   * Where requests in flight are kept: in the `memory` of this process (default), or in the database `file`, so that all
   * processes that share it see each other's; admission is then one transaction. The table is `quota_core_leases`.
   */
  leases?: 'memory' | 'file';
  /**
   * Shared admission while Redis is away: `local` (default) admits to this replica's part of every limit, rounded down, by
   * its own counts; `open` admits everything; `closed` nothing.
   */
  onStoreLoss?: 'local' | 'open' | 'closed';
}
