//! The fair-share decision: may this key spend now? Owns the rule that enforcement, simulation and the exported function
//! share; takes totals and signals as numbers and reads nothing.

use super::Policy;

/// One limit of the account, with what is known about it now.
#[derive(Clone, Copy, Debug)]
pub struct DimensionState {
    /// Limit of the whole account in the dimension's unit.
    pub limit: f64,
    /// Used by all keys together.
    pub consumed_total: f64,
    /// What the provider reports as used, 0..1.
    pub global_used: f64,
    /// Used by the key that asks.
    pub consumed_by_key: f64,
    /// The key's absolute cap, when it is counted in this dimension's unit.
    pub cap: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockReason {
    CapAbsolute,
    GlobalSaturated,
    FairShare,
}

impl BlockReason {
    /// The word callers and events see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CapAbsolute => "cap-absolute",
            Self::GlobalSaturated => "global-saturated",
            Self::FairShare => "fair-share",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow {
        /// A soft key is over its share: rank it behind others.
        penalized: bool,
    },
    Block(BlockReason),
}

/// What the key may use before its policy bites.
#[must_use]
pub fn share_of(weight: f64, limit: f64) -> f64 {
    weight / 100.0 * limit
}

/// The rule of one dimension. At or above the threshold each key is held to its share; below it a key may borrow what
/// others leave, up to the limit. Comparisons with NaN (no signal, no limit) are false and let the key through.
#[must_use]
pub fn decide_one(state: &DimensionState, weight: f64, policy: Policy, threshold: f64) -> Decision {
    if state.cap.is_some_and(|cap| state.consumed_by_key >= cap) {
        return Decision::Block(BlockReason::CapAbsolute);
    }
    if state.consumed_total >= state.limit {
        return Decision::Block(BlockReason::GlobalSaturated);
    }
    let over_share = state.consumed_by_key >= share_of(weight, state.limit);
    match policy {
        Policy::Hard if state.global_used >= threshold => {
            if over_share {
                return Decision::Block(BlockReason::FairShare);
            }
        }
        Policy::Hard => {
            if state.consumed_by_key >= state.limit {
                return Decision::Block(BlockReason::GlobalSaturated);
            }
        }
        Policy::Soft => {
            return Decision::Allow {
                penalized: over_share,
            };
        }
        Policy::Burst => {}
    }
    Decision::Allow { penalized: false }
}

/// The values that a blocked key's counters must fall below before one dimension lets it through.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockingBounds {
    /// For the key's own counter.
    pub own: Option<f64>,
    /// For the counter of all keys.
    pub total: Option<f64>,
}

/// Which bounds of [`decide_one`] are broken now, not only the first of them.
#[must_use]
pub fn blocking_bounds(
    state: &DimensionState,
    weight: f64,
    policy: Policy,
    threshold: f64,
) -> BlockingBounds {
    let held_to = match policy {
        Policy::Hard if state.global_used >= threshold => Some(share_of(weight, state.limit)),
        Policy::Hard => Some(state.limit),
        Policy::Soft | Policy::Burst => None,
    };
    let own = match (state.cap, held_to) {
        (Some(cap), Some(bound)) => Some(cap.min(bound)),
        (cap, bound) => cap.or(bound),
    };
    BlockingBounds {
        own: own.filter(|bound| state.consumed_by_key >= *bound),
        total: Some(state.limit).filter(|limit| state.consumed_total >= *limit),
    }
}

/// All dimensions in order; the first block decides. One penalized dimension marks the whole.
pub fn decide<'a>(
    dimensions: impl IntoIterator<Item = &'a DimensionState>,
    weight: f64,
    policy: Policy,
    threshold: f64,
) -> Decision {
    let mut penalized = false;
    for state in dimensions {
        match decide_one(state, weight, policy, threshold) {
            Decision::Allow { penalized: marked } => penalized |= marked,
            block @ Decision::Block(_) => return block,
        }
    }
    Decision::Allow { penalized }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: DimensionState = DimensionState {
        limit: 100.0,
        consumed_total: 50.0,
        global_used: 0.0,
        consumed_by_key: 20.0,
        cap: None,
    };

    fn one(state: DimensionState, policy: Policy) -> Decision {
        decide([&state], 20.0, policy, 0.5)
    }

    #[test]
    fn below_the_threshold_a_key_borrows() {
        assert_eq!(
            one(STATE, Policy::Hard),
            Decision::Allow { penalized: false }
        );
        assert_eq!(
            one(STATE, Policy::Soft),
            Decision::Allow { penalized: true }
        );
        assert_eq!(
            one(STATE, Policy::Burst),
            Decision::Allow { penalized: false }
        );
    }

    #[test]
    fn at_the_threshold_exactly_the_share_is_nothing_left() {
        let strict = DimensionState {
            global_used: 0.5,
            ..STATE
        };
        assert_eq!(
            one(strict, Policy::Hard),
            Decision::Block(BlockReason::FairShare)
        );
        assert_eq!(
            one(strict, Policy::Soft),
            Decision::Allow { penalized: true }
        );
        assert_eq!(
            one(strict, Policy::Burst),
            Decision::Allow { penalized: false }
        );
        let under = DimensionState {
            consumed_by_key: 19.999,
            ..strict
        };
        assert_eq!(
            one(under, Policy::Hard),
            Decision::Allow { penalized: false }
        );
    }

    #[test]
    fn the_cap_comes_first_and_the_full_account_stops_even_burst() {
        let capped = DimensionState {
            cap: Some(20.0),
            consumed_total: 100.0,
            ..STATE
        };
        assert_eq!(
            one(capped, Policy::Burst),
            Decision::Block(BlockReason::CapAbsolute)
        );
        let full = DimensionState {
            consumed_total: 100.0,
            ..STATE
        };
        assert_eq!(
            one(full, Policy::Burst),
            Decision::Block(BlockReason::GlobalSaturated)
        );
    }

    #[test]
    fn no_dimensions_allow() {
        assert_eq!(
            decide([], 0.0, Policy::Hard, 0.0),
            Decision::Allow { penalized: false }
        );
    }

    #[test]
    fn a_block_has_bounds_and_an_allowance_has_none() {
        for policy in [Policy::Hard, Policy::Soft, Policy::Burst] {
            for consumed_by_key in [0.0, 20.0, 100.0] {
                for (consumed_total, global_used, cap) in [
                    (50.0, 0.0, None),
                    (100.0, 0.0, None),
                    (50.0, 0.9, None),
                    (50.0, 0.0, Some(10.0)),
                ] {
                    let state = DimensionState {
                        consumed_total,
                        global_used,
                        consumed_by_key,
                        cap,
                        ..STATE
                    };
                    let blocked = matches!(one(state, policy), Decision::Block(_));
                    let bounds = blocking_bounds(&state, 20.0, policy, 0.5);
                    assert_eq!(
                        blocked,
                        bounds != BlockingBounds::default(),
                        "{state:?} {policy:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_unknown_signal_does_not_block() {
        let unknown = DimensionState {
            global_used: f64::NAN,
            consumed_total: f64::NAN,
            ..STATE
        };
        assert_eq!(
            one(unknown, Policy::Hard),
            Decision::Allow { penalized: false }
        );
    }
}
