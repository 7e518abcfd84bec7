//! A shard: one thread with its own socket, connections and timers (law 12).
//!
//! Each turn of its loop receives one bounded batch under one reading of the clock, carries out
//! commands, fires timers, lets the applications of all connections concerned run once, and sends what
//! comes of it. When there is nothing left to do it sleeps until the next deadline, datagram or command.

mod attempts;
mod connections;
mod guarded;
mod receiving;
mod sending;

use core::net::SocketAddr;
use std::io;
use std::sync::Arc;
use std::thread;

use clearway_transport::{Endpoint, EndpointConfig};
use clearway_units::{Random, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::application::{ConnectFailure, ServerSetup};
use crate::clock::Clock;
use crate::mailbox::{Command, Mailbox, ShardHandle};
use crate::random::seed;
use crate::running;
use crate::socket::Socket;
use crate::statistics::ShardStatistics;

use connections::Connections;
use guarded::guarded;
use receiving::{ReceiveFailures, Verdict};
use sending::Sender;

/// Starts a shard that listens at `address`, and accepts connections if it gets a `server` configuration.
///
/// # Errors
/// If the address cannot be bound, or the system provides no random seed, event descriptor or thread.
pub fn spawn(
    address: SocketAddr,
    config: EndpointConfig,
    server: Option<ServerSetup>,
) -> io::Result<ShardHandle> {
    let socket = Socket::bind(address)?;
    let local_address = socket.local_address();
    let random = Random::from_seed(seed()?);
    let mailbox = Arc::new(Mailbox::new()?);
    let clock = Clock::start();
    let (server, acceptor) = server.map(|setup| (setup.config, setup.acceptor)).unzip();
    let endpoint = Endpoint::new(config, server, clock.now(), random);
    let shard = Shard {
        clock,
        socket,
        connections: Connections::new(endpoint, acceptor, mailbox.clone()),
        sender: Sender::new(),
        commands: Vec::new(),
        is_readable: true,
        receive_failures: ReceiveFailures::default(),
        is_released: false,
        is_halted: false,
        statistics: ShardStatistics::default(),
        mailbox: mailbox.clone(),
    };
    let thread = thread::Builder::new().name("clearway-shard".to_owned());
    running::register(mailbox.clone(), thread.spawn(move || shard.run())?);
    Ok(ShardHandle::new(mailbox, local_address))
}

struct Shard {
    clock: Clock,
    socket: Socket,
    connections: Connections,
    sender: Sender,
    /// Commands of one turn; kept for its memory.
    commands: Vec<Command>,
    /// The socket may have something to receive.
    is_readable: bool,
    receive_failures: ReceiveFailures,
    /// All handles are gone.
    is_released: bool,
    /// The program is about to end, or the socket cannot be used any more.
    is_halted: bool,
    statistics: ShardStatistics,
    mailbox: Arc<Mailbox>,
}

impl Shard {
    fn run(mut self) {
        while !self.is_over() {
            if self.is_readable && self.receive_paused_until().is_none() {
                self.receive();
            }
            let now = self.clock.now();
            self.carry_out_commands(now);
            self.connections.fire_timers(now);
            self.connections.process(now);
            // A peer that has an answer finds what led to it counted.
            self.publish();
            self.sender.send(
                &self.clock,
                &mut self.socket,
                &mut self.connections,
                &mut self.statistics,
            );
            self.publish();
            self.sleep();
        }
    }

    fn is_over(&self) -> bool {
        self.is_halted || (self.is_released && self.connections.is_empty())
    }

    /// Datagrams are received before the clock is read. A thread that is delayed between the two measures a round trip
    /// that is too long, and the next sample corrects it. One that is too short would stay the minimum for good.
    fn receive(&mut self) {
        let Self { clock, connections, socket, .. } = self;
        let mut received_at = None;
        let received = socket.receive(|meta, datagram| {
            let now = *received_at.get_or_insert_with(|| clock.now());
            connections.receive(now, &meta, datagram);
        });
        match received {
            Ok(count) => {
                if self.receive_failures.on_success() {
                    tracing::info!("the UDP socket receives again");
                }
                self.statistics.datagrams_received += count as u64;
                self.statistics.batches_received += u64::from(count > 0);
            }
            Err(error) => self.on_receive_failure(&error),
        }
        let Self { clock, connections, socket, .. } = self;
        socket.unreachable(|destination| {
            connections.on_unreachable(clock.now(), destination);
        });
    }

    fn on_receive_failure(&mut self, error: &io::Error) {
        self.statistics.receive_failures += 1;
        match self.receive_failures.on_failure(self.clock.now(), error) {
            Verdict::Later { is_first: true } => tracing::warn!(
                %error,
                address = %self.socket.local_address(),
                "the UDP socket cannot receive; it is tried again, at last once a second. If it lasts, \
                 look for a lack of memory (net.core.rmem_max, the memory limit of the process) or for \
                 an interface that is down"
            ),
            Verdict::Later { is_first: false } => {}
            Verdict::Never => {
                tracing::error!(
                    %error,
                    address = %self.socket.local_address(),
                    "the UDP socket cannot be used any more: its connections are lost. Bind the endpoint \
                     again"
                );
                self.is_halted = true;
            }
        }
    }

    /// Until when the socket is left alone because it could not receive.
    fn receive_paused_until(&self) -> Option<Timestamp> {
        self.receive_failures.paused_until(self.clock.now())
    }

    fn carry_out_commands(&mut self, now: Timestamp) {
        let mut commands = std::mem::take(&mut self.commands);
        self.mailbox.take(&mut commands);
        for command in commands.drain(..) {
            match command {
                Command::Connect(request) => match self.socket.destination(request.remote) {
                    Some(destination) => self.connections.connect(now, *request, destination),
                    None => {
                        let failure = ConnectFailure::UnsupportedAddress(request.remote);
                        // An application that panics here cannot be told of the failure.
                        let _ = guarded(|| (request.on_failure)(failure));
                    }
                },
                Command::Wake(target) => self.connections.wake(&target),
                Command::Shutdown { error_code, reason } => {
                    self.connections.shut_down(now, error_code, &reason);
                }
                Command::Release => {
                    self.is_released = true;
                    self.connections.stop_accepting();
                }
                Command::Halt => self.is_halted = true,
            }
        }
        self.commands = commands;
    }

    fn publish(&mut self) {
        self.statistics.connections = self.connections.len() as u64;
        self.statistics.incoming_refused = self.connections.refused();
        self.statistics.panics = self.connections.panicked();
        self.mailbox.statistics.publish(&self.statistics);
    }

    /// Waits until there is something to do; returns at once if there is already.
    fn sleep(&mut self) {
        let is_blocked = self.sender.is_blocked();
        let paused_until = self.receive_paused_until();
        let may_receive = self.socket.may_have_more() || self.socket.has_errors();
        let is_busy = self.connections.has_dirty()
            || (!is_blocked && self.connections.has_sending())
            || (paused_until.is_none() && may_receive);
        if is_busy || self.is_over() || !self.mailbox.prepare_to_sleep() {
            self.is_readable = true;
            return;
        }
        let interest = if is_blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let deadline = self.connections.next_deadline().into_iter().chain(paused_until).min();
        let timeout = deadline.map(|deadline| {
            let wait = deadline.saturating_since(self.clock.now());
            Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            }
        });
        let mut descriptors = [
            PollFd::from_borrowed_fd(self.mailbox.event(), PollFlags::IN),
            PollFd::new(&self.socket, interest),
        ];
        // A socket that cannot receive may be ready all the time.
        let count = if paused_until.is_some() { 1 } else { 2 };
        // An interruption by a signal is a wake-up for nothing.
        let _ = poll(&mut descriptors[..count], timeout.as_ref());
        let [event, socket] = descriptors.map(|descriptor| descriptor.revents());
        self.mailbox.awake(event.intersects(PollFlags::IN));
        self.is_readable =
            paused_until.is_some() || socket.intersects(PollFlags::IN | PollFlags::ERR);
        if socket.intersects(PollFlags::ERR) {
            self.socket.note_errors();
        }
        self.statistics.wakeups += 1;
    }
}

impl Drop for Shard {
    /// However the shard ends, no application waits for it any longer.
    fn drop(&mut self) {
        for command in self.mailbox.close() {
            if let Command::Connect(request) = command {
                let _ = guarded(|| (request.on_failure)(ConnectFailure::ShuttingDown));
            }
        }
    }
}

#[cfg(test)]
#[path = "shard_tests.rs"]
mod tests;
