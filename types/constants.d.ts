// Constants of the package.

/** Bench after a payment error (402, insufficient credit): one day, in milliseconds. */
export declare const PAYMENT_REQUIRED_COOLDOWN_MS: 86400000;
/** Bench after a model was forbidden to a key (403): one day, in milliseconds. */
export declare const MODEL_FORBIDDEN_COOLDOWN_MS: 86400000;
/** Bench of a key whose endpoint is on this machine or a private network: 5 s, in milliseconds. */
export declare const LOCAL_ENDPOINT_COOLDOWN_MS: 5000;
/** What a host may bench a refused key (401) for: 5 minutes. No decision uses it, in milliseconds. */
export declare const AUTH_FAILURE_COOLDOWN_MS: 300000;
/** How long the snapshot behind `modelWindowUsedFraction` serves: 5 s, in milliseconds. */
export declare const WINDOW_USAGE_TTL_MS: 5000;
/** The routing strategy of a pool's combo: `quota-share`. Internal; never offer it to users. */
export declare const QUOTA_SHARE_STRATEGY: 'quota-share';
/** The strategies that never appear in a list offered to users. */
export declare const INTERNAL_ROUTING_STRATEGY_VALUES: readonly ['quota-share'];
