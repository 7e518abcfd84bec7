//! Random values of header fields that mean nothing to the peer: the greased fixed bit (RFC 9287), and the spin bit where
//! it is disabled (RFC 9000 §17.4).

use clearway_units::Random;

/// The branch of the connection's random source from which the values come, so that they change nothing else.
const STREAM: u64 = 1;

#[derive(Debug)]
pub(super) struct Marks {
    random: Random,
    /// Random bits, of which the lowest `left` have not been used.
    bits: u64,
    left: u32,
}

impl Marks {
    /// Values that are determined by the seed of `random`, which stays as it is.
    pub(super) fn new(random: &Random) -> Self {
        Self { random: random.branch(STREAM), bits: 0, left: 0 }
    }

    /// The source of other values.
    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// A random bit.
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
