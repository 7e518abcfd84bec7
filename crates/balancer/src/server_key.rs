use crate::siphash::siphash24;

/// Identifies a server permanently, regardless of which other servers are added or removed. The key
/// is derived from the server's name, so that balancers with the same configuration agree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerKey(u64);

impl ServerKey {
    /// Returns the key of the server `name`: SipHash-2-4 of its UTF-8 bytes, with an all-zero key.
    /// The key is the same on every machine, and in every version of this crate.
    pub fn of(name: &str) -> Self {
        Self(siphash24([0, 0], &[], name.as_bytes()))
    }

    /// Returns the key with this [number](Self::number).
    pub(crate) const fn of_number(number: u64) -> Self {
        Self(number)
    }

    /// Placeholder for a slot without a server.
    pub(crate) const NONE: Self = Self(0);

    /// Returns the key as a 64-bit number.
    pub const fn number(self) -> u64 {
        self.0
    }
}
