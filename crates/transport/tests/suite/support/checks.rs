//! Invariants that are checked at every step of each test.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use clearway_network::Way;
use clearway_transport::Connection;

use super::Pair;

/// While anything is outstanding, a live connection has a timer that expires within this time,
/// which is much less than the handshake timeout in `quiet`.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(3600);

impl Pair {
    /// Checks all invariants. To be called when both endpoints have sent everything that they can
    /// at this instant.
    pub(super) fn check(&self) {
        for connection in self.connections() {
            self.check_no_deadline_is_past(connection);
            self.check_outstanding_packets_have_a_deadline(connection);
        }
    }

    /// Checks that after `on_deadline` and `transmit` the next deadline is in the future, so that
    /// there is no busy loop.
    fn check_no_deadline_is_past(&self, connection: &Connection) {
        let deadline = connection.deadline();
        assert!(
            deadline.is_none_or(|deadline| deadline > self.now),
            "{:?}'s deadline {deadline:?} is past at {:?}",
            connection.side(),
            self.now
        );
    }

    /// Checks law 8: after every call, there is a deadline while anything is outstanding.
    fn check_outstanding_packets_have_a_deadline(&self, connection: &Connection) {
        let side = connection.side();
        // RFC 9002 §6.2.2.1: until it knows that the server has validated its address, a client must assume that
        // the server is blocked.
        let is_unsure_client = side.is_client()
            && !connection.is_confirmed()
            && self.watch.acks_of_handshake_at_client() == 0;
        let statistics = connection.statistics();
        let awaits = is_unsure_client || statistics.bytes_in_flight > 0;
        // RFC 9002 §6.2.2.1: a server at the anti-amplification limit waits for the client.
        let may_wait = side.is_server() && !connection.is_confirmed();
        if connection.is_closed() || !awaits || may_wait {
            return;
        }
        let deadline = connection.deadline();
        assert!(
            deadline.is_some_and(|deadline| deadline <= self.now + self.longest_wait),
            "{side:?} waits for {deadline:?} at {:?}: {statistics:?}",
            self.now
        );
    }

    /// Adds a sent datagram to the digest: its time, direction and length. Its payload is omitted,
    /// because it is encrypted with keys that are not derived from the seed.
    pub(super) fn note_digest(&mut self, way: Way, length: usize) {
        let mut hasher = DefaultHasher::new();
        (self.digest, self.now.as_nanos(), way, length).hash(&mut hasher);
        self.digest = hasher.finish();
    }

    pub fn digest(&self) -> u64 {
        self.digest
    }
}
