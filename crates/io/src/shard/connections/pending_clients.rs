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

mod undecided;

use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use clearway_transport::{AcceptError, Arrival, Incoming, Observer, Received};
use clearway_units::Timestamp;
use clearway_wire::header::{HeaderKind, Invariant, ProtectedHeader};
use clearway_wire::{ConnectionId, LongPacketType};

use super::Connections;
use super::unknown::report_unknown;
use crate::acceptor::{Admission, Decision, VALIDATED_FACTOR};
use crate::guarded::{GuardedObserver, Panicked, guarded};
use crate::mailbox::{Accept, Answer};
use crate::via::Via;
use undecided::{Stage, Tickets};

/// Limits on the waiting clients.
#[derive(Clone, Copy)]
struct Room {
    clients: usize,
    /// Maximum total size of the clients' datagrams in bytes: anyone can send datagrams of 64 KiB.
    bytes: usize,
}

/// Limits on the clients that wait for their handshake.
#[derive(Clone, Copy)]
struct Rooms {
    validated: Room,
    /// Limits on clients without a validated address; additional clients get a Retry packet.
    others: Room,
}

impl Rooms {
    fn new(admission: &Admission) -> Self {
        let clients = admission.max_incoming.max(1);
        let bytes = admission.incoming_buffer.max(MIN_INCOMING_BUFFER);
        Self {
            validated: Room { clients, bytes },
            others: Room {
                clients: clients.div_ceil(VALIDATED_FACTOR),
                bytes: bytes / VALIDATED_FACTOR,
            },
        }
    }

    /// Returns the limits on a client that has or has not validated its address.
    fn of(self, is_validated: bool) -> Room {
        if is_validated { self.validated } else { self.others }
    }
}

/// Limits on clients that wait for a Retry packet; datagrams of additional clients are dropped.
const ROOM_FOR_RETRIES: Room = Room { clients: 256, bytes: 1 << 20 };
/// See [`Admission::incoming_buffer`].
const MIN_INCOMING_BUFFER: usize = 64 << 10;
/// Maximum number of queued datagrams per client: a large ClientHello takes two, and early data
/// follows.
const MAX_DATAGRAMS_PER_CLIENT: usize = 12;

/// Pause between handshakes while there is more to receive: the shard does other work for this many
/// times the duration of a handshake.
const PAUSE: u32 = 3;

const NOT_ANSWERED: &str = "connection ID generator panicked; a client gets no response";

/// Identity of a client without a connection: its first Destination Connection ID, and its address.
pub(super) type ClientKey = (ConnectionId, SocketAddr);

/// Clients that wait for a decision, for their handshake or for a Retry packet.
pub(super) struct PendingClients {
    rooms: Rooms,
    waiting: BTreeMap<ClientKey, PendingClient>,
    /// The keys of the waiting clients that the shard can process, in order.
    order: VecDeque<ClientKey>,
    /// The waiting clients whose decision is postponed.
    tickets: Tickets,
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
    /// The arrival of each of the client's later datagrams, which `incoming` contains, and the
    /// balancer that forwarded it.
    further: Vec<(Arrival, Option<Via>)>,
    /// Total size of the client's datagrams in bytes.
    bytes: usize,
    stage: Stage,
}

impl PendingClient {
    /// Returns a client that is refused, since there is no acceptor.
    fn refused(incoming: Incoming, via: Option<Via>) -> Self {
        let (further, stage) = (Vec::new(), Stage::Decided(Answer::Refuse));
        Self { incoming, via, further, bytes: 0, stage }
    }

    /// Removes and returns the client's later datagrams, in order.
    fn take_further(&mut self) -> Vec<Further> {
        let arrivals = std::mem::take(&mut self.further).into_iter();
        let all = arrivals.zip(self.incoming.take_further());
        all.map(|((arrival, via), datagram)| (arrival, via, datagram)).collect()
    }
}

/// A later datagram of a waiting client, and the balancer that forwarded it.
pub(super) type Further = (Arrival, Option<Via>, Vec<u8>);

