//! What quota sharing keeps in memory of the database, exact: pools and plans are dropped as soon as one of their tables
//! changes, counters as soon as theirs does. Owns what is kept and how an own write moves it; inside a transaction nothing
//! here is used, the database is asked.
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
use crate::store::sqlite::{Conn, Follower, SqlError, Watched, share_consumption};

/// The tables that say who shares what. Names of groups are not kept.
const SETUP: [Watched; 5] = [
    Watched::Pools,
    Watched::PoolConnections,
    Watched::Allocations,
    Watched::Plans,
    Watched::ModelCaps,
];
const POOLS: [Watched; 3] = [
    Watched::Pools,
    Watched::PoolConnections,
    Watched::Allocations,
];
const TABLES: [Watched; 6] = [
    Watched::Consumption,
    Watched::Pools,
    Watched::PoolConnections,
    Watched::Allocations,
    Watched::Plans,
    Watched::ModelCaps,
];

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

/// What is kept of the tables of [`SETUP`] under one version of them.
#[derive(Default)]
struct Setup {
    version: u64,
    /// Key, then connection.
    memberships: ByNames<Option<Rc<Membership>>>,
    /// Connection, then provider.
    plans: ByNames<Rc<Plan>>,
    /// Pool, then plan.
    limits: FxHashMap<Box<str>, FxHashMap<u32, Rc<[Limit]>>>,
    /// Pool, key and model.
    model_caps: FxHashMap<(String, String, String), Option<ModelCap>>,
    pools: FxHashMap<Box<str>, Option<Rc<Pool>>>,
}

impl Setup {
    fn is_full(&self) -> bool {
        let entries = [
            self.memberships.len(),
            self.plans.len(),
            self.limits.len(),
            self.model_caps.len(),
            self.pools.len(),
        ];
        entries.iter().any(|entries| *entries > MAX_ENTRIES)
    }
}

/// Counters of many dimensions under one version of their table.
#[derive(Default)]
struct Consumption {
    version: u64,
    counters: FxHashMap<Rc<str>, Counters>,
    rows: usize,
}

/// Everything kept of one connection.
pub struct Memory {
    generation: u64,
    follower: Follower,
    setup: Setup,
    consumption: Consumption,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            generation: 0,
            follower: Follower::new(&TABLES),
            setup: Setup::default(),
            consumption: Consumption::default(),
        }
    }
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
        if self.generation != generation {
            *self = Self {
                generation,
                ..Self::default()
            };
        }
        if !self.follower.look(conn) {
            return false;
        }
        let version = self.follower.version_of(&SETUP);
        if self.setup.version != version || self.setup.is_full() {
            self.setup = Setup {
                version,
                ..Setup::default()
            };
        }
        let version = self.follower.version(Watched::Consumption);
        if self.consumption.version != version || self.consumption.counters.len() > MAX_ENTRIES {
            self.consumption = Consumption {
                version,
                ..Consumption::default()
            };
        }
        true
    }

    /// After an own write of counters in one commit: moves what is kept along. When more happened to their table than
    /// these increments, its version is another now, and what is kept goes at the next refresh.
    pub fn written(&mut self, conn: &Conn, generation: u64, added: &[Added<'_>]) {
        if self.generation != generation
            || !self
                .follower
                .was_only(conn, Watched::Consumption, added.len() as u64)
        {
            return;
        }
        for Added {
            key,
            dimension,
            bucket,
            cost,
        } in added
        {
            if let Some(counters) = self.consumption.counters.get_mut(*dimension) {
                counters.apply(key, *bucket, *cost);
            }
        }
    }
}

impl Consumption {
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
    /// Where answers from these tables may be kept.
    fn memory_of(&mut self, tables: &[Watched]) -> Option<&mut Memory> {
        self.memory
            .as_deref_mut()
            .filter(|memory| tables.iter().all(|table| memory.follower.is_usable(*table)))
    }

