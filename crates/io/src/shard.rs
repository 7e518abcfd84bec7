//! A shard: one thread with its own sockets, connections and timers (law 12).
//!
//! Each turn of its loop receives one bounded batch from each socket under one reading of the
//! clock, and the datagrams that other shards of its port received for it. It then executes
//! commands, fires timers, runs the applications of all affected connections once, and sends the
//! result. At the end, it begins the handshake of one waiting client, if there is any. When there
//! is nothing left to do, it sleeps until the next deadline, datagram or command.

mod attempts;
mod channel;
mod connections;
mod deadlines;
mod frontier;
mod intake;
pub(crate) mod long_headers;
mod other_process;
mod peer_shards;
mod processing;
mod sending;
mod sockets;
mod stalls;
mod turn;
mod warnings;

use core::net::SocketAddr;
use core::slice;
use std::io;
use std::sync::Arc;

use clearway_transport::{
    Endpoint, EndpointConfig, MigrationError, PreferredAddresses, ServerConfig, SocketIndex,
};
use clearway_udp::{BusyPoll, Clock, Socket, Verdict};
use clearway_units::{Random, Timestamp};
use rustix::fd::AsFd;

use crate::acceptor::{Acceptor, Admission, ServerSetup};
use crate::balancers::Balancers;
use crate::datagram_socket::DatagramSocket;
use crate::failures::{ConnectFailure, MigrateFailure, ShardFailure};
use crate::guarded::{self, caught, guarded};
use crate::mailbox::{Command, Mailbox, ShardHandle};
use crate::memory_budget::MemoryBudget;
use crate::running;
use crate::statistics::ShardStatistics;
use crate::system::Poller;
use crate::system::random::seed;
use crate::system::restart::{HandOver, Pipe, Piped};
use crate::system::sources::Sources;
use crate::tasks::{TASK, Tasks};

use channel::Channel;
use connections::{Connections, REPLY};
use frontier::{Frontier, ReceivedAll};
use intake::{Intake, count};
use other_process::OtherProcess;
use sending::Sender;

#[cfg(test)]
pub(crate) use peer_shards::MAX_WAITING;
pub(crate) use peer_shards::{GroupStart, PeerShards};
pub(crate) use sockets::Sockets;

/// Maximum number of datagrams from other shards that are processed in one turn.
const MAX_TAKEN_IN: usize = 256;

/// Starts a shard that listens at `address`, and accepts connections if there is a `server`
/// configuration. In that case it also listens at its preferred addresses, where port 0 means any
/// free port.
///
/// # Errors
/// Fails if there are too many [balancers](Admission::balancers), an address cannot be bound, or
/// the operating system cannot provide a random seed, an event descriptor or a thread.
pub fn spawn(
    address: SocketAddr,
    config: EndpointConfig,
    server: Option<ServerSetup>,
) -> io::Result<ShardHandle> {
    spawn_within(address, config, server, None)
}

/// Starts a shard for clients that sends and receives through `socket`.
///
/// # Errors
/// Returns an error if the system provides no random seed, event descriptor or thread.
pub(crate) fn spawn_over(
    socket: Box<dyn DatagramSocket>,
    config: EndpointConfig,
) -> io::Result<ShardHandle> {
    let mailbox = Arc::new(Mailbox::new());
    let sockets = Sockets::new(Channel::provided(socket, &mailbox));
    start(ShardSetup {
        sockets,
        config,
        server: None,
        acceptor: None,
        admission: Admission::default(),
        mailbox,
        peer_shards: None,
        predecessor: None,
        memory_budget: None,
    })
}

/// Like [`spawn`], within a memory budget.
pub(crate) fn spawn_within(
    address: SocketAddr,
    config: EndpointConfig,
    server: Option<ServerSetup>,
    memory_budget: Option<MemoryBudget>,
) -> io::Result<ShardHandle> {
    let admission = server.as_ref().map(|setup| setup.admission.clone()).unwrap_or_default();
    let (mut server, acceptor) = server.map(|setup| (setup.config, setup.acceptor)).unzip();
    let mut sockets = listen(address, server.as_mut())?;
    if server.is_some() && admission.balancers.is_empty() {
        long_headers::open(slice::from_mut(&mut sockets));
        long_headers::divide(slice::from_ref(&sockets));
    }
    let mailbox = Arc::new(Mailbox::new());
    start(ShardSetup {
        sockets,
        config,
        server,
        acceptor,
        admission,
        mailbox,
        peer_shards: None,
        predecessor: None,
        memory_budget,
    })
}

