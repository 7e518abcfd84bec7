/// A value of the ECN field of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum EcnCodepoint {
    /// Not marked: the sender does not use ECN.
    #[default]
    NotEct,
    /// ECT(1): the sender uses ECN and requests low latency (RFC 9331).
    Ect1,
    /// ECT(0): the sender uses ECN.
    Ect0,
    /// ECN-CE: the packet was marked ECT(0) or ECT(1) and encountered congestion.
    Ce,
}

impl EcnCodepoint {
    /// Returns the codepoint in the two lowest bits of `bits`; the other bits are ignored.
    #[inline]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns the codepoint's two bits in the IP header.
    #[inline]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EcnCodepoint;

    #[test]
    fn the_two_lowest_bits_count() {
        for bits in 0..=u8::MAX {
            assert_eq!(EcnCodepoint::from_bits(bits).bits(), bits & 0b11);
        }
        assert_eq!(EcnCodepoint::from_bits(0b10), EcnCodepoint::Ect0);
    }
}