    pub fn membership(
        &mut self,
        key: &str,
        connection_id: &str,
    ) -> Result<Option<Rc<Membership>>, SqlError> {
        let kept = self
            .memory
            .as_ref()
            .and_then(|memory| memory.setup.memberships.get(key)?.get(connection_id));
        if let Some(kept) = kept {
            return Ok(kept.clone());
        }
        let found = share_lookup::membership(self.conn, key, connection_id)?.map(Rc::new);
        if let Some(memory) = self.memory_of(&POOLS) {
            memory
                .setup
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
            .and_then(|memory| memory.setup.plans.get(connection_id)?.get(provider));
        if let Some(kept) = kept {
            return (Rc::clone(kept), None);
        }
        let ResolvedPlan { plan, error, .. } =
            shelf.resolve(self.conn, connection_id, provider, compat);
        if error.is_none()
            && let Some(memory) = self.memory_of(&[Watched::Plans])
        {
            memory
                .setup
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
            .and_then(|memory| memory.setup.limits.get(pool_id)?.get(&plan.id));
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
                .setup
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
            .and_then(|memory| memory.setup.model_caps.get(&names))
        {
            return Ok(kept.clone());
        }
        let cap = share_plans::get_model_cap(self.conn, pool_id, key, model)?;
        if let Some(memory) = self.memory_of(&[Watched::ModelCaps]) {
            memory.setup.model_caps.insert(names, cap.clone());
        }
        Ok(cap)
    }

    pub fn pool(&mut self, id: &str) -> Result<Option<Rc<Pool>>, SqlError> {
        if let Some(kept) = self
            .memory
            .as_ref()
            .and_then(|memory| memory.setup.pools.get(id))
        {
            return Ok(kept.clone());
        }
        let pool = share_pools::get(self.conn, id)?.map(Rc::new);
        if let Some(memory) = self.memory_of(&POOLS) {
            memory.setup.pools.insert(id.into(), pool.clone());
        }
        Ok(pool)
    }

    /// The two buckets of a key's counter.
    pub fn own(&mut self, dimension: &Rc<str>, key: &str, bucket: f64) -> Result<Pair, SqlError> {
        let conn = self.conn;
        let Some(Memory { consumption, .. }) = self.memory_of(&[Watched::Consumption]) else {
            return share_consumption::pair(conn, key, dimension, bucket);
        };
        let counters = consumption.counters(dimension, bucket);
        if let Some(rows) = &counters.rows {
            return Ok(rows.pair(key));
        }
        if let Some(pair) = counters.own.get(key) {
            return Ok(*pair);
        }
        let pair = share_consumption::pair(conn, key, dimension, bucket)?;
        counters.own.insert(key.into(), pair);
        Ok(pair)
    }

    /// The two buckets of a dimension over all keys.
    pub fn totals(&mut self, dimension: &Rc<str>, bucket: f64) -> Result<Pair, SqlError> {
        let conn = self.conn;
        let Some(Memory { consumption, .. }) = self.memory_of(&[Watched::Consumption]) else {
            return share_consumption::dimension_totals(conn, dimension, bucket);
        };
        let counters = consumption.counters(dimension, bucket);
        if let Some(totals) = counters.totals {
            return Ok(totals);
        }
        // Moved by an own write since the database summed them: now the rows are worth loading.
        let moved = counters.moved;
        let totals = if moved && consumption.load_rows(conn, dimension, bucket)? {
            consumption
                .counters(dimension, bucket)
                .rows
                .as_ref()
                .map_or_else(Pair::default, Rows::totals)
        } else {
            share_consumption::dimension_totals(conn, dimension, bucket)?
        };
        consumption.counters(dimension, bucket).totals = Some(totals);
        Ok(totals)
    }

    /// The two buckets of many keys' counters, and of all keys together.
    pub fn pairs<'k>(
        &mut self,
        dimension: &Rc<str>,
        bucket: f64,
        keys: impl Iterator<Item = &'k str>,
    ) -> Result<(Vec<Pair>, Pair), SqlError> {
        let conn = self.conn;
        if let Some(Memory { consumption, .. }) = self.memory_of(&[Watched::Consumption])
            && consumption.load_rows(conn, dimension, bucket)?
        {
            let counters = consumption.counters(dimension, bucket);
            if let Some(rows) = &counters.rows {
                let totals = *counters.totals.get_or_insert_with(|| rows.totals());
                return Ok((keys.map(|key| rows.pair(key)).collect(), totals));
            }
        }
        let rows = Rows::load(conn, dimension, bucket)?;
        Ok((keys.map(|key| rows.pair(key)).collect(), rows.totals()))
    }
}
