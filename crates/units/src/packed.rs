//! Compact serialization of state that is kept for a long time and rarely used.
//!
//! A [`Packer`] writes a state field by field, and an [`Unpacker`] reads the same fields in the
//! same order. Small numbers take one byte. The format has no field names: only the program that
//! packed a state can unpack it.
//!
//! ```
//! use clearway_units::packed::{Pack, packed, unpacked};
//!
//! #[derive(Pack, PartialEq, Debug)]
//! struct Counts {
//!     sent: u64,
//!     lost: Option<u32>,
//! }
//!
//! let counts = Counts { sent: 3, lost: None };
//! let bytes = packed(&counts);
//! assert_eq!((bytes.len(), unpacked::<Counts>(&bytes)), (2, counts));
//! ```

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

use crate::{Rate, ReleaseTime, Timestamp};

/// Implements [`Pack`] for a struct, by packing each field, or for an enum, by packing the
/// variant's number and its fields. For a generic type, the implementation requires each type
/// parameter to be packable; the definition itself must have no bounds.
///
/// ```
/// use clearway_units::packed::{Pack, packed};
///
/// #[derive(Pack)]
/// enum Delivery<T> {
///     Outstanding,
///     Acknowledged(T, T),
/// }
///
/// assert_eq!(*packed(&Delivery::<u64>::Outstanding), [0]);
/// assert_eq!(*packed(&Delivery::Acknowledged(7, 8)), [1, 7, 8]);
/// ```
///
/// All fields must be packable; none can be skipped:
///
/// ```compile_fail,E0277
/// #[derive(clearway_units::packed::Pack)]
/// struct Named {
///     number: u64,
///     name: String,
/// }
/// ```
pub use clearway_pack_derive::Pack;

/// Numbers below this value take one byte. A larger number takes a length byte, followed by the
/// number's significant bytes.
const FIRST_LENGTH: u8 = 0xf8;

/// Initial capacity, enough for a typical connection's state, so that it rarely has to grow.
const TYPICAL: usize = 1024;

/// Allocations are rounded up to a multiple of this, so that a state that grows by a few bytes
/// still fits.
const STEP: usize = 32;

/// Serializes states.
#[derive(Clone, Debug)]
pub struct Packer(Vec<u8>);

impl Packer {
    /// Creates an empty packer.
    #[expect(clippy::new_without_default, reason = "it allocates")]
    pub fn new() -> Self {
        Self(Vec::with_capacity(TYPICAL))
    }

    /// Returns everything that was written, in the buffer `room` if its size is suitable: large
    /// enough, but not much larger than needed. The data may be followed by zeros.
    pub fn finish_in(mut self, mut room: Box<[u8]>) -> Box<[u8]> {
        let length = self.0.len().next_multiple_of(STEP);
        if room.len() < self.0.len() || room.len() > length + STEP {
            self.0.resize(length, 0);
            return self.finish();
        }
        let (kept, rest) = room.split_at_mut(self.0.len());
        kept.copy_from_slice(&self.0);
        rest.fill(0);
        room
    }

    /// Returns everything that was written.
    pub fn finish(self) -> Box<[u8]> {
        self.0.into_boxed_slice()
    }

    /// Writes a number in as few bytes as possible.
    pub fn number(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(byte) if byte < FIRST_LENGTH => self.0.push(byte),
            _ => {
                let zeros = (number.leading_zeros() / 8) as usize;
                self.0.push(u8::MAX - zeros as u8);
                // Writing all eight bytes and truncating is faster than writing only the
                // significant ones.
                self.0.extend_from_slice(&number.to_le_bytes());
                self.0.truncate(self.0.len() - zeros);
            }
        }
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Writes the number of items, `count`, and then all `items`.
    pub fn all<'a, T: Pack + 'a>(&mut self, count: usize, items: impl Iterator<Item = &'a T>) {
        self.number(count as u64);
        items.for_each(|item| item.pack(self));
    }
}

/// Reads data that a [`Packer`] has written. Reads past the end return zeros.
#[derive(Clone, Copy, Debug)]
pub struct Unpacker<'a>(&'a [u8]);

impl<'a> Unpacker<'a> {
    /// Creates a reader of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns whether everything was read.
    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a number.
    pub fn number(&mut self) -> u64 {
        let [first] = self.array();
        match first.checked_sub(FIRST_LENGTH) {
            None => u64::from(first),
            Some(length) => {
                let length = usize::from(length) + 1;
                if let Some(bytes) = self.0.first_chunk() {
                    self.0 = &self.0[length..];
                    return u64::from_le_bytes(*bytes) & (u64::MAX >> (64 - 8 * length));
                }
                let (bytes, rest) = self.0.split_at(self.0.len().min(length));
                self.0 = rest;
                bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
            }
        }
    }

