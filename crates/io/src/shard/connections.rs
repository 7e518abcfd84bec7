//! A shard's connections with their applications and timers, and the queues of connections that
//! have work to do.

mod broken;
mod half_open;
mod memory;
mod migrating;
mod pending_clients;
mod record;
mod replacing;
mod unknown;

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_transport::{
    Arrival, Connection, ConnectionHandle, Deadlines, Endpoint, Received, SocketIndex, Transmit,
};
use clearway_units::Timestamp;
use clearway_wire::VarInt;

use super::attempts::Attempts;
use super::deadlines::{DeadlineKind, ShardDeadlines};
use super::peer_shards::Passed;
use super::sockets::Sockets;
use crate::acceptor::{Acceptor, Admission};
use crate::census::Counted;
use crate::datagrams::Meta;
use crate::failures::ConnectFailure;
use crate::guarded::{Guarded, GuardedObserver, Panicked, guarded};
use crate::mailbox::{ApplicationFactory, ConnectRequest};
use crate::mailbox::{ConnectionWaker, Mailbox, WakeTarget};
use crate::memory_budget::{Account, MemoryBudget};
use crate::statistics::ShardStatistics;
use crate::system::restart::Pipe;
use crate::via::Via;
use migrating::WaitingMigration;
use pending_clients::PendingClients;
use record::{ConnectionCounts, ConnectionRecord};
use unknown::report_unknown;

/// Minimum delay before a deadline that remains in the past is served again, so that the shard does
/// not spin.
const OVERDUE_DELAY: Duration = Duration::from_millis(1);

/// Maximum number of queued replies that belong to no connection.
const MAX_REPLIES: usize = 64;

/// Log message for a panic in a callback.
pub(super) const REPLY: &str = "application callback panicked";

/// A connection's application, and its pending work in the shard.
struct ConnectionSlot {
    handle: ConnectionHandle,
    application: Guarded,
    target: Arc<WakeTarget>,
    /// The peer's address, while the connection is in `attempts`.
    attempt: Option<SocketAddr>,
    /// Whether the connection is queued in `dirty`.
    is_dirty: bool,
    /// Whether the connection is queued in `sending`; it has no timer until it has been polled for
    /// datagrams.
    is_sending: bool,
    /// Whether the application ran after the connection was closed.
    knows_of_close: bool,
    /// Whether a panic may have left its connection in an inconsistent state.
    is_broken: bool,
    /// The time when a timer last fired, and its kind.
    served: Option<(Timestamp, DeadlineKind)>,
    /// The time at which to run the application again.
    deadline: Option<Timestamp>,
    /// Sockets opened for migrations that the connection uses.
    sockets: Vec<SocketIndex>,
    /// A requested migration that cannot begin yet.
    migration: Option<WaitingMigration>,
    /// The balancer to which the connection's responses go.
    via: Option<Via>,
    record: ConnectionRecord,
    /// The connection's account in the memory budget, if there is a budget.
    account: Option<Account>,
    /// Keeps the connection in the group's connection count; `None` once it no longer counts.
    counted: Option<Counted>,
}

/// A reply that belongs to no connection, and the balancer that it goes to.
pub(super) struct Reply {
    pub(super) transmit: Transmit,
    pub(super) contents: Vec<u8>,
    pub(super) via: Option<Via>,
}

pub(super) struct Connections {
    pub(super) endpoint: Endpoint,
    acceptor: Option<Box<dyn Acceptor>>,
    /// The connections' slots, indexed by [`ConnectionHandle::index`].
    slots: Vec<Option<ConnectionSlot>>,
    count: usize,
    generation: u64,
    deadlines: ShardDeadlines,
    attempts: Attempts,
    /// Clients whose handshake has not begun yet.
    pending_clients: PendingClients,
    /// Connections whose applications must run.
    dirty: VecDeque<ConnectionHandle>,
    /// Connections that must be polled for datagrams.
    sending: VecDeque<ConnectionHandle>,
    /// The index of the next connection whose connection IDs must be replaced.
    replacing: Option<usize>,
    is_shutting_down: bool,
    counts: ConnectionCounts,
    /// Entries in the connection count of connections that are completely gone; dropped to publish
    /// this.
    departed: Vec<Counted>,
    /// Replies to datagrams that belong to no connection.
    replies: VecDeque<Reply>,
    /// The pipe to the process that has replaced this one and accepts new clients.
    successor: Option<Arc<Pipe>>,
    /// Whether only load balancers may send to this server: clients' datagrams have prefaces, and
    /// datagrams without a preface come from a balancer itself.
    has_balancers: bool,
    /// The memory budget of connections.
    budget: Option<MemoryBudget>,
    mailbox: Arc<Mailbox>,
}

