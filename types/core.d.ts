// An instance, its options and its events.

import type { Probe } from './probe.js';
import type { QuotaShareOptions } from './quota-share.js';
import type { ReplicaOptions } from './redis.js';

/** An error of this package. `code` is one of those in docs/errors.md. */
export declare class QuotaCoreError extends Error {
  readonly name: 'QuotaCoreError';
  readonly code: string;
  constructor(code: string, message: string, options?: { cause?: unknown });
}

/**
 * A SQLite connection of the host: a better-sqlite3 `Database`, a node:sqlite `DatabaseSync` made with
 * `allowExtension: true`, or an adapter that holds one of them in `raw`.
 */
export type HostDatabase = { loadExtension(path: string): unknown } | { readonly raw: unknown };

/** Where log lines go. The first argument is a tag such as `quota:degraded`, the second the message. */
export interface QuotaLogger {
  debug?(tag: string, message: string, details?: unknown): void;
  info?(tag: string, message: string, details?: unknown): void;
  warn?(tag: string, message: string, details?: unknown): void;
  error?(tag: string, message: string, details?: unknown): void;
}

/** Options of `createQuotaCore` and `configure`; docs/options.md has them as a table. */
export interface QuotaCoreOptions extends QuotaShareOptions, ReplicaOptions {
  /**
   * The database: a connection of the host, a function that returns one (asked at each call; it may throw or return
   * nothing while there is none), or the path of a file of our own. Never the path of a file that another library of this
   * process has open. Default: none, everything is counted in memory.
   */
  database?: HostDatabase | (() => HostDatabase | string | null | undefined) | string | null | undefined;
  /** The present in epoch milliseconds. Default: `Date.now`, looked up at each call. */
  clock?: () => number;
  /** Default: `process.env`, read at each call. */
  env?: Readonly<Record<string, string | undefined>>;
  /** A random number from 0 to 1. Default: `Math.random`. */
  random?: () => number;
  /** `corrected` (default), or `recorded`: what the original services did, faults included. */
  compat?: 'corrected' | 'recorded';
  /** What a day is on the rpd and tpd axes. Default: `utc-day`; under `compat: 'recorded'` `sliding-24h`. */
  dayWindow?: 'utc-day' | 'sliding-24h';
  /** Default: warnings and errors to the console. An object of yours hears what it has a method for, nobody the rest. */
  logger?: QuotaLogger;
  /** Warnings and errors also go to the host's `server_logs` table, where it exists. Default: false. */
  serverLogs?: boolean;
  /**
   * Answer from memory while the database is what it was; the answers are the same with and without. Default: true.
   */
  index?: boolean;
  /** The host's key validation, for the cooldown probe. */
  probe?: Probe;
}

/** A cooldown was set. */
export interface CooldownSetEvent {
  platform: string;
  modelId: string;
  keyId: number;
  expiresAtMs: number | null;
  source: string;
}

/** A probe found a key working again and lifted its cooldowns. */
export interface CooldownRecoveredEvent {
  keyId: number;
  cooldowns: { platform: string; modelId: string; expiresAtMs: number }[];
}

/** A limit was learned from an error text. */
export interface LimitLearnedEvent {
  modelDbId: number;
  kind: 'rpm' | 'rpd' | 'tpm' | 'tpd';
  limit: number;
}

/** The events of an instance and what they carry. */
export interface QuotaCoreEvents {
  cooldown_set: CooldownSetEvent;
  cooldown_recovered: CooldownRecoveredEvent;
  limit_learned: LimitLearnedEvent;
  /** The database does not answer, or refuses writes: counting goes on in memory. */
  degraded: { reason: string };
  /** The database answers again. */
  recovered: Record<string, never>;
}

/** What an instance holds in memory. */
export interface QuotaCoreInspection {
  /** Requests in flight. */
  leases: number;
  /** Cooldowns in memory. */
  cooldowns: number;
  /** Routes that have a handle. */
  routes: number;
  /** Usage events that are in memory and in no table. */
  pendingEvents: number;
  /** Whether the database does not answer, or refuses writes. */
  degraded: boolean;
  /** Connections with requests in flight in quota-share pools. */
  inflightConnections: number;
  /** Account windows that are known. */
  accountBuckets: number;
  /** Credit of the deficit round robin, by combo and execution key. */
  drr: Record<string, Record<string, number>>;
}
