//! How full a model's windows are over all of its keys: a graded signal for a router, not a gate.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Compat;
use super::model_scope::ModelScope;
use super::time::SECOND;

/// A snapshot serves this long.
pub const SNAPSHOT_TTL: f64 = 5.0 * SECOND;

/// The platform on which every key may have an endpoint of its own.
const CUSTOM: &str = "custom";

/// The axes in the order rpm, rpd, tpm, tpd.
pub type Axes = [f64; 4];

/// A key as the host stores it.
#[derive(Debug, Clone)]
pub struct SnapshotKey {
    pub id: f64,
    pub platform: String,
    pub base_url: Option<String>,
    /// Enabled, and not known to be broken.
    pub eligible: bool,
    pub scope: ModelScope,
}

/// Usage and keys at one instant.
#[derive(Debug)]
pub struct Snapshot {
    taken_at: f64,
    generation: u64,
    usage: FxHashMap<(Rc<str>, u64), FxHashMap<String, Axes>>,
    keys: FxHashMap<String, Vec<SnapshotKey>>,
}

fn bits(key: f64) -> u64 {
    (key + 0.0).to_bits()
}

impl Snapshot {
    /// `usage`: platform, model, key and what they used on each axis.
    #[must_use]
    pub fn new(
        taken_at: f64,
        generation: u64,
        usage: impl IntoIterator<Item = (String, String, f64, Axes)>,
        keys: Vec<SnapshotKey>,
    ) -> Self {
        let mut names: FxHashSet<Rc<str>> = FxHashSet::default();
        let mut by_account: FxHashMap<(Rc<str>, u64), FxHashMap<String, Axes>> =
            FxHashMap::default();
        for (platform, model, key, used) in usage {
            let platform = names.get(platform.as_str()).cloned().unwrap_or_else(|| {
                let name: Rc<str> = platform.into();
                names.insert(Rc::clone(&name));
                name
            });
            by_account
                .entry((platform, bits(key)))
                .or_default()
                .insert(model, used);
        }
        let mut by_platform: FxHashMap<String, Vec<SnapshotKey>> = FxHashMap::default();
        for key in keys {
            by_platform
                .entry(key.platform.clone())
                .or_default()
                .push(key);
        }
        Self {
            taken_at,
            generation,
            usage: by_account,
            keys: by_platform,
        }
    }

    /// Whether the snapshot still speaks for this connection and instant: a clock that stepped back must not read the
    /// future.
    #[must_use]
    pub fn serves(&self, generation: u64, now: f64) -> bool {
        self.generation == generation && now >= self.taken_at && now - self.taken_at < SNAPSHOT_TTL
    }

    /// The smallest pressure among the keys that may serve the model, capped at 1; `None` without keys.
    #[must_use]
    pub fn used_fraction(
        &self,
        platform: &str,
        model: &str,
        key: Option<f64>,
        limits: Axes,
        compat: Compat,
    ) -> Option<f64> {
        let keys = self.keys.get(platform)?;
        let named = key.filter(|_| platform == CUSTOM);
        let endpoint = match named {
            Some(id) => Some(keys.iter().find(|candidate| candidate.id == id)?),
            None => None,
        };
        let platform: Rc<str> = platform.into();
        keys.iter()
            .filter(|candidate| candidate.eligible && candidate.scope.admits(model))
            .filter(|candidate| endpoint.is_none_or(|named| shares_endpoint(named, candidate)))
            .map(|candidate| {
                let used = self
                    .usage
                    .get(&(Rc::clone(&platform), bits(candidate.id)))
                    .and_then(|models| models.get(model))
                    .copied()
                    .unwrap_or_default();
                pressure(used, limits, compat)
            })
            .reduce(f64::min)
            .map(|smallest| smallest.min(1.0))
    }
}

fn shares_endpoint(named: &SnapshotKey, candidate: &SnapshotKey) -> bool {
    match named.base_url.as_deref() {
        Some(url) if !url.is_empty() => candidate.base_url.as_deref() == Some(url),
        _ => candidate.id == named.id,
    }
}

/// The fullest axis. A limit of 0 has no room at all, which the recorded behaviour overlooks.
fn pressure(used: Axes, limits: Axes, compat: Compat) -> f64 {
    used.into_iter()
        .zip(limits)
        .filter_map(|(used, limit)| match compat {
            _ if limit > 0.0 => Some(used / limit),
            Compat::Corrected if limit <= 0.0 => Some(1.0),
            _ => None,
        })
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: f64 = f64::NAN;

    fn snapshot() -> Snapshot {
        let key = |id: f64, url: Option<&str>| SnapshotKey {
            id,
            platform: "custom".to_owned(),
            base_url: url.map(str::to_owned),
            eligible: true,
            scope: ModelScope::All,
        };
        let used = |key: f64, requests: f64| {
            (
                "custom".to_owned(),
                "m".to_owned(),
                key,
                [requests, 0.0, 0.0, 0.0],
            )
        };
        Snapshot::new(
            1000.0,
            7,
            [used(1.0, 8.0), used(2.0, 4.0)],
            vec![
                key(1.0, Some("http://a")),
                key(2.0, Some("http://a")),
                key(3.0, None),
            ],
        )
    }

    #[test]
    fn the_emptiest_key_of_an_endpoint_speaks() {
        let limits = [10.0, NONE, NONE, NONE];
        let fraction =
            |key| snapshot().used_fraction("custom", "m", key, limits, Compat::Corrected);
        assert_eq!(fraction(Some(1.0)), Some(0.4));
        assert_eq!(fraction(Some(3.0)), Some(0.0));
        assert_eq!(fraction(Some(9.0)), None);
        assert_eq!(fraction(None), Some(0.0));
    }

    #[test]
    fn a_limit_of_zero_is_full_unless_recorded() {
        let limits = [0.0, NONE, NONE, NONE];
        assert_eq!(
            snapshot().used_fraction("custom", "m", None, limits, Compat::Corrected),
            Some(1.0)
        );
        assert_eq!(
            snapshot().used_fraction("custom", "m", None, limits, Compat::Recorded),
            Some(0.0)
        );
    }

    #[test]
    fn serves_five_seconds_and_never_the_past() {
        let snapshot = snapshot();
        assert!(snapshot.serves(7, 1000.0));
        assert!(snapshot.serves(7, 5999.0));
        assert!(!snapshot.serves(7, 6000.0));
        assert!(!snapshot.serves(7, 999.0));
        assert!(!snapshot.serves(8, 1000.0));
    }
}