/// Opens the sockets of a shard.
pub(crate) fn listen(
    address: SocketAddr,
    server: Option<&mut Arc<ServerConfig>>,
) -> io::Result<Sockets> {
    let mut sockets = Sockets::new(Socket::bind(address)?);
    if let Some(server) = server {
        listen_at_preferred(&mut sockets, server)?;
    }
    Ok(sockets)
}

/// What a shard needs to start.
pub(crate) struct ShardSetup {
    pub(crate) sockets: Sockets,
    pub(crate) config: EndpointConfig,
    pub(crate) server: Option<Arc<ServerConfig>>,
    pub(crate) acceptor: Option<Box<dyn Acceptor>>,
    /// See [`ServerSetup::admission`].
    pub(crate) admission: Admission,
    pub(crate) mailbox: Arc<Mailbox>,
    /// The other shards at its port, if there are any.
    pub(crate) peer_shards: Option<PeerShards>,
    /// The pipe to the same shard of the process that this one replaces.
    pub(crate) predecessor: Option<Arc<Pipe>>,
    /// See [`GroupOptions::memory_budget`](crate::GroupOptions::memory_budget).
    pub(crate) memory_budget: Option<MemoryBudget>,
}

/// Starts a shard.
pub(crate) fn start(start: ShardSetup) -> io::Result<ShardHandle> {
    let ShardSetup {
        sockets,
        config,
        server,
        acceptor,
        admission,
        mailbox,
        peer_shards,
        predecessor,
        memory_budget,
    } = start;
    let balancers = Balancers::new(&admission.balancers)?;
    let address = sockets.main().map(Channel::local_address);
    let local_address = address.ok_or(io::ErrorKind::NotConnected)?;
    let preferred = server.as_ref().map(|server| server.preferred_addresses).unwrap_or_default();
    let random = Random::from_seed(seed()?);
    let clock = Clock::start();
    let endpoint = Endpoint::new(config, server, clock.now(), random);
    let mut connections = Connections::new(endpoint, acceptor, &admission, mailbox.clone());
    if let Some(budget) = memory_budget {
        connections.keep_within(budget);
    }
    let (poller, waker) = Poller::new()?;
    mailbox.wake_with(waker);
    let mut shard = Shard {
        clock,
        poller,
        sockets,
        balancers,
        connections,
        sender: Sender::new(),
        tasks: Tasks::new(mailbox.clone()),
        commands: Vec::new(),
        is_released: false,
        is_halted: false,
        statistics: ShardStatistics::default(),
        turn_began: clock.now(),
        frontier: Frontier::new(clock.now()),
        busy_poll: BusyPoll::default(),
        mailbox: mailbox.clone(),
        peer_shards,
        other_process: predecessor.map(OtherProcess::predecessor),
    };
    let run = move || {
        let outcome = caught(|| shard.run());
        if let Err(panic) = outcome {
            shard.fail(ShardFailure::Panicked(panic.into()));
        }
    };
    running::start(mailbox.clone(), run)?;
    Ok(ShardHandle::new(mailbox, local_address, preferred))
}

/// Opens the sockets of a server's preferred addresses, and replaces port 0 in the configuration by
/// the actual port.
pub(crate) fn listen_at_preferred(
    sockets: &mut Sockets,
    server: &mut Arc<ServerConfig>,
) -> io::Result<()> {
    let PreferredAddresses { mut v4, mut v6 } = server.preferred_addresses;
    if v4.is_none() && v6.is_none() {
        return Ok(());
    }
    let mut open = |address: SocketAddr| {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), PreferredAddressUnusable { address, error })
        };
        let socket = Socket::bind_beside(address, sockets.main().and_then(Channel::system))
            .map_err(named)?;
        let port = socket.local_address().port();
        sockets.add_permanent(socket);
        io::Result::Ok(port)
    };
    if let Some(v4) = &mut v4 {
        v4.set_port(open((*v4).into())?);
    }
    if let Some(v6) = &mut v6 {
        v6.set_port(open((*v6).into())?);
    }
    let preferred_addresses = PreferredAddresses { v4, v6 };
    *server = Arc::new(ServerConfig { preferred_addresses, ..ServerConfig::clone(server) });
    Ok(())
}

/// The error that a server cannot listen at its preferred address: the cause of an [`io::Error`]
/// returned by [`spawn`].
#[derive(Debug)]
#[non_exhaustive]
pub struct PreferredAddressUnusable {
    /// The preferred address.
    pub address: SocketAddr,
    /// The error of the operating system.
    pub error: io::Error,
}

