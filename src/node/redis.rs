//! Redis for JavaScript: one client, counters of quota sharing. Checks, converts, calls.
//!
//! Calls run on the addon's own threads and settle a promise. Nothing that JavaScript owns goes there: a worker that is
//! terminated frees its objects while calls are under way. A failure of the store is an answer with a code, because an error
//! that crosses from another thread loses its own.

use std::future::Future;
use std::time::Duration;

use napi::Env;
use napi::bindgen_prelude::{BufferSlice, Float64Array, PromiseRaw};
use napi_derive::napi;

use super::error::{Code, Result, fail};
use crate::core::share::sliding::{Pair, total, value, window_ms};
use crate::store::redis::admission::{
    Admission, Batch, Candidate, LeaseName, Operation, RouteName,
};
use crate::store::redis::quota::{Counter, Counters};
use crate::store::redis::{Client, Sentinel, StoreError, TargetOptions, Tls, sort_reply};

/// One thread serves all clients of the process: they wait more than they work, and a call changes threads only twice.
#[cfg(not(test))]
#[napi_derive::module_init]
fn start_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("quota-core")
        .enable_all()
        .build();
    // Without it napi's own default serves.
    if let Ok(runtime) = runtime {
        napi::bindgen_prelude::create_custom_tokio_runtime(runtime);
    }
}

/// Where the server is.
#[napi(object)]
pub struct RedisTarget {
    pub url: String,
    pub cluster: bool,
    pub nodes: Vec<String>,
    pub sentinel_master: Option<String>,
    pub sentinel_nodes: Vec<String>,
    pub ca: Option<String>,
    pub cert: Option<String>,
    pub key: Option<String>,
    pub timeout_ms: f64,
}

/// What a connection in Node's own event loop needs.
#[napi(object)]
pub struct PlainServer<'env> {
    pub host: String,
    pub port: u32,
    pub greeting: BufferSlice<'env>,
    pub greetings: u32,
}

/// What a call gave: numbers, or a code and a message.
#[napi(object)]
pub struct StoreAnswer {
    pub code: Option<String>,
    pub message: Option<String>,
    pub numbers: Float64Array,
}

/// What a call gives.
type Outcome = std::result::Result<Vec<f64>, StoreError>;

impl From<Outcome> for StoreAnswer {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Ok(numbers) => Self {
                code: None,
                message: None,
                numbers: numbers.into(),
            },
            Err(error) => Self {
                code: Some(code_of(&error).as_ref().to_owned()),
                message: Some(error.to_string()),
                numbers: Vec::new().into(),
            },
        }
    }
}

/// Runs a call on the addon's threads.
fn promise(
    env: &Env,
    work: impl Future<Output = Outcome> + Send + 'static,
) -> napi::Result<PromiseRaw<'_, StoreAnswer>> {
    env.spawn_future_with_callback(async move { Ok(work.await) }, |_, outcome| {
        Ok(StoreAnswer::from(outcome))
    })
}

fn code_of(error: &StoreError) -> Code {
    match error {
        StoreError::Options(_) => Code::InvalidArgument,
        StoreError::Unavailable(_) => Code::StoreUnavailable,
        StoreError::TimedOut(_) => Code::StoreTimeout,
        StoreError::Refused(_) | StoreError::UnknownScript => Code::StoreRefused,
    }
}

/// A client of one server, and the key prefix it works under.
#[napi]
pub struct RedisClient {
    client: Client,
    counters: Counters,
    admission: Admission,
}

