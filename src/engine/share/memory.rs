//! What quota sharing keeps in memory of the database, exact: everything here was read under one stamp and is dropped as
//! soon as the stamp is another. Owns what is kept and how an own write moves it; inside a transaction nothing here is
//! used, the database is asked.
//!
//! A dimension's totals are kept as SQLite summed them. A sum of floats cannot be moved by one summand to the last bit, so
//! after an own write the rows are loaded once, in SQLite's order, and summed here the way SQLite sums.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::counters::{Counters, Rows};
use super::plans::{Plan, PlanShelf, ResolvedPlan};
use crate::core::Compat;
use crate::core::share::dimension_key;
use crate::core::share::sliding::{Pair, window_ms};
use crate::store::sqlite::share_lookup::{self, Membership};
use crate::store::sqlite::share_plans::{self, ModelCap};
use crate::store::sqlite::share_pools::{self, Pool};
use crate::store::sqlite::{BeforeChange, Conn, SqlError, Stamp, share_consumption};

/// Entries of one kind; beyond it all are let go and read again as needed.
const MAX_ENTRIES: usize = 20_000;
/// Rows over all dimensions; about 50 bytes each.
const MAX_ROWS: usize = 1_000_000;

/// One enforced limit of a plan in a pool.
#[derive(Debug)]
pub struct Limit {
    /// The dimension key of its counters.
    pub key: Rc<str>,
    /// Window length in ms.
    pub window: f64,
}

/// Values by two names.
type ByNames<T> = FxHashMap<Box<str>, FxHashMap<Box<str>, T>>;

/// Everything kept under one stamp.
#[derive(Default)]
pub struct Memory {
    stamp: Option<Stamp>,
    generation: u64,
    /// Key, then connection.
    memberships: ByNames<Option<Rc<Membership>>>,
    /// Connection, then provider.
    plans: ByNames<Rc<Plan>>,
    /// Pool, then plan.
    limits: FxHashMap<Box<str>, FxHashMap<u32, Rc<[Limit]>>>,
    /// Pool, key and model.
    model_caps: FxHashMap<(String, String, String), Option<ModelCap>>,
    pools: FxHashMap<Box<str>, Option<Rc<Pool>>>,
    counters: FxHashMap<Rc<str>, Counters>,
    rows: usize,
}

/// One own increment.
#[derive(Debug, Clone, Copy)]
pub struct Added<'a> {
    pub key: &'a str,
    pub dimension: &'a str,
    pub bucket: f64,
    pub cost: f64,
}

impl Memory {
    /// Whether what is kept may be used and added to. `generation` tells connections of the instance apart.
    pub fn refresh(&mut self, conn: &Conn, generation: u64) -> bool {
        let Some(stamp) = conn.stamp(self.stamp) else {
            return false;
        };
        let entries = [
            self.memberships.len(),
            self.plans.len(),
            self.limits.len(),
            self.model_caps.len(),
            self.pools.len(),
            self.counters.len(),
        ];
        let full = entries.iter().any(|entries| *entries > MAX_ENTRIES);
        if self.stamp != Some(stamp) || self.generation != generation || full {
            *self = Self {
                stamp: Some(stamp),
                generation,
                ..Self::default()
            };
        }
        true
    }

    /// Before an own write of counters.
    pub fn begin(&self, conn: &Conn, generation: u64) -> Option<BeforeChange> {
        conn.begin_change(self.stamp.filter(|_| self.generation == generation))
    }

    /// After it: moves what is kept along, or lets it go when more happened than these increments.
    pub fn end(&mut self, conn: &Conn, before: Option<BeforeChange>, added: &[Added<'_>]) {
        let rows = i32::try_from(added.len()).unwrap_or(i32::MAX);
        self.stamp = before.and_then(|before| conn.end_change(before, rows));
        if self.stamp.is_none() {
            return;
        }
        for Added {
            key,
            dimension,
            bucket,
            cost,
        } in added
        {
            if let Some(counters) = self.counters.get_mut(*dimension) {
                counters.apply(key, *bucket, *cost);
            }
        }
    }

    fn counters(&mut self, dimension: &Rc<str>, bucket: f64) -> &mut Counters {
        let counters = self
            .counters
            .entry(Rc::clone(dimension))
            .or_insert_with(|| Counters::new(bucket));
        if counters.bucket.to_bits() != bucket.to_bits() {
            self.rows -= counters.rows.as_ref().map_or(0, |rows| rows.loaded);
            *counters = Counters::new(bucket);
        }
        counters
    }

    /// Loads the rows of a dimension; false when there is no room for them.
    fn load_rows(
        &mut self,
        conn: &Conn,
        dimension: &Rc<str>,
        bucket: f64,
    ) -> Result<bool, SqlError> {
        if self.counters(dimension, bucket).rows.is_some() {
            return Ok(true);
        }
        if self.rows > MAX_ROWS {
            return Ok(false);
        }
        let rows = Rows::load(conn, dimension, bucket)?;
        self.rows += rows.loaded;
        self.counters(dimension, bucket).rows = Some(rows);
        Ok(true)
    }
}

/// The database as one call sees it: through what is kept, or directly.
pub struct View<'a> {
    pub conn: &'a Conn,
    pub memory: Option<&'a mut Memory>,
}

