//! State that uses memory only while it is needed.

use core::ops::{Deref, DerefMut};
use std::collections::{BTreeMap, BTreeSet};

/// A part of a state that uses memory only from the first mutable access until it is freed.
#[derive(Debug)]
pub struct OnDemand<T>(Option<Box<T>>);

/// A part that may be absent, and the state that represents an absent part.
pub trait Unused: Default + 'static {
    /// Returns the state of an unused part, equal to the default.
    fn unused() -> &'static Self;
}

impl<T> Default for OnDemand<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> OnDemand<T> {
    /// Creates a part that is in use from the start.
    pub fn new(part: T) -> Self {
        Self(Some(Box::new(part)))
    }

    /// Returns whether the part is used.
    pub const fn is_used(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the part if it is used.
    pub fn used(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// Frees the part, which must be in the unused state.
    pub fn release(&mut self) {
        self.0 = None;
    }
}

impl<T: Unused> Deref for OnDemand<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::unused())
    }
}

impl<T: Unused> DerefMut for OnDemand<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

// A `BTreeMap` keeps one node allocated after its last entry was removed.

/// Frees the node that an empty map keeps.
pub fn release_empty_map<K, V>(map: &mut BTreeMap<K, V>) {
    if map.is_empty() {
        *map = BTreeMap::new();
    }
}

/// Frees the node that an empty set keeps.
pub fn release_empty_set<T>(set: &mut BTreeSet<T>) {
    if set.is_empty() {
        *set = BTreeSet::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Numbers {
        all: Vec<u32>,
    }

    impl Unused for Numbers {
        fn unused() -> &'static Self {
            static UNUSED: Numbers = Numbers { all: Vec::new() };
            &UNUSED
        }
    }

    #[test]
    fn a_part_is_made_when_it_is_changed_and_given_back() {
        let mut part = OnDemand::<Numbers>::default();
        assert!(part.all.is_empty() && part.used().is_none(), "reading must not allocate");
        part.all.push(1);
        assert_eq!(part.used().map(|numbers| numbers.all.len()), Some(1));
        part.release();
        assert!(part.all.is_empty() && part.used().is_none());
        assert_eq!(OnDemand::new(Numbers { all: vec![2] }).all, [2]);
    }

    #[test]
    fn only_what_is_empty_is_given_back() {
        let mut map = BTreeMap::from([(1, 2)]);
        release_empty_map(&mut map);
        assert_eq!(map.get(&1), Some(&2));
        let mut set = BTreeSet::from([1]);
        release_empty_set(&mut set);
        assert!(set.contains(&1));
    }
}
