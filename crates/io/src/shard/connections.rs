//! A shard's connections with their applications and timers, and who of them has something to do.

mod broken;
mod half_open;
mod memory;
mod migrating;
mod newcomers;
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
use super::siblings::Passed;
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
use newcomers::Newcomers;
use record::{ConnectionCounts, ConnectionRecord};
use unknown::report_unknown;

/// A deadline that stays in the past after it was served must not make the shard spin.
const OVERDUE_DELAY: Duration = Duration::from_millis(1);

/// How many replies outside of connections wait to be sent.
const MAX_REPLIES: usize = 64;

/// The consequence of a panic in a callback.
pub(super) const REPLY: &str = "a callback of the application panicked";

/// A connection's application, and what the shard still has to do for it.
struct ConnectionSlot {
    handle: ConnectionHandle,
    application: Guarded,
    target: Arc<WakeTarget>,
    /// Where the peer should be, as long as it stands among the attempts.
    attempt: Option<SocketAddr>,
    /// It waits in `dirty`.
    is_dirty: bool,
    /// It waits in `sending`; until it has been asked for datagrams it has no timer.
    is_sending: bool,
    /// The application ran after the connection was closed, so it knows.
    knows_of_close: bool,
    /// A panic has left its connection in a state that may be inconsistent.
    is_broken: bool,
    /// When deadlines were last served, and which.
    served: Option<(Timestamp, DeadlineKind)>,
    /// When the application wants to run again.
    deadline: Option<Timestamp>,
    /// Sockets that were opened for migrations, and that the connection uses.
    sockets: Vec<SocketIndex>,
    /// A migration that was asked for and cannot begin yet.
    migration: Option<WaitingMigration>,
    /// The balancer that its answers go to.
    via: Option<Via>,
    record: ConnectionRecord,
    /// What it counts in the memory budget, if there is one.
    account: Option<Account>,
    /// Something is left of the connection that the end of the program has to wait for.
    counted: Option<Counted>,
}

/// An answer outside of connections, and the balancer that it goes to.
pub(super) struct Reply {
    pub(super) transmit: Transmit,
    pub(super) contents: Vec<u8>,
    pub(super) via: Option<Via>,
}

pub(super) struct Connections {
    pub(super) endpoint: Endpoint,
    acceptor: Option<Box<dyn Acceptor>>,
    /// By [`ConnectionHandle::index`].
    slots: Vec<Option<ConnectionSlot>>,
    count: usize,
    generation: u64,
    deadlines: ShardDeadlines,
    attempts: Attempts,
    /// Clients whose handshake has not begun.
    newcomers: Newcomers,
    /// Connections whose applications are to run.
    dirty: VecDeque<ConnectionHandle>,
    /// Connections that are to be asked for datagrams.
    sending: VecDeque<ConnectionHandle>,
    /// The place of the next connection whose connection IDs are to be replaced.
    replacing: Option<usize>,
    is_shutting_down: bool,
    counts: ConnectionCounts,
    /// Connections of which nothing is left, until that is published.
    departed: Vec<Counted>,
    /// What answers datagrams that are of no connection.
    replies: VecDeque<Reply>,
    /// Leads to the process that has replaced this one, which takes the clients that begin.
    successor: Option<Arc<Pipe>>,
    /// Only load balancers may send to this server: datagrams of clients have prefaces, and one without is a balancer's own.
    has_balancers: bool,
    /// Bounds the memory of connections.
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
            newcomers: Newcomers::new(),
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

    /// Writes down what the connections have counted.
    pub(super) fn report(&self, statistics: &mut ShardStatistics) {
        statistics.connections = self.count as u64;
        statistics.incoming_dropped = self.newcomers.dropped();
        let totals = self.endpoint.totals();
        statistics.datagrams_unknown = totals.datagrams_unknown;
        statistics.stateless_resets_sent = totals.stateless_resets_sent;
        self.counts.report(statistics);
    }

    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// How many connections are dirty.
    pub(super) fn dirty_len(&self) -> usize {
        self.dirty.len()
    }

