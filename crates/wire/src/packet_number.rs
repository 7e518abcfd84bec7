/// A packet number: 0 to 2^62 - 1, never reused within its space (RFC 9000 §12.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PacketNumber(u64);

impl PacketNumber {
    /// 0.
    pub const ZERO: Self = Self(0);
    /// 2^62 - 1.
    pub const MAX: Self = Self((1 << 62) - 1);

    /// `value` if it fits in 62 bits.
    pub const fn new(value: u64) -> Option<Self> {
        if value <= Self::MAX.0 { Some(Self(value)) } else { None }
    }

    /// The value.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one after; `None` once the space is used up.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(value) => Self::new(value),
            None => None,
        }
    }
}