impl core::fmt::Display for PreferredAddressUnusable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "cannot listen at the preferred address {}: {}", self.address, self.error)
    }
}

impl core::error::Error for PreferredAddressUnusable {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.error.source()
    }
}

struct Shard {
    clock: Clock,
    sockets: Sockets,
    /// The balancers whose datagrams the listening sockets accept.
    balancers: Balancers,
    connections: Connections,
    sender: Sender,
    /// Tasks that run on this thread.
    tasks: Tasks,
    /// The commands of one turn. The vector is kept to reuse its memory.
    commands: Vec<Command>,
    /// All handles were dropped.
    is_released: bool,
    /// Set if the program is about to exit, or if the shard's socket is no longer usable.
    is_halted: bool,
    statistics: ShardStatistics,
    turn_began: Timestamp,
    frontier: Frontier,
    poller: Poller,
    busy_poll: BusyPoll,
    mailbox: Arc<Mailbox>,
    peer_shards: Option<PeerShards>,
    /// The same shard of the other process, during a hot restart.
    other_process: Option<OtherProcess>,
}

impl Shard {
    fn run(&mut self) {
        while !self.is_over() {
            self.receive();
            self.take_in();
            self.take_forwarded();
            let now = self.clock.now();
            self.carry_out_commands(now);
            self.connections.fire_timers(now, self.frontier.time());
            self.process(now);
            let is_behind = self.is_behind(now);
            self.connections.retry_next(now);
            self.connections.replace_ids(now);
            // Publish the statistics before sending: when a peer has received a response, the
            // datagram that caused it is already counted.
            self.publish();
            self.send();
            let has_begun = self.begin_handshake(is_behind);
            self.publish();
            self.sleep(has_begun);
        }
        if self.is_halted {
            self.finish();
        }
    }

    /// Continues what the last turn has left for the next one, such as a close that follows queued
    /// datagrams.
    fn finish(&mut self) {
        let now = self.clock.now();
        self.connections.fire_timers(now, now);
        self.process(now);
        self.publish();
        self.send();
    }

    /// Sends the pending datagrams of connections until the sockets would block.
    fn send(&mut self) {
        let Self { clock, sockets, connections, statistics, .. } = self;
        self.sender.send(clock, sockets, connections, statistics);
    }

    /// Returns whether there is more to receive than this turn has received.
    fn is_behind(&mut self, now: Timestamp) -> bool {
        self.sockets.may_receive(now)
            || self.peer_shards.as_mut().is_some_and(PeerShards::has_waiting)
            || self.other_process.as_ref().is_some_and(OtherProcess::may_have_more)
    }

    /// Begins the handshake of one waiting client, after everything that the turn does for
    /// connections. Returns whether there is something to send as a result.
    fn begin_handshake(&mut self, is_behind: bool) -> bool {
        let now = self.clock.now();
        let has_begun = self.connections.begin_next(now, is_behind);
        if has_begun {
            self.connections.record_handshake_time(now, self.clock.now());
        }
        has_begun
    }

    fn is_over(&self) -> bool {
        self.is_halted || (self.is_released && self.connections.is_empty())
    }

    /// Receives from each socket, a bounded number of times. Receiving from more connections per
    /// turn lets responses go out in fewer and larger batches.
    ///
    /// Datagrams are received before the clock is read. A thread that is delayed between the two
    /// then measures a round trip that is too long, which the next sample corrects. One that is too
    /// short would remain the minimum permanently.
    fn receive(&mut self) {
        let began = self.clock.now();
        let Self { clock, connections, sockets, balancers, statistics, peer_shards, .. } = self;
        let peer_shards = peer_shards.as_ref();
        let mut intake = Intake { clock: *clock, connections, balancers, statistics, peer_shards };
        let (mut unusable, mut has_failed) = (Vec::new(), false);
        let mut all = ReceivedAll { own: true, beside: true };
        let (receiving, buffer) = sockets.receiving();
        for (index, open) in receiving {
            if !open.is_readable || open.failures.paused_until(clock.now()).is_some() {
                continue;
            }
            if intake.receive(index, open, buffer) == Some(Verdict::Never) {
                unusable.push(index);
            }
            let is_own = open.known_as == index;
            let of_kind = if is_own { &mut all.own } else { &mut all.beside };
            *of_kind &= !open.socket.may_have_more();
            open.socket.unreachable(|destination| {
                intake.connections.on_unreachable(clock.now(), destination);
            });
        }
        for index in unusable {
            if !sockets.discard(index) {
                self.is_halted = true;
                has_failed = true;
            }
        }
        self.frontier.on_received(began, all);
        if has_failed {
            self.fail(ShardFailure::SocketUnusable);
        }
    }