    /// Reads `N` bytes as they are.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk() {
            Some((bytes, rest)) => {
                self.0 = rest;
                *bytes
            }
            None => {
                self.0 = &[];
                [0; N]
            }
        }
    }

    /// Reads items that [`Packer::all`] wrote.
    pub fn all<T: Pack, C: FromIterator<T>>(&mut self) -> C {
        let count = self.number();
        (0..count).map(|_| T::unpack(self)).collect()
    }
}

/// A state that can be packed. Unpacking returns an equal state.
pub trait Pack: Sized {
    /// Writes the state.
    fn pack(&self, into: &mut Packer);

    /// Reads the state.
    fn unpack(from: &mut Unpacker<'_>) -> Self;
}

/// Packs a state into bytes.
pub fn packed(state: &impl Pack) -> Box<[u8]> {
    let mut packer = Packer::new();
    state.pack(&mut packer);
    packer.finish()
}

/// Unpacks a state from bytes.
pub fn unpacked<T: Pack>(bytes: &[u8]) -> T {
    T::unpack(&mut Unpacker::new(bytes))
}

macro_rules! pack_integers {
    ($($integer:ty),*) => {$(
        impl Pack for $integer {
            fn pack(&self, into: &mut Packer) {
                into.number(*self as u64);
            }

            fn unpack(from: &mut Unpacker<'_>) -> Self {
                from.number() as Self
            }
        }
    )*};
}

pack_integers!(u8, u16, u32, u64, usize);

impl Pack for bool {
    fn pack(&self, into: &mut Packer) {
        into.number(u64::from(*self));
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        from.number() != 0
    }
}

impl Pack for i32 {
    fn pack(&self, into: &mut Packer) {
        self.cast_unsigned().pack(into);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        u32::unpack(from).cast_signed()
    }
}

/// Preserves all bits. In most numbers, few of the low-order bits are set, so the bytes are
/// reversed to make the integer small.
impl Pack for f64 {
    fn pack(&self, into: &mut Packer) {
        into.number(self.to_bits().swap_bytes());
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        Self::from_bits(from.number().swap_bytes())
    }
}

impl Pack for Duration {
    fn pack(&self, into: &mut Packer) {
        into.number(self.as_secs());
        into.number(u64::from(self.subsec_nanos()));
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        let seconds = Self::from_secs(from.number());
        seconds.saturating_add(Self::from_nanos(from.number()))
    }
}

impl Pack for Timestamp {
    fn pack(&self, into: &mut Packer) {
        into.number(self.as_nanos());
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        Self::from_nanos(from.number())
    }
}

impl Pack for ReleaseTime {
    fn pack(&self, into: &mut Packer) {
        self.deadline().pack(into);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        Self::at(Timestamp::unpack(from))
    }
}

impl Pack for Rate {
    fn pack(&self, into: &mut Packer) {
        into.number(self.bytes_per_second());
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        Self::from_bytes_per_second(from.number())
    }
}

impl<T: Pack> Pack for Option<T> {
    fn pack(&self, into: &mut Packer) {
        self.is_some().pack(into);
        self.iter().for_each(|some| some.pack(into));
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        bool::unpack(from).then(|| T::unpack(from))
    }
}

impl<T: Pack> Pack for Box<T> {
    fn pack(&self, into: &mut Packer) {
        T::pack(self, into);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        Self::new(T::unpack(from))
    }
}

impl<T: Pack, U: Pack> Pack for (T, U) {
    fn pack(&self, into: &mut Packer) {
        self.0.pack(into);
        self.1.pack(into);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        (T::unpack(from), U::unpack(from))
    }
}

impl<T: Pack, const N: usize> Pack for [T; N] {
    fn pack(&self, into: &mut Packer) {
        self.iter().for_each(|item| item.pack(into));
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        core::array::from_fn(|_| T::unpack(from))
    }
}

impl<T: Pack> Pack for Vec<T> {
    fn pack(&self, into: &mut Packer) {
        into.all(self.len(), self.iter());
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        from.all()
    }
}

impl<T: Pack> Pack for VecDeque<T> {
    fn pack(&self, into: &mut Packer) {
        into.all(self.len(), self.iter());
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        from.all()
    }
}

impl<T: Pack + Ord> Pack for BTreeSet<T> {
    fn pack(&self, into: &mut Packer) {
        into.all(self.len(), self.iter());
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        from.all()
    }
}

#[cfg(test)]
#[path = "packed_tests.rs"]
mod tests;
