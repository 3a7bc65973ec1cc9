//! The scheduling state of one instance: slots, account windows, credits and headers, and the choice of a target that
//! reads all of them. The rules themselves are in `core::sched`.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value};

use super::names::Names;
use crate::core::Compat;
use crate::core::sched::NameId;
use crate::core::sched::buckets::{
    ACCOUNT_WINDOWS, Buckets, model_of, model_window, window_of_quota,
};
use crate::core::sched::headers::HeaderCache;
use crate::core::sched::round_robin::{Deficits, Entrant, effective_weight};
use crate::core::sched::slots::{SLOT_TTL_MS, Slot, Slots};

/// Combos whose credits are kept; the one that was first seen longest ago goes first.
const MAX_COMBOS: usize = 200;

/// A target as the facade hands it over.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub key: NameId,
    pub conn: Option<NameId>,
    /// As the host wrote it; NaN when missing.
    pub weight: f64,
    /// Requests its connection may have in flight; NaN for no limit.
    pub cap: f64,
}

/// The choice: targets in dispatch order (positions), and the slot that the first one took.
#[derive(Debug, Default, PartialEq)]
pub struct Selection {
    pub order: Vec<usize>,
    pub slot: Option<Slot>,
}

#[derive(Debug)]
pub struct Sched {
    compat: Compat,
    names: Names,
    slots: Slots,
    buckets: Buckets,
    combos: FxHashMap<Box<str>, Deficits>,
    /// Combos by age, the oldest in front.
    combo_ages: VecDeque<Box<str>>,
    pub headers: HeaderCache,
}

impl Sched {
    #[must_use]
    pub fn new(compat: Compat) -> Self {
        Self {
            compat,
            names: Names::default(),
            slots: Slots::new(compat),
            buckets: Buckets::default(),
            combos: FxHashMap::default(),
            combo_ages: VecDeque::new(),
            headers: HeaderCache::new(compat),
        }
    }

    /// As after a restart. Ids stay valid: callers keep them.
    pub fn reset(&mut self) {
        let names = std::mem::take(&mut self.names);
        *self = Self {
            names,
            ..Self::new(self.compat)
        };
    }

    pub fn intern(&mut self, name: &str) -> Option<NameId> {
        self.names.intern(name)
    }

    /// Forgets every name that no state mentions.
    pub fn forget_unused_names(&mut self) {
        let keys: FxHashSet<NameId> = self
            .combos
            .values()
            .flat_map(|deficits| deficits.iter().map(|(key, _)| key))
            .collect();
        let (slots, buckets) = (&self.slots, &self.buckets);
        self.names
            .retain(|id| slots.mentions(id) || buckets.mentions(id) || keys.contains(&id));
    }

    /// Orders `targets` for one request of `combo` and takes a slot on the first one's connection.
    ///
    /// Saturated connections go to the tail, those at their cap before them; each of the two gates opens again when
    /// nothing would be left. Credits are kept among the rest.
    pub fn select(
        &mut self,
        targets: &[Target],
        combo: &str,
        model_str: &str,
        now: f64,
    ) -> Selection {
        let everyone: Vec<usize> = (0..targets.len()).collect();
        let model = model_of(model_str);
        let model_window = (!model.is_empty()).then(|| model_window(model));
        let (open, saturated) = open_first(everyone, |at| {
            self.is_saturated(&targets[at], model_window.as_deref(), now)
        });
        let (room, full) = open_first(open, |at| self.is_full(&targets[at], now));
        let mut order = self.round(&room, targets, combo, now);
        order.extend(full);
        order.extend(saturated);
        let conn = order.first().and_then(|&winner| targets[winner].conn);
        let slot = conn.map(|conn| self.slots.take(conn, SLOT_TTL_MS, now).0);
        Selection { order, slot }
    }

    fn round(&mut self, room: &[usize], targets: &[Target], combo: &str, now: f64) -> Vec<usize> {
        if room.len() < 2 {
            return room.to_vec();
        }
        let entrants: Vec<Entrant> = room
            .iter()
            .map(|&at| Entrant {
                key: targets[at].key,
                weight: effective_weight(targets[at].weight),
                in_flight: targets[at]
                    .conn
                    .map_or(0, |conn| self.slots.count(conn, now)),
            })
            .collect();
        let compat = self.compat;
        self.credits_of(combo)
            .round(&entrants, compat)
            .into_iter()
            .map(|at| room[at])
            .collect()
    }

