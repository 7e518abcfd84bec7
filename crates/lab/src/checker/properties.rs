//! The properties that are checked.

mod catalogue;

use self::catalogue::entry;

/// A property, with the ID that the documentation uses. S: safety properties, which state what must
/// never happen. L: liveness properties, each with a bound, so that a run of finite length can
/// violate it. M and F: comparisons of runs or flows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "`meaning` and `method` describe each property")]
pub enum Property {
    S1,
    S2,
    S3,
    S4,
    S5,
    S6,
    S7,
    S8,
    S9,
    S10,
    S11,
    S12,
    S13,
    S14,
    S15,
    S16,
    S17,
    S18,
    S19,
    S20,
    S21,
    S22,
    S23,
    S24,
    S25,
    S26,
    S27,
    S28,
    S29,
    L1,
    L2,
    L3,
    L4,
    L5,
    L6,
    L7,
    L8,
    L9,
    L10,
    L11,
    L12,
    M1,
    M2,
    M3,
    M4,
    M5,
    M6,
    M7,
    M8,
    M9,
    Fa,
    Fb,
    Fc,
    Fd,
}

use Property::*;

/// The scope in which a property is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The checker tests the property at every event of every run.
    Run,
    /// The module `across` tests the property on several runs or flows.
    Across,
    /// The property is not checked.
    Nowhere {
        /// The reason why it is not checked.
        reason: &'static str,
    },
}

impl Property {
    /// All properties, ordered by ID.
    pub const ALL: [Self; 54] = [
        S1, S2, S3, S4, S5, S6, S7, S8, S9, S10, S11, S12, S13, S14, S15, S16, S17, S18, S19, S20,
        S21, S22, S23, S24, S25, S26, S27, S28, S29, L1, L2, L3, L4, L5, L6, L7, L8, L9, L10, L11,
        L12, M1, M2, M3, M4, M5, M6, M7, M8, M9, Fa, Fb, Fc, Fd,
    ];

    /// Returns the property's ID, such as "L1".
    pub const fn id(self) -> &'static str {
        entry(self).id
    }

    /// Returns what the property requires, in one line.
    pub const fn meaning(self) -> &'static str {
        entry(self).meaning
    }

    /// Returns a short description of how the property is checked.
    pub const fn method(self) -> &'static str {
        entry(self).method
    }

    /// Returns where the property is checked.
    pub const fn place(self) -> Place {
        match self {
            M1 | M2 | M3 | M4 | M5 | M6 | M7 | M8 | M9 | Fa | Fb | Fc | Fd => Place::Across,
            _ => Place::Run,
        }
    }

    /// Returns the property with this ID.
    ///
    /// # Errors
    /// Returns an error if no property has this ID.
    pub fn from_id(id: &str) -> Result<Self, UnknownProperty> {
        let found = Self::ALL.into_iter().find(|property| property.id() == id);
        found.ok_or_else(|| UnknownProperty(id.to_owned()))
    }
}

impl core::fmt::Display for Property {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.id())
    }
}

/// An error: no property has this ID.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UnknownProperty(String);

impl core::fmt::Display for UnknownProperty {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "unknown property {:?}: expected S1 to S29, L1 to L12, M1 to M9, or Fa to Fd",
            self.0
        )
    }
}

impl core::error::Error for UnknownProperty {}

/// A set of properties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PropertySet(u64);

impl PropertySet {
    /// All properties.
    pub const ALL: Self = Self((1 << Property::ALL.len()) - 1);
    /// No property.
    pub const NONE: Self = Self(0);

    /// Returns this set with `property` added.
    pub const fn with(self, property: Property) -> Self {
        Self(self.0 | 1 << property as u8)
    }

    /// Returns this set without `property`.
    pub const fn without(self, property: Property) -> Self {
        Self(self.0 & !(1 << property as u8))
    }

    /// Returns whether the set contains `property`.
    pub const fn contains(self, property: Property) -> bool {
        self.0 & 1 << property as u8 != 0
    }
}
