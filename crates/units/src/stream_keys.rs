use std::collections::VecDeque;

/// A map from stream IDs to keys, in order of the IDs. Streams are mostly opened at one end of the
/// ID range and closed at the other; a sorted queue is the fastest ordered map for this pattern.
#[derive(Clone, Debug, Default)]
pub struct StreamKeys {
    entries: VecDeque<(u64, usize)>,
}

impl StreamKeys {
    /// Returns the key of `stream`.
    pub fn get(&self, stream: u64) -> Option<usize> {
        let place = self.place(stream).ok()?;
        self.entries.get(place).map(|(_, key)| *key)
    }

    /// Sets the key of `stream`, and returns the previous one.
    pub fn insert(&mut self, stream: u64, key: usize) -> Option<usize> {
        if self.entries.back().is_none_or(|(last, _)| *last < stream) {
            self.entries.push_back((stream, key));
            return None;
        }
        match self.place(stream) {
            Ok(place) => self.entries.get_mut(place).map(|(_, old)| core::mem::replace(old, key)),
            Err(place) => {
                self.entries.insert(place, (stream, key));
                None
            }
        }
    }

    /// Removes `stream`, and returns its key.
    pub fn remove(&mut self, stream: u64) -> Option<usize> {
        if self.entries.front().is_some_and(|(first, _)| *first == stream) {
            return self.entries.pop_front().map(|(_, key)| key);
        }
        let place = self.place(stream).ok()?;
        self.entries.remove(place).map(|(_, key)| key)
    }

    /// Returns whether `stream` has a key.
    pub fn contains(&self, stream: u64) -> bool {
        self.place(stream).is_ok()
    }

    /// Returns all streams and their keys, by ID.
    pub fn iter(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.entries.iter().copied()
    }

    /// Returns the number of streams.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no streams.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all streams.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Frees unused capacity.
    pub fn compact(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Returns the index of `stream`, or the index at which to insert it.
    fn place(&self, stream: u64) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&stream, |(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Random;

    /// For any sequence of operations, the type behaves like an ordered map.
    #[test]
    fn it_is_an_ordered_map() {
        let mut random = Random::from_number(1);
        let (mut keys, mut map) = (StreamKeys::default(), BTreeMap::new());
        for step in 0..10_000 {
            let stream = random.number() % 64;
            match random.number() % 3 {
                0 => assert_eq!(keys.remove(stream), map.remove(&stream)),
                _ => assert_eq!(keys.insert(stream, step), map.insert(stream, step)),
            }
            assert_eq!(keys.get(stream), map.get(&stream).copied());
            assert_eq!(keys.contains(stream), map.contains_key(&stream));
            assert!(keys.iter().eq(map.iter().map(|(stream, key)| (*stream, *key))));
            assert_eq!((keys.len(), keys.is_empty()), (map.len(), map.is_empty()));
        }
        keys.clear();
        keys.compact();
        assert!(keys.is_empty());
    }
}
