use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clearway_network::{Counters, Datagram, Delivery, Link, Outcome, Way};
use clearway_udp::poll;
use clearway_units::Timestamp;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::clock::Clock;
use super::flows::Flows;
use super::loss_window::LossWatch;
use super::socket::{Buffers, Socket};
use crate::system::{self, Stopped};

/// Maximum number of payload buffers kept for reuse.
const SPARE_BUFFERS: usize = 1024;

/// Minimum delay of a delivery that counts as late.
const LATE: Duration = Duration::from_millis(1);

/// The counters that the relay's thread publishes each time it wakes up.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) link: Counters,
    pub(super) clients: usize,
    pub(super) refused_clients: u64,
    pub(super) strangers: u64,
    pub(super) unsent: u64,
    pub(super) late: u64,
    pub(super) worst_lateness: Duration,
    pub(super) loss: LossWatch,
}

/// The state of the relay's thread, which waits for datagrams and for the link's deadline, and sends datagrams.
#[derive(Debug)]
pub(super) struct Driver {
    clock: Clock,
    link: Link,
    listener: Socket,
    to: SocketAddr,
    flows: Flows,
    buffers: Buffers,
    spare: Vec<Vec<u8>>,
    report: Report,
    shared: Arc<Mutex<Report>>,
}

/// The readable sockets.
#[derive(Debug, Default)]
struct Ready {
    stop: bool,
    listener: bool,
    /// Readable server-side sockets: the client's ID and the generation of the binding.
    upstream: Vec<(u32, u64)>,
}

impl Driver {
    pub(super) fn new(
        clock: Clock,
        link: Link,
        (listener, to): (Socket, SocketAddr),
        flows: Flows,
        shared: Arc<Mutex<Report>>,
    ) -> Self {
        let report = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let buffers = Buffers::new();
        Self { clock, link, listener, to, flows, buffers, spare: Vec::new(), report, shared }
    }

    /// Relays until the other end of `stop` is dropped.
    pub(super) fn run(mut self, stop: &Stopped) -> io::Result<()> {
        system::be_punctual();
        let mut ready = Ready::default();
        loop {
            self.deliver();
            self.publish();
            self.wait(stop, &mut ready)?;
            if ready.stop {
                return Ok(());
            }
            if ready.listener {
                self.receive_from_clients()?;
            }
            for (id, generation) in ready.upstream.drain(..) {
                self.receive_from_server(id, generation);
            }
        }
    }

    /// Sleeps until a datagram can be read or must be delivered.
    fn wait(&self, stop: &Stopped, ready: &mut Ready) -> io::Result<()> {
        let mut sockets = vec![PollFd::new(stop, PollFlags::IN)];
        sockets.push(PollFd::new(&self.listener, PollFlags::IN));
        for (_, binding) in self.flows.bindings() {
            sockets.push(PollFd::new(&binding.socket, PollFlags::IN));
        }
        let timeout = self.link.deadline().map(|at| at.saturating_since(self.clock.now()));
        match poll(&mut sockets, timeout) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let mut is_ready = sockets.iter().map(|socket| !socket.revents().is_empty());
        ready.stop = is_ready.next().unwrap_or(false);
        ready.listener = is_ready.next().unwrap_or(false);
        for ((id, binding), is_ready) in self.flows.bindings().zip(is_ready) {
            if is_ready {
                ready.upstream.push((id, binding.generation));
            }
        }
        Ok(())
    }

    fn receive_from_clients(&mut self) -> io::Result<()> {
        let Self { link, listener, flows, buffers, spare, report, clock, .. } = self;
        listener.receive(buffers, |arrival, payload| {
            // The clock is read after the datagrams have arrived, so that no delay is shorter than
            // configured.
            let now = clock.now();
            let Some(flow) = flows.of_client(now, arrival.remote, arrival.local) else {
                report.refused_clients += 1;
                return;
            };
            let datagram = Datagram { payload: filled(spare, payload), ecn: arrival.ecn, flow };
            let outcome = link.submit(now, Way::ToServer, datagram);
            watch(&mut report.loss, now, Way::ToServer, outcome, payload.len());
        })
    }

    fn receive_from_server(&mut self, id: u32, generation: u64) {
        let Self { link, flows, buffers, spare, report, to, clock, .. } = self;
        let Ok(Some(socket)) = flows.socket(id, generation) else { return };
        let received = socket.receive(buffers, |arrival, payload| {
            if arrival.remote != *to {
                report.strangers += 1;
                return;
            }
            let now = clock.now();
            let datagram = Datagram { payload: filled(spare, payload), ecn: arrival.ecn, flow: id };
            let outcome = link.submit_to_client(now, generation, datagram);
            watch(&mut report.loss, now, Way::ToClient, outcome, payload.len());
        });
        if received.is_err() {
            // Otherwise, the broken socket would repeatedly wake the relay.
            flows.close(id, generation);
        }
    }

    /// Sends all datagrams that are due.
    fn deliver(&mut self) {
        loop {
            let now = self.clock.now();
            let Some(delivery) = self.link.poll(now) else { return };
            let lateness = now.saturating_since(delivery.at);
            self.report.worst_lateness = self.report.worst_lateness.max(lateness);
            if lateness > LATE {
                self.report.late += 1;
            }
            if self.send(&delivery).is_err() {
                self.report.unsent += 1;
            }
            if self.spare.len() < SPARE_BUFFERS {
                self.spare.push(delivery.datagram.payload);
            }
        }
    }

    fn send(&mut self, delivery: &Delivery) -> io::Result<()> {
        let Datagram { payload, ecn, flow } = &delivery.datagram;
        let gone = || io::Error::from(ErrorKind::NotConnected);
        match delivery.way {
            Way::ToServer => {
                let socket = self.flows.socket(*flow, delivery.binding)?.ok_or_else(gone)?;
                socket.send(self.to, None, *ecn, payload)
            }
            Way::ToClient => {
                let flow = self.flows.get(*flow).ok_or_else(gone)?;
                self.listener.send(flow.client, flow.reply_from, *ecn, payload)
            }
        }
    }

    fn publish(&mut self) {
        self.report.link.clone_from(self.link.counters());
        self.report.clients = self.flows.len();
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.report);
    }
}

fn watch(loss: &mut LossWatch, now: Timestamp, way: Way, outcome: Outcome, length: usize) {
    let passed = if outcome.has_entered() { length } else { 0 };
    loss.on_submitted(now, way, passed);
}

/// Returns a copy of `payload`, in a spare buffer if there is one.
fn filled(spare: &mut Vec<Vec<u8>>, payload: &[u8]) -> Vec<u8> {
    let mut buffer = spare.pop().unwrap_or_default();
    buffer.clear();
    buffer.extend_from_slice(payload);
    buffer
}
