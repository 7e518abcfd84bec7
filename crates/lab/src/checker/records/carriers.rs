//! Tracks which packet last carried each byte of a sequence.

use std::collections::BTreeMap;

/// Bytes carried by one packet.
#[derive(Clone, Copy, Debug)]
struct Piece {
    end: u64,
    number: u64,
    is_owed: bool,
}

/// The sent but unacknowledged bytes, grouped by the packet that last carried them.
#[derive(Debug, Default)]
pub(super) struct LastCarriers {
    /// Non-overlapping pieces, keyed by their first byte.
    pieces: BTreeMap<u64, Piece>,
    owed: usize,
}

impl LastCarriers {
    /// Records that packet `number` carries the bytes from `start` up to `end`.
    pub(super) fn carry(&mut self, start: u64, end: u64, number: u64) {
        self.settle(start, end);
        self.pieces.insert(start, Piece { end, number, is_owed: false });
    }

    /// Records that packet `number`, which carried the bytes from `start` up to `end`, was lost.
    /// Bytes that no later packet carried become pending.
    pub(super) fn lose(&mut self, start: u64, end: u64, number: u64) {
        for (_, piece) in self.pieces.range_mut(start..end) {
            if piece.number == number && !piece.is_owed {
                piece.is_owed = true;
                self.owed += 1;
            }
        }
    }

    /// Records that the bytes from `start` up to `end` have arrived. They are removed; any bytes
    /// outside this range remain.
    pub(super) fn settle(&mut self, start: u64, end: u64) {
        let before = self.pieces.range_mut(..start).next_back();
        if let Some((_, piece)) = before.filter(|(_, piece)| piece.end > start) {
            let rest = *piece;
            piece.end = start;
            self.owed += usize::from(rest.is_owed);
            self.pieces.insert(start, rest);
        }
        while let Some((from, piece)) = self.pieces.range(start..end).next() {
            let (from, piece) = (*from, *piece);
            self.pieces.remove(&from);
            if piece.end > end {
                self.pieces.insert(end, piece);
            } else {
                self.owed -= usize::from(piece.is_owed);
            }
        }
    }

    /// Returns the first pending bytes, and the packet that carried them.
    pub(super) fn owed(&self) -> Option<(u64, u64, u64)> {
        let mut owed = self.pieces.iter().filter(|(_, piece)| piece.is_owed);
        owed.next().map(|(start, piece)| (*start, piece.end, piece.number))
    }

    pub(super) fn pending_pieces(&self) -> usize {
        self.owed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_were_sent_again_are_not_pending() {
        let mut carriers = LastCarriers::default();
        carriers.carry(0, 100, 1);
        carriers.lose(0, 100, 1);
        assert_eq!(carriers.owed(), Some((0, 100, 1)));
        // The middle part is retransmitted; the bytes before and after it remain pending.
        carriers.carry(40, 60, 2);
        assert_eq!(carriers.pending_pieces(), 2);
        carriers.settle(0, 40);
        assert_eq!(carriers.owed(), Some((60, 100, 1)));
        carriers.carry(50, 100, 3);
        assert_eq!(carriers.owed(), None);
        carriers.lose(40, 60, 2);
        assert_eq!(carriers.owed(), Some((40, 50, 2)));
    }

    #[test]
    fn the_last_carrier_answers_for_the_bytes() {
        let mut carriers = LastCarriers::default();
        carriers.carry(0, 100, 1);
        carriers.carry(0, 100, 2);
        carriers.lose(0, 100, 1);
        assert_eq!(carriers.pending_pieces(), 0);
        carriers.lose(0, 100, 2);
        assert_eq!(carriers.pending_pieces(), 1);
        carriers.settle(0, 100);
        assert!(carriers.is_empty());
        assert_eq!(carriers.pending_pieces(), 0);
    }
}
