// Rate limits, leases, account-wide caps, cooldowns, learned limits.
//
// For all functions here: a route is (platform, modelId, keyId). Times are epoch milliseconds, durations milliseconds.
// `now` is optional everywhere and defaults to the instance's clock. Refused is a value, never an exception. A wrong
// type throws a TypeError with the code `ERR_QUOTA_INVALID_ARGUMENT`; a number that makes no sense (NaN, negative,
// fractional tokens) is clamped so that it never opens a gate, with one warning. A database that is closed, missing, full
// or locked never throws: reads answer from memory and writes land there. After `close()` every function throws a
// QuotaCoreError with the code `ERR_QUOTA_CLOSED`. The rules follow the recorded runs in __test__/traces/ratelimit;
// docs/differences.md lists what `compat: 'recorded'` does otherwise.

/** Limits of a model on one key. `null` and `undefined` = no limit on that axis; 0 = nothing is allowed. */
export interface Limits {
  /** Requests per minute. */
  rpm?: number | null | undefined;
  /** Requests per day. */
  rpd?: number | null | undefined;
  /** Tokens per minute. */
  tpm?: number | null | undefined;
  /** Tokens per day. */
  tpd?: number | null | undefined;
}

/** What was used in a window, and its limit. */
export interface WindowStatus {
  used: number;
  limit: number | null;
}

/** The four windows of a route. */
export interface RateLimitStatus {
  rpm: WindowStatus;
  rpd: WindowStatus;
  tpm: WindowStatus;
  /** Absent under `compat: 'recorded'`. */
  tpd: WindowStatus;
}

/**
 * Where a cooldown comes from. `heuristic`: a guess, which a probe may lift early. `authoritative`: the provider named the
 * time. `credit`: the account has no money. `tier`: the key may not use the model.
 */
export type CooldownSource = 'heuristic' | 'authoritative' | 'credit' | 'tier';

/** A route on cooldown. */
export interface ActiveCooldown {
  platform: string;
  modelId: string;
  keyId: number;
  expiresAtMs: number;
  /** Milliseconds until then, > 0. */
  remainingMs: number;
}

/** A cooldown that a probe may lift. */
export interface ProbeableCooldown {
  platform: string;
  modelId: string;
  keyId: number;
  expiresAtMs: number;
  /** When it was set; `null` in rows of an older host. */
  setAtMs: number | null;
}

/** How long to bench a route, and on whose word. */
export interface CooldownDecision {
  durationMs: number;
  source: CooldownSource;
}

/** A route and the daily limits that are known for it. */
export interface FailedRoute {
  platform: string;
  modelId: string;
  keyId: number;
  rpdLimit?: number | null | undefined;
  tpdLimit?: number | null | undefined;
}

/**
 * What a router knows of a failed request. The functions that read it take whatever was caught: such an object, an `Error`, a
 * text; of anything else they know nothing.
 */
export interface ProviderFailure {
  /** HTTP status. */
  status?: number | null | undefined;
  message?: string | null | undefined;
  /** The provider's Retry-After, in milliseconds. */
  retryAfterMs?: number | null | undefined;
}

/** A limit that a provider stated in an error text. */
export interface ProviderLimit {
  kind: 'rpm' | 'rpd' | 'tpm' | 'tpd';
  limit: number;
}

/** A model, as a router's candidate list has it. */
export interface WindowModel {
  platform: string;
  modelId: string;
  /** On the platform `custom`: only keys with the same endpoint as this one count. */
  keyId?: number | null | undefined;
}

/**
 * Whether one more request fits into the route's minute and day.
 *
 * @param limits `rpm` and `rpd` are read; `null` or `undefined` = no limit
 * @returns false when the requests in a window plus the route's leases have reached its limit
 * @throws TypeError when `limits` is no object or an argument has a wrong type
 */
export declare function canMakeRequest(platform: string, modelId: string, keyId: number, limits: Limits): boolean;

/**
 * Whether so many more tokens fit into the route's minute and day.
 *
 * @param estimatedTokens what the request is expected to use
 * @param limits `tpm` and `tpd` are read; `null` or `undefined` = no limit
 * @returns false when the tokens in a window, those of the route's leases and the estimate exceed its limit
 * @throws TypeError when `limits` is no object or an argument has a wrong type
 */
export declare function canUseTokens(
  platform: string,
  modelId: string,
  keyId: number,
  estimatedTokens: number,
  limits: Limits,
): boolean;

