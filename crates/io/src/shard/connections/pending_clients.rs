//! New clients: the limit on the work that a shard does for them in one turn, and the queues in
//! which they wait.
//!
//! A client's first Initial packet makes the server exchange keys and sign, which takes as long as
//! processing a hundred datagrams of established connections; a Retry packet takes as long as
//! several datagrams. Anyone can send Initial packets from spoofed addresses (RFC 9000 §21.2). So
//! established connections come first: their datagrams, timers and writes. A turn sends one Retry
//! packet, and begins one handshake at its end. While datagrams arrive faster than the shard
//! receives them, only some turns begin a handshake. Additional clients wait, and when too many
//! wait, their datagrams are dropped after only the header was read.
//!
//! Clients beyond a turn's one handshake do not get a Retry packet immediately, although that needs
//! no memory: clients that begin at the same moment, as many do after an interruption, would each
//! pay a round trip for it.

use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use clearway_transport::{Arrival, Incoming, Received};
use clearway_units::Timestamp;
use clearway_wire::header::{HeaderKind, Invariant, ProtectedHeader};
use clearway_wire::{ConnectionId, LongPacketType};

use super::Connections;
use super::unknown::report_unknown;
use crate::acceptor::{Accept, Decision};
use crate::guarded::{GuardedObserver, Panicked, guarded};
use crate::via::Via;

/// Limits on the waiting clients.
#[derive(Clone, Copy)]
struct Room {
    clients: usize,
    /// Maximum total size of the clients' datagrams in bytes: anyone can send datagrams of 64 KiB.
    bytes: usize,
}

/// Limits on clients without a validated address; additional clients get a Retry packet.
const ROOM: Room = Room { clients: 256, bytes: 1 << 20 };
/// Limits on clients that wait for a Retry packet; datagrams of additional clients are dropped.
const ROOM_FOR_RETRIES: Room = Room { clients: 256, bytes: 1 << 20 };
/// Limits on clients with a validated address.
const ROOM_FOR_VALIDATED: Room = Room { clients: 1024, bytes: 4 << 20 };
/// Maximum number of queued datagrams per client: a large ClientHello takes two, and early data
/// follows.
const MAX_DATAGRAMS_PER_CLIENT: usize = 12;

/// Pause between handshakes while there is more to receive: the shard does other work for this many
/// times the duration of a handshake.
const PAUSE: u32 = 3;

const NOT_ANSWERED: &str = "connection ID generator panicked; a client gets no response";

/// Identity of a client without a connection: its first Destination Connection ID, and its address.
pub(super) type ClientKey = (ConnectionId, SocketAddr);

/// Clients that wait for their handshake or for a Retry packet.
pub(super) struct PendingClients {
    waiting: BTreeMap<ClientKey, PendingClient>,
    /// The waiting clients' keys in order of arrival.
    order: VecDeque<ClientKey>,
    /// Total size of the clients' datagrams in bytes.
    bytes: usize,
    /// The time before which no handshake begins while there is more to receive.
    not_before: Timestamp,
    /// Clients that wait for a Retry packet, with the size of each client's datagram in bytes.
    unvalidated: VecDeque<(Incoming, Option<Via>, usize)>,
    unvalidated_bytes: usize,
    /// Number of dropped datagrams.
    dropped: u64,
}

struct PendingClient {
    incoming: Incoming,
    /// The balancer that forwarded the first datagram.
    via: Option<Via>,
    /// The client's datagrams after the first, in order.
    further: Vec<Further>,
    /// Total size of the client's datagrams in bytes.
    bytes: usize,
}

/// A later datagram of a waiting client, and the balancer that forwarded it.
pub(super) type Further = (Arrival, Option<Via>, Vec<u8>);

/// Returns the limits that apply to a client's first datagram and to its later ones.
fn room(incoming: &Incoming) -> Room {
    if incoming.address_is_validated() { ROOM_FOR_VALIDATED } else { ROOM }
}

/// Kind of a long header datagram that belongs to no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClientKind {
    /// An Initial packet of a client that is not waiting yet.
    First { has_token: bool },
    /// A datagram of a client that is already waiting.
    Further,
    /// Any other packet; the response to it is cheap, or it is dropped.
    Other,
}

