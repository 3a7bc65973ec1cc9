//! Quota sharing for JavaScript: enforcement, recording, counters, snapshots. Checks, converts, calls.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use napi_derive::napi;

use super::error::{Code, Result, fail};
use super::link::Link;
use crate::core::Compat;
use crate::core::share::fair_share::BlockReason;
use crate::core::share::plan::PlanDimension;
use crate::engine::share::{
    Block, BlockedBy, Cost, EnforceRequest, Outcome, Plan, Recorded, ShareEngine as Engine,
};
use crate::store::sqlite::{Conn, SqlError};

/// Outcome codes of `enforce`, read by lib/share/enforce.js.
const NOTHING: u32 = 0;
const ALLOW: u32 = 1;
const DEPRIORITIZE: u32 = 2;
const MODEL_CAP: u32 = 3;
const CAP_ABSOLUTE: u32 = 4;
const GLOBAL_SATURATED: u32 = 5;
const FAIR_SHARE: u32 = 6;
const NEED_SIGNALS: u32 = 7;
const UNREADABLE: u32 = 8;
/// Added to a code: warnings wait in the link.
const NOTICES: u32 = 16;

/// One limit of a plan.
#[napi(object)]
pub struct ShareDimension {
    pub unit: String,
    pub window: String,
    pub limit: f64,
}

/// The limits whose signals an enforcement needs.
#[napi(object)]
pub struct NeededSignals {
    pub plan: u32,
    pub dimensions: Vec<ShareDimension>,
}

/// What a store of the host's is asked for, for one enforcement.
#[napi(object)]
pub struct ShareGrounds {
    pub pool_id: String,
    pub weight: f64,
    pub policy: String,
    pub cap_value: Option<f64>,
    pub cap_unit: Option<String>,
    pub connections: f64,
    pub model_cap_unit: Option<String>,
    pub model_cap_value: Option<f64>,
    pub unreadable: bool,
    /// Whether the plan has any limit, known or not.
    pub has_plan: bool,
    /// The limits that are known.
    pub dimensions: Vec<ShareDimension>,
}

/// Where a cost is counted.
#[napi(object)]
pub struct ShareTarget {
    pub pool_id: String,
    pub unreadable: bool,
    pub model_unit: Option<String>,
    pub dimensions: Vec<ShareDimension>,
}

struct Asker {
    key: String,
    connection_id: String,
    provider: String,
    model: String,
}

/// Quota sharing of one instance.
#[napi]
pub struct ShareEngine {
    pub(super) engine: Engine,
    clears_at: Cell<f64>,
    needed: RefCell<Option<Rc<Plan>>>,
    askers: RefCell<Vec<Asker>>,
}

impl From<SqlError> for napi::Error<Code> {
    fn from(error: SqlError) -> Self {
        Self::new(Code::Database, error.to_string())
    }
}

impl ShareEngine {
    fn code(&self, outcome: Outcome) -> u32 {
        match outcome {
            Outcome::NothingToEnforce => NOTHING,
            Outcome::Allow {
                deprioritize: false,
            } => ALLOW,
            Outcome::Allow { deprioritize: true } => DEPRIORITIZE,
            Outcome::Unreadable => UNREADABLE,
            Outcome::NeedSignals(plan) => {
                self.needed.replace(Some(plan));
                NEED_SIGNALS
            }
            Outcome::Block(Block { by, clears_at }) => {
                self.clears_at.set(clears_at.unwrap_or(f64::NAN));
                match by {
                    BlockedBy::ModelCap => MODEL_CAP,
                    BlockedBy::Share(BlockReason::CapAbsolute) => CAP_ABSOLUTE,
                    BlockedBy::Share(BlockReason::GlobalSaturated) => GLOBAL_SATURATED,
                    BlockedBy::Share(BlockReason::FairShare) => FAIR_SHARE,
                }
            }
        }
    }

    pub(super) fn conn(&self) -> Result<Conn> {
        match self.engine.link().conn() {
            Some(conn) => Ok(conn),
            None => fail(Code::Database, "there is no open database connection"),
        }
    }
}

pub(super) fn dimensions(limits: &[PlanDimension]) -> Vec<ShareDimension> {
    limits
        .iter()
        .map(|limit| ShareDimension {
            unit: limit.unit.clone(),
            window: limit.window.clone(),
            limit: limit.limit,
        })
        .collect()
}

#[napi]
impl ShareEngine {
    #[napi(constructor, catch_unwind)]
    pub fn new(link: &Link, recorded: bool) -> Self {
        let compat = if recorded {
            Compat::Recorded
        } else {
            Compat::Corrected
        };
        Self {
            engine: Engine::new(link.link.clone(), compat),
            clears_at: Cell::new(f64::NAN),
            needed: RefCell::new(None),
            askers: RefCell::default(),
        }
    }

