//! One enforcement: allocation, model cap, plan, signals, counters, decision. Owns their order and the rule that whatever
//! fails on the way lets the request through, with one warning.

use std::rc::Rc;

use super::ShareEngine;
use super::memory::{Limit, View};
use super::plans::Plan;
use crate::core::share::fair_share::{self, BlockReason, Decision, DimensionState};
use crate::core::share::sliding::{self, Pair, bucket_index, window_ms};
use crate::core::share::{
    Policy, UNKNOWN_LIMIT, dimension_key, model_pool_id,
    retry::{self, Counted},
};
use crate::store::sqlite::SqlError;
use crate::store::sqlite::share_lookup::Membership;

/// Who asks, for what, and when.
#[derive(Clone, Copy)]
pub struct EnforceRequest<'a> {
    pub key: &'a str,
    pub connection_id: &'a str,
    pub provider: &'a str,
    /// Empty: none.
    pub model: &'a str,
    /// Epoch ms.
    pub now: f64,
    pub threshold: f64,
    /// The plan whose signals are at hand, and what the provider reports for each of its enforced limits (0..1).
    pub signals: Option<(u32, &'a [f64])>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockedBy {
    ModelCap,
    Share(BlockReason),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    pub by: BlockedBy,
    /// When the sliding counters alone would let the key through (epoch ms), if ever.
    pub clears_at: Option<f64>,
}

#[derive(Debug)]
pub enum Outcome {
    /// Nothing to enforce: no pool, no plan, or no way to find out.
    NothingToEnforce,
    Allow {
        /// A soft key over its share.
        deprioritize: bool,
    },
    Block(Block),
    /// The signals of this plan's enforced limits are needed first.
    NeedSignals(Rc<Plan>),
    /// A plan on which the host's own code throws (recorded behaviour only).
    Unreadable,
}

/// What an enforcement through a store of the host's needs from the database.
#[derive(Debug)]
pub struct Grounds {
    pub membership: Rc<Membership>,
    /// Unit and value of the model's cap, when there is one to enforce.
    pub model_cap: Option<(String, f64)>,
    pub plan: Rc<Plan>,
}

/// What failed while asking; at most one warning comes of it.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    fn add(&mut self, part: &str, error: &SqlError) {
        // The same table asked for another limit says the same again.
        let text = format!("{part}: {error}");
        if !self.0.contains(&text) {
            self.0.push(text);
        }
    }
}

impl ShareEngine {
    /// May the key spend on this connection? Never an error: see [`Outcome`].
    #[must_use]
    pub fn enforce(&self, request: &EnforceRequest<'_>) -> Outcome {
        let mut failures = Failures::default();
        let outcome = if let Some(conn) = self.link.conn() {
            self.view(&conn, |view| self.enforce_on(view, request, &mut failures))
        } else {
            failures.0.push("no database connection".to_owned());
            Outcome::NothingToEnforce
        };
        // Asked again with the signals, it will fail again, and warn then.
        if !matches!(outcome, Outcome::NeedSignals(_)) {
            self.warn_of(&failures);
        }
        outcome
    }

    fn warn_of(&self, failures: &Failures) {
        if !failures.0.is_empty() {
            let text = format!(
                "not enforced, the request passes where unsure ({})",
                failures.0.join("; ")
            );
            self.link.warn("quota:enforce", text);
        }
    }

