// Admission: every gate of a request in one call, the lease taken in the same call. Rules as in types/ratelimit.d.ts; the
// gates and `admit` share one decision.

import type { Limits } from './ratelimit.js';

/** A request that wants to be dispatched. */
export interface AdmissionRequest {
  platform: string;
  modelId: string;
  keyId: number;
  limits: Limits;
  /** Tokens that it is expected to use; default 0. */
  estimatedTokens?: number | undefined;
  /** Whether the account-wide caps of the key count; default true. */
  account?: boolean | undefined;
}

/** What a gate counts. */
export type AdmissionAxis =
  | 'rpm'
  | 'rpd'
  | 'tpm'
  | 'tpd'
  | 'account-rpm'
  | 'account-rpd'
  | 'account-tpd'
  | 'concurrency'
  | 'cooldown';

/** A gate of a request, measured. */
export interface AdmissionGate {
  axis: AdmissionAxis;
  limit: number;
  used: number;
  /** Requests, or on token axes tokens, of leases. */
  inFlight: number;
  /** Room that is left, never negative. */
  remaining: number;
  passes: boolean;
}

/** A gate that refuses. */
export interface AdmissionRefusal {
  /** Which of the requests. */
  index: number;
  axis: AdmissionAxis;
  limit: number;
  used: number;
  inFlight: number;
  /** Room that is left, never negative. */
  remaining: number;
  /** The first instant at which this axis alone would pass; `null` when that depends on others finishing, or never. */
  retryAtMs: number | null;
  /** Of a cooldown: where it comes from. */
  source?: string;
  /** The request is larger than the limit: no wait helps. */
  never?: true;
}

/** What `admit` answers. `Lease` is `number`, and on a dry run `null`. */
export type AdmissionResult<Lease = number> =
  | {
      admitted: true;
      /** Which of the requests. */
      index: number;
      /** To be settled or cancelled. */
      leaseId: Lease;
    }
  | {
      admitted: false;
      /** Every gate that refuses, of every request. */
      refusals: AdmissionRefusal[];
      /** The first instant at which one of the requests would pass by itself; `null` when there is none. */
      retryAtMs: number | null;
    };

/** What `explain` answers. */
export interface AdmissionExplanation {
  admitted: boolean;
  /** Every gate that exists for the request, in the order they are asked. */
  gates: AdmissionGate[];
  refusals: AdmissionRefusal[];
  /** When the request would pass by itself; `null` when it passes now or no instant is known. */
  retryAtMs: number | null;
}

/** What `rank` answers. */
export interface AdmissionRanking {
  /** Places in the list given, emptiest first; equals keep their order. */
  order: Uint32Array;
  /** How full each request would make its fullest axis: 1 = at the limit; infinite when benched or out of slots. */
  pressure: Float64Array;
}

/**
 * Admits the first request that passes every gate and takes its lease in the same call.
 *
 * @param requests one request, or several in order of preference (at most 65535)
 * @param options `dryRun` takes no lease; `now` replaces the clock
 * @throws TypeError when a request or its limits are of a wrong type
 */
export declare function admit(
  requests: AdmissionRequest | readonly AdmissionRequest[],
  options?: { dryRun?: false; now?: number },
): AdmissionResult;
export declare function admit(
  requests: AdmissionRequest | readonly AdmissionRequest[],
  options: { dryRun?: boolean; now?: number },
): AdmissionResult<number | null>;

/** All gates of a request, without taking a lease. */
export declare function explain(request: AdmissionRequest, options?: { now?: number }): AdmissionExplanation;

/**
 * Records what a lease was used for and releases it, in one transaction. A lease that was dropped for its age is recorded
 * all the same. Twice is once.
 *
 * @param usage `tokens` used (default: the estimate), `requests` made (default 1, an integer from 0 to 1000)
 * @returns `settled: false` when there was nothing to settle; `expired: true` when the lease no longer counted: dropped for its
 *   age, or with `leases: 'file'` rolled back by the host, or left in a file that is not in use any more
 */
export declare function settle(
  leaseId: number,
  usage?: { tokens?: number | null | undefined; requests?: number | undefined },
): { settled: boolean; expired: boolean };

/**
 * Gives a lease back unused.
 *
 * @returns whether there was one
 */
export declare function cancel(leaseId: number): boolean;

/** How full each request would make its fullest axis, and their order. Takes nothing. */
export declare function rank(requests: readonly AdmissionRequest[]): AdmissionRanking;

/**
 * Counters in the Prometheus text format: checks by axis and outcome, answers from memory and by SQL with their cause, leases,
 * cooldowns by source, time without the database.
 */
export declare function metrics(): string;