/** What the route used in its four windows, beside the limits given. Leases do not count. */
export declare function getRateLimitStatus(
  platform: string,
  modelId: string,
  keyId: number,
  limits: Limits,
): RateLimitStatus;

/**
 * Requests that one key may have in flight: `MAX_CONCURRENT_REQUESTS_PER_KEY_<PLATFORM>`, else
 * `MAX_CONCURRENT_REQUESTS_PER_KEY`, read at each call. Only positive whole numbers count, and the specific variable hides
 * the general one whenever it is set.
 *
 * @returns `null` = no limit
 */
export declare function getKeyConcurrencyLimit(platform: string): number | null;

/** Leases of a platform and key, over all models. */
export declare function inFlightForKey(platform: string, keyId: number, now?: number): number;

/** Whether the key has room for one more request in flight (see {@link getKeyConcurrencyLimit}). */
export declare function canUseKeyConcurrency(platform: string, keyId: number, now?: number): boolean;

/**
 * Requests that an account may make per UTC day, over all models: the key row's `provider_rpd_limit` where the host has
 * that column, else `PROVIDER_DAILY_REQUEST_CAP_<PLATFORM>` (0 = no cap), else what the provider publishes (openrouter
 * 1000, modelscope 1800).
 *
 * @param keyId the key whose own cap is looked up
 * @returns `null` = no cap
 */
export declare function getProviderDailyRequestCap(platform: string, keyId?: number | null): number | null;

/**
 * Requests that an account may make per minute, over all models: `provider_rpm_limit` of the key row, else
 * `PROVIDER_MINUTE_REQUEST_CAP_<PLATFORM>`, else what the provider publishes (nvidia 40).
 *
 * @returns `null` = no cap
 */
export declare function getProviderMinuteRequestCap(platform: string, keyId?: number | null): number | null;

/**
 * Billed tokens that an account may use per UTC day, over all models: `provider_tpd_limit` of the key row, else
 * `PROVIDER_DAILY_TOKEN_CAP_<PLATFORM>`, else what the provider publishes (navy 150000).
 *
 * @returns `null` = no cap
 */
export declare function getProviderDailyTokenCap(platform: string, keyId?: number | null): number | null;

/** Requests of a platform and key since midnight UTC, over all models. */
export declare function providerDailyRequestCount(platform: string, keyId: number, now?: number): number;

/** Requests of a platform and key within the last minute, over all models. */
export declare function providerMinuteRequestCount(platform: string, keyId: number, now?: number): number;

/**
 * Billed tokens of a platform and key since midnight UTC, over all models: each model's tokens times its multiplier,
 * rounded up per model. 0 for an account without a token cap.
 */
export declare function providerDailyTokenCount(platform: string, keyId: number, now?: number): number;

/** Whether one more request fits under the account's daily request cap; requests in flight count. */
export declare function canUseProvider(platform: string, keyId: number, now?: number): boolean;

/** Whether one more request fits under the account's request cap per minute; requests in flight count. */
export declare function canUseProviderMinute(platform: string, keyId: number, now?: number): boolean;

/**
 * Whether so many more tokens of a model fit under the account's daily token cap; tokens of requests in flight count.
 * Everything is compared in billed tokens.
 */
export declare function canUseProviderTokens(
  platform: string,
  keyId: number,
  modelId: string,
  estimatedTokens: number,
  now?: number,
): boolean;

/**
 * Takes a lease: a request in flight, counted by the gates until it is released or 2 minutes old. Leases live in memory.
 *
 * @param tokens what the request is expected to use
 * @returns the lease's id, a positive integer that is never given twice
 */
export declare function acquireLease(
  platform: string,
  modelId: string,
  keyId: number,
  tokens: number,
  now?: number,
): number;

/** Gives a lease back. Unknown and already released ids are ignored. */
export declare function releaseLease(leaseId: number | null | undefined): void;

/** Forgets every lease. */
export declare function resetLeases(): void;

/**
 * Records one request that was made. Also forgets the route's ladder and unknown-limit hits: a served request proves that
 * the quota is not spent.
 */
export declare function recordRequest(platform: string, modelId: string, keyId: number): void;

/** Records tokens that were used. */
export declare function recordTokens(platform: string, modelId: string, keyId: number, tokens: number): void;

/**
 * Puts a route on cooldown, in memory and in the host's table.
 *
 * @param durationMs default 60000
 * @param source default `heuristic`
 */
export declare function setCooldown(
  platform: string,
  modelId: string,
  keyId: number,
  durationMs?: number,
  source?: CooldownSource,
): void;

