//! Shared admission: operations on the limits of many replicas, taken to the server in batches. Owns the key names and the
//! packing; the decisions are the script's.

use std::sync::LazyLock;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::quota::read;
use super::script::Script;
use super::{Client, StoreError};

static ADMISSION: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("lua/admission/state.lua"),
        include_str!("lua/admission/leases.lua"),
        include_str!("lua/admission/gates.lua"),
        include_str!("lua/admission/operations.lua"),
    ))
});
static REPLICAS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/replicas.lua")));

/// How long an ended lease is remembered, so that a late settlement is still recorded.
const LEASE_MEMORY: f64 = 3_600_000.0;
/// A replica that was silent for so long is gone.
const REPLICA_SILENCE: f64 = 30_000.0;

/// A route by its names.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteName {
    pub platform: String,
    pub model: String,
    pub key: f64,
}

/// What a candidate asks for, and under which limits; NaN = no limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub route: RouteName,
    pub tokens: f64,
    pub rpm: f64,
    pub rpd: f64,
    pub tpm: f64,
    pub tpd: f64,
    pub account_rpm: f64,
    pub account_rpd: f64,
    pub account_tpd: f64,
    /// Billed tokens per token, on the account's token cap.
    pub multiplier: f64,
    pub concurrency: f64,
}

/// One operation; what it answers is said in the script.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    Admit {
        lease: String,
        lasts: f64,
        candidates: Vec<Candidate>,
    },
    Settle {
        lease: String,
        route: RouteName,
        /// NaN = what the lease reserved.
        tokens: f64,
        requests: f64,
        multiplier: f64,
        /// The tokens to record when the server does not know the lease; NaN = then record nothing.
        otherwise: f64,
    },
    Cancel {
        lease: String,
        route: RouteName,
    },
    Bench {
        route: RouteName,
        /// In ms; negative lifts the bench.
        duration: f64,
        source: u8,
    },
    LiftAll {
        key: f64,
    },
}

/// Admission behind one key prefix.
#[derive(Clone)]
pub struct Admission {
    client: Client,
    prefix: String,
}

impl Admission {
    pub fn new(client: Client, prefix: String) -> Self {
        Self { client, prefix }
    }

    /// Runs operations in order, as one step. Per operation: how many numbers, then these.
    pub async fn run(
        &self,
        operations: &[Operation],
        sliding_day: bool,
        within: Duration,
    ) -> Result<Vec<f64>, StoreError> {
        let deadline = self.client.deadline_within(within);
        let mut names = Names::new(&self.prefix);
        let lines: Vec<Vec<u8>> = operations
            .iter()
            .map(|operation| names.pack(operation))
            .collect();
        let (keys, mut args) = names.finish(sliding_day);
        args.extend(lines);
        let answers: Vec<Vec<u8>> =
            read(ADMISSION.run(&self.client, &keys, &args, deadline).await?)?;
        let mut flat = Vec::with_capacity(answers.len() * 3);
        for answer in answers {
            let (numbers, _) = answer.as_chunks::<8>();
            flat.push(numbers.len() as f64);
            flat.extend(numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)));
        }
        Ok(flat)
    }

    /// Says that this replica is at work; how many are.
    pub async fn replicas(&self, name: &str) -> Result<f64, StoreError> {
        let keys = [format!("{}admit:replicas", self.prefix)];
        let args = [name.to_owned(), REPLICA_SILENCE.to_string()];
        read(
            REPLICAS
                .run(&self.client, &keys, &args, self.client.deadline())
                .await?,
        )
    }
}

/// The keys of a batch: each group, account and route once, numbered from 1.
struct Names<'a> {
    prefix: &'a str,
    groups: FxHashMap<u64, u32>,
    accounts: FxHashMap<(u32, String), u32>,
    routes: FxHashMap<(u32, String), u32>,
    group_keys: Vec<String>,
    account_keys: Vec<String>,
    minute_keys: Vec<String>,
    day_keys: Vec<String>,
    account_lines: Vec<Vec<u8>>,
    route_lines: Vec<Vec<u8>>,
}

impl<'a> Names<'a> {
    fn new(prefix: &'a str) -> Self {
        Self {
            prefix,
            groups: FxHashMap::default(),
            accounts: FxHashMap::default(),
            routes: FxHashMap::default(),
            group_keys: Vec::new(),
            account_keys: Vec::new(),
            minute_keys: Vec::new(),
            day_keys: Vec::new(),
            account_lines: Vec::new(),
            route_lines: Vec::new(),
        }
    }

    fn group(&mut self, key: f64) -> u32 {
        // -0 and 0 are one key in JavaScript.
        let key = key + 0.0;
        let next = number(self.groups.len());
        let Self {
            prefix, group_keys, ..
        } = self;
        *self.groups.entry(key.to_bits()).or_insert_with(|| {
            group_keys.push(format!("{prefix}admit:{key}"));
            group_keys.push(format!("{prefix}admit:{key}:leases"));
            next
        })
    }

