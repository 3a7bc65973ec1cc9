//! Scheduling and signals, as JavaScript calls them. The facade has checked the types; ids are what `intern` gave.

use napi_derive::napi;

use super::error::{Code, Result, fail};
use crate::core::Compat;
use crate::core::sched::NameId;
use crate::core::sched::headers::{REQUEST_HEADERS, Response, TOKEN_HEADERS};
use crate::core::sched::naming;
use crate::core::sched::slots::{SLOT_TTL_MS, Slot};
use crate::engine::sched::{Sched as Engine, Selection, Target};

/// Numbers per target in the table that `select` reads: key id, connection id (NaN for none), weight, cap (NaN for none).
const COLUMNS: usize = 4;

fn id(number: f64) -> Result<NameId> {
    if number >= 0.0 && number <= f64::from(u32::MAX) && number.fract() == 0.0 {
        return Ok(NameId(number as u32));
    }
    fail(Code::Internal, "not an interned name")
}

fn ms(number: f64) -> Result<f64> {
    if number.is_finite() {
        return Ok(number);
    }
    fail(
        Code::InvalidArgument,
        "a time in ms must be a finite number",
    )
}

#[napi(object)]
pub struct NativeTokenSignal {
    pub saturation: f64,
    pub reset_at: Option<f64>,
}

/// The scheduling state of one instance.
#[napi]
pub struct Scheduler(Engine);

#[napi]
impl Scheduler {
    #[napi(constructor, catch_unwind)]
    pub fn new(recorded: bool) -> Self {
        Self(Engine::new(if recorded {
            Compat::Recorded
        } else {
            Compat::Corrected
        }))
    }

    /// The id of a name, for the calls below. Ids outlive `reset`, but not `forget_unused_names`.
    #[napi(catch_unwind)]
    pub fn intern(&mut self, name: String) -> Result<f64> {
        match self.0.intern(&name) {
            Some(NameId(id)) => Ok(f64::from(id)),
            None => fail(Code::Internal, "too many names"),
        }
    }

    #[napi(catch_unwind)]
    pub fn forget_unused_names(&mut self) {
        self.0.forget_unused_names();
    }

    #[napi(catch_unwind)]
    pub fn reset(&mut self) {
        self.0.reset();
    }

    /// Reads `count` rows of `table`. Gives the slot taken as three numbers (connection, expiry, serial; the first is NaN
    /// when none was), then the positions of the targets in dispatch order.
    #[napi(catch_unwind)]
    pub fn select(
        &mut self,
        table: &[f64],
        count: f64,
        combo: String,
        model_str: String,
        now: f64,
    ) -> Result<Vec<f64>> {
        let now = ms(now)?;
        let targets = table
            .chunks_exact(COLUMNS)
            .take(count as usize)
            .map(|row| {
                let conn = if row[1].is_nan() {
                    None
                } else {
                    Some(id(row[1])?)
                };
                Ok(Target {
                    key: id(row[0])?,
                    conn,
                    weight: row[2],
                    cap: row[3],
                })
            })
            .collect::<Result<Vec<Target>>>()?;
        let Selection { order, slot } = self.0.select(&targets, &combo, &model_str, now);
        let slot = slot.map_or([f64::NAN; 3], |s| {
            [f64::from(s.conn.0), s.expires, s.serial as f64]
        });
        Ok(slot
            .into_iter()
            .chain(order.into_iter().map(|at| at as f64))
            .collect())
    }