impl Connections {
    pub(super) fn new(
        endpoint: Endpoint,
        acceptor: Option<Box<dyn Acceptor>>,
        admission: &Admission,
        mailbox: Arc<Mailbox>,
    ) -> Self {
        Self {
            endpoint,
            acceptor,
            slots: Vec::new(),
            count: 0,
            generation: 0,
            deadlines: ShardDeadlines::new(),
            attempts: Attempts::default(),
            pending_clients: PendingClients::new(admission),
            dirty: VecDeque::new(),
            sending: VecDeque::new(),
            replacing: None,
            is_shutting_down: false,
            counts: ConnectionCounts::new(admission.retry_above),
            departed: Vec::new(),
            replies: VecDeque::new(),
            successor: None,
            has_balancers: !admission.balancers.is_empty(),
            budget: None,
            mailbox,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Updates `statistics` with the connections' counters.
    pub(super) fn report(&self, statistics: &mut ShardStatistics) {
        statistics.connections = self.count as u64;
        statistics.incoming_dropped = self.pending_clients.dropped();
        let totals = self.endpoint.totals();
        statistics.datagrams_unknown = totals.datagrams_unknown;
        statistics.stateless_resets_sent = totals.stateless_resets_sent;
        self.counts.report(statistics);
    }

    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Returns the number of dirty connections, that is, those whose applications must run.
    pub(super) fn dirty_len(&self) -> usize {
        self.dirty.len()
    }

    pub(super) fn has_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let expiry = self.pending_clients.next_expiry();
        self.deadlines.earliest().into_iter().chain(expiry).min()
    }

    /// Hands over new and waiting clients to another process. Returns what happened to the
    /// datagrams of the waiting clients.
    pub(super) fn leave_clients_to(&mut self, successor: &Arc<Pipe>) -> Vec<Passed> {
        self.successor = Some(successor.clone());
        let datagrams = self.take_pending_clients().into_iter();
        let send = |(arrival, via, datagram): (Arrival, Option<Via>, Vec<u8>)| {
            let Arrival { remote, socket, local_ip, ecn } = arrival;
            successor.send(socket, &Meta { remote, local_ip, ecn, via }, &datagram).into()
        };
        datagrams.map(send).collect()
    }

    /// Accepts new clients in this process again.
    pub(super) fn keep_clients(&mut self) {
        self.successor = None;
    }

    /// Processes one datagram, or passes it to the process that has replaced this one.
    pub(super) fn receive(
        &mut self,
        now: Timestamp,
        socket: SocketIndex,
        meta: &Meta,
        datagram: &mut [u8],
    ) -> Passed {
        let received = guarded(broken::CLOSED, || self.take_in(now, socket, meta, datagram));
        received.unwrap_or_else(|Panicked| {
            self.on_broken_by(now, meta.remote, datagram);
            Passed::No
        })
    }

    fn take_in(
        &mut self,
        now: Timestamp,
        socket: SocketIndex,
        meta: &Meta,
        datagram: &mut [u8],
    ) -> Passed {
        let Meta { remote, local_ip, ecn, via } = *meta;
        let arrival = Arrival { remote, socket, local_ip, ecn };
        if is_long(datagram) && !self.endpoint.has_connection_for(remote, datagram) {
            // A connection ID that the client has chosen may look like one of ours, and after a
            // Retry it is one. This process would refuse the client.
            if let Some(successor) = &self.successor {
                return successor.send(socket, meta, datagram).into();
            }
            self.receive_new_client(now, arrival, via, datagram);
            return Passed::No;
        }
        match self.endpoint.receive(now, arrival, datagram) {
            Received::Connection { handle, is_authentic } => {
                if is_authentic {
                    self.note_via(handle, via);
                }
                self.note_answer(handle);
                self.mark_dirty(handle);
            }
            Received::Unknown => report_unknown(remote, datagram),
            _ => {}
        }
        self.take_replies(via);
        Passed::No
    }

    /// Starts a connection to `destination`, which is the request's remote address in the form used
    /// by the socket.
    pub(super) fn connect(
        &mut self,
        now: Timestamp,
        request: ConnectRequest,
        destination: SocketAddr,
        counted: Counted,
    ) {
        let ConnectRequest { config, server_name, application, observer, on_failure, .. } = request;
        if self.is_shutting_down {
            let _ = guarded(REPLY, || on_failure(ConnectFailure::ShuttingDown));
            return;
        }
        const NOT_BEGUN: &str = "application code panicked; its connection was not started";
        let observer = GuardedObserver::guard(observer);
        let begun = guarded(NOT_BEGUN, || {
            self.endpoint.connect(now, &config, destination, &server_name, observer)
        });
        let failure = match begun {
            Ok(Ok(handle)) => return self.add(now, handle, application, counted),
            Ok(Err(error)) => ConnectFailure::Endpoint(error),
            Err(Panicked) => ConnectFailure::Panicked,
        };
        let _ = guarded(REPLY, || on_failure(failure));
        // Dropping application code may panic as well.
        let _ = guarded(REPLY, || drop(application));
    }

    fn add(
        &mut self,
        now: Timestamp,
        handle: ConnectionHandle,
        factory: ApplicationFactory,
        counted: Counted,
    ) {
        self.generation += 1;
        let target = Arc::new(WakeTarget::new(handle.index(), self.generation));
        let waker = ConnectionWaker::new(self.mailbox.clone(), target.clone());
        let application = Guarded::new(|| factory(waker)).unwrap_or_else(|panicked| {
            self.on_panic(now, handle, panicked);
            Guarded::gone()
        });
        let connection = self.endpoint.connection(handle);
        let record = ConnectionRecord::begin(connection);
        let account = connection
            .zip(self.budget.as_ref())
            .map(|(connection, budget)| budget.open(connection.remote_address()));
        let attempt = connection.filter(|it| it.is_unanswered()).map(Connection::remote_address);
        if let Some(remote) = attempt {
            self.attempts.insert(remote, handle.index());
        }
        if handle.index() >= self.slots.len() {
            self.slots.resize_with(handle.index() + 1, || None);
        }
        self.slots[handle.index()] = Some(ConnectionSlot {
            handle,
            application,
            target,
            attempt,
            is_dirty: false,
            is_sending: false,
            knows_of_close: false,
            is_broken: false,
            served: None,
            deadline: None,
            sockets: Vec::new(),
            migration: None,
            via: None,
            record,
            account,
            counted: Some(counted),
        });
        self.count += 1;
        self.mark_dirty(handle);
    }

    /// Records that the latest authenticated datagram of a connection came from this balancer, or
    /// directly from the client: responses go there. Unauthenticated datagrams do not prove where
    /// the client is or which balancer it uses.
    fn note_via(&mut self, handle: ConnectionHandle, via: Option<Via>) {
        if let Some(Some(slot)) = self.slots.get_mut(handle.index()) {
            slot.via = via;
        }
    }

    /// Returns the balancer to which the connection's responses go.
    pub(super) fn via(&self, handle: ConnectionHandle) -> Option<Via> {
        self.slots.get(handle.index())?.as_ref()?.via
    }

    /// Queues the endpoint's replies to a datagram from this balancer, or to one that came
    /// directly. Excess replies are dropped, since no reply is required.
    fn take_replies(&mut self, via: Option<Via>) {
        while let Some((transmit, contents)) = self.endpoint.next_reply() {
            if self.replies.len() < MAX_REPLIES {
                self.replies.push_back(Reply { transmit, contents, via });
            }
        }
    }

    /// Returns the next packet to send that belongs to no connection.
    pub(super) fn next_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// Marks a connection to run its application, which was woken.
    pub(super) fn wake(&mut self, target: &WakeTarget) {
        let slot = self.slots.get(target.index).and_then(Option::as_ref);
        if let Some(slot) = slot.filter(|slot| slot.target.generation == target.generation) {
            self.mark_dirty(slot.handle);
        }
    }

    pub(super) fn stop_accepting(&mut self) {
        let acceptor = self.acceptor.take();
        let _ = guarded("acceptor panicked while being dropped", || drop(acceptor));
        self.refuse_undecided();
    }

    /// Closes all connections. No new connections are accepted or started.
    pub(super) fn shut_down(&mut self, now: Timestamp, error_code: VarInt, reason: &[u8]) {
        self.is_shutting_down = true;
        self.stop_accepting();
        self.each(now, |connection| connection.close(now, error_code, reason));
    }

    /// Handles an ICMP message that reports `destination` as unreachable. Only attempts to connect
    /// to that address are checked; returns their number.
    pub(super) fn on_unreachable(&mut self, now: Timestamp, destination: SocketAddr) -> usize {
        let mut looked_at = 0;
        while let Some(index) = self.attempts.take(destination) {
            looked_at += 1;
            let Some(Some(slot)) = self.slots.get_mut(index) else { continue };
            slot.attempt = None;
            let handle = slot.handle;
            self.guard(now, handle, |connection| connection.on_unreachable(now));
            self.mark_dirty(handle);
        }
        looked_at
    }

    /// Handles a datagram that belongs to a connection. After the first authenticated datagram, the
    /// connection is no longer an attempt.
    fn note_answer(&mut self, handle: ConnectionHandle) {
        let Some(Some(slot)) = self.slots.get_mut(handle.index()) else { return };
        let Some(remote) = slot.attempt else { return };
        if self.endpoint.connection(handle).is_none_or(|it| !it.is_unanswered()) {
            slot.attempt = None;
            self.attempts.remove(remote, handle.index());
        }
    }

    /// Calls `act` for all connections, and marks their applications to run.
    fn each(&mut self, now: Timestamp, mut act: impl FnMut(&mut Connection)) {
        for index in 0..self.slots.len() {
            let Some(handle) = self.slots[index].as_ref().map(|slot| slot.handle) else { continue };
            if self.guard(now, handle, &mut act).is_some() {
                self.mark_dirty(handle);
            }
        }
    }

    fn mark_dirty(&mut self, handle: ConnectionHandle) {
        if let Some(Some(slot)) = self.slots.get_mut(handle.index())
            && !std::mem::replace(&mut slot.is_dirty, true)
        {
            self.dirty.push_back(handle);
        }
    }

    /// Fires timers that have expired at `now`, given that everything that arrived by
    /// `received_until` was received. Timers beyond this turn's limit fire in the next turn.
    pub(super) fn fire_timers(&mut self, now: Timestamp, received_until: Timestamp) {
        self.expire_undecided(now);
        self.deadlines.begin_turn();
        while let Some((index, kind)) = self.deadlines.pop_due(now, received_until) {
            let Some(Some(slot)) = self.slots.get_mut(index) else { continue };
            let handle = slot.handle;
            slot.served = Some((now, kind));
            self.guard_endpoint(now, handle, |endpoint| {
                endpoint.on_deadline(handle, now, received_until);
            });
            self.mark_dirty(handle);
        }
    }

    /// Runs the application of the connection that has been dirty the longest.
    pub(super) fn process_next(&mut self, now: Timestamp) {
        if let Some(handle) = self.dirty.pop_front() {
            self.process(now, handle);
        }
    }

    /// Runs the application of the connection that became dirty last.
    pub(super) fn process_last(&mut self, now: Timestamp) {
        if let Some(handle) = self.dirty.pop_back() {
            self.process(now, handle);
        }
    }

    fn process(&mut self, now: Timestamp, handle: ConnectionHandle) {
        let Some(Some(slot)) = self.slots.get_mut(handle.index()) else { return };
        slot.is_dirty = false;
        let Some(connection) = self.endpoint.connection_mut(handle) else {
            return self.mark_sending(handle);
        };
        // Wake-ups after this point cause another call.
        slot.target.is_woken.swap(false, Ordering::SeqCst);
        if slot.target.is_condemned.load(Ordering::SeqCst) {
            memory::close(now, connection, self.budget.as_ref(), &slot.record.span);
        }
        let ConnectionSlot { application, record, .. } = slot;
        let outcome = record.span.in_scope(|| application.process(now, connection));
        record.update(connection, &mut self.counts);
        slot.knows_of_close = connection.is_closed() || outcome.is_err();
        slot.deadline = outcome.unwrap_or_default();
        if let Err(panicked) = outcome {
            self.on_panic(now, handle, panicked);
        }
        self.mark_sending(handle);
    }

    /// Requests another call of the application if its last call, or sending, produced events that
    /// it has not seen, since nothing else might happen on the connection for a long time. An
    /// application that leaves events in the queue is not called again for the same events.
    fn note_events(&mut self, handle: ConnectionHandle) {
        let connection = self.endpoint.connection_mut(handle);
        if connection.is_some_and(Connection::has_unseen_events) {
            self.mark_dirty(handle);
        }
    }

    /// Returns the next connection to poll for datagrams.
    pub(super) fn next_sending(&mut self) -> Option<ConnectionHandle> {
        let handle = self.sending.pop_front()?;
        if let Some(Some(slot)) = self.slots.get_mut(handle.index()) {
            slot.is_sending = false;
        }
        Some(handle)
    }

    pub(super) fn sending_len(&self) -> usize {
        self.sending.len()
    }

    /// Queues a connection to be polled for datagrams, at the end of the queue.
    pub(super) fn mark_sending(&mut self, handle: ConnectionHandle) {
        if let Some(Some(slot)) = self.slots.get_mut(handle.index())
            && !std::mem::replace(&mut slot.is_sending, true)
        {
            self.deadlines.set(handle.index(), Deadlines::default());
            self.sending.push_back(handle);
        }
    }

    /// Handles a connection that has nothing more to send now: the connection waits for its
    /// deadline, or has ended.
    pub(super) fn rest(&mut self, now: Timestamp, handle: ConnectionHandle, sockets: &mut Sockets) {
        if guarded(broken::CLOSED, || self.let_rest(now, handle, sockets)).is_err() {
            self.on_broken(now, handle);
        }
    }

    fn let_rest(&mut self, now: Timestamp, handle: ConnectionHandle, sockets: &mut Sockets) {
        if self.retry_migration(now, handle, sockets) {
            return self.mark_sending(handle);
        }
        self.release_sockets(handle, sockets);
        self.report_memory(handle);
        self.note_events(handle);
        let Some(Some(slot)) = self.slots.get(handle.index()) else { return };
        let is_closed = self.endpoint.connection(handle).is_some_and(Connection::is_closed);
        if is_closed && !slot.knows_of_close {
            return self.mark_dirty(handle);
        }
        if is_closed {
            self.forget_attempt(handle);
        }
        if let Some(connection) = self.endpoint.release(handle, now) {
            self.end(handle, connection);
        }
        if self.endpoint.remove_released(handle) {
            return self.remove(handle, sockets);
        }
        let Some(Some(slot)) = self.slots.get(handle.index()) else { return };
        let served_at = |kind| slot.served.filter(|(_, served)| *served == kind).map(|(at, _)| at);
        let not_again_at_once = |deadline: Timestamp, kind| match served_at(kind) {
            Some(served) if deadline <= served => served + OVERDUE_DELAY,
            _ => deadline,
        };
        let Deadlines { own, silence } = self.endpoint.deadlines(handle, now);
        let own = own.into_iter().chain(slot.deadline).min();
        let own = own.map(|deadline| not_again_at_once(deadline, DeadlineKind::Own));
        let silence = silence.map(|deadline| not_again_at_once(deadline, DeadlineKind::Silence));
        let patience = slot.migration.as_ref().and_then(WaitingMigration::not_after);
        let own = own.into_iter().chain(patience).min();
        self.deadlines.set(handle.index(), Deadlines { own, silence });
    }

    /// Handles a connection that has ended and sent its last datagrams. If the peer has never
    /// responded, it may not exist, so the connection count does not include the closing period.
    fn forget_attempt(&mut self, handle: ConnectionHandle) {
        let is_answered = self.endpoint.connection(handle).is_none_or(Connection::is_answered);
        if let Some(Some(slot)) = self.slots.get_mut(handle.index())
            && !is_answered
        {
            self.departed.extend(slot.counted.take());
        }
    }

    /// Publishes that connections are gone.
    pub(super) fn report_departed(&mut self) {
        if !self.departed.is_empty() {
            self.departed.clear();
        }
    }

    /// Ends a connection: notifies its application, and releases resources that only a live
    /// connection needs.
    fn end(&mut self, handle: ConnectionHandle, connection: Connection) {
        self.close_account(handle.index());
        let Some(Some(slot)) = self.slots.get_mut(handle.index()) else { return };
        slot.record.end(&connection, &mut self.counts);
        if let Some(waiting) = slot.migration.take() {
            waiting.end();
        }
        if let Some(remote) = slot.attempt.take() {
            self.attempts.remove(remote, handle.index());
        }
        slot.deadline = None;
        let application = std::mem::replace(&mut slot.application, Guarded::gone());
        // The connection contains the application's congestion controller, which is dropped with
        // it.
        const WAS_GONE: &str = "application code panicked after its connection had ended";
        if let Ok(statistics) = guarded(WAS_GONE, || connection.statistics()) {
            let _ = application.closed(&statistics);
        }
        let _ = guarded(WAS_GONE, || drop(connection));
    }

    /// Removes a connection.
    fn remove(&mut self, handle: ConnectionHandle, sockets: &mut Sockets) {
        self.deadlines.set(handle.index(), Deadlines::default());
        self.close_account(handle.index());
        let Some(slot) = self.slots.get_mut(handle.index()).and_then(Option::take) else { return };
        self.count -= 1;
        self.departed.extend(slot.counted);
        slot.sockets.iter().for_each(|socket| sockets.release(*socket));
    }
}

/// Returns whether a datagram begins with a long header (RFC 8999 §5.1).
fn is_long(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0x80 != 0)
}

#[cfg(test)]
#[path = "connections/ending_tests.rs"]
mod ending_tests;
#[cfg(test)]
#[path = "connections/events_tests.rs"]
mod events_tests;
#[cfg(test)]
#[path = "connections/wakes_tests.rs"]
mod wakes_tests;