    /// Receives a bounded number of datagrams that arrived at sockets of other shards of the group.
    /// The clock is read after each datagram has arrived, so that a delay cannot make a measured
    /// round trip too short.
    fn take_in(&mut self) {
        let Some(peer_shards) = &mut self.peer_shards else { return };
        for _ in 0..MAX_TAKEN_IN {
            let Some(mut taken) = peer_shards.take() else { return };
            let now = self.clock.now();
            // Sockets for migrations do not belong to the group.
            let is_known = self.sockets.is_listening(taken.socket);
            let socket = if is_known { taken.socket } else { SocketIndex::default() };
            let passed = self.connections.receive(now, socket, &taken.meta, &mut taken.datagram);
            count(&mut self.statistics, passed);
            self.statistics.handed_in += 1;
        }
    }

    /// Receives datagrams that the other process of a hot restart forwards, a bounded number.
    fn take_forwarded(&mut self) {
        let Some(other_process) = &mut self.other_process else { return };
        let pipe = other_process.pipe().clone();
        for _ in 0..MAX_TAKEN_IN {
            let Some(Piped { meta, socket, datagram }) =
                other_process.receive(self.sockets.buffer.bytes())
            else {
                break;
            };
            let now = self.clock.now();
            let passed = self.connections.receive(now, socket, &meta, datagram);
            count(&mut self.statistics, passed);
            self.statistics.forwarded_in += 1;
        }
        if pipe.has_ended() {
            let is_replaced =
                self.other_process.take().is_some_and(|other_process| other_process.is_successor());
            if is_replaced {
                // The new process has ended before the old one, whose connections continue anyway.
                self.listen();
            }
        }
    }

    /// Stops listening: another process receives from now on, and forwards the datagrams for this
    /// shard's connections.
    fn hand_over(&mut self, hand_over: HandOver) {
        let HandOver { pipe, stopped, lasting } = hand_over;
        let pipe = Arc::new(pipe);
        self.sockets.listen(false);
        for passed in self.connections.leave_clients_to(&pipe) {
            count(&mut self.statistics, passed);
        }
        self.other_process = Some(OtherProcess::successor(pipe, lasting));
        drop(stopped);
    }

    /// Starts listening: this process alone receives from now on.
    fn listen(&mut self) {
        self.sockets.listen(true);
        self.connections.keep_clients();
        // Datagrams that the previous process returns may still arrive.
        self.other_process.take_if(|other_process| other_process.is_successor());
    }

    fn carry_out_commands(&mut self, now: Timestamp) {
        let mut commands = std::mem::take(&mut self.commands);
        self.mailbox.take(&mut commands);
        for command in commands.drain(..) {
            match command {
                Command::Connect(request, counted) => match self.destination(request.remote) {
                    Some(destination) => {
                        self.connections.connect(now, *request, destination, counted);
                    }
                    None => {
                        let failure = ConnectFailure::UnsupportedAddress(request.remote);
                        let _ = guarded(REPLY, || (request.on_failure)(failure));
                    }
                },
                Command::Wake(target) => self.connections.wake(&target),
                Command::Decide { ticket, answer } => self.connections.decided(ticket, answer),
                Command::Spawn(task) => self.tasks.add(task),
                Command::Migrate(request) => {
                    self.connections.migrate(now, *request, &mut self.sockets);
                }
                Command::Shutdown { error_code, reason } => {
                    // What programs did before takes effect before: a connection that they have
                    // closed keeps its own error code, and queued datagrams are sent.
                    self.process(now);
                    self.send();
                    self.connections.shut_down(now, error_code, &reason);
                }
                Command::Release => {
                    self.is_released = true;
                    self.connections.stop_accepting();
                }
                Command::Adopt(sockets) => {
                    tracing::info!("another shard of this port has ended; taking over its sockets");
                    for (known_as, socket) in sockets {
                        self.sockets.adopt(known_as, socket);
                    }
                }
                Command::HandOver(hand_over) => self.hand_over(*hand_over),
                Command::Listen => self.listen(),
                Command::ReplaceIds => self.connections.begin_replacing_ids(),
                Command::SetServer(server) => self.connections.endpoint.set_server(server),
                Command::Halt => self.is_halted = true,
            }
        }
        self.commands = commands;
    }