impl PendingClients {
    pub(super) fn new() -> Self {
        Self {
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            not_before: Timestamp::ORIGIN,
            unvalidated: VecDeque::new(),
            unvalidated_bytes: 0,
            dropped: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty() && self.unvalidated.is_empty()
    }

    /// Returns the number of dropped datagrams.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Classifies a long header datagram that belongs to no connection, and identifies its client.
    fn examine(&self, remote: SocketAddr, datagram: &[u8]) -> (ClientKey, ClientKind) {
        let invariant = Invariant::decode(datagram, 0).ok();
        let id = invariant.and_then(|it| ConnectionId::new(it.destination_connection_id()).ok());
        let key = (id.unwrap_or_default(), remote);
        if self.waiting.contains_key(&key) {
            return (key, ClientKind::Further);
        }
        let kind = match ProtectedHeader::decode(datagram, 0).map(|header| header.kind) {
            Ok(HeaderKind::Long { packet_type: LongPacketType::Initial, token, .. }) => {
                ClientKind::First { has_token: !token.is_empty() }
            }
            _ => ClientKind::Other,
        };
        (key, kind)
    }

    /// Returns whether the queue has space for a client whose first datagram has `bytes` bytes.
    fn has_room(&self, room: Room, bytes: usize) -> bool {
        self.order.len() < room.clients && self.bytes + bytes <= room.bytes
    }

    /// Queues a client.
    fn push(&mut self, key: ClientKey, incoming: Incoming, via: Option<Via>, bytes: usize) {
        self.bytes += bytes;
        self.order.push_back(key);
        self.waiting.insert(key, PendingClient { incoming, via, further: Vec::new(), bytes });
    }

    /// Queues an additional datagram of a waiting client, or drops it if the limits are reached.
    fn push_further(
        &mut self,
        key: &ClientKey,
        arrival: Arrival,
        via: Option<Via>,
        datagram: &[u8],
    ) {
        let bytes = self.bytes + datagram.len();
        match self.waiting.get_mut(key) {
            Some(client)
                if bytes <= room(&client.incoming).bytes
                    && client.further.len() + 1 < MAX_DATAGRAMS_PER_CLIENT =>
            {
                self.bytes = bytes;
                client.bytes += datagram.len();
                client.further.push((arrival, via, datagram.into()));
            }
            _ => self.dropped += 1,
        }
    }

    fn pop(&mut self) -> Option<PendingClient> {
        let key = self.order.pop_front()?;
        let client = self.waiting.remove(&key)?;
        self.bytes -= client.bytes;
        Some(client)
    }

    /// Returns whether the queue has space for a client that waits for a Retry packet.
    fn has_room_for_retry(&self, bytes: usize) -> bool {
        let Room { clients, bytes: most } = ROOM_FOR_RETRIES;
        self.unvalidated.len() < clients && self.unvalidated_bytes + bytes <= most
    }

    /// Queues a client for a Retry packet, or drops it if the queue is full.
    fn push_for_retry(&mut self, incoming: Incoming, via: Option<Via>, bytes: usize) {
        if self.has_room_for_retry(bytes) {
            self.unvalidated_bytes += bytes;
            self.unvalidated.push_back((incoming, via, bytes));
        } else {
            self.dropped += 1;
        }
    }

    fn pop_for_retry(&mut self) -> Option<(Incoming, Option<Via>)> {
        let (incoming, via, bytes) = self.unvalidated.pop_front()?;
        self.unvalidated_bytes -= bytes;
        Some((incoming, via))
    }

    /// Returns whether a handshake may begin.
    fn may_begin(&self, now: Timestamp, is_behind: bool) -> bool {
        !self.order.is_empty() && (!is_behind || now >= self.not_before)
    }

    /// Records how long the work for one handshake took.
    pub(super) fn record_handshake_time(&mut self, began: Timestamp, ended: Timestamp) {
        self.not_before = ended + ended.saturating_since(began) * PAUSE;
    }
}

impl Connections {
    /// Processes a long header datagram that may come from a new client.
    pub(super) fn receive_new_client(
        &mut self,
        now: Timestamp,
        arrival: Arrival,
        via: Option<Via>,
        datagram: &mut [u8],
    ) {
        let (key, kind) = self.pending_clients.examine(arrival.remote, datagram);
        match kind {
            ClientKind::Further => {
                return self.pending_clients.push_further(&key, arrival, via, datagram);
            }
            ClientKind::First { has_token }
                if !self.has_room_for_first(has_token, datagram.len()) =>
            {
                self.pending_clients.dropped += 1;
                return;
            }
            ClientKind::First { .. } | ClientKind::Other => {}
        }
        let bytes = datagram.len();
        match self.endpoint.receive(now, arrival, datagram) {
            Received::Incoming(incoming) => self.admit(now, key, (incoming, via), bytes),
            // A stateless reset may begin like any packet.
            Received::Connection { handle, .. } => self.mark_dirty(handle),
            Received::Unknown => report_unknown(arrival.remote, datagram),
            _ => {}
        }
        self.take_replies(via);
    }

