// quota-core: the quota, cooldown and fair-share engine of LLM gateways.
//
// Every function exists twice: on an instance made by `createQuotaCore`, and here, on a default instance that `configure`
// sets up. Functions of an instance are bound: `const { canMakeRequest } = core` works.

import type * as admission from './types/admission.js';
import type { HostDatabase, QuotaCoreEvents, QuotaCoreInspection, QuotaCoreOptions } from './types/core.js';
import type * as probe from './types/probe.js';
import type * as providerQuota from './types/provider-quota.js';
import type * as share from './types/quota-share.js';
import type * as scheduling from './types/quota-share-sched.js';
import type * as rateLimit from './types/ratelimit.js';
import type * as redis from './types/redis.js';

export * from './types/admission.js';
export * from './types/constants.js';
export * from './types/core.js';
export * from './types/probe.js';
export * from './types/provider-quota.js';
export * from './types/quota-share.js';
export * from './types/quota-share-sched.js';
export * from './types/ratelimit.js';
export * from './types/redis.js';

type Functions = typeof admission &
  typeof rateLimit &
  typeof probe &
  typeof providerQuota &
  typeof share &
  typeof scheduling &
  typeof redis;

/** An instance: every function as a bound property, and what belongs to the instance itself. */
export interface QuotaCore extends Functions {
  /** See the function of this name. */
  on: typeof on;
  /** See the function of this name. */
  attach: typeof attach;
  /** See the function of this name. */
  detach: typeof detach;
  /** See the function of this name. */
  close: typeof close;
  /** See the function of this name. */
  reset: typeof reset;
  /** See the function of this name. */
  inspect: typeof inspect;
}

/**
 * Makes an instance.
 *
 * @throws TypeError (`ERR_QUOTA_INVALID_ARGUMENT`) for an option of a wrong type; QuotaCoreError (`ERR_QUOTA_OPEN`,
 *   `ERR_QUOTA_ATTACH_…`) when `database` is a path or a connection that cannot be used. A function that returns a
 *   connection is not called yet.
 */
export declare function createQuotaCore(options?: QuotaCoreOptions): QuotaCore;

/** Replaces the default instance behind the functions of this module. The one before is closed. Throws as `createQuotaCore`. */
export declare function configure(options?: QuotaCoreOptions): void;

/**
 * Calls `listener` on an event. A listener that throws changes nothing.
 *
 * @returns a function that ends it
 */
export declare function on<Name extends keyof QuotaCoreEvents>(
  event: Name,
  listener: (payload: QuotaCoreEvents[Name]) => void,
): () => void;

/**
 * Uses another database from now on: a connection of the host, a function that returns one, or the path of an own file.
 *
 * @throws QuotaCoreError with a code that says what to do, when it cannot be used
 */
export declare function attach(
  database: HostDatabase | (() => HostDatabase | string | null | undefined) | string,
): void;

/** Uses no database from now on: everything is counted in memory. The host's connection stays open. */
export declare function detach(): void;

/** Ends the instance: an own file is closed, the probe's job ends. Calls after it throw `ERR_QUOTA_CLOSED`. Idempotent. */
export declare function close(): void;

/** Forgets everything that lives in memory, as after a restart of the process. The database stays as it is. */
export declare function reset(): void;

/** Counts for diagnosis and tests. */
export declare function inspect(): QuotaCoreInspection;
