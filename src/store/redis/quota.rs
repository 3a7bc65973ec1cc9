//! Counters of quota sharing in Redis, under the key names that replicas with the host's own driver use too. Owns the
//! names and commands; what a value is worth is the core's arithmetic.

use std::sync::LazyLock;

use redis::{FromRedisValue, cmd};

use super::script::Script;
use super::{Client, StoreError};
use crate::core::share::sliding::{Pair, bucket_index, value, window_ms};

static CONSUME: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/consume.lua")));

/// One counter: a key's part of a dimension, written `<poolId>:<unit>:<window>`.
#[derive(Debug, Clone, Copy)]
pub struct Counter<'a> {
    pub api_key: &'a str,
    pub dimension: &'a str,
    pub window: &'a str,
}

/// A counter at an instant.
struct Place {
    current: String,
    previous: String,
    window: f64,
}

/// The counters behind one key prefix.
#[derive(Clone)]
pub struct Counters {
    client: Client,
    prefix: String,
}

impl Counters {
    pub fn new(client: Client, prefix: String) -> Self {
        Self { client, prefix }
    }

    fn place(&self, counter: Counter<'_>, now: f64) -> Result<Place, StoreError> {
        let window = window_ms(counter.window);
        if window.is_nan() || !now.is_finite() {
            return Err(StoreError::Options("no such window"));
        }
        let index = bucket_index(now, window);
        let name = |bucket: f64| {
            let Self { prefix, .. } = self;
            let Counter {
                api_key, dimension, ..
            } = counter;
            format!("{prefix}quota:{api_key}:{dimension}:{bucket}")
        };
        Ok(Place {
            current: name(index),
            previous: name(index - 1.0),
            window,
        })
    }

    /// Adds to a counter; its new value.
    pub async fn consume(
        &self,
        counter: Counter<'_>,
        cost: f64,
        now: f64,
    ) -> Result<f64, StoreError> {
        if !cost.is_finite() {
            return Err(StoreError::Options("a cost must be a finite number"));
        }
        let place = self.place(counter, now)?;
        let expiry = place.window * 2.0;
        let reply = CONSUME
            .run(
                &self.client,
                &[&place.current, &place.previous],
                &[format!("{cost:?}"), format!("{expiry}")],
                self.client.deadline(),
            )
            .await?;
        let [curr, prev]: [Option<String>; 2] = read(reply)?;
        Ok(value(
            Pair {
                curr: number(curr),
                prev: number(prev),
            },
            now,
            place.window,
        ))
    }

    /// Both buckets of many counters, in one command.
    pub async fn pairs(&self, counters: &[Counter<'_>], now: f64) -> Result<Vec<Pair>, StoreError> {
        if counters.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = cmd("MGET");
        for counter in counters {
            let place = self.place(*counter, now)?;
            command.arg(place.current).arg(place.previous);
        }
        let reply = self.client.run(&command, self.client.deadline()).await?;
        let texts: Vec<Option<String>> = read(reply)?;
        Ok(texts
            .chunks_exact(2)
            .map(|both| Pair {
                curr: number(both[0].clone()),
                prev: number(both[1].clone()),
            })
            .collect())
    }

    /// Forgets a counter.
    pub async fn clear(&self, counter: Counter<'_>, now: f64) -> Result<(), StoreError> {
        let place = self.place(counter, now)?;
        let mut command = cmd("DEL");
        command.arg(place.current).arg(place.previous);
        self.client.run(&command, self.client.deadline()).await?;
        Ok(())
    }
}

/// A reply as what it must be.
pub fn read<T: FromRedisValue>(reply: redis::Value) -> Result<T, StoreError> {
    T::from_redis_value(reply)
        .map_err(|_| StoreError::Refused("it does not answer as Redis does".to_owned()))
}

/// A stored counter; one that is not there, or is no number, counts as nothing.
fn number(text: Option<String>) -> f64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0.0)
}
