// Provider quota: what providers say about their own quotas, and what a router makes of it.
//
// Errors: a wrong argument type throws a TypeError with the code `ERR_QUOTA_INVALID_ARGUMENT`; a call on a closed instance
// throws `ERR_QUOTA_CLOSED`. Without a database, or with one that cannot be read, functions answer empty; with
// `compat: 'recorded'` those that need the database throw a TypeError on a connection that the host has closed.
// The rules follow the recorded runs in __test__/traces/ratelimit; docs/differences.md lists what recorded mode does otherwise.

/** Where an observation comes from, most trusted first (`header` and `quota_api` are equals). */
export type QuotaSource = 'header' | 'quota_api' | 'error_body' | 'probe' | 'local_usage' | 'documentation';

/** What a quota counts. The providers' headers know these two; a host may record others. */
export type QuotaMetric = 'requests' | 'tokens' | (string & {});

/** How a quota comes back: as the provider reports it, drop by drop, or unknown. A host may record others. */
export type QuotaResetStrategy = 'provider_reported' | 'token_bucket' | 'unknown' | (string & {});

/** Whose quota an observation is about. Fields of an explicit argument win over the context's, one by one. */
export interface QuotaObservationContext {
  platform?: string | null | undefined;
  /** Default 0: no key of its own. */
  keyId?: number | null | undefined;
  /** The provider's name for the account behind the key. */
  providerAccountId?: string | null | undefined;
  modelId?: string | null | undefined;
  /** Default: `inferQuotaPoolKey(platform, modelId)`. */
  quotaPoolKey?: string | null | undefined;
  /** The path or URL that was asked. */
  endpoint?: string | null | undefined;
  /** The host's own note on who is asking; carried, not used. */
  origin?: string | null | undefined;
}

/** A response as fetch gives it, or any object with these two properties. */
export interface QuotaResponse {
  status: number;
  headers?: { get(name: string): string | null | undefined } | null | undefined;
}

/** An observation to record. Numbers that are null, NaN or infinite say nothing. */
export interface QuotaObservationInput extends QuotaObservationContext {
  /** Default `requests`. */
  metric?: QuotaMetric | null | undefined;
  /** The HTTP status that it was read from. */
  statusCode?: number | null | undefined;
  /** Requests, tokens or whatever the metric counts. */
  limit?: number | null | undefined;
  remaining?: number | null | undefined;
  /** The instant, ISO 8601, at which the quota is full again. */
  resetAt?: string | null | undefined;
  /** Milliseconds. */
  retryAfterMs?: number | null | undefined;
  /** Default `unknown`. */
  resetStrategy?: QuotaResetStrategy | null | undefined;
  /** Default `probe`. */
  source?: QuotaSource | null | undefined;
  /** 0..1; default by source: 1, 1, 0.75, 0.6, 0.45, 0.35. */
  confidence?: number | null | undefined;
  notes?: string | null | undefined;
  /** What it was read from, as JSON text. */
  rawJson?: string | null | undefined;
  /** When it was seen: an ISO instant or a Date; default now. A text that is no date is now too. */
  observedAt?: string | Date | null | undefined;
}

/** What a response says about one quota: everything but what only the caller knows. */
export interface ParsedQuotaObservation {
  platform: string;
  keyId: number;
  providerAccountId: string | null;
  modelId: string | null;
  quotaPoolKey: string;
  endpoint: string | null;
  metric: QuotaMetric;
  limit: number | null;
  remaining: number | null;
  /** ISO instant. */
  resetAt: string | null;
  /** Milliseconds; only on observations that are about a refusal. */
  retryAfterMs?: number | null;
  resetStrategy: QuotaResetStrategy;
  source: QuotaSource;
  confidence: number;
  notes?: string;
}

/** A recorded observation. `confidence` and `notes` are those of the state it was joined into. */
export interface QuotaObservation {
  /** A random UUID. */
  id: string;
  platform: string;
  keyId: number;
  providerAccountId: string | null;
  modelId: string | null;
  quotaPoolKey: string;
  metric: QuotaMetric;
  statusCode: number | null;
  limit: number | null;
  remaining: number | null;
  resetAt: string | null;
  retryAfterMs: number | null;
  resetStrategy: QuotaResetStrategy;
  source: QuotaSource;
  confidence: number;
  notes: string | null;
  endpoint: string | null;
  rawJson: string | null;
  /** UTC, `YYYY-MM-DD hh:mm:ss.sss`. */
  observedAt: string;
  updatedAt: string;
  createdAt: string;
}

