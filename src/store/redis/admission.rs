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
        include_str!("lua/admission/alike.lua"),
        include_str!("lua/admission/names.lua"),
        include_str!("lua/admission/leases.lua"),
        include_str!("lua/admission/gates.lua"),
        include_str!("lua/admission/operations.lua"),
    ))
});
static REPLICAS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/replicas.lua")));

/// How long an ended lease is remembered, so that a late settlement is still recorded.
const LEASE_MEMORY: f64 = 3_600_000.0;
/// Bytes of what is asked for: a route, nine limits.
const ASKED: usize = 4 + 9 * 8;
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
    /// The lease is numbered by the operation's place in its batch.
    Admit {
        candidates: Vec<Candidate>,
    },
    Settle {
        lease: LeaseName,
        /// NaN = what the lease reserved.
        tokens: f64,
        requests: f64,
        multiplier: f64,
        /// The tokens to record when the server does not know the lease; NaN = then record nothing.
        otherwise: f64,
    },
    Cancel {
        lease: LeaseName,
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

/// A lease: its route, the batch that took it, its number there.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaseName {
    pub block: String,
    pub number: f64,
    pub route: RouteName,
}

/// Operations that are one step of the server.
pub struct Batch {
    pub operations: Vec<Operation>,
    /// What its leases are named after: never used before.
    pub block: String,
    /// How long its leases last, in ms.
    pub lasts: f64,
    pub sliding_day: bool,
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
    pub async fn run(&self, batch: &Batch, within: Duration) -> Result<Vec<f64>, StoreError> {
        let deadline = self.client.deadline_within(within);
        let (keys, args) = Names::pack_batch(&self.prefix, batch);
        let answer: Vec<u8> = read(ADMISSION.run(&self.client, &keys, &args, deadline).await?)?;
        let (numbers, _) = answer.as_chunks::<8>();
        Ok(numbers.iter().copied().map(f64::from_le_bytes).collect())
    }

