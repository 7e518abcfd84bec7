use core::fmt;

/// What ought to hold across runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Property {
    /// Its name in reports, such as `M3`.
    pub id: &'static str,
    /// What it says, with its bound.
    pub meaning: &'static str,
}

/// Whether a property held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Which.
    pub property: Property,
    /// Whether it did.
    pub holds: bool,
    /// What was measured.
    pub figures: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Property { id, meaning } = self.property;
        let holds = if self.holds { "holds" } else { "does not hold" };
        write!(formatter, "{id} {holds} ({meaning}): {}", self.figures)
    }
}
