//! The effect of each packet that an attacker or an old path can send, in each state of a
//! connection, as a table for each role, with the RFC section in each row.
//!
//! A packet without effect changes nothing that the application or the peer can observe. Nothing is
//! sent in response, and the connection continues and transfers data afterward as if the packet had
//! not arrived.

mod client;
mod packets;
mod server;

use std::cell::Cell;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::support::versions::closed;
use crate::support::{CLIENT, Pair, SERVER, address, milliseconds, seconds};
use clearway_network::Way;
use clearway_transport::{ConnectionError, DropReason, Event, Side};

/// The effect of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// The packet is dropped for this reason, and nothing is sent.
    Dropped(DropReason),
    /// The packet is dropped without being counted by any connection, and nothing is sent.
    Ignored,
    /// The packet is dropped for this reason, and this many datagrams are sent in response.
    DroppedAnd(DropReason, usize),
    /// The endpoint responds to the packet with this many datagrams, and the connection is
    /// unchanged.
    Answered(usize),
    /// The client sends its first packet again: in another version, with the token, or unchanged.
    BeginsAgain,
    /// The connection ends with [`ConnectionError::Reset`], and nothing is sent.
    Reset,
    /// The connection ends with [`ConnectionError::VersionMismatch`], and nothing is sent.
    NoCommonVersion,
    /// A closing connection starts draining: nothing more is sent.
    Drains,
    /// The endpoint accepts another connection.
    Accepted,
}

/// The observable state of an endpoint before and after a packet.
#[derive(Clone, PartialEq, Debug)]
struct Seen {
    sent: usize,
    connections: usize,
    drops: Vec<usize>,
    error: Option<ConnectionError>,
}

const REASONS: [DropReason; 9] = [
    DropReason::Invalid,
    DropReason::UnsupportedVersion,
    DropReason::ConnectionUnknown,
    DropReason::KeyUnavailable,
    DropReason::DecryptionFailure,
    DropReason::Duplicate,
    DropReason::Unexpected,
    DropReason::Retry,
    DropReason::VersionNegotiation,
];

/// A pair, and the number of datagrams that each endpoint has sent.
struct Scene {
    pair: Pair,
    sent: [Rc<Cell<usize>>; 2],
    /// Copies of the datagrams that each endpoint has sent.
    recorded: [packets::Record; 2],
}

impl Scene {
    fn new(mut pair: Pair) -> Self {
        let sent: [Rc<Cell<usize>>; 2] = Default::default();
        let recorded: [packets::Record; 2] = Default::default();
        let (counts, records) = (sent.clone(), recorded.clone());
        pair.filter = Some(Box::new(move |_, way, datagram| {
            let from = usize::from(way == Way::ToClient);
            counts[from].set(counts[from].get() + 1);
            records[from].borrow_mut().push(datagram.clone());
            true
        }));
        Self { pair, sent, recorded }
    }

    fn look(&self, side: Side) -> Seen {
        let (endpoint, events) = match side {
            Side::Client => (&self.pair.client, &self.pair.client_events),
            Side::Server => (&self.pair.server, &self.pair.server_events),
        };
        Seen {
            sent: self.sent[usize::from(side.is_server())].get(),
            connections: endpoint.connection_count(),
            drops: REASONS.map(|reason| self.pair.watch.drops(side, reason)).to_vec(),
            error: closed(events).cloned(),
        }
    }

    /// Delivers `packet` to `side`, and returns its effect.
    fn deliver(&mut self, side: Side, from: SocketAddr, mut packet: Vec<u8>) -> Effect {
        self.pair.settle();
        // Data that the server sends on other connections does not count against the bytes received
        // on this one.
        self.pair.client_config.token = vec![0];
        let before = self.look(side);
        let was_silent = self.is_draining(side);
        let way = if side.is_client() { Way::ToClient } else { Way::ToServer };
        self.pair.deliver(way, from, &mut packet);
        self.pair.settle();
        let after = self.look(side);
        let sent = after.sent - before.sent;
        if after.connections > before.connections {
            return Effect::Accepted;
        }
        if after.error != before.error {
            assert_eq!(sent, 0, "a connection that a packet ends sends nothing");
            return match after.error {
                Some(ConnectionError::Reset) => Effect::Reset,
                Some(ConnectionError::VersionMismatch) => Effect::NoCommonVersion,
                other => panic!("ended with {other:?}"),
            };
        }
        if !was_silent && self.is_draining(side) {
            return Effect::Drains;
        }
        let mut drops = REASONS.iter().zip(before.drops.iter().zip(&after.drops));
        let dropped = drops.find(|(_, (before, after))| after > before).map(|(reason, _)| *reason);
        match (dropped, sent) {
            (Some(reason), 0) => Effect::Dropped(reason),
            (None, 0) => Effect::Ignored,
            (None, _) if side.is_client() && self.is_beginning() => Effect::BeginsAgain,
            (None, sent) => Effect::Answered(sent),
            (Some(reason), sent) => Effect::DroppedAnd(reason, sent),
        }
    }

    fn is_beginning(&self) -> bool {
        let client = self.pair.client.connection(self.pair.handle);
        client.is_some_and(|client| client.is_unanswered() && client.is_handshaking())
    }

    /// Returns whether an endpoint sends nothing more, whatever it receives.
    fn is_draining(&self, side: Side) -> bool {
        self.pair.watch.is_draining(side)
    }

    /// Returns whether a connection that has not ended continues.
    fn continues(&mut self) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.check_it_continues("a packet"))).is_ok()
    }

    /// Checks that a connection that has not ended continues: its handshake completes, and data is
    /// transferred.
    fn check_it_continues(&mut self, what: &str) {
        if closed(&self.pair.client_events).is_some() || closed(&self.pair.server_events).is_some()
        {
            return;
        }
        self.pair.establish_within(seconds(3));
        let took = self.pair.download_more(20_000, seconds(3));
        assert!(took.is_some_and(|took| took < milliseconds(500)), "{what}: {took:?}");
        assert!(!self.pair.client_events.iter().any(|it| matches!(it, Event::Closed(_))), "{what}");
    }
}

fn of_client() -> SocketAddr {
    address(CLIENT)
}

fn of_server() -> SocketAddr {
    address(SERVER)
}

/// Returns the address of an off-path attacker.
fn of_stranger() -> SocketAddr {
    address("10.6.6.6:6666")
}
