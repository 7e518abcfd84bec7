//! Decides which connections of a server get a log.
//!
//! Anybody can send an Initial packet: its keys are derived from its header (RFC 9001 §5.2), and
//! its source address may be forged. A log is opened once a Handshake packet from the peer has
//! shown that it receives packets at its address (RFC 9000 §8.1). Until then, the log's records are
//! held in memory.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use clearway_transport::{Observation, Side};
use clearway_units::Timestamp;
use clearway_wire::PacketType;

/// The number of bytes at the beginning of a log that each connection may hold in memory without
/// using the shared memory.
const BEGINNING_BYTES: usize = 4 << 10;
/// The maximum number of bytes of records that one connection may hold in memory.
const CONNECTION_BYTES: usize = 64 << 10;
/// The size of the shared memory: the maximum number of bytes of records that all connections may
/// hold in total, not counting the beginnings of their logs.
const SHARED_BYTES: usize = 16 << 20;

/// The limits for logs of failed handshakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FailedHandshakes {
    /// The number of failed handshakes that may be admitted at once.
    burst: u32,
    /// The interval after which one more failed handshake is admitted.
    interval: Duration,
    /// The total number of failed handshakes that are admitted.
    total: u64,
}

/// Decides which connections of a server get a log. The connections of a server share one
/// `Admission`.
///
/// A connection gets a log once its peer has sent a Handshake packet, which validates the peer's
/// address. Some of the handshakes that fail before that also get one, so that the failures can be
/// explained: 16 at one time, one more each second, 1,000 in total. A connection does not get a log
/// if none of its packets could be decrypted. Connections without a log are counted, separately for
/// these two reasons. Until the decision, a connection holds at most 64 KiB of records, and all
/// connections together hold 16 MiB beyond the first 4 KiB of each; records beyond that are missing
/// from the log, which states how many.
#[derive(Debug)]
pub struct Admission {
    failed: FailedHandshakes,
    /// Number of bytes that are held beyond the beginnings of logs.
    held: AtomicUsize,
    /// The time, in nanoseconds, from which the next failed handshake would be the first of a new burst.
    next: AtomicU64,
    admitted: AtomicU64,
    counts: Counts,
}

/// Connections without a log.
#[derive(Default, Debug)]
struct Counts {
    failed: AtomicU64,
    unopened: AtomicU64,
}

impl Default for Admission {
    fn default() -> Self {
        Self::new(FailedHandshakes { burst: 16, interval: Duration::from_secs(1), total: 1000 })
    }
}

impl Admission {
    fn new(failed: FailedHandshakes) -> Self {
        Self {
            failed,
            held: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            admitted: AtomicU64::new(0),
            counts: Counts::default(),
        }
    }

    /// Creates an `Admission` that gives no log to handshakes that fail before the peer's first
    /// Handshake packet.
    pub fn without_failed_handshakes() -> Self {
        Self::new(FailedHandshakes { burst: 0, interval: Duration::ZERO, total: 0 })
    }

    /// Returns the number of failed handshakes without a log.
    pub(super) fn failed(&self) -> u64 {
        self.counts.failed.load(Ordering::Relaxed)
    }

    /// Returns the number of connections without a log because none of their first packets could be
    /// decrypted.
    pub(super) fn unopened(&self) -> u64 {
        self.counts.unopened.load(Ordering::Relaxed)
    }

