//! Interned names. Owns the ids; an id is never given to another name.

use rustc_hash::FxHashMap;

use crate::core::sched::NameId;

#[derive(Debug, Default)]
pub struct Names {
    ids: FxHashMap<Box<str>, NameId>,
    texts: FxHashMap<NameId, Box<str>>,
    next: u32,
}

impl Names {
    /// The id of `name`; `None` only after four billion names.
    pub fn intern(&mut self, name: &str) -> Option<NameId> {
        if let Some(&id) = self.ids.get(name) {
            return Some(id);
        }
        let id = NameId(self.next);
        self.next = self.next.checked_add(1)?;
        self.ids.insert(name.into(), id);
        self.texts.insert(id, name.into());
        Some(id)
    }

    #[must_use]
    pub fn text(&self, id: NameId) -> Option<&str> {
        self.texts.get(&id).map(|text| &**text)
    }

    /// Forgets the names that `used` does not claim. Whoever holds an id outside must ask for it again.
    pub fn retain(&mut self, used: impl Fn(NameId) -> bool) {
        self.ids.retain(|_, &mut id| used(id));
        self.texts.retain(|&id, _| used(id));
    }
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn ids_are_stable_and_never_reused() {
        let mut names = Names::default();
        let (a, b) = (names.intern("a"), names.intern("b"));
        assert_eq!(names.intern("a"), a);
        names.retain(|id| Some(id) == b);
        assert_eq!(names.intern("b"), b);
        let again = names.intern("a");
        assert!(again != a && again != b);
        assert_eq!(again.and_then(|id| names.text(id)), Some("a"));
    }
}