    /// Returns whether clients must validate their address.
    fn must_validate(&self) -> bool {
        self.acceptor.is_some() && self.counts.half_open.is_limiting()
    }

    /// Returns whether a queue may have space for a client that is not waiting yet, with `bytes`
    /// bytes in its first datagram. If the datagram has a token, the token might turn out to be
    /// valid.
    fn has_room_for_first(&self, has_token: bool, bytes: usize) -> bool {
        let is_full = if has_token {
            !self.pending_clients.has_room(ROOM_FOR_VALIDATED, bytes)
        } else {
            self.must_validate() || !self.pending_clients.has_room(ROOM, bytes)
        };
        self.acceptor.is_none() || !is_full || self.pending_clients.has_room_for_retry(bytes)
    }

    /// Queues a client for its handshake or for a Retry packet.
    fn admit(
        &mut self,
        now: Timestamp,
        key: ClientKey,
        (incoming, via): (Incoming, Option<Via>),
        bytes: usize,
    ) {
        if self.acceptor.is_none() {
            // The endpoint refuses the client.
            self.decide(now, incoming, via);
            return;
        }
        let is_validated = incoming.address_is_validated();
        let has_room = self.pending_clients.has_room(room(&incoming), bytes);
        if has_room && (is_validated || !self.must_validate()) {
            self.pending_clients.push(key, incoming, via, bytes);
            self.counts.half_open.begin();
        } else if is_validated {
            self.pending_clients.dropped += 1;
        } else {
            self.pending_clients.push_for_retry(incoming, via, bytes);
        }
    }

    fn retry(&mut self, now: Timestamp, incoming: &Incoming, via: Option<Via>) {
        self.counts.retries += 1;
        let _ = guarded(NOT_ANSWERED, || self.endpoint.retry(now, incoming));
        self.take_replies(via);
    }

    /// Sends a Retry packet to the client that has waited longest. Called once per turn: a turn
    /// that receives many datagrams is long, so sending one Retry packet takes only a small part of
    /// it.
    pub(in crate::shard) fn retry_next(&mut self, now: Timestamp) {
        if let Some((incoming, via)) = self.pending_clients.pop_for_retry() {
            self.retry(now, &incoming, via);
        }
    }

    /// Begins the handshake of the client that has waited longest, if allowed now. Called at the
    /// end of a turn. Returns whether a client was processed, in which case there may be something
    /// to send.
    pub(in crate::shard) fn begin_next(&mut self, now: Timestamp, is_behind: bool) -> bool {
        let may_begin = self.pending_clients.may_begin(now, is_behind);
        let Some(client) = may_begin.then(|| self.pending_clients.pop()).flatten() else {
            return false;
        };
        let PendingClient { incoming, via, further, .. } = client;
        let is_accepted = self.decide(now, incoming, via);
        if !is_accepted {
            self.counts.half_open.end();
        }
        for (arrival, via, mut datagram) in further {
            // If the first datagram was forged, the genuine one may be among the later datagrams.
            if !is_accepted {
                self.receive_new_client(now, arrival, via, &mut datagram);
            } else if let Received::Connection { handle, is_authentic } =
                self.endpoint.receive(now, arrival, &mut datagram)
            {
                if is_authentic {
                    self.note_via(handle, via);
                }
                self.mark_dirty(handle);
            }
        }
        true
    }

