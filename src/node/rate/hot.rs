//! The calls that a router makes for every candidate of every request: functions of numbers, the first of which is the
//! engine's.
//!
//! Limits and caps that are NaN do not exist. Handles and ids come from this layer; a number that is none saturates to one
//! that was never given.

use napi::bindgen_prelude::{Env, Object};
use napi_derive::napi;

use super::{Cell, ENGINES, admission};
use crate::engine::rate::RateEngine as Engine;
use crate::node::error::{Code, Result, fail};
use crate::node::link::is_link_closed;
use crate::node::raw::Table;
use crate::providers::caps::AccountCap;

/// The functions, by name.
#[napi(
    catch_unwind,
    ts_return_type = "Record<string, (...args: Array<any>) => number>"
)]
pub fn hot(env: &Env) -> napi::Result<Object<'_>> {
    let table = Table::new(env)?
        .numbers(c"canMakeRequest", can_make_request)?
        .numbers(c"canUseTokens", can_use_tokens)?
        .numbers(c"isOnCooldown", is_on_cooldown)?
        .numbers(c"canUseProvider", can_use_provider)?
        .numbers(c"canUseProviderMinute", can_use_provider_minute)?
        .numbers(c"canUseProviderTokens", can_use_provider_tokens)?
        .numbers(c"inFlight", in_flight)?
        .numbers(c"acquireLease", acquire_lease)?
        .numbers(c"releaseLease", release_lease)?
        .numbers(c"recordRequest", record_request)?
        .numbers(c"recordTokens", record_tokens)?
        .array_and_numbers(c"admit", admission::admit)?
        .numbers(c"settle", admission::settle)?
        .numbers(c"cancel", admission::cancel)?
        .numbers(c"isLinkClosed", is_link_closed)?;
    Ok(table.into_object())
}

pub(super) fn with<T>(engine: f64, call: impl FnOnce(&Cell) -> Result<T>) -> Result<T> {
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

fn ask(engine: f64, question: impl FnOnce(&mut Engine) -> bool) -> Result<f64> {
    with(engine, |cell| {
        let answer = question(&mut *cell.engine()?);
        Ok(cell.verdict(answer))
    })
}

fn limit(number: f64) -> Option<f64> {
    (!number.is_nan()).then_some(number)
}

fn can_make_request([engine, route, now, rpm, rpd]: [f64; 5]) -> Result<f64> {
    ask(engine, |engine| {
        engine.can_make_request(route as u32, now, rpm, rpd)
    })
}

fn can_use_tokens([engine, route, now, wanted, tpm, tpd]: [f64; 6]) -> Result<f64> {
    ask(engine, |engine| {
        engine.can_use_tokens(route as u32, now, wanted, tpm, tpd)
    })
}

fn is_on_cooldown([engine, route, now]: [f64; 3]) -> Result<f64> {
    ask(engine, |engine| engine.is_on_cooldown(route as u32, now))
}

fn can_use_provider([engine, account, now, published]: [f64; 4]) -> Result<f64> {
    let cap = AccountCap::DailyRequests;
    ask(engine, |engine| {
        engine.request_cap_admits(cap, account as u32, now, limit(published))
    })
}

fn can_use_provider_minute([engine, account, now, published]: [f64; 4]) -> Result<f64> {
    let cap = AccountCap::MinuteRequests;
    ask(engine, |engine| {
        engine.request_cap_admits(cap, account as u32, now, limit(published))
    })
}

fn can_use_provider_tokens([engine, route, wanted, now, published]: [f64; 5]) -> Result<f64> {
    ask(engine, |engine| {
        engine.can_use_provider_tokens(route as u32, wanted, now, limit(published))
    })
}

fn in_flight([engine, account, now]: [f64; 3]) -> Result<f64> {
    with(engine, |cell| {
        Ok(f64::from(cell.engine()?.in_flight(account as u32, now)))
    })
}

fn acquire_lease([engine, route, tokens, now]: [f64; 4]) -> Result<f64> {
    with(engine, |cell| {
        Ok(cell.engine()?.acquire_lease(route as u32, tokens, now) as f64)
    })
}

fn release_lease([engine, id]: [f64; 2]) -> Result<f64> {
    with(engine, |cell| {
        if id.fract() == 0.0 {
            cell.engine()?.release_lease(id as u64);
        }
        Ok(0.0)
    })
}

/// A verdict: bit 1 when there is something to tell the host.
fn record_request([engine, route, now]: [f64; 3]) -> Result<f64> {
    ask(engine, |engine| {
        engine.record_request(route as u32, now);
        false
    })
}

fn record_tokens([engine, route, tokens, now]: [f64; 4]) -> Result<f64> {
    ask(engine, |engine| {
        engine.record_tokens(route as u32, tokens, now);
        false
    })
}