    fn credits_of(&mut self, combo: &str) -> &mut Deficits {
        if !self.combos.contains_key(combo) {
            if self.combos.len() >= MAX_COMBOS
                && let Some(oldest) = self.combo_ages.pop_front()
            {
                self.combos.remove(&oldest);
            }
            self.combo_ages.push_back(combo.into());
        }
        self.combos.entry(combo.into()).or_default()
    }

    fn is_saturated(&mut self, target: &Target, model_window: Option<&str>, now: f64) -> bool {
        target.conn.is_some_and(|conn| {
            ACCOUNT_WINDOWS
                .into_iter()
                .chain(model_window)
                .any(|window| self.buckets.is_saturated(conn, window, now))
        })
    }

    fn is_full(&self, target: &Target, now: f64) -> bool {
        let capped = target.cap.is_finite() && target.cap > 0.0;
        capped
            && target
                .conn
                .is_some_and(|conn| self.slots.count(conn, now) as f64 >= target.cap)
    }

    pub fn take_slot(&mut self, conn: NameId, ttl: f64, now: f64) -> usize {
        self.slots.take(conn, ttl, now).1
    }

    pub fn give_back_one(&mut self, conn: NameId, now: f64) {
        self.slots.give_back_one(conn, now);
    }

    pub fn give_back(&mut self, slot: Slot, now: f64) {
        self.slots.give_back(slot, now);
    }

    #[must_use]
    pub fn in_flight(&self, conn: NameId, now: f64) -> usize {
        self.slots.count(conn, now)
    }

    /// Notes the use of a window, in percent. `reset` is epoch ms, NaN for unknown.
    pub fn record_usage(&mut self, conn: NameId, window: &str, used: f64, reset: f64, now: f64) {
        let (conn, window) = self.window_key(conn, window);
        self.buckets.record(conn, &window, used, reset, now);
    }

    /// The same for an entry of a provider's usage answer; names that are no window are ignored.
    pub fn record_quota(&mut self, conn: NameId, quota: &str, used: f64, reset: f64, now: f64) {
        if let Some(window) = window_of_quota(quota) {
            self.record_usage(conn, &window, used, reset, now);
        }
    }

    pub fn is_window_saturated(&mut self, conn: NameId, window: &str, now: f64) -> bool {
        let (conn, window) = self.window_key(conn, window);
        self.buckets.is_saturated(conn, &window, now)
    }

    /// In the runs an account window is filed under `<connection>::<window>`, so that a `::` inside a name makes two
    /// accounts share a window. Corrected: the two names stay apart.
    fn window_key(&mut self, conn: NameId, window: &str) -> (NameId, String) {
        if self.compat.is_recorded() && (window.contains("::") || window.starts_with(':')) {
            let joined = format!("{}::{window}", self.names.text(conn).unwrap_or_default());
            if let Some((conn, window)) = joined.rsplit_once("::")
                && let Some(conn) = self.names.intern(conn)
            {
                return (conn, window.to_owned());
            }
        }
        (conn, window.to_owned())
    }

    #[must_use]
    pub fn connections_in_flight(&self) -> usize {
        self.slots.connections()
    }

    #[must_use]
    pub fn saturated_windows(&self) -> usize {
        self.buckets.len()
    }

    /// `{combo: {executionKey: deficit}}`
    #[must_use]
    pub fn credits(&self) -> Value {
        let combos = self.combos.iter().map(|(combo, deficits)| {
            let keys: Map<String, Value> = deficits
                .iter()
                .filter_map(|(key, deficit)| {
                    Some((self.names.text(key)?.to_owned(), Value::from(deficit)))
                })
                .collect();
            (combo.to_string(), Value::Object(keys))
        });
        Value::Object(combos.collect())
    }
}