    /// Records how long the work for a handshake took.
    pub(in crate::shard) fn record_handshake_time(&mut self, began: Timestamp, ended: Timestamp) {
        self.pending_clients.record_handshake_time(began, ended);
    }

    /// Removes all waiting clients, and returns their datagrams in order.
    pub(super) fn take_pending_clients(&mut self) -> Vec<Further> {
        let whole = |incoming: Incoming, via| {
            let (arrival, datagram) = incoming.into_datagram();
            (arrival, via, datagram)
        };
        let mut datagrams = Vec::new();
        while let Some(PendingClient { incoming, via, further, .. }) = self.pending_clients.pop() {
            self.counts.half_open.end();
            datagrams.push(whole(incoming, via));
            datagrams.extend(further);
        }
        while let Some((incoming, via)) = self.pending_clients.pop_for_retry() {
            datagrams.push(whole(incoming, via));
        }
        datagrams
    }

    pub(in crate::shard) fn has_pending_clients(&self) -> bool {
        !self.pending_clients.is_empty()
    }

    /// Decides how to respond to a client. Returns whether the client was accepted.
    fn decide(&mut self, now: Timestamp, incoming: Incoming, via: Option<Via>) -> bool {
        let is_accepted = self.answer(now, incoming, via);
        self.take_replies(via);
        is_accepted
    }

    fn answer(&mut self, now: Timestamp, mut incoming: Incoming, via: Option<Via>) -> bool {
        if self.has_balancers && via.is_none() {
            // A packet with a cleared QUIC bit may look like a preface.
            incoming.forbid_greasing();
        }
        let is_refused = self.is_refused_for_memory(incoming.remote_address());
        let decision = match &mut self.acceptor {
            Some(_) if is_refused => Ok(Decision::Refuse),
            Some(acceptor) => {
                guarded("acceptor panicked; the client is refused", || acceptor.incoming(&incoming))
            }
            None => Ok(Decision::Refuse),
        };
        match decision.unwrap_or(Decision::Refuse) {
            Decision::Accept(accept) => return self.accept(now, incoming, via, accept),
            Decision::Refuse => {
                self.counts.refused += 1;
                let _ = guarded(NOT_ANSWERED, || self.endpoint.refuse(incoming));
            }
            Decision::Retry => self.retry(now, &incoming, via),
            Decision::Ignore => self.counts.refused += 1,
        }
        false
    }

    /// Begins the client's connection. Returns whether it has begun.
    fn accept(
        &mut self,
        now: Timestamp,
        incoming: Incoming,
        via: Option<Via>,
        accept: Accept,
    ) -> bool {
        const REFUSED: &str =
            "application code panicked; the client is refused with INTERNAL_ERROR";
        let Accept { application, observer } = accept;
        let client = incoming.without_datagram();
        let observer = GuardedObserver::guard(observer);
        match guarded(REFUSED, || self.endpoint.accept(now, incoming, observer)) {
            Ok(Ok(handle)) => {
                let counted = self.mailbox.census.count_one();
                self.add(now, handle, application, counted);
                if let Some(Some(slot)) = self.slots.get_mut(handle.index()) {
                    slot.record.accepted(&mut self.counts);
                    slot.via = via;
                }
                return true;
            }
            Ok(Err(error)) => tracing::debug!(%error, "cannot accept a client"),
            Err(Panicked) => {
                let answer = || self.endpoint.refuse_with_internal_error(client);
                let _ = guarded(NOT_ANSWERED, answer);
            }
        }
        // Dropping application code may panic as well.
        let _ = guarded(REFUSED, || drop(application));
        self.counts.refused += 1;
        false
    }
}

#[cfg(test)]
#[path = "pending_clients_tests.rs"]
pub(super) mod tests;
