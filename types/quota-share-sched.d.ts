// Quota sharing: which target of a pool serves a request, and the signals that say how used up an account is.
//
// Errors: a wrong argument type throws a TypeError with the code `ERR_QUOTA_INVALID_ARGUMENT` (asynchronous functions
// reject with it); everything else is answered by a value. Times are epoch milliseconds; `now` defaults to the
// instance's clock. The rules follow the recorded runs in __test__/traces/quota-share; docs/differences.md lists what
// `compat: 'recorded'` does otherwise.

/** A usage dimension of a provider's plan. */
export interface SaturationDimension {
  /** `percent`, `requests`, `tokens` or `usd`. */
  unit: string;
  /** `hourly`, `5h`, `daily`, `weekly` or `monthly`. */
  window: string;
}

/** A place a request of a pool can go to. The host's own objects may hold more. */
export interface QuotaShareTarget {
  /** Names the target; credit is kept under it. One that occurs twice in a list is dispatched once. */
  executionKey: string;
  /** The account it uses; without one the target is never saturated and never at its cap. */
  connectionId?: string | null | undefined;
  /** Its part of the picks relative to the other targets; missing, NaN, zero and negative count as 1. */
  weight?: number | null | undefined;
}

/** Options of {@link selectQuotaShareTarget}. */
export interface QuotaShareSelectOptions {
  /** Requests each connection may have in flight, by connection id. What is no positive number is no cap. */
  maxConcurrentByConnection?:
    | ReadonlyMap<string, number | null | undefined>
    | Readonly<Record<string, number | null | undefined>>
    | null
    | undefined;
}

/** The outcome of {@link selectQuotaShareTarget}. */
export interface QuotaShareSelection<T extends QuotaShareTarget = QuotaShareTarget> {
  /** The target to use; null for an empty list. Its connection has one more request in flight now. */
  target: T | null;
  /** All targets in the order to try them, the chosen one first. */
  orderedTargets: T[];
  /** Call when the request has ended: gives the slot back. Only the first call counts. Without it the slot expires after 120 s. */
  decrementInflight: () => void;
}

/** What `getTokenHeaderSaturation` reads from a response. */
export interface TokenHeaderSaturation {
  /** The used part of the token limit, 0 to 1. */
  saturation: number;
  /** When the limit starts anew; null where the headers do not say. */
  resetAt: number | null;
}

/** Headers of a response: fetch's `Headers`, a Map, or a plain object with lower-case names. */
export type RateLimitHeaders =
  | { get(name: string): string | null | undefined }
  | Readonly<Record<string, string | readonly string[] | number | null | undefined>>;

/** A connection as `loadConnection` gives it. Only the two named properties are read; it is handed on to `fetchUsage`. */
export interface SaturationConnection {
  accessToken?: string | null | undefined;
  authType?: string | null | undefined;
}

/** What providers say about the use of an account. All optional, all asynchronous, null for "do not know". */
export interface SaturationFetchers {
  /** codex: `{ percentUsed, windows: { session: { percentUsed }, weekly: { percentUsed } } }`, 0 to 1. */
  codex?: ((connectionId: string) => Promise<unknown>) | null | undefined;
  /** bailian: `{ percentUsed, window5h: { percentUsed }, windowWeekly: …, windowMonthly: … }`, 0 to 1. */
  bailian?: ((connectionId: string) => Promise<unknown>) | null | undefined;
  /** anthropic and claude: the connection; one without an access token, or with `authType: 'apikey'`, is not asked. */
  loadConnection?: ((connectionId: string) => Promise<SaturationConnection | null | undefined>) | null | undefined;
  /** anthropic and claude: `{ quotas: { 'session (5h)': { used, resetAt }, 'weekly (7d)': … } }`, percent. */
  // biome-ignore lint/suspicious/noExplicitAny: the connection is the host's own type
  fetchUsage?: ((connection: any) => Promise<unknown>) | null | undefined;
  /** Every other provider: `{ percentUsed }` or `{ used_percent }`, 0 to 1. */
  generic?: ((connectionId: string, provider: string) => Promise<unknown>) | null | undefined;
}

