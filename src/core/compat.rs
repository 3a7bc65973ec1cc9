//! Which rule book applies: the corrected one, or the recorded behaviour of the original services.

/// The rule book of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compat {
    /// The contract with its corrections.
    #[default]
    Corrected,
    /// What the original services did, faults included.
    Recorded,
}

impl Compat {
    #[must_use]
    pub fn is_recorded(self) -> bool {
        self == Self::Recorded
    }
}