#[napi]
impl RedisClient {
    /// Nothing is connected yet.
    #[napi(constructor, catch_unwind)]
    pub fn new(target: RedisTarget, key_prefix: String) -> Result<Self> {
        if !(target.timeout_ms >= 1.0 && target.timeout_ms <= 3_600_000.0) {
            return fail(
                Code::InvalidArgument,
                "options.redis.timeoutMs must be from 1 to 3600000",
            );
        }
        let options = TargetOptions {
            url: target.url,
            sentinel: target.sentinel_master.map(|master| Sentinel {
                master,
                nodes: target.sentinel_nodes,
            }),
            cluster: target.cluster,
            nodes: target.nodes,
            tls: (target.ca.is_some() || target.cert.is_some()).then_some(Tls {
                ca: target.ca,
                cert: target.cert,
                key: target.key,
            }),
        };
        match Client::new(&options, Duration::from_millis(target.timeout_ms as u64)) {
            Ok(client) => Ok(Self {
                counters: Counters::new(client.clone(), key_prefix.clone()),
                admission: Admission::new(client.clone(), key_prefix),
                client,
            }),
            Err(error) => fail(code_of(&error), error.to_string()),
        }
    }

    /// Lets go of the connection; calls under way still end, a later one connects again.
    #[napi(catch_unwind)]
    pub fn disconnect(&self) {
        self.client.disconnect();
    }

    /// Whether the last that was heard of the server is that it is away.
    #[napi(getter, catch_unwind)]
    pub fn away(&self) -> bool {
        self.client.is_away()
    }

    /// Whether the server answers.
    #[napi(catch_unwind)]
    pub fn ping<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, StoreAnswer>> {
        let client = self.client.clone();
        promise(env, async move { client.ping().await.map(|()| Vec::new()) })
    }

    /// Adds to a counter; its new value.
    #[napi(catch_unwind)]
    pub fn quota_consume<'env>(
        &self,
        env: &'env Env,
        api_key: String,
        dimension: String,
        window: String,
        cost: f64,
        now: f64,
    ) -> napi::Result<PromiseRaw<'env, StoreAnswer>> {
        let counters = self.counters.clone();
        promise(env, async move {
            let counter = Counter {
                api_key: &api_key,
                dimension: &dimension,
                window: &window,
            };
            let value = counters.consume(counter, cost, now).await;
            value.map(|value| vec![value])
        })
    }

    /// The values of many counters, flat: current and previous bucket of each. `names` holds key, dimension, window of each.
    #[napi(catch_unwind)]
    pub fn quota_pairs<'env>(
        &self,
        env: &'env Env,
        names: Vec<String>,
        now: f64,
    ) -> napi::Result<PromiseRaw<'env, StoreAnswer>> {
        let counters = self.counters.clone();
        promise(env, async move {
            let asked: Vec<Counter<'_>> = names
                .chunks_exact(3)
                .map(|names| Counter {
                    api_key: &names[0],
                    dimension: &names[1],
                    window: &names[2],
                })
                .collect();
            let pairs = counters.pairs(&asked, now).await?;
            Ok(pairs
                .iter()
                .flat_map(|pair| [pair.curr, pair.prev])
                .collect())
        })
    }

    /// Forgets a counter.
    #[napi(catch_unwind)]
    pub fn quota_clear<'env>(
        &self,
        env: &'env Env,
        api_key: String,
        dimension: String,
        window: String,
        now: f64,
    ) -> napi::Result<PromiseRaw<'env, StoreAnswer>> {
        let counters = self.counters.clone();
        promise(env, async move {
            let counter = Counter {
                api_key: &api_key,
                dimension: &dimension,
                window: &window,
            };
            counters.clear(counter, now).await.map(|()| Vec::new())
        })
    }

    /// Operations of shared admission, in order, as one step. Flat, as lib/redis/pipe.js writes them; the answer is how many
    /// numbers each operation gave, and these. `block` names the leases it takes.
    #[napi(catch_unwind)]
    pub fn admission<'env>(
        &self,
        env: &'env Env,
        text: String,
        numbers: &[f64],
        block: String,
        lasts: f64,
        sliding_day: bool,
        within_ms: f64,
    ) -> napi::Result<PromiseRaw<'env, StoreAnswer>> {
        let admission = self.admission.clone();
        let batch = batch(&text, numbers, block, lasts, sliding_day);
        // A time that makes no sense is the whole of it.
        let within = Duration::try_from_secs_f64(within_ms / 1000.0).unwrap_or(Duration::MAX);
        promise(env, async move {
            let Some(batch) = batch else {
                return Err(StoreError::Options(CUT_OFF));
            };
            admission.run(&batch, within).await
        })
    }

    /// The command of such a batch, for a connection of the caller's own.
    #[napi(catch_unwind)]
    pub fn admission_command<'env>(
        &self,
        env: &'env Env,
        text: String,
        numbers: &[f64],
        block: String,
        lasts: f64,
        sliding_day: bool,
        whole: bool,
    ) -> Result<BufferSlice<'env>> {
        let Some(batch) = batch(&text, numbers, block, lasts, sliding_day) else {
            return fail(Code::InvalidArgument, CUT_OFF);
        };
        let command = self.admission.packed(&batch, whole);
        BufferSlice::copy_from(env, command)
            .or_else(|error| fail(Code::Internal, error.reason.clone()))
    }

    /// Where the server is, when it is one and speaks without TLS.
    #[napi(catch_unwind)]
    pub fn plain_server<'env>(&self, env: &'env Env) -> napi::Result<Option<PlainServer<'env>>> {
        self.client
            .plain()
            .map(|plain| {
                Ok(PlainServer {
                    host: plain.host,
                    port: u32::from(plain.port),
                    greeting: BufferSlice::copy_from(env, plain.greeting)?,
                    greetings: plain.greetings,
                })
            })
            .transpose()
    }

    /// Says that a connection beside this one had no answer in time; the failure.
    #[napi(catch_unwind)]
    pub fn silent(&self) -> StoreAnswer {
        Err(self.client.silent()).into()
    }

    /// Says that this replica is at work; how many are.
    #[napi(catch_unwind)]
    pub fn replicas<'env>(
        &self,
        env: &'env Env,
        name: String,
    ) -> napi::Result<PromiseRaw<'env, StoreAnswer>> {
        let admission = self.admission.clone();
        promise(env, async move {
            admission.replicas(&name).await.map(|count| vec![count])
        })
    }
}

