//! Which plan applies to a connection: its stored row, else what is known of the provider, else none. Owns that order and
//! keeps parsed plans by their text, so that a plan is parsed once and not once per request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::ShareEngine;
use crate::core::Compat;
use crate::core::share::UNKNOWN_LIMIT;
use crate::core::share::plan::{PlanDimension, StoredPlan, parse_stored};
use crate::providers::plans::known_plan;
use crate::store::sqlite::share_plans::{self, PlanRow};
use crate::store::sqlite::{Conn, SqlError};

/// A plan ready to be enforced.
#[derive(Debug)]
pub struct Plan {
    /// Tells plans apart: signals gathered for one plan must not be read for another.
    pub id: u32,
    /// All limits; what is recorded.
    pub dimensions: Vec<PlanDimension>,
    /// The limits that are known; what is enforced.
    pub enforced: Vec<PlanDimension>,
    /// A text that the host's own code throws on.
    pub unreadable: bool,
}

/// Distinct plans kept at once; a host has a handful per provider.
const MAX_PLANS: usize = 4096;

/// What applies to a connection.
#[derive(Debug)]
pub struct ResolvedPlan {
    pub plan: Rc<Plan>,
    /// The row it comes from; `None`: from the catalog, or no plan.
    pub stored: Option<PlanRow>,
    /// The refusal of the plans table.
    pub error: Option<SqlError>,
}

/// Names that every JavaScript object answers to: the host's catalog, an object, throws when a provider is called so.
const OBJECT_PROPERTIES: [&str; 12] = [
    "constructor",
    "__proto__",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
];

impl ShareEngine {
    /// The plan that applies to a connection. Never an error: a failing plans table is no stored plan.
    #[must_use]
    pub fn resolve_plan(&self, connection_id: &str, provider: &str) -> ResolvedPlan {
        match self.link.conn() {
            Some(conn) => self
                .plans
                .resolve(&conn, connection_id, provider, self.compat),
            None => ResolvedPlan {
                plan: self.plans.known(provider, self.compat),
                stored: None,
                error: None,
            },
        }
    }
}

/// Parsed plans by text.
#[derive(Default)]
pub struct PlanShelf {
    by_text: RefCell<FxHashMap<String, Rc<Plan>>>,
    by_provider: RefCell<FxHashMap<&'static str, Rc<Plan>>>,
    empty: RefCell<Option<Rc<Plan>>>,
    next_id: Cell<u32>,
}

impl PlanShelf {
    pub fn clear(&self) {
        self.by_text.borrow_mut().clear();
    }

    /// The plan of a connection, and the refusal of the plans table if there was one: the catalog answers then.
    pub fn resolve(
        &self,
        conn: &Conn,
        connection_id: &str,
        provider: &str,
        compat: Compat,
    ) -> ResolvedPlan {
        let (row, error) = match share_plans::get(conn, connection_id) {
            Ok(row) => (row, None),
            Err(error) => (None, Some(error)),
        };
        let stored = row.and_then(|row| {
            let plan = self.parsed(&row.dimensions_json);
            let counts = !plan.dimensions.is_empty() || (plan.unreadable && compat.is_recorded());
            counts.then_some((row, plan))
        });
        match stored {
            Some((row, plan)) => ResolvedPlan {
                plan,
                stored: Some(row),
                error,
            },
            None => ResolvedPlan {
                plan: self.known(provider, compat),
                stored: None,
                error,
            },
        }
    }

    fn parsed(&self, text: &str) -> Rc<Plan> {
        if let Some(plan) = self.by_text.borrow().get(text) {
            return Rc::clone(plan);
        }
        let plan = match parse_stored(text) {
            StoredPlan::Empty => self.make(Vec::new(), false),
            StoredPlan::Dimensions(dimensions) => self.make(dimensions, false),
            StoredPlan::Unreadable => self.make(Vec::new(), true),
        };
        let mut shelf = self.by_text.borrow_mut();
        if shelf.len() >= MAX_PLANS {
            shelf.clear();
        }
        shelf.insert(text.to_owned(), Rc::clone(&plan));
        plan
    }

    fn known(&self, provider: &str, compat: Compat) -> Rc<Plan> {
        let Some((name, dimensions)) = known_plan(provider) else {
            if compat.is_recorded() && OBJECT_PROPERTIES.contains(&provider) {
                return self.make(Vec::new(), true);
            }
            return Rc::clone(
                self.empty
                    .borrow_mut()
                    .get_or_insert_with(|| self.make(Vec::new(), false)),
            );
        };
        let mut shelf = self.by_provider.borrow_mut();
        let plan = shelf.entry(name).or_insert_with(|| {
            let owned = dimensions
                .iter()
                .map(|(unit, window, limit)| PlanDimension {
                    unit: (*unit).to_owned(),
                    window: (*window).to_owned(),
                    limit: *limit,
                });
            self.make(owned.collect(), false)
        });
        Rc::clone(plan)
    }

    fn make(&self, dimensions: Vec<PlanDimension>, unreadable: bool) -> Rc<Plan> {
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1));
        let enforced = dimensions
            .iter()
            .filter(|dimension| dimension.limit > UNKNOWN_LIMIT)
            .cloned()
            .collect();
        Rc::new(Plan {
            id,
            dimensions,
            enforced,
            unreadable,
        })
    }
}