    pub(super) fn count_unopened(&self) {
        self.counts.unopened.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether a handshake that failed at `now` gets a log. If not, it is counted.
    pub(super) fn admits_failed(&self, now: Timestamp) -> bool {
        let is_admitted =
            self.is_within_rate(now) && increase(&self.admitted, 1, self.failed.total);
        if !is_admitted {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
        }
        is_admitted
    }

    /// Takes a token from a token bucket, which is represented by the time at which it is full
    /// again.
    fn is_within_rate(&self, now: Timestamp) -> bool {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let now = nanoseconds(now.since_origin());
        let interval = nanoseconds(self.failed.interval);
        let room = interval.saturating_mul(u64::from(self.failed.burst));
        let take = |full_at: u64| {
            let full_at = full_at.max(now).saturating_add(interval);
            (full_at.saturating_sub(now) <= room).then_some(full_at)
        };
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// Adds `by` to `value`, unless the sum would exceed `maximum`. Returns whether it was added.
fn increase(value: &AtomicU64, by: u64, maximum: u64) -> bool {
    let add = |value: u64| value.checked_add(by).filter(|sum| *sum <= maximum);
    value.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
}

/// The memory that a connection may use for records before it is decided whether the connection
/// gets a log.
#[derive(Debug)]
pub(super) struct Room {
    admission: Arc<Admission>,
    /// Number of bytes taken from the shared memory.
    taken: usize,
}

impl Room {
    pub(super) fn new(admission: Arc<Admission>) -> Self {
        Self { admission, taken: 0 }
    }

    /// Reserves memory for a record of `length` bytes after `held` bytes of earlier records.
    /// Returns whether there was enough. There is always enough for the first record, because the
    /// others are meaningless without it.
    pub(super) fn take(&mut self, held: usize, length: usize) -> bool {
        let end = held.saturating_add(length);
        if held == 0 || end <= BEGINNING_BYTES {
            return true;
        }
        let add = |all: usize| all.checked_add(length).filter(|sum| *sum <= SHARED_BYTES);
        let has_room = end <= CONNECTION_BYTES
            && self.admission.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        if has_room {
            self.taken = self.taken.saturating_add(length);
        }
        has_room
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.admission.held.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

/// The evidence that a peer has given so far.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Evidence {
    /// No evidence: no packet could be decrypted.
    Nothing,
    /// The peer knows the Initial keys, which anybody can derive.
    Initial,
    /// The peer receives packets at its address.
    Address,
}

impl Evidence {
    /// Returns the initial state of address validation for an endpoint in this role. A client chose
    /// the server's address itself, so that address needs no validation.
    pub(super) const fn at_first(side: Side) -> Self {
        match side {
            Side::Client => Self::Address,
            Side::Server => Self::Nothing,
        }
    }

    pub(super) fn of(observation: &Observation<'_>) -> Self {
        match observation {
            Observation::PacketReceived(packet) => match packet.packet_type {
                PacketType::Handshake | PacketType::OneRtt => Self::Address,
                PacketType::Initial | PacketType::ZeroRtt => Self::Initial,
            },
            _ => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::at;
    use super::*;

    fn admitted(admission: &Admission, times: impl Iterator<Item = u64>) -> usize {
        times.filter(|milliseconds| admission.admits_failed(at(*milliseconds))).count()
    }

    #[test]
    fn failed_handshakes_are_admitted_at_a_rate() {
        let admission = Admission::default();
        assert_eq!(admitted(&admission, (0..2000).map(|_| 5000)), 16);
        assert_eq!(admission.failed(), 1984);
        // One more is admitted for each second since then, no matter how many handshakes fail in
        // it.
        assert_eq!(admitted(&admission, (0..1000).map(|number| 5000 + 10 * number)), 9);
        // After a quiet period, a full burst is available again.
        assert_eq!(admitted(&admission, (0..100).map(|_| 100_000)), 16);
    }

    #[test]
    fn failed_handshakes_are_admitted_up_to_a_total() {
        let admission = Admission::default();
        assert_eq!(admitted(&admission, (0..5000).map(|second| second * 1000)), 1000);
        assert_eq!(admission.failed(), 4000);
        let none = Admission::without_failed_handshakes();
        assert_eq!(admitted(&none, (0..50).map(|second| second * 1000)), 0);
    }

    #[test]
    fn records_held_by_one_connection_are_bounded() {
        let mut room = Room::new(Arc::default());
        assert!(room.take(0, 100_000), "without the first record there is no log");
        let mut room = Room::new(Arc::default());
        let mut held = 0;
        while room.take(held, 1000) {
            held += 1000;
        }
        assert_eq!(held, 65_000);
    }

    #[test]
    fn records_held_by_all_connections_are_bounded_and_room_is_returned() {
        let admission = Arc::new(Admission::default());
        let mut rooms = Vec::new();
        let fill = |rooms: &mut Vec<Room>| {
            let mut room = Room::new(Arc::clone(&admission));
            assert!(room.take(0, BEGINNING_BYTES), "each connection has room for its beginning");
            let is_full = !room.take(BEGINNING_BYTES, CONNECTION_BYTES - BEGINNING_BYTES);
            rooms.push(room);
            is_full
        };
        while !fill(&mut rooms) {}
        assert_eq!(rooms.len(), SHARED_BYTES / (CONNECTION_BYTES - BEGINNING_BYTES) + 1);
        drop(rooms.remove(0));
        assert!(!fill(&mut rooms));
        drop(rooms);
        assert_eq!(admission.held.load(Ordering::Relaxed), 0);
    }
}