/** What is known of one quota, with its newest observation and the label of the host's key. */
export interface QuotaStateForKey {
  platform: string;
  keyId: number;
  /** `api_keys.label`; null for a key that is not there. */
  keyLabel: string | null;
  quotaPoolKey: string;
  metric: QuotaMetric;
  limit: number | null;
  remaining: number | null;
  resetAt: string | null;
  resetStrategy: QuotaResetStrategy;
  source: QuotaSource;
  confidence: number;
  notes: string | null;
  observedAt: string | null;
  updatedAt: string | null;
  providerAccountId: string | null;
  modelId: string | null;
  endpoint: string | null;
  statusCode: number | null;
  retryAfterMs: number | null;
  rawJson: string | null;
  createdAt: string | null;
}

/** The ramp of a headroom factor. Values outside 0..1 fall back to the defaults. */
export interface HeadroomRamp {
  /** Remaining share at which the factor starts to fall; default 0.2. */
  rampStart?: number | null | undefined;
  /** The factor when nothing remains; default 0.1. */
  floor?: number | null | undefined;
}

/**
 * The key of the quota pool that a model draws on: `<platform>::<pool>` for platforms whose models share one (a table of
 * providers), else `<platform>::<modelId>`, or `<platform>::account` without a model.
 */
export declare function inferQuotaPoolKey(platform: string, modelId?: string | null): string;

/** Whether several models of this platform draw on one quota. */
export declare function isSharedPool(platform: string): boolean;

/**
 * Runs `fn` with a context for everything that it observes, also after its awaits. Nested contexts replace the outer one;
 * concurrent ones do not meet.
 * @returns what `fn` returns
 */
export declare function runWithQuotaObservationContext<T>(context: QuotaObservationContext, fn: () => T): T;

/** The context of the running call, if there is one. */
export declare function getQuotaObservationContext(): QuotaObservationContext | undefined;

/**
 * What a response says about quota: rate-limit headers, `Retry-After`, a refusal (429, 402), or for a shared pool the mere
 * fact that it answered. Nothing is recorded. Empty without a platform. Resets are read as seconds, epoch seconds, epoch
 * milliseconds or durations (`1h30m15s`).
 */
export declare function parseQuotaObservationsFromResponse(
  response: QuotaResponse,
  opts?: QuotaObservationContext | null,
): ParsedQuotaObservation[];

/**
 * Records an observation in one transaction: joins it into `provider_quota_state` (a silent field keeps its old value, the
 * more trusted source stays) and appends it to `provider_quota_observations`.
 * @returns the observation, or null without a platform or a database that takes it
 */
export declare function recordQuotaObservation(input: QuotaObservationInput): QuotaObservation | null;

/** Reads a response and records each observation. */
export declare function recordQuotaObservationsFromResponse(
  response: QuotaResponse,
  opts?: QuotaObservationContext | null,
): QuotaObservation[];

/**
 * Everything that is known, ordered by platform, key, pool and metric. Quotas whose reset has passed are set back to full
 * first.
 */
export declare function getQuotaStateForKeys(): QuotaStateForKey[];

/**
 * What each key of a platform has left, 0..1: the scarcest of its quotas with a limit, a remainder and a confidence of at
 * least 0.7. Keys without one are absent. Kept for 5 s per platform and connection.
 */
export declare function getKeyQuotaHeadroom(platform: string): Map<number, number>;

/** Forgets the kept headroom of a platform, or of all: the next call reads the database. */
export declare function invalidateKeyQuotaHeadroom(platform?: string | null): void;

/**
 * The keys, roomiest first. A key that nothing is known of counts as half full; equal keys stay in their order. Unchanged
 * for pools of the account (`<platform>::account`), where every key reports the same numbers.
 */
export declare function orderKeysByRemainingQuota(
  platform: string,
  modelId: string | null | undefined,
  keyIds: readonly number[],
): number[];

/**
 * How much to favour a model by its token budget: 1 while at least `rampStart` of it remains, then linear down to `floor` at
 * nothing left. 1 without a budget (null, NaN, 0 or less) or a known use.
 */
export declare function headroomFactor(
  usedTokens: number | null | undefined,
  budgetTokens: number | null | undefined,
  opts?: HeadroomRamp | null,
): number;

/** The same for a rate window of which `usedFraction` (0..1) is used, as `modelWindowUsedFraction` tells; null gives 1. */
export declare function rateWindowHeadroomFactor(
  usedFraction: number | null | undefined,
  opts?: HeadroomRamp | null,
): number;