/// Splits `positions` into the open and the shut ones, in order; all shut is the same as none.
fn open_first(
    positions: Vec<usize>,
    mut shut: impl FnMut(usize) -> bool,
) -> (Vec<usize>, Vec<usize>) {
    let (shut, open): (Vec<usize>, Vec<usize>) = positions.into_iter().partition(|&at| shut(at));
    if open.is_empty() {
        (shut, open)
    } else {
        (open, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_COMBOS, Sched, Target};
    use crate::core::Compat;
    use crate::core::sched::NameId;

    fn pair(sched: &mut Sched, cap: f64) -> [Target; 2] {
        ["a", "b"].map(|name| {
            let conn = sched.intern(name).expect("an id");
            let key = sched.intern(&format!("key-{name}")).expect("an id");
            Target {
                key,
                conn: Some(conn),
                weight: 1.0,
                cap,
            }
        })
    }

    #[test]
    fn gates_send_to_the_tail_and_open_when_nothing_is_left() {
        let mut sched = Sched::new(Compat::Corrected);
        let targets = pair(&mut sched, 1.0);
        let conn = targets.map(|t| t.conn.expect("a connection"));
        sched.record_usage(conn[0], "7d:m", 100.0, 500.0, 0.0);
        assert_eq!(sched.select(&targets, "c", "p/m", 0.0).order, [1, 0]);
        // Another model does not care; but `b` is at its cap now.
        assert_eq!(sched.select(&targets, "c", "p/other", 0.0).order, [0, 1]);
        // Both at their cap: as if none were.
        assert_eq!(sched.select(&targets, "c", "p/other", 0.0).order.len(), 2);
        assert!(!sched.is_window_saturated(conn[0], "7d:m", 500.0));
    }

    #[test]
    fn a_selection_takes_one_slot_and_gives_it_back() {
        let mut sched = Sched::new(Compat::Corrected);
        let targets = pair(&mut sched, f64::NAN);
        let selection = sched.select(&targets, "c", "m", 0.0);
        let slot = selection.slot.expect("a slot");
        assert_eq!(sched.in_flight(slot.conn, 0.0), 1);
        sched.give_back(slot, 0.0);
        assert_eq!(sched.connections_in_flight(), 0);
        assert!(sched.select(&[], "c", "m", 0.0).slot.is_none());
    }

    #[test]
    fn the_oldest_combo_is_forgotten() {
        let mut sched = Sched::new(Compat::Corrected);
        let targets = pair(&mut sched, f64::NAN);
        for at in 0..=MAX_COMBOS {
            sched.select(&targets, &format!("combo{at}"), "m", 0.0);
        }
        let credits = sched.credits();
        assert!(credits.get("combo0").is_none() && credits.get("combo1").is_some());
        assert_eq!(
            credits.as_object().map(serde_json::Map::len),
            Some(MAX_COMBOS)
        );
    }

    #[test]
    fn only_names_in_use_survive() {
        let mut sched = Sched::new(Compat::Corrected);
        let targets = pair(&mut sched, f64::NAN);
        sched.select(&targets, "c", "m", 0.0);
        let idle = sched.intern("idle");
        sched.forget_unused_names();
        assert_eq!(sched.intern("key-b"), Some(targets[1].key));
        assert_ne!(sched.intern("idle"), idle);
    }

    #[test]
    fn recorded_files_windows_under_one_text() {
        for (compat, shared) in [(Compat::Recorded, true), (Compat::Corrected, false)] {
            let mut sched = Sched::new(compat);
            let [long, short] = ["x::y", "x"].map(|name| sched.intern(name).expect("an id"));
            sched.record_usage(long, "z", 100.0, f64::NAN, 0.0);
            assert_eq!(sched.is_window_saturated(short, "y::z", 0.0), shared);
            assert!(sched.is_window_saturated(long, "z", 0.0));
        }
    }

    #[test]
    fn reset_is_a_restart() {
        let mut sched = Sched::new(Compat::Corrected);
        let targets = pair(&mut sched, f64::NAN);
        sched.select(&targets, "c", "m", 0.0);
        sched.record_usage(NameId(0), "5h", 100.0, f64::NAN, 0.0);
        sched.reset();
        assert_eq!(
            (sched.connections_in_flight(), sched.saturated_windows()),
            (0, 0)
        );
        assert_eq!(
            sched.credits().as_object().map(serde_json::Map::len),
            Some(0)
        );
        assert_eq!(sched.intern("a"), targets[0].conn);
    }
}
