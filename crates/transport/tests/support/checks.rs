//! What holds after every instant, in every test.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use clearway_network::Way;
use clearway_transport::Connection;

use super::Pair;

/// No timer of a live connection is further away than this while something is outstanding; much less
/// than the handshake's patience in `quiet`.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

impl Pair {
    /// Both ends have sent all they want to send at this instant.
    pub(super) fn check(&self) {
        for connection in self.connections() {
            self.check_no_deadline_is_past(connection);
            self.check_something_wakes_who_waits(connection);
        }
    }

    /// After `on_deadline` and `transmit`, the next deadline lies in the future: nothing spins.
    fn check_no_deadline_is_past(&self, connection: &Connection) {
        let deadline = connection.deadline();
        assert!(
            deadline.is_none_or(|deadline| deadline > self.now),
            "{:?}'s deadline {deadline:?} is past at {:?}",
            connection.side(),
            self.now
        );
    }

    /// Law 8: after every call, whatever is outstanding has a deadline.
    fn check_something_wakes_who_waits(&self, connection: &Connection) {
        let side = connection.side();
        // RFC 9002 §6.2.2.1: a client that knows no better has to assume that the server waits for it.
        let is_unsure_client = side.is_client()
            && !connection.is_confirmed()
            && self.watch.acks_of_handshake_at_client() == 0;
        let statistics = connection.statistics();
        let awaits = is_unsure_client || statistics.bytes_in_flight > 0;
        // RFC 9002 §6.2.2.1: a server that may send nothing waits for the client.
        let may_wait = side.is_server() && !connection.is_confirmed();
        if connection.is_closed() || !awaits || may_wait {
            return;
        }
        let deadline = connection.deadline();
        assert!(
            deadline.is_some_and(|deadline| deadline <= self.now + LONGEST_WAIT),
            "{side:?} waits for {deadline:?} at {:?}: {statistics:?}",
            self.now
        );
    }

    /// Every datagram sent is part of the digest: when, which way and how long. What it says is
    /// encrypted with keys that no seed decides.
    pub(super) fn note_digest(&mut self, way: Way, length: usize) {
        let mut hasher = DefaultHasher::new();
        (self.digest, self.now.as_nanos(), way, length).hash(&mut hasher);
        self.digest = hasher.finish();
    }

    pub fn digest(&self) -> u64 {
        self.digest
    }
}