    /// Gives back the slot that a selection took; one that is gone is not given back again.
    #[napi(catch_unwind)]
    pub fn give_back(&mut self, conn: f64, expires: f64, serial: f64, now: f64) -> Result<()> {
        let slot = Slot {
            conn: id(conn)?,
            expires: ms(expires)?,
            serial: serial as u64,
        };
        self.0.give_back(slot, ms(now)?);
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn take_slot(&mut self, conn: f64, ttl: f64, now: f64) -> Result<f64> {
        Ok(self.0.take_slot(id(conn)?, ms(ttl)?, ms(now)?) as f64)
    }

    #[napi(catch_unwind)]
    pub fn give_back_one(&mut self, conn: f64, now: f64) -> Result<()> {
        self.0.give_back_one(id(conn)?, ms(now)?);
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn in_flight(&self, conn: f64, now: f64) -> Result<f64> {
        Ok(self.0.in_flight(id(conn)?, ms(now)?) as f64)
    }

    #[napi(catch_unwind)]
    pub fn record_usage(
        &mut self,
        conn: f64,
        window: String,
        used: f64,
        reset: f64,
        now: f64,
    ) -> Result<()> {
        self.0
            .record_usage(id(conn)?, &window, used, reset, ms(now)?);
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn record_quota(
        &mut self,
        conn: f64,
        quota: String,
        used: f64,
        reset: f64,
        now: f64,
    ) -> Result<()> {
        self.0
            .record_quota(id(conn)?, &quota, used, reset, ms(now)?);
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn is_window_saturated(&mut self, conn: f64, window: String, now: f64) -> Result<bool> {
        Ok(self.0.is_window_saturated(id(conn)?, &window, ms(now)?))
    }

    /// `values`: the headers named by `rate_limit_headers`, in its order, null where missing; `instants`: the token resets
    /// read as instants, NaN where they are none.
    #[napi(catch_unwind)]
    pub fn store_headers(
        &mut self,
        conn: String,
        provider: String,
        values: Vec<Option<String>>,
        instants: &[f64],
        now: f64,
    ) -> Result<()> {
        let mut response = Response {
            token_instants: [f64::NAN; TOKEN_HEADERS.len()],
            ..Response::default()
        };
        let cells = response
            .tokens
            .as_flattened_mut()
            .iter_mut()
            .chain(response.requests.as_flattened_mut());
        for (cell, value) in cells.zip(&values) {
            *cell = value.as_deref();
        }
        for (cell, &instant) in response.token_instants.iter_mut().zip(instants) {
            *cell = instant;
        }
        self.0.headers.store(&conn, &provider, &response, ms(now)?);
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn token_signal(
        &self,
        provider: String,
        conn: String,
        now: f64,
    ) -> Result<Option<NativeTokenSignal>> {
        let signal = self.0.headers.tokens(&provider, &conn, ms(now)?);
        Ok(signal.map(|s| NativeTokenSignal {
            saturation: s.saturation,
            reset_at: s.reset_at,
        }))
    }

    /// The used part of Anthropic's request limit, NaN when no fresh header says.
    #[napi(catch_unwind)]
    pub fn anthropic_requests(&self, conn: String, now: f64) -> Result<f64> {
        Ok(self
            .0
            .headers
            .anthropic_requests(&conn, ms(now)?)
            .unwrap_or(f64::NAN))
    }

    #[napi(getter, catch_unwind)]
    pub fn connections_in_flight(&self) -> f64 {
        self.0.connections_in_flight() as f64
    }

    #[napi(getter, catch_unwind)]
    pub fn saturated_windows(&self) -> f64 {
        self.0.saturated_windows() as f64
    }

    /// The credits as JSON: `{combo: {executionKey: deficit}}`.
    #[napi(catch_unwind)]
    pub fn credits(&self) -> String {
        self.0.credits().to_string()
    }
}

/// How long a slot lasts that nobody gives back, in ms.
#[napi(catch_unwind)]
pub fn slot_ttl_ms() -> f64 {
    SLOT_TTL_MS
}

/// The headers that `store_headers` takes: token triples (limit, remaining, reset), then request pairs.
#[napi(catch_unwind)]
pub fn rate_limit_headers() -> Vec<String> {
    let names = TOKEN_HEADERS
        .as_flattened()
        .iter()
        .chain(REQUEST_HEADERS.as_flattened());
    names.map(|&name| name.to_owned()).collect()
}

#[napi(catch_unwind)]
pub fn quota_slug(name: String) -> String {
    naming::slug(&name)
}

#[napi(catch_unwind)]
pub fn quota_model_name(group: String, provider: String, model: String) -> String {
    naming::model_name(&group, &provider, &model)
}

#[napi(catch_unwind)]
pub fn is_quota_model_name(text: String) -> bool {
    naming::is_model_name(&text)
}

/// Slug, provider and model; null when `text` is no complete name of a shared model.
#[napi(catch_unwind)]
pub fn parse_quota_model_name(text: String) -> Option<Vec<String>> {
    naming::parse_model_name(&text).map(|parts| parts.map(str::to_owned).to_vec())
}