/// The outcome of the attempt to begin a client's handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Accepted,
    /// The first datagram was forged or damaged.
    NotAuthentic,
    /// The client got another response, or none.
    Declined,
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
    pub(super) fn new(admission: &Admission) -> Self {
        Self {
            rooms: Rooms::new(admission),
            tickets: Tickets::default(),
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
    fn has_room(&self, is_validated: bool, bytes: usize) -> bool {
        let room = self.rooms.of(is_validated);
        self.waiting.len() < room.clients && self.bytes + bytes <= room.bytes
    }

    /// Queues a client.
    fn push(&mut self, key: ClientKey, incoming: Incoming, via: Option<Via>, bytes: usize) {
        self.order.push_back(key);
        let (further, stage) = (Vec::new(), Stage::Queued);
        self.insert(key, PendingClient { incoming, via, further, bytes, stage });
    }

    /// Adds a client that waits.
    fn insert(&mut self, key: ClientKey, client: PendingClient) {
        self.bytes += client.bytes;
        self.waiting.insert(key, client);
    }

    /// Removes a client that waits.
    fn remove(&mut self, key: &ClientKey) -> Option<PendingClient> {
        let client = self.waiting.remove(key)?;
        self.bytes -= client.bytes;
        Some(client)
    }

    /// Queues an additional datagram of a waiting client, or drops it if the limits are reached.
    fn push_further(
        &mut self,
        key: &ClientKey,
        arrival: Arrival,
        via: Option<Via>,
        datagram: &[u8],
    ) {
        let (bytes, rooms) = (self.bytes + datagram.len(), self.rooms);
        match self.waiting.get_mut(key) {
            Some(client)
                if bytes <= rooms.of(client.incoming.address_is_validated()).bytes
                    && client.further.len() + 1 < MAX_DATAGRAMS_PER_CLIENT =>
            {
                self.bytes = bytes;
                client.bytes += datagram.len();
                client.further.push((arrival, via));
                client.incoming.push_further(datagram.into());
            }
            _ => self.dropped += 1,
        }
    }

    /// Removes the client that the shard processes next.
    fn pop(&mut self) -> Option<(ClientKey, PendingClient)> {
        let key = self.order.pop_front()?;
        let client = self.remove(&key)?;
        Some((key, client))
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
        let is_full = (!has_token && self.must_validate())
            || !self.pending_clients.has_room(has_token, bytes);
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
        let is_validated = incoming.address_is_validated();
        if self.acceptor.is_none() {
            let refused = PendingClient::refused(incoming, via);
            let _ = self.decide(now, key, refused);
            return;
        }
        let has_room = self.pending_clients.has_room(is_validated, bytes);
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

    /// Decides on the client that has waited longest, and begins its handshake, if allowed now.
    /// Called at the end of a turn. Returns whether a client was processed, in which case there may
    /// be something to send.
    pub(in crate::shard) fn begin_next(&mut self, now: Timestamp, is_behind: bool) -> bool {
        let may_begin = self.pending_clients.may_begin(now, is_behind);
        let Some((key, client)) = may_begin.then(|| self.pending_clients.pop()).flatten() else {
            return false;
        };
        if let Some((outcome, further)) = self.decide(now, key, client) {
            if outcome != Outcome::Accepted {
                self.counts.half_open.end();
            }
            for (arrival, via, datagram) in further {
                self.receive_after_decision(now, outcome, (arrival, via), datagram);
            }
        }
        true
    }

    /// Processes a datagram that arrived before the decision on its client.
    fn receive_after_decision(
        &mut self,
        now: Timestamp,
        outcome: Outcome,
        (arrival, via): (Arrival, Option<Via>),
        mut datagram: Vec<u8>,
    ) {
        match outcome {
            Outcome::Accepted => {
                if let Received::Connection { handle, is_authentic } =
                    self.endpoint.receive(now, arrival, &mut datagram)
                {
                    if is_authentic {
                        self.note_via(handle, via);
                    }
                    self.mark_dirty(handle);
                }
            }
            // The genuine first datagram may be among the later ones.
            Outcome::NotAuthentic => self.receive_new_client(now, arrival, via, &mut datagram),
            Outcome::Declined => {}
        }
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
        self.refuse_undecided();
        while let Some((_, mut client)) = self.pending_clients.pop() {
            let further = client.take_further();
            let PendingClient { incoming, via, stage, .. } = client;
            self.counts.half_open.end();
            stage.discard();
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

    /// Decides how to respond to a client, or carries out the decision. Returns the outcome and the
    /// client's further datagrams, or `None` if the decision is postponed.
    fn decide(
        &mut self,
        now: Timestamp,
        key: ClientKey,
        mut client: PendingClient,
    ) -> Option<(Outcome, Vec<Further>)> {
        let PendingClient { incoming, via, .. } = &mut client;
        let via = *via;
        if self.has_balancers && via.is_none() {
            // A packet with a cleared QUIC bit may look like a preface.
            incoming.forbid_greasing();
        }
        let answer = match self.decision(&mut client) {
            Decision::Accept(accept) => Answer::Accept(Box::new(accept)),
            Decision::Refuse => Answer::Refuse,
            Decision::Retry => Answer::Retry,
            Decision::Ignore => Answer::Ignore,
            Decision::Postpone(give) => {
                self.postpone(now, key, client, give);
                return None;
            }
        };
        let further = client.take_further();
        let outcome = self.answer(now, client.incoming, via, answer);
        self.take_replies(via);
        Some((outcome, further))
    }

    /// Returns the decision on a client: the one that was made since it was postponed, or the
    /// acceptor's.
    fn decision(&mut self, client: &mut PendingClient) -> Decision {
        let PendingClient { incoming, stage, .. } = client;
        let is_refused = self.is_refused_for_memory(incoming.remote_address());
        let stage = std::mem::replace(stage, Stage::Queued);
        match (&mut self.acceptor, stage) {
            (Some(_), Stage::Decided(answer)) if !is_refused => undecided::decision(answer),
            (Some(acceptor), Stage::Queued) if !is_refused => {
                let refused = "acceptor panicked; the client is refused";
                guarded(refused, || acceptor.incoming(incoming)).unwrap_or(Decision::Refuse)
            }
            (_, stage) => {
                stage.discard();
                Decision::Refuse
            }
        }
    }

    fn answer(
        &mut self,
        now: Timestamp,
        incoming: Incoming,
        via: Option<Via>,
        answer: Answer,
    ) -> Outcome {
        match answer {
            Answer::Accept(accept) => return self.accept(now, incoming, via, *accept),
            Answer::Refuse => {
                self.counts.refused += 1;
                let _ = guarded(NOT_ANSWERED, || self.endpoint.refuse(incoming));
            }
            Answer::Retry => self.retry(now, &incoming, via),
            Answer::Ignore => self.counts.refused += 1,
        }
        Outcome::Declined
    }

    /// Returns the acceptor's observer for a connection.
    fn observer(&mut self) -> Option<Box<dyn Observer>> {
        const UNOBSERVED: &str = "acceptor panicked; the connection has no observer";
        let acceptor = self.acceptor.as_mut()?;
        guarded(UNOBSERVED, || acceptor.observer()).ok().flatten()
    }

    /// Begins the client's connection.
    fn accept(
        &mut self,
        now: Timestamp,
        incoming: Incoming,
        via: Option<Via>,
        accept: Accept,
    ) -> Outcome {
        const REFUSED: &str =
            "application code panicked; the client is refused with INTERNAL_ERROR";
        let Accept { application, observer, options } = accept;
        let client = incoming.without_datagram();
        let mut outcome = Outcome::Declined;
        let observer = GuardedObserver::guard(observer.or_else(|| self.observer()));
        match guarded(REFUSED, || self.endpoint.accept_with(now, incoming, options, observer)) {
            Ok(Ok(handle)) => {
                let counted = self.mailbox.census.count_one();
                self.add(now, handle, application, counted);
                if let Some(Some(slot)) = self.slots.get_mut(handle.index()) {
                    slot.record.accepted(&mut self.counts);
                    slot.via = via;
                }
                return Outcome::Accepted;
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot accept a client");
                if error == AcceptError::NotAuthentic {
                    outcome = Outcome::NotAuthentic;
                }
            }
            Err(Panicked) => {
                let answer = || self.endpoint.refuse_with_internal_error(client);
                let _ = guarded(NOT_ANSWERED, answer);
            }
        }
        // Dropping application code may panic as well.
        let _ = guarded(REFUSED, || drop(application));
        self.counts.refused += 1;
        outcome
    }
}

#[cfg(test)]
#[path = "pending_clients_tests.rs"]
pub(super) mod tests;