/** Whether a route is on cooldown: still true at the very instant of expiry. An expired row is deleted. */
export declare function isOnCooldown(platform: string, modelId: string, keyId: number): boolean;

/**
 * The cooldowns of several keys that are still on, soonest first. What is no integer is ignored, repeats count once, and
 * only keys with a cooldown appear.
 */
export declare function getActiveCooldownsForKeys(
  keyIds: readonly number[],
  now?: number,
): Map<number, ActiveCooldown[]>;

/**
 * Lifts every cooldown of a key and forgets its ladder and unknown-limit hits.
 *
 * @returns how many were lifted; 0 for what is no integer
 */
export declare function clearCooldownsForKey(keyId: number): number;

/** Lifts the cooldown of one route. Its ladder history stays. */
export declare function clearCooldownEarly(platform: string, modelId: string, keyId: number): void;

/**
 * Deletes expired cooldowns.
 *
 * @returns rows deleted
 */
export declare function cleanupExpiredCooldowns(now?: number): number;

/** Heuristic cooldowns that are still on, soonest first. */
export declare function getProbeableCooldowns(now?: number): ProbeableCooldown[];

/** When the next cooldown ends; `null` when none is on. */
export declare function getSoonestCooldownExpiry(now?: number): number | null;

/** Takes a step on the route's ladder: 2 min, 10 min, 1 h, 24 h by hits within a day, this one included. */
export declare function getNextCooldownDuration(platform: string, modelId: string, keyId: number): number;

/**
 * Refusals of the route without a known limit within a span.
 *
 * @param windowMs default one hour, which is also how long hits are kept
 */
export declare function recentHitCount(
  platform: string,
  modelId: string,
  keyId: number,
  now?: number,
  windowMs?: number,
): number;

/**
 * How long to bench a route that was refused. In this order: a local endpoint 5 s; a spent day (used >= limit, leases not
 * counted) a ladder step; no known limit and the second refusal within an hour a ladder step of at most 10 min; else
 * 90 s. A longer `retryAfterMs` wins, up to a day, and makes the bench authoritative.
 *
 * @param options `quotaSignal: false` when the refusal was no 429: it then leaves no hit
 */
export declare function getCooldownDecisionForLimit(
  platform: string,
  modelId: string,
  keyId: number,
  limits: Pick<Limits, 'rpd' | 'tpd'>,
  retryAfterMs?: number | null,
  options?: { quotaSignal?: boolean },
): CooldownDecision;

/** The duration alone of {@link getCooldownDecisionForLimit}. */
export declare function getCooldownDurationForLimit(
  platform: string,
  modelId: string,
  keyId: number,
  limits: Pick<Limits, 'rpd' | 'tpd'>,
  retryAfterMs?: number | null,
  options?: { quotaSignal?: boolean },
): number;

/**
 * One call for a router's error path: payment errors a day (`credit`), forbidden models a day (`tier`), a day that the
 * text says is spent until Retry-After or the next UTC midnight (`authoritative`), else
 * {@link getCooldownDecisionForLimit} with `quotaSignal` = "this was a real 429".
 */
export declare function cooldownDecisionForError(route: FailedRoute, error: unknown): CooldownDecision;

/** Whether the key's `base_url` is on this machine or a private network. The verdict is kept per key. */
export declare function isLocalEndpointKey(keyId: number): boolean;

/** Forgets the verdicts of {@link isLocalEndpointKey}. */
export declare function resetKeyLocalityCache(): void;

/**
 * Whether a URL leads to loopback or a private network. Link-local and cloud-metadata addresses do not count, nor does
 * what is no URL.
 */
export declare function isLoopbackOrPrivateUrl(url: string | null | undefined): boolean;

/** The limit that an error text states with its axis and the word "limit"; `null` when it states none. Never guesses. */
export declare function parseProviderLimit(message: string | null | undefined): ProviderLimit | null;

/**
 * Writes a limit that an error text states into the model's row, where none is known or a larger one.
 *
 * @param modelDbId `models.id`
 * @returns what was learned; `null` when no row changed
 */
export declare function learnLimitFromError(modelDbId: number, error: unknown): ProviderLimit | null;

/**
 * How full a model's windows are on its emptiest eligible key, from 0 to 1: a graded signal for ranking, served from a
 * snapshot of at most 5 s. Leases do not count.
 *
 * @returns `null` without limits, eligible keys or a database
 */
export declare function modelWindowUsedFraction(model: WindowModel, limits: Limits, now?: number): number | null;

/** Drops the snapshot behind {@link modelWindowUsedFraction}. */
export declare function invalidateWindowUsage(): void;
