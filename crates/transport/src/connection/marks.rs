//! Random values of header fields that have no meaning for the peer: the greased fixed bit (RFC
//! 9287), and the spin bit if it is disabled (RFC 9000 §17.4).

use clearway_units::Random;

/// The branch of the connection's random source that the values are drawn from, so that other
/// random values are not affected.
const STREAM: u64 = 1;

#[derive(Debug)]
pub(super) struct Marks {
    random: Random,
    /// Random bits; the lowest `left` of them are unused.
    bits: u64,
    left: u32,
}

impl Marks {
    /// Creates a source determined by the seed of `random`, which is not advanced.
    pub(super) fn new(random: &Random) -> Self {
        Self { random: random.branch(STREAM), bits: 0, left: 0 }
    }

    /// Returns the random source that is used for other values.
    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Returns a random bit.
    pub(super) fn bit(&mut self) -> bool {
        if self.left == 0 {
            self.bits = self.random.number();
            self.left = u64::BITS;
        }
        let bit = self.bits & 1 == 1;
        self.bits >>= 1;
        self.left = self.left.saturating_sub(1);
        bit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_half_of_the_bits_are_set() {
        let mut marks = Marks::new(&Random::from_number(1));
        let set = (0..10_000).filter(|_| marks.bit()).count();
        assert!((4_700..5_300).contains(&set), "{set}");
    }
}
