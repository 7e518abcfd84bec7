//! The requests in progress, by stream.

use clearway_units::StreamKeys;

use super::RequestStream;

/// The requests in progress, ordered by stream. Each request remains in its slot, since moving it
/// would be expensive.
#[derive(Debug, Default)]
pub(super) struct RequestTable {
    keys: StreamKeys,
    slots: Vec<Option<RequestStream>>,
    free: Vec<usize>,
    /// The stream that was looked up last, and its slot: successive lookups are often for the same
    /// stream.
    last: Option<(u64, usize)>,
}

impl RequestTable {
    fn slot(&self, stream: u64) -> Option<usize> {
        match self.last {
            Some((last, slot)) if last == stream => Some(slot),
            _ => self.keys.get(stream),
        }
    }

    /// Returns the request on `stream`.
    pub(super) fn get(&self, stream: &u64) -> Option<&RequestStream> {
        self.slots.get(self.slot(*stream)?)?.as_ref()
    }

    /// Returns the request on `stream`.
    pub(super) fn get_mut(&mut self, stream: &u64) -> Option<&mut RequestStream> {
        let slot = self.slot(*stream)?;
        self.last = Some((*stream, slot));
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Returns whether there is a request on `stream`.
    pub(super) fn contains(&self, stream: u64) -> bool {
        self.slot(stream).is_some()
    }

    /// Adds the request on `stream`, which must not have one yet.
    pub(super) fn insert(&mut self, stream: u64, request: RequestStream) {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.slots.len().saturating_sub(1)
            }
        };
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(request);
        }
        self.last = Some((stream, slot));
        if let Some(slot) = self.keys.insert(stream, slot) {
            self.vacate(slot);
        }
    }

    /// Removes the request on `stream`. Returns whether there was one.
    pub(super) fn remove(&mut self, stream: u64) -> bool {
        self.last = self.last.filter(|(last, _)| *last != stream);
        let slot = self.keys.remove(stream);
        if let Some(slot) = slot {
            self.vacate(slot);
        }
        slot.is_some()
    }

    fn vacate(&mut self, slot: usize) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = None;
            self.free.push(slot);
        }
    }

    /// Returns the streams with requests, in ascending order.
    pub(super) fn streams(&self) -> impl Iterator<Item = u64> + '_ {
        self.keys.iter().map(|(stream, _)| stream)
    }

    /// Returns whether there are no requests.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Removes all requests.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Frees unused memory.
    pub(super) fn compact(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
        self.keys.compact();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;
    use crate::connection::send::SendPart;
    use crate::message::Exchange;

    #[test]
    fn a_request_takes_the_place_of_one_that_is_over() {
        let new = || RequestStream::new(Role::Server, Exchange::Other, SendPart::response());
        let mut table = RequestTable::default();
        for stream in (0..4000).step_by(4) {
            table.insert(stream, new());
            assert!(stream < 40 || table.remove(stream - 40));
            assert!(table.contains(stream) && table.slots.len() <= 11);
        }
        assert!(!table.remove(0));
        assert!(table.streams().eq((3960..4000).step_by(4)));
    }
}
