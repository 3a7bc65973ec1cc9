//! The counters of one dimension in memory: totals as the database summed them, or the rows themselves in the order in
//! which it sums them. Owns how an own write moves them; when they are out of date is not its concern.

use rustc_hash::FxHashMap;

use crate::core::share::sliding::Pair;
use crate::core::share::sum::CompensatedSum;
use crate::store::sqlite::{Conn, SqlError, share_consumption};

/// Both buckets of a dimension, row by row, in the order in which SQLite sums them.
pub struct Rows {
    curr: Vec<f64>,
    prev: Vec<f64>,
    /// Where a key's rows are.
    place: FxHashMap<Box<str>, Place>,
    /// How many there were when they were loaded: what the bound on all rows goes by.
    pub loaded: usize,
}

#[derive(Clone, Copy, Default)]
struct Place {
    curr: Option<usize>,
    prev: Option<usize>,
}

/// What is known of one dimension's counters in one bucket and the one before it.
pub struct Counters {
    pub bucket: f64,
    /// Known pairs by key; not used once the rows are loaded.
    pub own: FxHashMap<Box<str>, Pair>,
    pub totals: Option<Pair>,
    /// An own write came after the database was asked for the totals.
    pub moved: bool,
    pub rows: Option<Rows>,
}

impl Counters {
    pub fn new(bucket: f64) -> Self {
        Self {
            bucket,
            own: FxHashMap::default(),
            totals: None,
            moved: false,
            rows: None,
        }
    }

    pub fn apply(&mut self, key: &str, bucket: f64, cost: f64) {
        // Bucket numbers are whole.
        let is_current = bucket.to_bits() == self.bucket.to_bits();
        if !is_current && (bucket + 1.0).to_bits() != self.bucket.to_bits() {
            return;
        }
        if let Some(pair) = self.own.get_mut(key) {
            *(if is_current {
                &mut pair.curr
            } else {
                &mut pair.prev
            }) += cost;
        }
        self.moved |= self.totals.take().is_some();
        if let Some(rows) = &mut self.rows {
            rows.apply(key, is_current, cost);
        }
    }
}

impl Rows {
    pub fn load(conn: &Conn, dimension: &str, bucket: f64) -> Result<Self, SqlError> {
        let mut rows = Self {
            curr: Vec::new(),
            prev: Vec::new(),
            place: FxHashMap::default(),
            loaded: 0,
        };
        for (key, is_current, consumed) in
            share_consumption::dimension_rows(conn, dimension, bucket)?
        {
            rows.push(key.into_boxed_str(), is_current, consumed);
        }
        rows.loaded = rows.curr.len() + rows.prev.len();
        Ok(rows)
    }

    fn push(&mut self, key: Box<str>, is_current: bool, consumed: f64) {
        let place = self.place.entry(key).or_default();
        let (values, slot) = if is_current {
            (&mut self.curr, &mut place.curr)
        } else {
            (&mut self.prev, &mut place.prev)
        };
        *slot = Some(values.len());
        values.push(consumed);
    }

    /// A new row comes last: its rowid is the highest.
    fn apply(&mut self, key: &str, is_current: bool, cost: f64) {
        let place = self.place.get(key).copied().unwrap_or_default();
        match if is_current { place.curr } else { place.prev } {
            Some(at) if is_current => self.curr[at] += cost,
            Some(at) => self.prev[at] += cost,
            None => self.push(key.into(), is_current, cost),
        }
    }

    pub fn pair(&self, key: &str) -> Pair {
        let place = self.place.get(key).copied().unwrap_or_default();
        Pair {
            curr: place.curr.map_or(0.0, |at| self.curr[at]),
            prev: place.prev.map_or(0.0, |at| self.prev[at]),
        }
    }

    pub fn totals(&self) -> Pair {
        let sum = |values: &[f64]| values.iter().copied().collect::<CompensatedSum>().total();
        Pair {
            curr: sum(&self.curr),
            prev: sum(&self.prev),
        }
    }
}