/** A provider's answer about the use of an account, by quota name: `session (5h)`, `weekly (7d)`, `weekly <model> (7d)`. */
export interface AccountUsage {
  quotas?: Readonly<Record<string, { used?: number; resetAt?: string | null } | null | undefined>> | null | undefined;
}

/** What is used of an `AbortSignal`; declared here so that the types need neither Node's nor a browser's. */
export interface QuotaShareAbortSignal {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** How to wait for a concurrency slot. */
export interface QuotaShareSlotOptions {
  /** How long to wait for a slot, in ms. Default 30 000; 0 does not wait past the current turn of the event loop. */
  queueTimeoutMs?: number | null | undefined;
  /** How many may wait for one connection. Default 10 000. */
  maxQueueSize?: number | null | undefined;
  /** Aborting it ends the wait with null. */
  signal?: QuotaShareAbortSignal | null | undefined;
}

/** A candidate of one execution, marked in place. */
export interface ExecutionCandidate {
  executionKey?: string | null | undefined;
  stepId?: string | null | undefined;
  quotaSoftPenalty?: boolean | undefined;
}

/** The parts of a shared model's name. */
export interface ParsedQuotaModelName {
  groupSlug: string;
  provider: string;
  /** May contain slashes. */
  model: string;
}

/** What an API key's pools give access to. */
export interface QuotaKeyScope {
  connectionIds: string[];
  providers: string[];
  poolSlugs: string[];
}

/**
 * Chooses the target for one request of a combo, and the order to try the others in.
 *
 * Connections whose account is used up (windows `5h`, `7d` and `7d:<model>`) go to the tail, those at their cap before
 * them; when that would leave none, the gate is open. Among the rest: deficit round robin by weight; of the first two,
 * the one with fewer requests in flight goes, while it is owed a turn. Credit is kept for 200 combos.
 * @param comboName names the credit
 * @param modelStr what is asked for, `provider/model`; the model is what follows the first slash
 */
export declare function selectQuotaShareTarget<T extends QuotaShareTarget>(
  targets: readonly T[],
  comboName: string,
  modelStr: string,
  now?: number,
  options?: QuotaShareSelectOptions | null,
): QuotaShareSelection<T>;

/** Counts one more request in flight, for at most `ttlMs` (default 120 000). Gives the new count; 0 without a connection. */
export declare function incrementInflight(
  connectionId: string | null | undefined,
  ttlMs?: number,
  now?: number,
): number;
/** Counts one less: of those in flight, the one that would expire first. */
export declare function decrementInflight(connectionId: string | null | undefined, now?: number): void;
/** Requests in flight on a connection, without those that expired. */
export declare function getInflight(connectionId: string | null | undefined, now?: number): number;

/**
 * Waits for one of `cap` slots of the target's connection, first in, first out.
 *
 * Resolves with a function that gives the slot back (only its first call counts), or with null: go ahead without a slot
 * (no cap, no connection, full queue, timeout, aborted). A cap is rounded down, to no less than 1. Never rejects but for
 * wrong argument types. Waiting does not keep
 * the process alive. `log.warn(tag, message, details)` hears of full queues and timeouts.
 */
export declare function acquireQuotaShareConcurrencySlot(
  target: { connectionId?: string | null | undefined },
  cap: number | null | undefined,
  options?: QuotaShareSlotOptions | null,
  log?: { warn?(tag: string, message: string, details?: unknown): void } | null,
): Promise<(() => void) | null>;

/**
 * How used up a connection is in one dimension, 0 to 1; cached 30 s. Any error, and no signal, is 0.
 *
 * Asked in this order: the option `saturation` (not cached) alone, if given; a registered fetcher, or the provider's own
 * reading; the headers of the last response.
 */
export declare function getSaturation(
  connectionId: string,
  provider: string,
  dimension: SaturationDimension,
): Promise<number>;
/** Sets the fetchers that the object names; null removes one, the others stay. */
export declare function setSaturationFetchers(fetchers: SaturationFetchers): void;
/** Gives a provider its own signal (0 to 1, or null), in place of the built-in reading. */
export declare function registerSaturationFetcher(
  provider: string,
  fetcher: (
    connectionId: string,
    dimension: SaturationDimension,
  ) => number | null | undefined | Promise<number | null | undefined>,
): void;
/** Keeps what a response's request and token headers say, for 5 minutes. Headers that say nothing change nothing. */
export declare function storeRateLimitHeaders(connectionId: string, provider: string, headers: RateLimitHeaders): void;
/** What the token headers of the last response said; null when there are none, or they are older than 5 minutes. */
export declare function getTokenHeaderSaturation(provider: string, connectionId: string): TokenHeaderSaturation | null;

/**
 * Notes the use of an account's window (`5h`, `7d`, `7d:<model>`).
 * @param usedPct percent; 100 and more is used up, everything else (NaN too) is not
 * @param resetAt ISO text of the instant the window starts anew; null and epoch 0: until the provider says otherwise
 */
export declare function recordUsage(
  connectionId: string,
  windowKey: string,
  usedPct: number,
  resetAt: string | null | undefined,
  now?: number,
): void;
/** Whether a window is used up. */
export declare function isBucketSaturated(connectionId: string, windowKey: string, now?: number): boolean;
/** Notes all windows of a provider's usage answer; what is no quota in it is passed over. */
export declare function updateAccountBuckets(
  connectionId: string,
  usage: AccountUsage | null | undefined,
  now?: number,
): void;

/** The score, times `QUOTA_SOFT_DEPRIORITIZE_FACTOR` (0 to 1, default 0.7) when penalized. */
export declare function applySoftPenalty(score: number, penalized: boolean | undefined): number;
/** Makes the candidates of an execution known, so that they can be marked by key and step. */
export declare function registerExecutionCandidates(candidates: readonly ExecutionCandidate[]): void;
/** Forgets executions, by key or by candidate. */
export declare function unregisterExecutionCandidates(
  executionKeys: readonly (string | ExecutionCandidate | null | undefined)[],
): void;
/** Sets `quotaSoftPenalty` on a known candidate; an unknown one is passed over. */
export declare function setCandidateQuotaSoftPenalty(
  executionKey: string | null | undefined,
  stepId: string | null | undefined,
  penalized: boolean,
): void;

/** A name's ASCII letters (lower case) and digits; `pool` when none is left. */
export declare function quotaGroupSlug(name: string): string;
/** The same as `quotaGroupSlug`. */
export declare function quotaPoolSlug(name: string): string;
/** `qtSd/<slug of the group>/<provider>/<model>` */
export declare function quotaModelName(groupName: string, provider: string, model: string): string;
/** The parts of a shared model's name; null when one is missing. */
export declare function parseQuotaModelName(name: string): ParsedQuotaModelName | null;
/** Whether a name begins as those of shared models do. */
export declare function isQuotaModelName(name: string): boolean;
/** The connections that both lists allow; an empty list allows all. */
export declare function constrainConnectionsToQuota(
  allowedConnections: readonly string[],
  quotaConnections: readonly string[],
): string[];
/** What the pools of an API key's `allowed_quotas`, with the pools of their groups, give access to. */
export declare function resolveQuotaKeyScope(poolIds: readonly string[] | null | undefined): QuotaKeyScope;
/**
 * Keeps `allowed_quotas` of the API keys in step with a pool's allocations: keys that left lose the pool; those in
 * `nextKeyIds` get it when the pool is exclusive and lose it when it is not. One transaction; unknown keys are passed over.
 */
export declare function reconcilePoolExclusivity(
  poolId: string,
  previousKeyIds: readonly string[],
  nextKeyIds: readonly string[],
  exclusive: boolean,
): void;