    /// As after a restart.
    #[napi(catch_unwind)]
    pub fn reset(&self) {
        self.engine.reset();
        self.needed.replace(None);
    }

    /// Keeps who asks, so that asking again takes a number instead of four texts. Numbers are good until `forget`.
    #[napi(catch_unwind)]
    pub fn remember(
        &self,
        key: String,
        connection_id: String,
        provider: String,
        model: String,
    ) -> u32 {
        let mut askers = self.askers.borrow_mut();
        askers.push(Asker {
            key,
            connection_id,
            provider,
            model,
        });
        u32::try_from(askers.len() - 1).unwrap_or(u32::MAX)
    }

    /// Forgets all numbers given by `remember`.
    #[napi(catch_unwind)]
    pub fn forget(&self) {
        self.askers.borrow_mut().clear();
    }

    /// One enforcement; an outcome code, plus `NOTICES` when there is something to tell the host. `plan` is the id of the
    /// plan that `signals` belong to, negative for none.
    #[napi(catch_unwind)]
    pub fn enforce(
        &self,
        asker: u32,
        now: f64,
        threshold: f64,
        plan: f64,
        signals: &[f64],
    ) -> Result<u32> {
        let askers = self.askers.borrow();
        let Some(asker) = askers.get(asker as usize) else {
            return fail(
                Code::Internal,
                "a number that was never given, or is forgotten",
            );
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // an id this class handed out, or negative
        let signals = (plan >= 0.0).then_some((plan as u32, signals));
        let outcome = self.engine.enforce(&EnforceRequest {
            key: &asker.key,
            connection_id: &asker.connection_id,
            provider: &asker.provider,
            model: &asker.model,
            now,
            threshold,
            signals,
        });
        let notices = if self.engine.link().has_notices() {
            NOTICES
        } else {
            0
        };
        Ok(notices + self.code(outcome))
    }

    /// When the last block clears by itself (epoch ms), NaN when it does not.
    #[napi(getter, catch_unwind)]
    pub fn clears_at(&self) -> f64 {
        self.clears_at.get()
    }

    /// The signals that the last enforcement lacked.
    #[napi(catch_unwind)]
    pub fn needed(&self) -> Option<NeededSignals> {
        let plan = self.needed.borrow();
        plan.as_ref().map(|plan| NeededSignals {
            plan: plan.id,
            dimensions: dimensions(&plan.enforced),
        })
    }

    /// The database's part of an enforcement that counts elsewhere.
    #[napi(catch_unwind)]
    pub fn grounds(
        &self,
        key: String,
        connection_id: String,
        provider: String,
        model: String,
    ) -> Option<ShareGrounds> {
        let grounds = self.engine.grounds(&EnforceRequest {
            key: &key,
            connection_id: &connection_id,
            provider: &provider,
            model: &model,
            now: 0.0,
            threshold: 0.0,
            signals: None,
        })?;
        let (model_cap_unit, model_cap_value) = grounds.model_cap.unzip();
        let membership = &*grounds.membership;
        Some(ShareGrounds {
            pool_id: membership.pool_id.clone(),
            weight: membership.weight,
            policy: membership.policy.as_str().to_owned(),
            cap_value: membership.cap_value,
            cap_unit: membership.cap_unit.clone(),
            connections: membership.connections,
            model_cap_unit,
            model_cap_value,
            unreadable: grounds.plan.unreadable,
            has_plan: !grounds.plan.dimensions.is_empty(),
            dimensions: dimensions(&grounds.plan.enforced),
        })
    }

    /// Adds a cost to every counter it belongs to: 0 nothing recorded, 1 recorded, 2 the plan cannot be walked.
    #[napi(catch_unwind)]
    pub fn record(
        &self,
        key: String,
        connection_id: String,
        provider: String,
        model: String,
        tokens: f64,
        usd: f64,
        requests: f64,
        now: f64,
    ) -> u32 {
        let cost = Cost {
            tokens,
            usd,
            requests,
        };
        let recorded = self
            .engine
            .record(&key, &connection_id, &provider, &model, &cost, now);
        match recorded {
            Recorded::Nothing => 0,
            Recorded::All => 1,
            Recorded::Unreadable => 2,
        }
    }

    /// Where a cost is counted, for a store of the host's.
    #[napi(catch_unwind)]
    pub fn target(
        &self,
        key: String,
        connection_id: String,
        provider: String,
        model: String,
    ) -> Option<ShareTarget> {
        let target = self
            .engine
            .target(&key, &connection_id, &provider, &model)?;
        Some(ShareTarget {
            pool_id: target.pool_id,
            unreadable: target.plan.unreadable,
            model_unit: target.model_unit,
            dimensions: dimensions(&target.plan.dimensions),
        })
    }
}
