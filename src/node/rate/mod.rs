//! Rate limits, leases, cooldowns and learned limits, as JavaScript calls them.
//!
//! Hot calls take handles and numbers only: NaN stands for "no limit", an absent text for "no variable". Their answer is
//! a small number: bit 0 the verdict, bit 1 that the instance has something to tell the host.

mod admission;
mod cooldowns;
mod hot;
mod probe;
mod usage;

use std::cell::{RefCell, RefMut};
use std::rc::{Rc, Weak};

use napi_derive::napi;

use super::error::{Code, Result, fail};
use super::link::Link;
use super::to_u32;
use crate::core::Compat;
use crate::core::windows::DayWindow;
use crate::engine::Link as EngineLink;
use crate::engine::rate::{LeasePlace, RateEngine as Engine, RateOptions};

/// The engine behind one JavaScript object.
struct Cell {
    link: EngineLink,
    engine: RefCell<Engine>,
}

thread_local! {
    /// Engines of this thread by number. A method call costs ten times a plain one (Node-API has to find the native object
    /// behind `this`), so hot calls pass this number. The JavaScript object owns the engine; a number whose object is gone
    /// finds nothing.
    static ENGINES: RefCell<Vec<Weak<Cell>>> = const { RefCell::new(Vec::new()) };
}

/// The single-router side of one instance.
#[napi]
pub struct RateEngine {
    cell: Rc<Cell>,
    number: u32,
}

impl Drop for RateEngine {
    fn drop(&mut self) {
        // A weak handle would keep the room of the engine. The thread may be gone already when its objects are collected.
        let _ = ENGINES.try_with(|engines| {
            if let Ok(mut engines) = engines.try_borrow_mut()
                && let Some(slot) = engines.get_mut(self.number as usize)
            {
                *slot = Weak::new();
            }
        });
    }
}

impl Cell {
    /// The engine, unless a function of the host that SQLite calls came back here in the middle of a call.
    fn engine(&self) -> Result<RefMut<'_, Engine>> {
        match self.engine.try_borrow_mut() {
            Ok(engine) => Ok(engine),
            Err(_) => fail(
                Code::Reentrant,
                "a function that SQLite calls must not call back into the engine that is running the statement",
            ),
        }
    }

    fn verdict(&self, allowed: bool) -> f64 {
        f64::from(u8::from(allowed) | (u8::from(self.link.has_notices()) << 1))
    }
}

#[napi]
impl RateEngine {
    #[napi(constructor, catch_unwind)]
    pub fn new(
        link: &Link,
        recorded: bool,
        sliding_day: bool,
        index: bool,
        leases: String,
    ) -> Self {
        let compat = if recorded {
            Compat::Recorded
        } else {
            Compat::Corrected
        };
        let day_window = if sliding_day {
            DayWindow::Sliding24h
        } else {
            DayWindow::UtcDay
        };
        let engine = Engine::new(
            link.link.clone(),
            RateOptions {
                compat,
                day_window,
                index,
                leases: if leases == "file" {
                    LeasePlace::File
                } else {
                    LeasePlace::Memory
                },
            },
        );
        let cell = Rc::new(Cell {
            link: link.link.clone(),
            engine: RefCell::new(engine),
        });
        let number = ENGINES.with_borrow_mut(|engines| {
            engines.push(Rc::downgrade(&cell));
            to_u32(engines.len() - 1)
        });
        Self { cell, number }
    }

    /// The number under which hot calls find this engine.
    #[napi(getter, catch_unwind)]
    pub fn number(&self) -> u32 {
        self.number
    }

    fn engine(&self) -> Result<RefMut<'_, Engine>> {
        self.cell.engine()
    }

    /// The handle of a route.
    #[napi(catch_unwind)]
    pub fn route(&self, platform: String, model: String, key: f64) -> Result<u32> {
        Ok(self.engine()?.routes.route(&platform, &model, key))
    }

    /// The handle of a platform and key.
    #[napi(catch_unwind)]
    pub fn account(&self, platform: String, key: f64) -> Result<u32> {
        Ok(self.engine()?.routes.account(&platform, key))
    }

    /// Frees handles that nothing stands on. The caller has forgotten its own copies.
    #[napi(catch_unwind)]
    pub fn sweep_routes(&self) -> Result<()> {
        self.engine()?.sweep_routes();
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn reset(&self) -> Result<()> {
        self.engine()?.reset();
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn inspect(&self) -> Result<RateInspection> {
        let engine = self.engine()?;
        let counts = engine.inspect();
        Ok(RateInspection {
            leases: to_u32(counts.leases),
            cooldowns: to_u32(counts.cooldowns),
            routes: to_u32(counts.routes),
            pending_events: to_u32(counts.pending_events),
            degraded: engine.is_degraded(),
        })
    }
}

/// Counts for diagnosis.
#[napi(object)]
pub struct RateInspection {
    pub leases: u32,
    pub cooldowns: u32,
    pub routes: u32,
    /// Events that are in memory and in no table.
    pub pending_events: u32,
    pub degraded: bool,
}