    fn route(&mut self, name: &RouteName) -> u32 {
        let RouteName {
            platform,
            model,
            key,
        } = name;
        let key = key + 0.0;
        let group = self.group(key);
        let prefix = self.prefix;
        let next_account = number(self.accounts.len());
        let account = *self
            .accounts
            .entry((group, platform.clone()))
            .or_insert_with(|| {
                self.account_keys
                    .push(format!("{prefix}admit:{key}:account:{platform}"));
                self.account_lines
                    .push(line(group, &format!("a{platform}")));
                next_account
            });
        let next_route = number(self.routes.len());
        *self
            .routes
            .entry((account, model.clone()))
            .or_insert_with(|| {
                // The length keeps (`a`, `b:c`) and (`a:b`, `c`) apart.
                let route = format!("{}:{platform}:{model}", platform.len());
                self.minute_keys
                    .push(format!("{prefix}admit:{key}:minute:{route}"));
                self.day_keys
                    .push(format!("{prefix}admit:{key}:day:{route}"));
                self.route_lines.push(line(
                    account,
                    &format!("r{}:{platform}{model}", platform.len()),
                ));
                next_route
            })
    }

    fn pack(&mut self, operation: &Operation) -> Vec<u8> {
        let mut packed = Vec::new();
        match operation {
            Operation::Admit {
                lease,
                lasts,
                candidates,
            } => {
                packed.push(b'A');
                doubles(&mut packed, &[*lasts]);
                packed.extend(u32::try_from(candidates.len()).unwrap_or(0).to_le_bytes());
                for it in candidates {
                    packed.extend(self.route(&it.route).to_le_bytes());
                    doubles(
                        &mut packed,
                        &[
                            it.tokens,
                            it.rpm,
                            it.rpd,
                            it.tpm,
                            it.tpd,
                            it.account_rpm,
                            it.account_rpd,
                            it.account_tpd,
                            it.multiplier,
                            it.concurrency,
                        ],
                    );
                }
                packed.extend(lease.as_bytes());
            }
            Operation::Settle {
                lease,
                route,
                tokens,
                requests,
                multiplier,
                otherwise,
            } => {
                packed.push(b'S');
                packed.extend(self.route(route).to_le_bytes());
                doubles(&mut packed, &[*tokens, *requests, *multiplier, *otherwise]);
                packed.extend(lease.as_bytes());
            }
            Operation::Cancel { lease, route } => {
                packed.push(b'C');
                packed.extend(self.route(route).to_le_bytes());
                packed.extend(lease.as_bytes());
            }
            Operation::Bench {
                route,
                duration,
                source,
            } => {
                packed.push(b'B');
                packed.extend(self.route(route).to_le_bytes());
                doubles(&mut packed, &[*duration]);
                packed.push(*source);
            }
            Operation::LiftAll { key } => {
                packed.push(b'U');
                packed.extend(self.group(*key).to_le_bytes());
            }
        }
        packed
    }

    fn finish(self, sliding_day: bool) -> (Vec<String>, Vec<Vec<u8>>) {
        let mut header = Vec::new();
        for count in [
            self.groups.len(),
            self.accounts.len(),
            self.routes.len(),
            usize::from(sliding_day),
        ] {
            header.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
        }
        doubles(&mut header, &[LEASE_MEMORY]);
        let mut keys = self.group_keys;
        keys.extend(self.account_keys);
        keys.extend(self.minute_keys);
        if sliding_day {
            keys.extend(self.day_keys);
        }
        let mut args = vec![header];
        args.extend(self.account_lines);
        args.extend(self.route_lines);
        (keys, args)
    }
}

/// The number of the next of so many.
fn number(known: usize) -> u32 {
    u32::try_from(known).unwrap_or(u32::MAX).saturating_add(1)
}

fn line(owner: u32, field: &str) -> Vec<u8> {
    let mut packed = owner.to_le_bytes().to_vec();
    packed.extend(field.as_bytes());
    packed
}

fn doubles(packed: &mut Vec<u8>, numbers: &[f64]) {
    for number in numbers {
        packed.extend(number.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(platform: &str, model: &str, key: f64) -> RouteName {
        RouteName {
            platform: platform.to_owned(),
            model: model.to_owned(),
            key,
        }
    }

    #[test]
    fn names_are_numbered_once_and_never_collide() {
        let mut names = Names::new("p:");
        assert_eq!(names.route(&route("a", "b:c", 1.0)), 1);
        assert_eq!(names.route(&route("a:b", "c", 1.0)), 2);
        assert_eq!(names.route(&route("a", "b:c", 1.0)), 1);
        assert_eq!(names.route(&route("a", "b:c", 2.0)), 3);
        assert_eq!(names.group(-0.0), names.group(0.0));
        let (keys, args) = names.finish(false);
        let unique: std::collections::BTreeSet<&String> = keys.iter().collect();
        assert_eq!(unique.len(), keys.len());
        assert!(keys.contains(&"p:admit:1:minute:1:a:b:c".to_owned()));
        assert_eq!(args.len(), 1 + 3 + 3);
    }
}