    /// Returns `remote` in the form used by the socket with which connections begin.
    fn destination(&self, remote: SocketAddr) -> Option<SocketAddr> {
        self.sockets.get(SocketIndex::default())?.destination(remote)
    }

    fn publish(&mut self) {
        self.connections.report(&mut self.statistics);
        self.statistics.panics = guarded::panics();
        self.mailbox.statistics.publish(&self.statistics);
        // From here on, a task that waited for the last connection finds none in the statistics.
        self.connections.report_departed();
    }

    /// Announces that the shard is about to sleep, unless other threads have queued work for it.
    fn may_sleep(&mut self) -> bool {
        if !self.mailbox.prepare_to_sleep() {
            return false;
        }
        // As with commands: a shard that has handed over a datagram checks afterward whether this
        // one sleeps.
        let has_waiting = self.peer_shards.as_mut().is_some_and(PeerShards::has_waiting);
        if has_waiting {
            self.mailbox.awake();
        }
        !has_waiting
    }

    /// Waits until there is something to do; returns immediately if there already is. `has_more` is
    /// set if the caller has found work.
    fn sleep(&mut self, has_more: bool) {
        let now = self.clock.now();
        let turn = now.saturating_since(self.turn_began);
        self.statistics.on_turn(turn);
        stalls::note(turn, &mut self.statistics);
        self.turn_began = now;
        let blocked = self.sender.blocked_socket();
        let paused_until = self.sockets.paused_until(now);
        let is_busy = has_more
            || self.connections.has_dirty()
            || self.connections.has_pending_clients()
            || self.connections.has_ids_to_replace()
            || (blocked.is_none() && self.connections.has_sending())
            || self.sockets.may_receive(now)
            || self.other_process.as_ref().is_some_and(OtherProcess::may_have_more);
        if is_busy || self.is_over() || !self.may_sleep() {
            self.sockets.try_all();
            return;
        }
        let deadline = self.connections.next_deadline().into_iter().chain(paused_until).min();
        let sources = Sources {
            pipe: self.other_process.as_ref().map(|other_process| other_process.pipe().as_fd()),
            sockets: self.sockets.interest(now, blocked).collect(),
        };
        let Self { poller, busy_poll, clock, .. } = self;
        let limit = self.mailbox.busy_poll();
        let (waited, ready) = poller.wait(busy_poll, clock, limit, deadline, sources);
        self.statistics.on_waited(waited);
        self.mailbox.awake();
        if let Some(other_process) = self.other_process.as_mut().filter(|_| ready.pipe) {
            other_process.note_readiness();
        }
        for (index, readiness) in ready.sockets {
            self.sockets.note_readiness(index, readiness);
        }
        self.turn_began = self.clock.now();
        if let Some(deadline) = deadline {
            let late = self.turn_began.saturating_since(deadline.max(now));
            stalls::note(late, &mut self.statistics);
        }
    }
}

impl Shard {
    /// Ends the shard because of a failure, and reports the failure to everyone waiting for the
    /// shard.
    fn fail(&mut self, failure: ShardFailure) {
        let local = self.sockets.main().map(Channel::local_address);
        tracing::error!(
            error = %failure,
            address = local.map(tracing::field::display),
            connections = self.connections.len(),
            "a shard has ended, and all of its connections are lost"
        );
        self.statistics.shards_failed = 1;
        self.publish();
        self.mailbox.fail(failure);
    }
}

impl Drop for Shard {
    /// Ensures that no application keeps waiting for the shard, however it ends.
    fn drop(&mut self) {
        let ended = || match self.mailbox.failure() {
            Some(failure) => ConnectFailure::ShardFailed(failure.clone()),
            None => ConnectFailure::ShuttingDown,
        };
        let mut listening = self.sockets.take_listening();
        for command in self.mailbox.close() {
            match command {
                Command::Adopt(mut sockets) => listening.append(&mut sockets),
                Command::Connect(request, _counted) => {
                    let _ = guarded(REPLY, || (request.on_failure)(ended()));
                }
                Command::Migrate(request) => {
                    let failure = MigrateFailure::Refused(MigrationError::Closed);
                    let _ = guarded(REPLY, || (request.on_start)(Err(failure)));
                }
                Command::Spawn(task) => {
                    let _ = guarded(TASK, || drop(task));
                }
                Command::Decide { answer, .. } => {
                    let _ = guarded(REPLY, || drop(answer));
                }
                _ => {}
            }
        }
        if let Some(peer_shards) = &self.peer_shards {
            peer_shards.give_away_sockets(listening);
        }
    }
}

#[cfg(test)]
#[path = "shard_tests.rs"]
mod tests;