/// An error that the server answered.
#[napi(object)]
pub struct ReplyError {
    pub code: String,
    pub message: String,
    /// Whether another connection is needed.
    pub ends: bool,
}

/// Reads an error that the server answered on a connection of the caller's own.
#[napi(catch_unwind)]
pub fn redis_reply_error(line: &[u8]) -> ReplyError {
    let (error, ends) = sort_reply(line);
    ReplyError {
        code: code_of(&error).as_ref().to_owned(),
        message: error.to_string(),
        ends,
    }
}

/// The value of a counter from its buckets.
#[napi(catch_unwind)]
pub fn sliding_value(curr: f64, prev: f64, window: String, now: f64) -> f64 {
    value(Pair { curr, prev }, now, window_ms(&window))
}

/// Whether a window has a length.
#[napi(catch_unwind)]
pub fn is_window(window: String) -> bool {
    !window_ms(&window).is_nan()
}

/// The value of a counter over many keys: their buckets summed, then aged once.
#[napi(catch_unwind)]
pub fn sliding_total(flat: &[f64], window: String, now: f64) -> f64 {
    value(total(&pairs(flat)), now, window_ms(&window))
}

/// Buckets as they cross the boundary: current and previous of each counter.
pub(super) fn pairs(flat: &[f64]) -> Vec<Pair> {
    flat.chunks_exact(2)
        .map(|both| Pair {
            curr: both[0],
            prev: both[1],
        })
        .collect()
}

/// Operation codes, in step with lib/redis/pipe.js.
const ADMIT: f64 = 0.0;
const SETTLE: f64 = 1.0;
const CANCEL: f64 = 2.0;
const BENCH: f64 = 3.0;
const CUT_OFF: &str = "operations of shared admission are cut off";

/// Names one after the other, and numbers, among which are the lengths of names in UTF-16 units.
struct Reader<'a> {
    text: std::str::Chars<'a>,
    numbers: std::slice::Iter<'a, f64>,
}

