//! A forwarding thread.

use core::time::Duration;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use clearway_io::hand_over::{HandOver, Predecessor};
use clearway_udp::{Clock, ReceiveBuffer, Socket, poll};
use rustix::event::{PollFd, PollFlags};

use super::batches::Batches;
use super::guarded::GuardedRouting;
use super::handover_state::{self, HandoverState};
use super::loops::Loops;
use super::ports::Ports;
use super::socket_io::{self, After, SocketReader, WaitBudget};
use super::statistics::Statistics;
use super::to_clients::ToClients;
use super::to_servers::{Reply, ToServers};
use super::{Command, Options, Routing, Signal, canonical};

/// Maximum number of calls per turn that receive from clients. Each call can fill all buffers, so
/// that datagrams of many clients that each send a single one are received in one turn, and those
/// with the same destination are sent together.
const RECEIVING_CALLS: usize = 32;
/// Number of bytes after which a turn stops receiving from clients.
const RECEIVING_BYTES: u64 = 2 << 20;

pub(super) struct Shard {
    clock: Clock,
    signal: Arc<Signal>,
    routing: Box<dyn Routing>,
    /// The socket to which clients send.
    listening: SocketReader,
    /// The server-side sockets.
    ports: Ports,
    buffer: ReceiveBuffer,
    batches: Batches,
    replies: Vec<Reply>,
    loops: Loops,
    /// The ready ports of one turn; the list is kept to reuse its memory.
    ready: Vec<u32>,
    wait_budget: WaitBudget,
    statistics: Statistics,
    /// Whether a socket is no longer usable.
    is_broken: bool,
    /// The handover from the same thread of the previous process.
    predecessor: Option<Predecessor>,
    /// Whether the event descriptor of the signal was written to.
    was_woken: bool,
}

impl Shard {
    pub(super) fn new(
        listening: Socket,
        options: &Options,
        routing: Box<dyn Routing>,
        signal: Arc<Signal>,
        predecessor: Option<Predecessor>,
    ) -> io::Result<Self> {
        let mut ports = Ports::new(options)?;
        if predecessor.is_none() {
            ports.open_with_preface()?;
        }
        Ok(Self {
            clock: Clock::start(),
            signal,
            routing: Box::new(GuardedRouting(routing)),
            listening: SocketReader::new(listening),
            ports,
            buffer: ReceiveBuffer::new(),
            batches: Batches::new(),
            replies: Vec::new(),
            loops: Loops::new(),
            ready: Vec::new(),
            wait_budget: WaitBudget::new(),
            statistics: Statistics::default(),
            is_broken: false,
            predecessor,
            was_woken: false,
        })
    }

    pub(super) fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    pub(super) fn run(mut self) {
        if let Some(predecessor) = self.predecessor.take() {
            self.inherit(predecessor);
            self.wait_for_turn();
        }
        while !self.is_broken {
            if std::mem::take(&mut self.was_woken)
                && let Some(Command::HandOver(hand_over)) = self.signal.take()
            {
                self.hand_over(*hand_over);
            }
            if self.signal.is_over() {
                break;
            }
            self.wait_budget = WaitBudget::new();
            self.receive_from_clients();
            self.receive_from_servers();
            // Unread ICMP errors would keep the socket ready. Anyone on the path can forge ICMP
            // errors, so they are only counted.
            let reports = &mut self.statistics.unreachable_reports;
            self.listening.socket.unreachable(|_| *reports += 1);
            self.ports.table.expire(self.clock.now());
            self.statistics.ports_in_use = self.ports.table.in_use() as u64;
            self.statistics.ports_evicted = self.ports.table.evicted();
            self.signal.statistics.publish(&self.statistics);
            self.sleep();
        }
    }