    fn enforce_on(
        &self,
        view: &mut View<'_>,
        request: &EnforceRequest<'_>,
        failures: &mut Failures,
    ) -> Outcome {
        let membership = match view.membership(request.key, request.connection_id) {
            Ok(Some(membership)) => membership,
            Ok(None) => return Outcome::NothingToEnforce,
            Err(error) => {
                failures.add("pools", &error);
                return Outcome::NothingToEnforce;
            }
        };
        if let Some(block) = model_cap_block(view, request, &membership, failures) {
            return Outcome::Block(block);
        }
        let (plan, error) = view.plan(
            &self.plans,
            request.connection_id,
            request.provider,
            self.compat,
        );
        if let Some(error) = error {
            failures.add("plans", &error);
        }
        if plan.unreadable {
            return Outcome::Unreadable;
        }
        if plan.dimensions.is_empty() {
            return Outcome::NothingToEnforce;
        }
        let signals = match request.signals {
            Some((id, values)) if id == plan.id && values.len() == plan.enforced.len() => values,
            _ if plan.enforced.is_empty() => &[],
            _ => return Outcome::NeedSignals(plan),
        };
        let limits = view.limits(&membership.pool_id, &plan);
        let mut counted = Vec::with_capacity(limits.len());
        for ((dimension, Limit { key, window }), signal) in
            plan.enforced.iter().zip(&*limits).zip(signals)
        {
            let current = bucket_index(request.now, *window);
            let mut read = |pair: Result<Pair, SqlError>| {
                pair.unwrap_or_else(|error| {
                    failures.add("counters", &error);
                    Pair::default()
                })
            };
            let capped = membership.cap_unit.as_deref() == Some(&dimension.unit);
            let own = read(view.own(key, request.key, current));
            let total = (dimension.unit != "percent").then(|| read(view.totals(key, current)));
            let limit = dimension.limit * membership.connections;
            let state = DimensionState {
                limit,
                consumed_total: total.map_or(signal * limit, |pair| {
                    sliding::value(pair, request.now, *window)
                }),
                global_used: *signal,
                consumed_by_key: sliding::value(own, request.now, *window),
                cap: membership.cap_value.filter(|_| capped),
            };
            counted.push(Counted {
                state,
                own,
                total,
                window: *window,
            });
        }
        decide(&counted, membership.weight, membership.policy, request)
    }

    /// The part of an enforcement that the database answers, for a host that counts in a store of its own. `None`:
    /// nothing to enforce (after the warning, where something failed).
    #[must_use]
    pub fn grounds(&self, request: &EnforceRequest<'_>) -> Option<Grounds> {
        let mut failures = Failures::default();
        let grounds = if let Some(conn) = self.link.conn() {
            self.view(&conn, |view| self.grounds_on(view, request, &mut failures))
        } else {
            failures.0.push("no database connection".to_owned());
            None
        };
        self.warn_of(&failures);
        grounds
    }

    fn grounds_on(
        &self,
        view: &mut View<'_>,
        request: &EnforceRequest<'_>,
        failures: &mut Failures,
    ) -> Option<Grounds> {
        let membership = view
            .membership(request.key, request.connection_id)
            .inspect_err(|error| failures.add("pools", error))
            .ok()??;
        let model_cap = enforced_model_cap(view, request, &membership, failures);
        let (plan, error) = view.plan(
            &self.plans,
            request.connection_id,
            request.provider,
            self.compat,
        );
        if let Some(error) = error {
            failures.add("plans", &error);
        }
        Some(Grounds {
            membership,
            model_cap,
            plan,
        })
    }
}

fn enforced_model_cap(
    view: &mut View<'_>,
    request: &EnforceRequest<'_>,
    membership: &Membership,
    failures: &mut Failures,
) -> Option<(String, f64)> {
    if request.model.is_empty() {
        return None;
    }
    view.model_cap(&membership.pool_id, request.key, request.model)
        .inspect_err(|error| failures.add("model caps", error))
        .ok()?
        .filter(|cap| cap.cap_value > UNKNOWN_LIMIT)
        .map(|cap| (cap.cap_unit, cap.cap_value))
}

fn model_cap_block(
    view: &mut View<'_>,
    request: &EnforceRequest<'_>,
    membership: &Membership,
    failures: &mut Failures,
) -> Option<Block> {
    let (unit, bound) = enforced_model_cap(view, request, membership, failures)?;
    let window = window_ms("hourly");
    let key = dimension_key(
        &model_pool_id(&membership.pool_id, request.model),
        &unit,
        "hourly",
    );
    let pair = view
        .own(&key.into(), request.key, bucket_index(request.now, window))
        .inspect_err(|error| failures.add("counters", error))
        .ok()?;
    (sliding::value(pair, request.now, window) >= bound).then(|| Block {
        by: BlockedBy::ModelCap,
        clears_at: retry::clears_at(pair, bound, request.now, window),
    })
}

fn decide(
    counted: &[Counted],
    weight: f64,
    policy: Policy,
    request: &EnforceRequest<'_>,
) -> Outcome {
    let states = counted.iter().map(|counted| &counted.state);
    match fair_share::decide(states, weight, policy, request.threshold) {
        Decision::Allow { penalized } => Outcome::Allow {
            deprioritize: penalized,
        },
        Decision::Block(reason) => Outcome::Block(Block {
            by: BlockedBy::Share(reason),
            clears_at: retry::all_clear_at(
                counted.iter().copied(),
                weight,
                policy,
                request.threshold,
                request.now,
            ),
        }),
    }
}
