use crate::siphash::siphash24;

/// Names a server for as long as it exists, whatever others come and go: derived from its name, so that two balancers
/// with the same configuration agree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerKey(u64);

impl ServerKey {
    /// The key of the server `name`: SipHash-2-4 of its octets in UTF-8, with a key of zeros. It is the same on every
    /// machine, and in every version of this crate.
    pub fn of(name: &str) -> Self {
        Self(siphash24([0, 0], &[], name.as_bytes()))
    }

    /// The key with this [number](Self::number).
    pub(crate) const fn of_number(number: u64) -> Self {
        Self(number)
    }

    /// Placeholder for a slot without a server.
    pub(crate) const NONE: Self = Self(0);

    /// The 64 bits.
    pub const fn number(self) -> u64 {
        self.0
    }
}