impl Reader<'_> {
    fn number(&mut self) -> Option<f64> {
        self.numbers.next().copied()
    }

    fn name(&mut self, units: f64) -> Option<String> {
        let mut name = String::new();
        let mut read = 0.0;
        while read < units {
            let letter = self.text.next()?;
            read += letter.len_utf16() as f64;
            name.push(letter);
        }
        Some(name)
    }

    fn lease(&mut self) -> Option<LeaseName> {
        let (units, number) = (self.number()?, self.number()?);
        Some(LeaseName {
            block: self.name(units)?,
            number,
            route: self.route()?,
        })
    }

    fn route(&mut self) -> Option<RouteName> {
        let (platform, model) = (self.number()?, self.number()?);
        Some(RouteName {
            key: self.number()?,
            platform: self.name(platform)?,
            model: self.name(model)?,
        })
    }

    fn candidate(&mut self) -> Option<Candidate> {
        Some(Candidate {
            route: self.route()?,
            tokens: self.number()?,
            rpm: self.number()?,
            rpd: self.number()?,
            tpm: self.number()?,
            tpd: self.number()?,
            account_rpm: self.number()?,
            account_rpd: self.number()?,
            account_tpd: self.number()?,
            multiplier: self.number()?,
            concurrency: self.number()?,
        })
    }

    fn operation(&mut self, code: f64) -> Option<Operation> {
        Some(if code == ADMIT {
            let count = self.number()?;
            let mut candidates = Vec::new();
            while (candidates.len() as f64) < count {
                candidates.push(self.candidate()?);
            }
            Operation::Admit { candidates }
        } else if code == SETTLE {
            Operation::Settle {
                lease: self.lease()?,
                tokens: self.number()?,
                requests: self.number()?,
                multiplier: self.number()?,
                otherwise: self.number()?,
            }
        } else if code == CANCEL {
            Operation::Cancel {
                lease: self.lease()?,
            }
        } else if code == BENCH {
            Operation::Bench {
                route: self.route()?,
                duration: self.number()?,
                source: self.number()? as u8,
            }
        } else {
            Operation::LiftAll {
                key: self.number()?,
            }
        })
    }
}

/// A step of shared admission; nothing when its operations are cut off.
fn batch(
    text: &str,
    numbers: &[f64],
    block: String,
    lasts: f64,
    sliding_day: bool,
) -> Option<Batch> {
    Some(Batch {
        operations: operations(text, numbers)?,
        block,
        lasts,
        sliding_day,
    })
}

/// Reads operations; nothing when there is too little of them.
fn operations(text: &str, numbers: &[f64]) -> Option<Vec<Operation>> {
    let mut reader = Reader {
        text: text.chars(),
        numbers: numbers.iter(),
    };
    let mut operations = Vec::new();
    while let Some(code) = reader.number() {
        operations.push(reader.operation(code)?);
    }
    Some(operations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_as_they_are_written() {
        let read = operations(
            "l1öü☃😀m",
            &[SETTLE, 2.0, 9.0, 2.0, 4.0, 7.0, 1.0, 2.0, 3.0, 4.0],
        );
        let Some(
            [
                Operation::Settle {
                    lease,
                    tokens,
                    otherwise,
                    ..
                },
            ],
        ) = read.as_deref()
        else {
            panic!("{read:?}");
        };
        assert_eq!((lease.block.as_str(), lease.number), ("l1", 9.0));
        assert_eq!((*tokens, *otherwise), (1.0, 4.0));
        let RouteName {
            platform,
            model,
            key,
        } = &lease.route;
        assert_eq!(
            (platform.as_str(), model.as_str(), *key),
            ("öü", "☃😀m", 7.0)
        );
        assert_eq!(operations("l", &[CANCEL, 1.0, 0.0, 1.0, 0.0, 3.0]), None);
        assert_eq!(operations("", &[ADMIT, 1.0, 1.0]), None);
    }
}