    /// The same as bytes for a connection of the caller's own, which answers with packed doubles. `whole`: for a server that
    /// does not know the script.
    pub fn packed(&self, batch: &Batch, whole: bool) -> Vec<u8> {
        let (keys, args) = Names::pack_batch(&self.prefix, batch);
        ADMISSION.packed(&keys, &args, whole)
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

/// The keys of a batch: each group, account, route, block and what is asked for once, numbered from 1.
#[derive(Default)]
struct Names<'a> {
    prefix: &'a str,
    groups: FxHashMap<u64, u32>,
    accounts: FxHashMap<(u32, &'a str), u32>,
    routes: FxHashMap<(u32, &'a str), u32>,
    blocks: FxHashMap<(u32, &'a str), u32>,
    asked: FxHashMap<[u8; ASKED], u32>,
    group_keys: Vec<String>,
    account_keys: Vec<String>,
    minute_keys: Vec<String>,
    day_keys: Vec<String>,
    account_lines: Vec<Vec<u8>>,
    route_lines: Vec<Vec<u8>>,
    block_lines: Vec<u8>,
    asked_lines: Vec<u8>,
}

impl<'a> Names<'a> {
    /// Keys and arguments of the script.
    fn pack_batch(prefix: &'a str, batch: &'a Batch) -> (Vec<String>, Vec<Vec<u8>>) {
        let mut names = Self {
            prefix,
            ..Self::default()
        };
        let (mut lines, mut leases) = (Vec::new(), Vec::new());
        // Admissions alone, and all ask for the same first.
        let (mut alike, mut tokens) = (!batch.sliding_day, 0.0);
        for (place, operation) in batch.operations.iter().enumerate() {
            let place = u16::try_from(place).unwrap_or(u16::MAX);
            let first = names.pack(&mut lines, operation, place);
            alike &= first == Some(1);
            if let (true, Operation::Admit { candidates }) = (alike, operation) {
                let asked = candidates.first().map_or(0.0, |first| first.tokens);
                tokens += asked;
                leases.extend(place.to_le_bytes());
                doubles(&mut leases, &[asked]);
            }
        }
        let mut header = Vec::new();
        for count in [
            names.groups.len(),
            names.accounts.len(),
            names.routes.len(),
            usize::from(batch.sliding_day),
            if alike { batch.operations.len() } else { 0 },
        ] {
            header.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
        }
        doubles(&mut header, &[tokens, batch.lasts, LEASE_MEMORY]);
        header.extend(batch.block.as_bytes());
        let mut keys = names.group_keys;
        keys.extend(names.account_keys);
        keys.extend(names.minute_keys);
        if batch.sliding_day {
            keys.extend(names.day_keys);
        }
        let mut args = vec![header];
        args.extend(names.account_lines);
        args.extend(names.route_lines);
        args.extend([names.asked_lines, lines, names.block_lines]);
        if alike {
            args.push(leases);
        }
        (keys, args)
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

    fn route(&mut self, name: &'a RouteName) -> u32 {
        let RouteName {
            platform,
            model,
            key,
        } = name;
        let key = key + 0.0;
        let group = self.group(key);
        let prefix = self.prefix;
        let next_account = number(self.accounts.len());
        let account = *self.accounts.entry((group, platform)).or_insert_with(|| {
            self.account_keys
                .push(format!("{prefix}admit:{key}:account:{platform}"));
            self.account_lines
                .push(line(group, &format!("a{platform}")));
            next_account
        });
        let next_route = number(self.routes.len());
        *self.routes.entry((account, model)).or_insert_with(|| {
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

    fn asked(&mut self, candidate: &'a Candidate) -> u32 {
        let mut packed = [0; ASKED];
        let (route, numbers) = packed.split_at_mut(4);
        route.copy_from_slice(&self.route(&candidate.route).to_le_bytes());
        let limits = [
            candidate.rpm,
            candidate.rpd,
            candidate.tpm,
            candidate.tpd,
            candidate.account_rpm,
            candidate.account_rpd,
            candidate.account_tpd,
            candidate.multiplier,
            candidate.concurrency,
        ];
        for (place, limit) in numbers.chunks_exact_mut(8).zip(limits) {
            place.copy_from_slice(&limit.to_le_bytes());
        }
        let next = number(self.asked.len());
        *self.asked.entry(packed).or_insert_with(|| {
            self.asked_lines.extend(packed);
            next
        })
    }

    fn lease(&mut self, lines: &mut Vec<u8>, lease: &'a LeaseName) {
        let route = self.route(&lease.route);
        let next = number(self.blocks.len());
        let block = *self.blocks.entry((route, &lease.block)).or_insert_with(|| {
            // The name is this package's own, and short.
            let name = &lease.block.as_bytes()[..lease.block.len().min(255)];
            self.block_lines.extend(route.to_le_bytes());
            self.block_lines.push(name.len() as u8);
            self.block_lines.extend(name);
            next
        });
        lines.extend(block.to_le_bytes());
        lines.extend((lease.number as u16).to_le_bytes());
    }

    /// Appends an operation; of an admission, the number of what it asks for first.
    fn pack(&mut self, lines: &mut Vec<u8>, operation: &'a Operation, place: u16) -> Option<u32> {
        match operation {
            Operation::Admit { candidates } => {
                let mut first = None;
                lines.push(b'A');
                lines.extend(
                    u16::try_from(candidates.len())
                        .unwrap_or(u16::MAX)
                        .to_le_bytes(),
                );
                lines.extend(place.to_le_bytes());
                for candidate in candidates {
                    let asked = self.asked(candidate);
                    doubles(lines, &[candidate.tokens]);
                    lines.extend(asked.to_le_bytes());
                    first = first.or(Some(asked));
                }
                return first;
            }
            Operation::Settle {
                lease,
                tokens,
                requests,
                multiplier,
                otherwise,
            } => {
                lines.push(b'S');
                self.lease(lines, lease);
                doubles(lines, &[*tokens, *requests, *multiplier, *otherwise]);
            }
            Operation::Cancel { lease } => {
                lines.push(b'C');
                self.lease(lines, lease);
            }
            Operation::Bench {
                route,
                duration,
                source,
            } => {
                lines.push(b'B');
                let route = self.route(route);
                lines.extend(route.to_le_bytes());
                doubles(lines, &[*duration]);
                lines.push(*source);
            }
            Operation::LiftAll { key } => {
                lines.push(b'U');
                let group = self.group(*key);
                lines.extend(group.to_le_bytes());
            }
        }
        None
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

    fn admit(routes: &[&RouteName], rpm: f64) -> Operation {
        let candidate = |route: &&RouteName| Candidate {
            route: (*route).clone(),
            tokens: 5.0,
            rpm,
            rpd: f64::NAN,
            tpm: f64::NAN,
            tpd: f64::NAN,
            account_rpm: f64::NAN,
            account_rpd: f64::NAN,
            account_tpd: f64::NAN,
            multiplier: 1.0,
            concurrency: f64::NAN,
        };
        Operation::Admit {
            candidates: routes.iter().map(candidate).collect(),
        }
    }

    fn pack(operations: Vec<Operation>) -> (Vec<String>, Vec<Vec<u8>>) {
        let batch = Batch {
            operations,
            block: "b".to_owned(),
            lasts: 1.0,
            sliding_day: false,
        };
        Names::pack_batch("p:", &batch)
    }

    #[test]
    fn names_are_numbered_once_and_never_collide() {
        let names = [
            route("a", "b:c", 1.0),
            route("a:b", "c", 1.0),
            route("a", "b:c", -0.0),
            route("a", "b:c", 0.0),
        ];
        let routes: Vec<&RouteName> = names.iter().collect();
        let (keys, args) = pack(vec![admit(&routes, 1.0), admit(&routes, 2.0)]);
        let unique: std::collections::BTreeSet<&String> = keys.iter().collect();
        assert_eq!(unique.len(), keys.len());
        assert_eq!(keys.len(), 2 * 2 + 3 + 3);
        assert!(keys.contains(&"p:admit:1:minute:1:a:b:c".to_owned()));
        // Header, accounts, routes, what is asked for, operations, blocks.
        assert_eq!(args.len(), 1 + 3 + 3 + 3);
        assert_eq!(args[7].len(), 2 * 3 * ASKED);
    }

    #[test]
    fn admissions_are_alike_when_all_ask_for_the_same_first() {
        let (a, b) = (route("a", "m", 1.0), route("b", "m", 1.0));
        let leases_of = |operations: Vec<Operation>| {
            let count = operations.len();
            let (_, args) = pack(operations);
            let is_alike = args[0][16..20] == u32::try_from(count).unwrap_or(0).to_le_bytes();
            is_alike.then(|| args.last().map(Vec::len))
        };
        assert_eq!(
            leases_of(vec![admit(&[&a, &b], 1.0); 3]),
            Some(Some(3 * 10))
        );
        assert_eq!(leases_of(vec![admit(&[&a], 1.0), admit(&[&b], 1.0)]), None);
        assert_eq!(leases_of(vec![admit(&[&a], 1.0), admit(&[&a], 2.0)]), None);
        let lift = Operation::LiftAll { key: 1.0 };
        assert_eq!(leases_of(vec![admit(&[&a], 1.0), lift]), None);
    }
}