    /// Takes over the state of the same thread of the previous process, after that thread has
    /// stopped receiving.
    fn inherit(&mut self, predecessor: Predecessor) {
        let HandoverState { ports, leases, routing } = handover_state::take(predecessor)
            .unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot take over the state of a thread of the previous process");
                HandoverState::default()
            });
        let now = self.clock.now();
        let adopted = ports.into_iter().try_for_each(|port| self.ports.adopt(port));
        match adopted {
            Ok(()) => leases.into_iter().for_each(|lease| self.ports.table.restore(now, lease)),
            Err(error) => {
                tracing::warn!(%error, "cannot take over source ports from the previous process")
            }
        }
        if let Err(error) = self.ports.open_with_preface() {
            tracing::warn!(%error, "cannot open source ports");
        }
        self.ports.note_readiness(true);
        self.routing.restore(now, &routing);
    }

    /// Hands over the sockets and the state to the process that replaces this one, and then stops,
    /// unless the replacement fails.
    fn hand_over(&mut self, hand_over: HandOver) {
        let now = self.clock.now();
        let ports: Vec<_> = self.ports.sockets.iter().map(AsFd::as_fd).collect();
        let leases = handover_state::encode(&self.ports.table.save(now));
        let routing = self.routing.save(now);
        let (lasting, given) = hand_over.give(&ports, &[&leases, &routing]);
        if let Err(error) = given {
            tracing::warn!(%error, "cannot hand over this thread's state to the next process");
        }
        self.wait_for_turn();
        drop(lasting);
    }

    /// Waits until this process must forward, or the thread must end.
    fn wait_for_turn(&mut self) {
        while !self.signal.is_over() {
            let mut descriptors = [PollFd::from_borrowed_fd(self.signal.as_fd(), PollFlags::IN)];
            let _ = poll(&mut descriptors, None);
            if matches!(self.signal.take(), Some(Command::Listen)) {
                break;
            }
        }
        self.listening.note_readiness(PollFlags::IN);
        self.ports.note_readiness(true);
    }

    fn receive_from_clients(&mut self) {
        let mut to_servers = ToServers {
            clock: &self.clock,
            routing: &mut *self.routing,
            batches: &mut self.batches,
            ports: &mut self.ports,
            replies: &mut self.replies,
            loops: &mut self.loops,
            wait_budget: &mut self.wait_budget,
            statistics: &mut self.statistics,
            listening: canonical(self.listening.socket.local_address()),
        };
        let enough = to_servers.statistics.to_servers.bytes_received + RECEIVING_BYTES;
        for _ in 0..RECEIVING_CALLS {
            let now = self.clock.now();
            if !self.listening.is_ready(now) {
                break;
            }
            to_servers.routing.turn(now);
            let received =
                self.listening.receive(&self.clock, &mut self.buffer, |now, meta, datagram| {
                    to_servers.take(now, meta, datagram);
                });
            let counts = &mut to_servers.statistics.to_servers;
            received.count(counts);
            self.is_broken |= received.after == After::Broken;
            let has_enough = counts.bytes_received >= enough;
            to_servers.reply(&mut self.listening.socket);
            if received.after != After::More || has_enough {
                break;
            }
        }
        to_servers.flush();
    }

    /// Receives once from each of several ports. Remaining datagrams, and other ports, are left for
    /// the next turn.
    fn receive_from_servers(&mut self) {
        let now = self.clock.now();
        if !self.ports.is_ready(now) {
            return;
        }
        self.routing.turn(now);
        self.ports.ready(&mut self.ready);
        let mut to_clients = ToClients {
            clock: &self.clock,
            routing: &mut *self.routing,
            batches: &mut self.batches,
            listening: &mut self.listening.socket,
            wait_budget: &mut self.wait_budget,
            statistics: &mut self.statistics,
        };
        for port in &self.ready {
            let Ports { table, sockets, failures, .. } = &mut self.ports;
            let Some(socket) = sockets.get_mut(*port as usize) else { continue };
            let received = socket_io::receive(
                socket,
                failures,
                &self.clock,
                &mut self.buffer,
                |now, meta, datagram| {
                    to_clients.take(now, meta, datagram, |server, answer| {
                        table.answered(*port, server, answer)
                    });
                },
            );
            received.count(&mut to_clients.statistics.to_clients);
            self.is_broken |= received.after == After::Broken;
            let reports = &mut to_clients.statistics.unreachable_reports;
            socket.unreachable(|_| *reports += 1);
        }
        to_clients.flush();
    }

    /// Waits until there is work to do. If there already is work, only checks for additional
    /// events.
    fn sleep(&mut self) {
        let now = self.clock.now();
        let is_busy = self.listening.may_have_more(now);
        let paused = [self.listening.paused_until(now), self.ports.failures.paused_until(now)];
        let deadline = paused.into_iter().chain([self.ports.table.deadline()]).flatten().min();
        let timeout = match deadline {
            _ if is_busy => Some(Duration::ZERO),
            deadline => deadline.map(|deadline| deadline.saturating_since(now)),
        };
        // A socket that failed to receive may be permanently ready, so it is left out until the
        // next attempt.
        let sources = [self.listening.socket.as_fd(), self.ports.as_fd()];
        let waited_for = sources.into_iter().zip(paused).filter(|(_, paused)| paused.is_none());
        let mut descriptors = vec![PollFd::from_borrowed_fd(self.signal.as_fd(), PollFlags::IN)];
        descriptors
            .extend(waited_for.map(|(source, _)| PollFd::from_borrowed_fd(source, PollFlags::IN)));
        // An interruption by a signal is a spurious wake-up.
        let _ = poll(&mut descriptors, timeout);
        let mut ready = descriptors.iter().map(PollFd::revents);
        self.was_woken = ready.next().is_some_and(|it| !it.is_empty());
        let [listening, ports] =
            paused.map(|paused| if paused.is_none() { ready.next() } else { None });
        drop(descriptors);
        if let Some(ready) = listening {
            self.listening.note_readiness(ready);
        }
        if let Some(ready) = ports {
            self.ports.note_readiness(!ready.is_empty());
        }
        self.statistics.wakeups += u64::from(!is_busy);
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.signal.close();
    }
}
