use core::fmt;

use chacha20::{ChaCha12Rng, SerializedRngState};
use rand_core::{Rng, SeedableRng};

use crate::packed::{Pack, Packer, Unpacker};

/// The only source of randomness of an endpoint, a link or a simulation (law 11).
///
/// ChaCha12 with a 256-bit seed: suitable for connection IDs and tokens if the seed comes from the
/// operating system, and reproducible on every machine for a given seed.
///
/// A clone returns the same numbers as the original. Clone a source only to explore several
/// continuations of one state, never for secrets.
pub struct Random {
    /// The generator, which buffers 256 bytes of output. `None` while it is suspended.
    running: Option<Box<ChaCha12Rng>>,
    /// The position at which a suspended generator continues.
    place: SerializedRngState,
}

/// The output does not reveal the seed.
impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Random").finish_non_exhaustive()
    }
}

impl Clone for Random {
    fn clone(&self) -> Self {
        Self::running(ChaCha12Rng::deserialize_state(&self.place()))
    }
}

impl Random {
    /// Creates a source determined by `seed`.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self::running(ChaCha12Rng::from_seed(seed))
    }

    /// Creates a source for simulations, from a seed that is short enough to type.
    pub fn from_number(seed: u64) -> Self {
        Self::running(ChaCha12Rng::seed_from_u64(seed))
    }

    fn running(generator: ChaCha12Rng) -> Self {
        Self { running: Some(Box::new(generator)), place: [0; 49] }
    }

    fn place(&self) -> SerializedRngState {
        self.running.as_ref().map_or(self.place, |generator| generator.serialize_state())
    }

    fn generator(&mut self) -> &mut ChaCha12Rng {
        let place = &self.place;
        self.running.get_or_insert_with(|| Box::new(ChaCha12Rng::deserialize_state(place)))
    }

    /// Frees memory until the next number is requested. Does not change the sequence of numbers.
    pub fn compact(&mut self) {
        self.place = self.place();
        self.running = None;
    }

    /// Creates an independent source, determined by the state of this one.
    pub fn fork(&mut self) -> Self {
        let mut seed = [0; 32];
        self.fill(&mut seed);
        Self::from_seed(seed)
    }

    /// Creates an independent source, determined by the seed of this one and by `stream`. This does
    /// not consume numbers from the original source, so its sequence does not depend on whether
    /// there is a branch. The original source has stream 0.
    pub fn branch(&self, stream: u64) -> Self {
        let seed = match &self.running {
            Some(generator) => generator.get_seed(),
            None => ChaCha12Rng::deserialize_state(&self.place).get_seed(),
        };
        let mut branch = ChaCha12Rng::from_seed(seed);
        branch.set_stream(stream);
        Self::running(branch)
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.generator().fill_bytes(bytes);
    }

    /// Returns `N` random bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// Returns a uniformly distributed number.
    pub fn number(&mut self) -> u64 {
        self.generator().next_u64()
    }

    /// Returns an unbiased number below `bound`; zero if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        // Multiply-shift; the rejection zone is smaller than `bound`.
        let zone = bound.wrapping_neg() % bound;
        let generator = self.generator();
        loop {
            let product = u128::from(generator.next_u64()) * u128::from(bound);
            let low = product as u64;
            if low >= zone {
                return (product >> 64) as u64;
            }
        }
    }

    /// Returns a uniformly distributed number in `[0, 1)` with 53 random bits.
    pub fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns `true` with `probability`.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }
}

/// An unpacked source continues the sequence at the same position.
impl Pack for Random {
    fn pack(&self, into: &mut Packer) {
        into.bytes(&self.place());
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        Self { running: None, place: from.array() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::{packed, unpacked};

    #[test]
    fn rest_changes_no_number() {
        let mut compacted = Random::from_number(7).branch(3);
        let mut untouched = Random::from_number(7).branch(3);
        for length in (0..300).chain([7, 1, 64, 0, 256]) {
            compacted.compact();
            compacted = unpacked(&packed(&compacted));
            assert_eq!(compacted.clone().branch(2).number(), untouched.branch(2).number());
            let (mut one, mut other) = (vec![0; length], vec![0; length]);
            compacted.fill(&mut one);
            untouched.fill(&mut other);
            assert_eq!(one, other);
            assert_eq!(compacted.below(1_000), untouched.below(1_000));
        }
    }

    #[test]
    fn a_branch_depends_on_the_seed_and_takes_nothing() {
        let mut random = Random::from_number(7);
        let mut untouched = Random::from_number(7);
        let mut early = random.branch(1);
        assert_eq!(random.array::<100>(), untouched.array::<100>());
        let numbers = early.array::<32>();
        assert_eq!(
            random.branch(1).array::<32>(),
            numbers,
            "a branch does not depend on the source's position"
        );
        assert_ne!(random.branch(2).array::<32>(), numbers);
        assert_ne!(Random::from_number(8).branch(1).array::<32>(), numbers);
        assert_ne!(Random::from_number(7).array::<32>(), numbers);
        assert_eq!(random.clone().branch(1).array::<32>(), numbers);
    }
}