    pub(super) fn has_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.earliest()
    }

    /// From now on another process takes the clients that begin, and those that wait. Returns what became of the datagrams of
    /// these.
    pub(super) fn leave_clients_to(&mut self, successor: &Arc<Pipe>) -> Vec<Passed> {
        self.successor = Some(successor.clone());
        let datagrams = self.take_newcomers().into_iter();
        let send = |(arrival, via, datagram): (Arrival, Option<Via>, Vec<u8>)| {
            let Arrival { remote, socket, local_ip, ecn } = arrival;
            successor.send(socket, &Meta { remote, local_ip, ecn, via }, &datagram).into()
        };
        datagrams.map(send).collect()
    }

    /// Clients that begin are this process's own again.
    pub(super) fn keep_clients(&mut self) {
        self.successor = None;
    }

    /// Takes in one datagram, or gives it to the process that has replaced this one.
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
            // A client's own ID may look like one of ours, and that in its answer to a Retry is one. Here it would be
            // refused.
            if let Some(successor) = &self.successor {
                return successor.send(socket, meta, datagram).into();
            }
            self.receive_newcomer(now, arrival, via, datagram);
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

    /// Starts a connection to `destination`, which is the request's remote address as the socket names
    /// it.
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
        const NOT_BEGUN: &str = "code of the application panicked: its connection does not begin";
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
        // Dropping what the application wrote may panic as well.
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

    /// An authentic datagram of a connection came from this balancer, or from none: answers go there. Others know neither where the
    /// client is nor which balancer it uses.
    fn note_via(&mut self, handle: ConnectionHandle, via: Option<Via>) {
        if let Some(Some(slot)) = self.slots.get_mut(handle.index()) {
            slot.via = via;
        }
    }

    /// The balancer that the connection's answers go to.
    pub(super) fn via(&self, handle: ConnectionHandle) -> Option<Via> {
        self.slots.get(handle.index())?.as_ref()?.via
    }

    /// Takes the replies to what came from this balancer, or from none. Those that are too many are dropped, since none is
    /// required.
    fn take_replies(&mut self, via: Option<Via>) {
        while let Some((transmit, contents)) = self.endpoint.next_reply() {
            if self.replies.len() < MAX_REPLIES {
                self.replies.push_back(Reply { transmit, contents, via });
            }
        }
    }

    /// A packet to send outside of connections.
    pub(super) fn next_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// Somebody asked for a connection's application to run.
    pub(super) fn wake(&mut self, target: &WakeTarget) {
        let slot = self.slots.get(target.index).and_then(Option::as_ref);
        if let Some(slot) = slot.filter(|slot| slot.target.generation == target.generation) {
            self.mark_dirty(slot.handle);
        }
    }

    pub(super) fn stop_accepting(&mut self) {
        let acceptor = self.acceptor.take();
        let _ = guarded("an acceptor panicked when it was dropped", || drop(acceptor));
    }

    /// Closes all connections, and begins none.
    pub(super) fn shut_down(&mut self, now: Timestamp, error_code: VarInt, reason: &[u8]) {
        self.is_shutting_down = true;
        self.stop_accepting();
        self.each(now, |connection| connection.close(now, error_code, reason));
    }

    /// An ICMP message reports that `destination` is unreachable. Only attempts to connect to it are looked at; returns
    /// how many.
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

    /// A datagram of a connection came. Once one was authentic, it is no attempt any more.
    fn note_answer(&mut self, handle: ConnectionHandle) {
        let Some(Some(slot)) = self.slots.get_mut(handle.index()) else { return };
        let Some(remote) = slot.attempt else { return };
        if self.endpoint.connection(handle).is_none_or(|it| !it.is_unanswered()) {
            slot.attempt = None;
            self.attempts.remove(remote, handle.index());
        }
    }

    /// Does something to all connections, after which their applications are to run.
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

    /// Runs timers that have expired at `now`, where everything was received that had arrived at `received_until`. Those that
    /// there is no time for in this turn follow in the next.
    pub(super) fn fire_timers(&mut self, now: Timestamp, received_until: Timestamp) {
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

    /// Runs the application of the connection that has been dirty for the longest time.
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
        // What is asked for from here on takes another call.
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

    /// Has the application called again if its call, or sending, has events that it has not seen: nothing else may happen on
    /// the connection for a long time. An application that does not take its events is not called for them again.
    fn note_events(&mut self, handle: ConnectionHandle) {
        let connection = self.endpoint.connection_mut(handle);
        if connection.is_some_and(Connection::has_unseen_events) {
            self.mark_dirty(handle);
        }
    }

    /// The next connection that is to be asked for datagrams.
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

    /// A connection is to be asked for datagrams, after the others that are.
    pub(super) fn mark_sending(&mut self, handle: ConnectionHandle) {
        if let Some(Some(slot)) = self.slots.get_mut(handle.index())
            && !std::mem::replace(&mut slot.is_sending, true)
        {
            self.deadlines.set(handle.index(), Deadlines::default());
            self.sending.push_back(handle);
        }
    }

    /// A connection has no more to send now: it waits for its deadline, or has ended.
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

    /// A connection has ended, and has sent what it had to. If the peer has never answered, there
    /// may be none, and nobody waits until the closing period is over.
    fn forget_attempt(&mut self, handle: ConnectionHandle) {
        let is_answered = self.endpoint.connection(handle).is_none_or(Connection::is_answered);
        if let Some(Some(slot)) = self.slots.get_mut(handle.index())
            && !is_answered
        {
            self.departed.extend(slot.counted.take());
        }
    }

    /// The end of connections is published.
    pub(super) fn report_departed(&mut self) {
        if !self.departed.is_empty() {
            self.departed.clear();
        }
    }

    /// A connection has ended: its application is told, and what only a live connection needs is given back.
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
        // A congestion controller of the application makes a part of them, and is dropped with the connection.
        const WAS_GONE: &str = "code of the application panicked when its connection was gone";
        if let Ok(statistics) = guarded(WAS_GONE, || connection.statistics()) {
            let _ = application.closed(&statistics);
        }
        let _ = guarded(WAS_GONE, || drop(connection));
    }

    /// Nothing is known of a connection any more.
    fn remove(&mut self, handle: ConnectionHandle, sockets: &mut Sockets) {
        self.deadlines.set(handle.index(), Deadlines::default());
        self.close_account(handle.index());
        let Some(slot) = self.slots.get_mut(handle.index()).and_then(Option::take) else { return };
        self.count -= 1;
        self.departed.extend(slot.counted);
        slot.sockets.iter().for_each(|socket| sockets.release(*socket));
    }
}

/// Whether a datagram begins with a long header (RFC 8999 §5.1).
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