impl View<'_> {
    pub fn membership(
        &mut self,
        key: &str,
        connection_id: &str,
    ) -> Result<Option<Rc<Membership>>, SqlError> {
        let kept = self
            .memory
            .as_ref()
            .and_then(|memory| memory.memberships.get(key)?.get(connection_id));
        if let Some(kept) = kept {
            return Ok(kept.clone());
        }
        let found = share_lookup::membership(self.conn, key, connection_id)?.map(Rc::new);
        if let Some(memory) = &mut self.memory {
            memory
                .memberships
                .entry(key.into())
                .or_default()
                .insert(connection_id.into(), found.clone());
        }
        Ok(found)
    }

    /// The plan, and the refusal of the plans table if there was one (not kept: it may be back the next time).
    pub fn plan(
        &mut self,
        shelf: &PlanShelf,
        connection_id: &str,
        provider: &str,
        compat: Compat,
    ) -> (Rc<Plan>, Option<SqlError>) {
        let kept = self
            .memory
            .as_ref()
            .and_then(|memory| memory.plans.get(connection_id)?.get(provider));
        if let Some(kept) = kept {
            return (Rc::clone(kept), None);
        }
        let ResolvedPlan { plan, error, .. } =
            shelf.resolve(self.conn, connection_id, provider, compat);
        if let (Some(memory), None) = (&mut self.memory, &error) {
            memory
                .plans
                .entry(connection_id.into())
                .or_default()
                .insert(provider.into(), Rc::clone(&plan));
        }
        (plan, error)
    }

    /// The counters of a plan's enforced limits in a pool.
    pub fn limits(&mut self, pool_id: &str, plan: &Plan) -> Rc<[Limit]> {
        let kept = self
            .memory
            .as_ref()
            .and_then(|memory| memory.limits.get(pool_id)?.get(&plan.id));
        if let Some(kept) = kept {
            return Rc::clone(kept);
        }
        let limits: Rc<[Limit]> = plan
            .enforced
            .iter()
            .map(|limit| Limit {
                key: dimension_key(pool_id, &limit.unit, &limit.window).into(),
                window: window_ms(&limit.window),
            })
            .collect();
        if let Some(memory) = &mut self.memory {
            memory
                .limits
                .entry(pool_id.into())
                .or_default()
                .insert(plan.id, Rc::clone(&limits));
        }
        limits
    }

    pub fn model_cap(
        &mut self,
        pool_id: &str,
        key: &str,
        model: &str,
    ) -> Result<Option<ModelCap>, SqlError> {
        let names = (pool_id.to_owned(), key.to_owned(), model.to_owned());
        if let Some(kept) = self
            .memory
            .as_ref()
            .and_then(|memory| memory.model_caps.get(&names))
        {
            return Ok(kept.clone());
        }
        let cap = share_plans::get_model_cap(self.conn, pool_id, key, model)?;
        if let Some(memory) = &mut self.memory {
            memory.model_caps.insert(names, cap.clone());
        }
        Ok(cap)
    }

    pub fn pool(&mut self, id: &str) -> Result<Option<Rc<Pool>>, SqlError> {
        if let Some(kept) = self.memory.as_ref().and_then(|memory| memory.pools.get(id)) {
            return Ok(kept.clone());
        }
        let pool = share_pools::get(self.conn, id)?.map(Rc::new);
        if let Some(memory) = &mut self.memory {
            memory.pools.insert(id.into(), pool.clone());
        }
        Ok(pool)
    }

    /// The two buckets of a key's counter.
    pub fn own(&mut self, dimension: &Rc<str>, key: &str, bucket: f64) -> Result<Pair, SqlError> {
        let Some(memory) = &mut self.memory else {
            return share_consumption::pair(self.conn, key, dimension, bucket);
        };
        let counters = memory.counters(dimension, bucket);
        if let Some(rows) = &counters.rows {
            return Ok(rows.pair(key));
        }
        if let Some(pair) = counters.own.get(key) {
            return Ok(*pair);
        }
        let pair = share_consumption::pair(self.conn, key, dimension, bucket)?;
        counters.own.insert(key.into(), pair);
        Ok(pair)
    }

    /// The two buckets of a dimension over all keys.
    pub fn totals(&mut self, dimension: &Rc<str>, bucket: f64) -> Result<Pair, SqlError> {
        let Some(memory) = &mut self.memory else {
            return share_consumption::dimension_totals(self.conn, dimension, bucket);
        };
        let counters = memory.counters(dimension, bucket);
        if let Some(totals) = counters.totals {
            return Ok(totals);
        }
        // Moved by an own write since the database summed them: now the rows are worth loading.
        let moved = counters.moved;
        let totals = if moved && memory.load_rows(self.conn, dimension, bucket)? {
            memory
                .counters(dimension, bucket)
                .rows
                .as_ref()
                .map_or_else(Pair::default, Rows::totals)
        } else {
            share_consumption::dimension_totals(self.conn, dimension, bucket)?
        };
        memory.counters(dimension, bucket).totals = Some(totals);
        Ok(totals)
    }

    /// The two buckets of many keys' counters, and of all keys together.
    pub fn pairs<'k>(
        &mut self,
        dimension: &Rc<str>,
        bucket: f64,
        keys: impl Iterator<Item = &'k str>,
    ) -> Result<(Vec<Pair>, Pair), SqlError> {
        if let Some(memory) = &mut self.memory
            && memory.load_rows(self.conn, dimension, bucket)?
        {
            let counters = memory.counters(dimension, bucket);
            if let Some(rows) = &counters.rows {
                let totals = *counters.totals.get_or_insert_with(|| rows.totals());
                return Ok((keys.map(|key| rows.pair(key)).collect(), totals));
            }
        }
        let rows = Rows::load(self.conn, dimension, bucket)?;
        Ok((keys.map(|key| rows.pair(key)).collect(), rows.totals()))
    }
}
