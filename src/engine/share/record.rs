//! What was spent: counters of a key and its model grow. Owns which counters a cost belongs to and which old
//! ones may go; a failure is told, never raised.

use std::rc::Rc;

use super::memory::{Added, View};
use super::{Plan, ShareEngine};
use crate::core::share::plan::PlanDimension;
use crate::core::share::sliding::{self, bucket_index, window_ms};
use crate::core::share::{UNKNOWN_LIMIT, dimension_key, model_pool_id};
use crate::store::sqlite::{Conn, SqlError, share_consumption};

const DAY_MS: f64 = 86_400_000.0;

/// What one request cost. Values that are not above zero are not recorded.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub tokens: f64,
    pub usd: f64,
    pub requests: f64,
}

impl Cost {
    /// The part of a unit; percent is what the provider reports and is never added up here.
    #[must_use]
    pub fn of(&self, unit: &str) -> f64 {
        match unit {
            "tokens" => self.tokens,
            "usd" => self.usd,
            "requests" => self.requests,
            _ => 0.0,
        }
    }
}

/// What became of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    All,
    /// There was nothing to record, or a part was refused (after the warning).
    Nothing,
    /// The plan is one on which the host's own code throws (recorded behaviour only).
    Unreadable,
}

/// Where the costs of a key on a connection are counted.
#[derive(Debug)]
pub struct Target {
    pub pool_id: String,
    pub plan: Rc<Plan>,
    /// Unit in which the model has a cap.
    pub model_unit: Option<String>,
}

impl ShareEngine {
    /// Where the key's costs go; `None` when it has no pool there. (Also for a store of the host's.)
    pub fn target(
        &self,
        key: &str,
        connection_id: &str,
        provider: &str,
        model: &str,
    ) -> Option<Target> {
        let Some(conn) = self.link.conn() else {
            self.link
                .warn("quota:record", "not recorded: no database connection");
            return None;
        };
        self.view(&conn, |view| {
            self.target_in(view, key, connection_id, provider, model)
        })
        .unwrap_or_else(|error| {
            self.link
                .warn("quota:record", format!("not recorded: {error}"));
            None
        })
    }

    fn target_in(
        &self,
        view: &mut View<'_>,
        key: &str,
        connection_id: &str,
        provider: &str,
        model: &str,
    ) -> Result<Option<Target>, SqlError> {
        let Some(membership) = view.membership(key, connection_id)? else {
            return Ok(None);
        };
        let (plan, _) = view.plan(&self.plans, connection_id, provider, self.compat);
        let model_unit = if model.is_empty() {
            None
        } else {
            view.model_cap(&membership.pool_id, key, model)
                .unwrap_or_default()
                .filter(|cap| cap.cap_value > UNKNOWN_LIMIT)
                .map(|cap| cap.cap_unit)
        };
        Ok(Some(Target {
            pool_id: membership.pool_id.clone(),
            plan,
            model_unit,
        }))
    }

    /// Adds the cost to every counter it belongs to, as one transaction.
    pub fn record(
        &self,
        key: &str,
        connection_id: &str,
        provider: &str,
        model: &str,
        cost: &Cost,
        now: f64,
    ) -> Recorded {
        let Some(target) = self.target(key, connection_id, provider, model) else {
            return Recorded::Nothing;
        };
        if target.plan.unreadable {
            return Recorded::Unreadable;
        }
        let Some(conn) = self.link.conn() else {
            return Recorded::Nothing;
        };
        let counters: Vec<(String, f64, f64)> = target
            .counters(model)
            .into_iter()
            .filter_map(|(dimension, window, unit)| {
                let part = cost.of(unit);
                (part > 0.0).then_some((dimension, window, part))
            })
            .collect();
        if counters.is_empty() {
            return Recorded::Nothing;
        }
        let mut failures: Vec<String> = Vec::new();
        let written = self.write(&conn, || {
            conn.write_together(|conn| {
                let mut added = Vec::with_capacity(counters.len());
                for (dimension, window, cost) in &counters {
                    let bucket = bucket_index(now, *window);
                    // One refused counter must not cost the others their part.
                    match share_consumption::increment(conn, key, dimension, bucket, *cost, now) {
                        Ok(()) => added.push(Added {
                            key,
                            dimension,
                            bucket,
                            cost: *cost,
                        }),
                        Err(error) => failures.push(error.to_string()),
                    }
                }
                Ok(added)
            })
        });
        failures.extend(written.err().map(|error| error.to_string()));
        if failures.is_empty() {
            return Recorded::All;
        }
        self.link.warn(
            "quota:record",
            format!("not recorded: {}", failures.join("; ")),
        );
        Recorded::Nothing
    }

    /// Adds to one counter; its new value. (`QuotaStore.consume`.)
    pub fn consume(
        &self,
        conn: &Conn,
        key: &str,
        dimension: &str,
        window: f64,
        cost: f64,
        now: f64,
    ) -> Result<f64, SqlError> {
        let bucket = bucket_index(now, window);
        self.write(conn, || {
            share_consumption::increment(conn, key, dimension, bucket, cost, now)?;
            Ok(vec![Added {
                key,
                dimension,
                bucket,
                cost,
            }])
        })?;
        self.peek(conn, key, dimension, window, now)
    }

    /// The value of one counter. (`QuotaStore.peek`.)
    pub fn peek(
        &self,
        conn: &Conn,
        key: &str,
        dimension: &str,
        window: f64,
        now: f64,
    ) -> Result<f64, SqlError> {
        let pair = self.view(conn, |view| {
            view.own(&dimension.into(), key, bucket_index(now, window))
        })?;
        Ok(sliding::value(pair, now, window))
    }

    /// The value of one counter over all keys: both buckets are summed, then faded once.
    pub fn dimension_total(
        &self,
        conn: &Conn,
        dimension: &str,
        window: f64,
        now: f64,
    ) -> Result<f64, SqlError> {
        let pair = self.view(conn, |view| {
            view.totals(&dimension.into(), bucket_index(now, window))
        })?;
        Ok(sliding::value(pair, now, window))
    }

    /// Forgets one counter. (`QuotaStore.clear`.)
    pub fn clear(
        &self,
        conn: &Conn,
        key: &str,
        dimension: &str,
        window: f64,
        now: f64,
    ) -> Result<(), SqlError> {
        share_consumption::clear(conn, key, dimension, bucket_index(now, window), now)
    }

    /// Deletes buckets last written longer ago than the retention; how many. Corrected: not those that still count.
    pub fn collect(&self, conn: &Conn, retention_days: f64, now: f64) -> Result<u64, SqlError> {
        let cutoff = now - retention_days * DAY_MS;
        if self.compat.is_recorded() {
            share_consumption::delete_older_than(conn, cutoff)
        } else {
            share_consumption::delete_spent(conn, cutoff, now)
        }
    }
}

impl Target {
    /// Dimension key, window length and unit of every counter a cost may belong to: all limits of the plan, then the model.
    #[must_use]
    pub fn counters(&self, model: &str) -> Vec<(String, f64, &str)> {
        let of_plan = self
            .plan
            .dimensions
            .iter()
            .map(|PlanDimension { unit, window, .. }| {
                (
                    dimension_key(&self.pool_id, unit, window),
                    window_ms(window),
                    unit.as_str(),
                )
            });
        let of_model = self.model_unit.iter().map(|unit| {
            (
                dimension_key(&model_pool_id(&self.pool_id, model), unit, "hourly"),
                window_ms("hourly"),
                unit.as_str(),
            )
        });
        of_plan.chain(of_model).collect()
    }
}
