// Early recovery of heuristic cooldowns. Rules as in types/ratelimit.d.ts.

/** What the host's key validation says: `valid` lifts the key's ripe cooldowns, anything else backs off. */
export type ProbeOutcome = 'valid' | 'invalid' | 'error';

/** The host's key validation. A rejected promise counts as `error`. */
export type Probe = (keyId: number) => Promise<ProbeOutcome> | ProbeOutcome;

/** Options of one pass; each defaults to what the instance has. */
export interface ProbePassOptions {
  /** Default: the instance's clock. */
  now?: number;
  /** Default: the instance's `probe`. */
  probe?: Probe;
  /** A random number from 0 to 1 that spreads first probes over 45 s. Default: the instance's `random`. */
  jitter?: () => number;
  /** Keys to ask in this pass. Default: `COOLDOWN_PROBE_MAX_PER_PASS`, else 3. */
  maxProbes?: number;
}

/** What a pass did. */
export interface ProbePassResult {
  probedKeyIds: number[];
  clearedCooldowns: number;
}

/** What registers the probe's job: `every` calls `fn` again and again and gives a function that ends it. */
export interface ProbeScheduler {
  every(intervalMs: number, fn: () => Promise<void>, options: { name: string }): () => void;
}

/**
 * One pass over the heuristic cooldowns. A key is ripe when half of a cooldown was served and a minute or more remains; it
 * is scheduled when first seen, asked when due, and backs off 2, 4, 8, then 15 minutes while it is not valid.
 *
 * @throws rejects with `ERR_QUOTA_NO_PROBE` when neither the pass nor the instance has a `probe`
 */
export declare function runCooldownProbePass(options?: ProbePassOptions): Promise<ProbePassResult>;

/**
 * Registers one pass per minute, named `cooldown-probe`. Started twice is started once; a pass that is still running is
 * not doubled; `COOLDOWN_PROBE_DISABLED=1` registers nothing.
 */
export declare function startCooldownProbe(scheduler: ProbeScheduler): void;

/** Ends the job of {@link startCooldownProbe}. */
export declare function stopCooldownProbe(): void;

/** Forgets when which key was or will be asked. */
export declare function resetCooldownProbeState(): void;
