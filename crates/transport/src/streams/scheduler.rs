use core::cmp::Reverse;
use std::collections::VecDeque;

use clearway_wire::StreamId;

/// The number of bytes that a stream sends before the next stream of the same priority gets its
/// turn: a few packets, so that the streams share fairly and a packet rarely contains data of more
/// than one.
pub(super) const QUANTUM: u64 = 4800;

/// The number of empty levels that are kept, to avoid an allocation when a stream waits only
/// occasionally.
const SPARE_LEVELS: usize = 8;

/// A stream that is waiting to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WaitingStream {
    /// The stream's key in the table.
    pub(super) key: usize,
    /// The stream ID.
    pub(super) id: StreamId,
    /// The priority: higher values are sent first.
    pub(super) priority: i32,
    /// Whether the stream takes turns with other streams (RFC 9218 §4.2).
    pub(super) is_incremental: bool,
}

/// Chooses the stream that sends next: the one with the highest priority. Within one priority, the
/// incremental streams take turns. All non-incremental streams together have one turn, in which the
/// stream with the lowest ID is sent first.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    /// The levels by priority, highest first. Only a few are in use at a time.
    levels: Vec<(i32, Level)>,
    /// The number of waiting streams, in all levels.
    waiting: usize,
    /// The stream whose turn it is, cached because it is looked up several times for each packet.
    front: Option<usize>,
}

#[derive(Debug, Default)]
struct Level {
    turns: VecDeque<SchedulerTurn>,
    /// The streams that are not incremental, by ID.
    sequence: VecDeque<(StreamId, usize)>,
    /// The number of bytes of the quantum that the current turn has used.
    spent: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SchedulerTurn {
    Stream(usize),
    Sequence,
}

impl Scheduler {
    /// Returns whether no stream is waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Removes empty levels and frees unused capacity.
    pub(super) fn compact(&mut self) {
        self.levels.retain_mut(|(_, level)| {
            level.turns.shrink_to_fit();
            level.sequence.shrink_to_fit();
            !level.turns.is_empty()
        });
        self.levels.shrink_to_fit();
    }

    /// Returns the stream whose turn it is.
    pub(super) fn front(&self) -> Option<usize> {
        self.front
    }

    fn find_front(&self) -> Option<usize> {
        let (_, level) = self.levels.iter().find(|(_, level)| !level.turns.is_empty())?;
        match level.turns.front()? {
            SchedulerTurn::Stream(key) => Some(*key),
            SchedulerTurn::Sequence => level.sequence.front().map(|(_, key)| *key),
        }
    }

    /// Adds or removes a stream, depending on `waits`, so that only waiting streams are in the
    /// scheduler.
    pub(super) fn set(&mut self, stream: WaitingStream, waited: bool, waits: bool) {
        match (waited, waits) {
            (false, true) => self.insert(stream),
            (true, false) => self.remove(stream),
            _ => {}
        }
    }

    /// Adds a stream that was not waiting.
    pub(super) fn insert(&mut self, waiting: WaitingStream) {
        self.waiting = self.waiting.saturating_add(1);
        if let Some(level) = self.level(waiting.priority) {
            level.insert(waiting);
        }
        self.front = self.find_front();
    }

    /// Removes a waiting stream. This is fast if it is that stream's turn, as it usually is.
    pub(super) fn remove(&mut self, waiting: WaitingStream) {
        self.waiting = self.waiting.saturating_sub(1);
        if let Some(level) = self.level(waiting.priority) {
            level.remove(waiting);
        }
        self.front = self.find_front();
    }

    /// Charges `bytes` to the turn of the stream at the front.
    pub(super) fn charge(&mut self, bytes: u64) {
        let mut levels = self.levels.iter_mut();
        let Some((_, level)) = levels.find(|(_, level)| !level.turns.is_empty()) else { return };
        level.spent = level.spent.saturating_add(bytes);
        if level.spent >= QUANTUM {
            level.spent = 0;
            level.turns.rotate_left(1);
            self.front = self.find_front();
        }
    }

    /// Checks that exactly the streams in `waiting` are in the scheduler, each in its level, and
    /// that the cached front is correct.
    ///
    /// # Panics
    /// If a check fails, which is a bug in this crate.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_caches(&self, waiting: impl Iterator<Item = WaitingStream>) {
        let mut wanted =
            waiting.map(|it| (it.priority, it.key, it.is_incremental)).collect::<Vec<_>>();
        wanted.sort_unstable();
        let mut found = Vec::new();
        for (priority, level) in &self.levels {
            let turns = level.turns.iter().filter_map(|turn| match turn {
                SchedulerTurn::Stream(key) => Some((*priority, *key, true)),
                SchedulerTurn::Sequence => None,
            });
            found.extend(turns);
            found.extend(level.sequence.iter().map(|(_, key)| (*priority, *key, false)));
            assert!(level.sequence.iter().is_sorted(), "non-incremental streams are ordered by ID");
            let turns = level.turns.iter().filter(|turn| **turn == SchedulerTurn::Sequence).count();
            assert_eq!(
                turns,
                usize::from(!level.sequence.is_empty()),
                "non-incremental streams share one turn"
            );
        }
        found.sort_unstable();
        assert_eq!(found, wanted, "the streams that wait");
        assert_eq!(self.waiting, wanted.len(), "their number");
        assert_eq!(self.front, self.find_front(), "the stream whose turn it is");
        let is_descending =
            self.levels.iter().is_sorted_by(|(before, _), (after, _)| before > after);
        assert!(is_descending, "levels are in descending order");
    }

    /// Returns the level of a priority, creating it if necessary.
    fn level(&mut self, priority: i32) -> Option<&mut Level> {
        let place = match self.place(priority) {
            Ok(place) => place,
            Err(mut place) => {
                if self.levels.len() >= SPARE_LEVELS {
                    self.levels.retain(|(_, level)| !level.turns.is_empty());
                    place = self.place(priority).unwrap_or_else(|place| place);
                }
                self.levels.insert(place, (priority, Level::default()));
                place
            }
        };
        self.levels.get_mut(place).map(|(_, level)| level)
    }

    /// Returns the index of the level of a priority, or the index at which to insert it.
    fn place(&self, priority: i32) -> Result<usize, usize> {
        self.levels.binary_search_by_key(&Reverse(priority), |(level, _)| Reverse(*level))
    }
}

impl Level {
    fn insert(&mut self, waiting: WaitingStream) {
        if waiting.is_incremental {
            self.turns.push_back(SchedulerTurn::Stream(waiting.key));
            return;
        }
        if self.sequence.is_empty() {
            self.turns.push_back(SchedulerTurn::Sequence);
        }
        let place = self.sequence.partition_point(|(id, _)| *id < waiting.id);
        self.sequence.insert(place, (waiting.id, waiting.key));
    }

    fn remove(&mut self, waiting: WaitingStream) {
        if waiting.is_incremental {
            self.remove_turn(SchedulerTurn::Stream(waiting.key));
            return;
        }
        let place = self.sequence.iter().position(|(_, key)| *key == waiting.key);
        place.and_then(|place| self.sequence.remove(place));
        if self.sequence.is_empty() {
            self.remove_turn(SchedulerTurn::Sequence);
        }
    }

    fn remove_turn(&mut self, turn: SchedulerTurn) {
        if self.turns.front() == Some(&turn) {
            self.turns.pop_front();
            self.spent = 0;
        } else if let Some(place) = self.turns.iter().position(|other| *other == turn) {
            self.turns.remove(place);
        }
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
