//! What an admission is made of: the axes, what each says, and when a refused one would pass by itself.

use super::gates::{admits_request, admits_tokens};

/// What a gate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Axis {
    Cooldown,
    Concurrency,
    Rpm,
    Rpd,
    Tpm,
    Tpd,
    AccountRpm,
    AccountRpd,
    AccountTpd,
}

impl Axis {
    /// In the order in which they are asked: the cheapest first.
    pub const ALL: [Self; 9] = [
        Self::Cooldown,
        Self::Concurrency,
        Self::Rpm,
        Self::Rpd,
        Self::Tpm,
        Self::Tpd,
        Self::AccountRpm,
        Self::AccountRpd,
        Self::AccountTpd,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cooldown => "cooldown",
            Self::Concurrency => "concurrency",
            Self::Rpm => "rpm",
            Self::Rpd => "rpd",
            Self::Tpm => "tpm",
            Self::Tpd => "tpd",
            Self::AccountRpm => "account-rpm",
            Self::AccountRpd => "account-rpd",
            Self::AccountTpd => "account-tpd",
        }
    }

    #[must_use]
    pub const fn counts_tokens(self) -> bool {
        matches!(self, Self::Tpm | Self::Tpd | Self::AccountTpd)
    }
}

/// One axis of a request, measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gate {
    pub axis: Axis,
    pub limit: f64,
    pub used: f64,
    pub in_flight: f64,
    /// Tokens asked for; 0 on axes that count requests.
    pub wanted: f64,
}

impl Gate {
    #[must_use]
    pub fn passes(&self) -> bool {
        if self.axis.counts_tokens() {
            admits_tokens(self.used, self.in_flight, self.wanted, self.limit)
        } else {
            admits_request(self.used, self.in_flight, self.limit)
        }
    }

    /// Room that is left, never negative.
    #[must_use]
    pub fn remaining(&self) -> f64 {
        (self.limit - self.used - self.in_flight).max(0.0)
    }

    /// The same with one of so many equal parts of the limit, rounded down: all parts together never exceed it.
    #[must_use]
    pub fn shared_by(mut self, replicas: f64) -> Self {
        if replicas > 1.0 {
            self.limit = (self.limit / replicas).floor();
        }
        self
    }

    /// Whether no time and nobody's finishing will make it pass: the request is larger than the limit.
    #[must_use]
    pub fn never_passes(&self) -> bool {
        !Self {
            used: 0.0,
            in_flight: 0.0,
            ..*self
        }
        .passes()
    }

    /// How full the axis would be with the request in it.
    #[must_use]
    pub fn pressure(&self) -> f64 {
        let wanted = if self.axis.counts_tokens() {
            self.wanted
        } else {
            0.0
        };
        if self.limit > 0.0 {
            (self.used + self.in_flight + wanted) / self.limit
        } else {
            f64::INFINITY
        }
    }

    /// The first instant at which usage alone, leaving its window, makes the gate pass. `exits`: when each event leaves and
    /// what it counts, ascending; `expiries`: when each lease would be dropped and what it holds. `None` when the leases
    /// decide: they may end at any time, or turn into usage.
    #[must_use]
    pub fn passes_at(&self, exits: &[(f64, f64)], expiries: &[(f64, f64)]) -> Option<f64> {
        let mut gate = *self;
        let mut leaves = None;
        for (place, (at, amount)) in exits.iter().enumerate() {
            gate.used -= amount;
            // What leaves at one instant leaves together.
            if exits.get(place + 1).is_none_or(|(next, _)| next > at) && gate.passes() {
                leaves = Some(*at);
                break;
            }
        }
        let leaves = leaves?;
        // Would a lease that is dropped for its age let it pass sooner?
        let sooner = expiries.iter().any(|(at, _)| {
            *at < leaves && {
                let gone = |list: &[(f64, f64)]| -> f64 {
                    list.iter()
                        .filter(|(when, _)| when <= at)
                        .fold(0.0, |sum, (_, amount)| sum + amount)
                };
                let then = Self {
                    used: self.used - gone(exits),
                    in_flight: self.in_flight - gone(expiries),
                    ..*self
                };
                then.passes()
            }
        });
        (!sooner).then_some(leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(axis: Axis, limit: f64, used: f64, in_flight: f64, wanted: f64) -> Gate {
        Gate {
            axis,
            limit,
            used,
            in_flight,
            wanted,
        }
    }

    #[test]
    fn the_event_that_makes_room_says_when() {
        let exits = [(10.0, 1.0), (20.0, 1.0), (30.0, 1.0)];
        assert_eq!(
            gate(Axis::Rpm, 3.0, 3.0, 0.0, 0.0).passes_at(&exits, &[]),
            Some(10.0)
        );
        assert_eq!(
            gate(Axis::Rpm, 3.0, 3.0, 1.0, 0.0).passes_at(&exits, &[]),
            Some(20.0)
        );
        let tokens = [(10.0, 40.0), (20.0, 60.0)];
        assert_eq!(
            gate(Axis::Tpm, 100.0, 100.0, 0.0, 50.0).passes_at(&tokens, &[]),
            Some(20.0)
        );
    }

    #[test]
    fn what_leases_decide_has_no_instant() {
        assert_eq!(
            gate(Axis::Rpm, 1.0, 1.0, 1.0, 0.0).passes_at(&[(10.0, 1.0)], &[]),
            None
        );
        let sooner = gate(Axis::Rpm, 2.0, 1.0, 1.0, 0.0).passes_at(&[(10.0, 1.0)], &[(5.0, 1.0)]);
        assert_eq!(sooner, None);
    }

    #[test]
    fn a_request_above_its_limit_never_passes() {
        assert!(gate(Axis::Tpm, 10.0, 0.0, 0.0, 11.0).never_passes());
        assert!(gate(Axis::Rpm, 0.0, 5.0, 0.0, 0.0).never_passes());
        assert!(!gate(Axis::Rpm, 1.0, 5.0, 0.0, 0.0).never_passes());
    }
}
