//! The calls that a router makes for every candidate of every request: plain functions on an engine's number.
//!
//! Limits and caps that are NaN do not exist.

use napi_derive::napi;

use super::{Cell, ENGINES};
use crate::engine::rate::RateEngine as Engine;
use crate::node::error::{Code, Result, fail};
use crate::providers::caps::AccountCap;

pub(super) fn with<T>(engine: u32, call: impl FnOnce(&Cell) -> Result<T>) -> Result<T> {
    let cell = ENGINES.with_borrow(|engines| {
        engines
            .get(engine as usize)
            .and_then(std::rc::Weak::upgrade)
    });
    match cell {
        Some(cell) => call(&cell),
        None => fail(Code::Internal, "there is no engine of this number"),
    }
}

fn ask(engine: u32, question: impl FnOnce(&mut Engine) -> bool) -> Result<u32> {
    with(engine, |cell| {
        let answer = question(&mut *cell.engine()?);
        Ok(cell.verdict(answer))
    })
}

fn limit(number: f64) -> Option<f64> {
    (!number.is_nan()).then_some(number)
}

#[napi(catch_unwind)]
pub fn can_make_request(engine: u32, route: u32, now: f64, rpm: f64, rpd: f64) -> Result<u32> {
    ask(engine, |engine| {
        engine.can_make_request(route, now, rpm, rpd)
    })
}

#[napi(catch_unwind)]
pub fn can_use_tokens(
    engine: u32,
    route: u32,
    now: f64,
    wanted: f64,
    tpm: f64,
    tpd: f64,
) -> Result<u32> {
    ask(engine, |engine| {
        engine.can_use_tokens(route, now, wanted, tpm, tpd)
    })
}

#[napi(catch_unwind)]
pub fn is_on_cooldown(engine: u32, route: u32, now: f64) -> Result<u32> {
    ask(engine, |engine| engine.is_on_cooldown(route, now))
}

#[napi(catch_unwind)]
pub fn can_use_provider(engine: u32, account: u32, now: f64, published: f64) -> Result<u32> {
    ask(engine, |engine| {
        engine.request_cap_admits(AccountCap::DailyRequests, account, now, limit(published))
    })
}

#[napi(catch_unwind)]
pub fn can_use_provider_minute(engine: u32, account: u32, now: f64, published: f64) -> Result<u32> {
    ask(engine, |engine| {
        engine.request_cap_admits(AccountCap::MinuteRequests, account, now, limit(published))
    })
}

#[napi(catch_unwind)]
pub fn can_use_provider_tokens(
    engine: u32,
    route: u32,
    wanted: f64,
    now: f64,
    published: f64,
) -> Result<u32> {
    ask(engine, |engine| {
        engine.can_use_provider_tokens(route, wanted, now, limit(published))
    })
}

#[napi(catch_unwind)]
pub fn in_flight(engine: u32, account: u32, now: f64) -> Result<u32> {
    with(engine, |cell| Ok(cell.engine()?.in_flight(account, now)))
}

#[napi(catch_unwind)]
#[allow(clippy::cast_precision_loss)] // ids stay far below 2^53
pub fn acquire_lease(engine: u32, route: u32, tokens: f64, now: f64) -> Result<f64> {
    with(engine, |cell| {
        Ok(cell.engine()?.acquire_lease(route, tokens, now) as f64)
    })
}

#[napi(catch_unwind)]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // what is no id saturates to one never given
pub fn release_lease(engine: u32, id: f64) -> Result<()> {
    with(engine, |cell| {
        if id.fract() == 0.0 {
            cell.engine()?.release_lease(id as u64);
        }
        Ok(())
    })
}

/// 1 when there is something to tell the host.
#[napi(catch_unwind)]
pub fn record_request(engine: u32, route: u32, now: f64) -> Result<u32> {
    ask(engine, |engine| {
        engine.record_request(route, now);
        false
    })
}

#[napi(catch_unwind)]
pub fn record_tokens(engine: u32, route: u32, tokens: f64, now: f64) -> Result<u32> {
    ask(engine, |engine| {
        engine.record_tokens(route, tokens, now);
        false
    })
}
