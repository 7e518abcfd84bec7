//! The network between client and server: a thread that reads IP packets on both sides and runs a
//! link of `clearway-network` in real time.

mod loopback;
mod nat;
mod packet;
mod wire;

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clearway_network::{Datagram, Delivery, Ecn, Link, LinkConfig, Outcome, Way};
use clearway_units::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::capture::pcap;
use nat::Nat;
use packet::{Content, Layout};

pub(crate) use loopback::{ClientSide, ServerSide};
pub(crate) use wire::Wire;

/// The link's flow numbers: QUIC, and all other traffic.
const QUIC: u32 = 0;
const OTHER: u32 = 1;
/// Maximum size of an IP packet.
const LARGEST: usize = 1 << 16;

/// A running relay, stopped when dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<io::Result<Report>>>,
}

/// The statistics of a relay.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// The maximum time by which a delivery was later than the link had scheduled, because the
    /// machine was busy.
    pub(crate) worst_lateness: Duration,
}

struct Driver {
    start: Instant,
    start_of_clock: Duration,
    link: Link,
    nat: Nat,
    client: Wire,
    server: Wire,
    captures: [pcap::Writer; 2],
    /// The headers of the packets in the link, by packet number. A Version Negotiation packet is
    /// stored completely: as in the public simulator, it is never corrupted, because the client
    /// could not detect the corruption.
    headers: BTreeMap<u64, Vec<u8>>,
    worst_lateness: Duration,
}

impl Relay {
    /// Relays packets between the two sides, and captures them in `client.pcap` and `server.pcap`
    /// in `folder`.
    pub(crate) fn start(
        (client, server): (Wire, Wire),
        link: LinkConfig,
        folder: &Path,
    ) -> io::Result<Self> {
        let nat = Nat::new(link.seed, link.rebind.is_some_and(|rebind| rebind.address));
        let captures = [
            pcap::Writer::create(&folder.join("client.pcap"))?,
            pcap::Writer::create(&folder.join("server.pcap"))?,
        ];
        let start_of_clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let driver = Driver {
            start: Instant::now(),
            start_of_clock,
            link: Link::new(link),
            nat,
            client,
            server,
            captures,
            headers: BTreeMap::new(),
            worst_lateness: Duration::ZERO,
        };
        let (stopped, stop) = io::pipe()?;
        let thread = std::thread::Builder::new().name("relay".to_owned());
        let thread = thread.spawn(move || driver.run(&stopped))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Stops the relay, completes the captures, and returns the statistics.
    pub(crate) fn stop(mut self) -> io::Result<Report> {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(report)) => report,
            _ => Err(io::Error::other("the relay's thread panicked")),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Driver {
    fn run(mut self, stop: &PipeReader) -> io::Result<Report> {
        // By default, the kernel may wake a thread 50 us late to save energy.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        let mut buffer = vec![0; LARGEST];
        while !self.wait(stop)? {
            self.deliver()?;
            while let Some(packet) = self.client.receive(&mut buffer)? {
                self.capture(Way::ToServer, true, packet)?;
                self.submit_to_server(packet);
            }
            while let Some(packet) = self.server.receive(&mut buffer)? {
                self.capture(Way::ToClient, true, packet)?;
                self.submit_to_client(packet);
            }
            self.deliver()?;
        }
        for capture in self.captures {
            capture.finish()?;
        }
        Ok(Report { worst_lateness: self.worst_lateness })
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_origin(self.start.elapsed())
    }

    /// Sleeps until a packet arrives or is due. Returns whether the relay should stop.
    fn wait(&self, stop: &PipeReader) -> io::Result<bool> {
        let mut files = vec![PollFd::new(stop, PollFlags::IN)];
        files.extend(self.client.poll().chain(self.server.poll()));
        let timeout = self.link.deadline().map(|at| at.saturating_since(self.now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut files, timeout.as_ref()) {
            Ok(_) => Ok(files.first().is_some_and(|stop| !stop.revents().is_empty())),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds a packet in direction `way` to the capture on the sending side, or on the receiving
    /// side.
    fn capture(&mut self, way: Way, is_sent: bool, packet: &[u8]) -> io::Result<()> {
        let at = self.start_of_clock + self.start.elapsed();
        let is_at_client = (way == Way::ToServer) == is_sent;
        self.captures[usize::from(!is_at_client)].write(at, packet)
    }

    fn submit_to_server(&mut self, packet: &[u8]) {
        let Some((layout, datagram)) = split(packet) else { return };
        let now = self.now();
        let outcome = self.link.submit(now, Way::ToServer, datagram);
        self.remember(outcome, packet, layout);
    }

    fn submit_to_client(&mut self, packet: &[u8]) {
        let Some((layout, datagram)) = split(packet) else { return };
        let now = self.now();
        let Some(destination) = layout.destination(packet) else { return };
        let outcome = match layout.content {
            Content::Udp => {
                let (_, generation) = self.nat.inside(destination);
                self.link.submit_to_client(now, generation, datagram)
            }
            Content::Other => self.link.submit(now, Way::ToClient, datagram),
        };
        self.remember(outcome, packet, layout);
    }

    fn remember(&mut self, outcome: Outcome, packet: &[u8], layout: Layout) {
        if outcome.has_entered() {
            let is_whole = layout.is_version_negotiation(packet);
            let kept = if is_whole { packet } else { &packet[..layout.headers] };
            self.headers.insert(outcome.number(), kept.to_vec());
        }
    }

    /// Delivers all packets that are due.
    fn deliver(&mut self) -> io::Result<()> {
        loop {
            let now = self.now();
            let Some(delivery) = self.link.poll(now) else { break };
            self.worst_lateness = self.worst_lateness.max(now.saturating_since(delivery.at));
            self.deliver_one(&delivery)?;
            self.link.recycle(delivery.datagram.payload);
        }
        while let Some(dropped) = self.link.next_drop() {
            self.headers.remove(&dropped.number);
        }
        Ok(())
    }

    fn deliver_one(&mut self, delivery: &Delivery) -> io::Result<()> {
        let Some(mut packet) = self.headers.remove(&delivery.number) else { return Ok(()) };
        let Some(layout) = Layout::of(&packet) else { return Ok(()) };
        if packet.len() == layout.headers {
            packet.extend_from_slice(&delivery.datagram.payload);
        }
        layout.set_ecn(&mut packet, delivery.datagram.ecn.bits());
        if layout.content == Content::Udp {
            match (delivery.way, layout.source(&packet), layout.destination(&packet)) {
                (Way::ToServer, Some(client), _) => {
                    // As in the public simulator, the NAT is located where packets leave the
                    // network: packets in transit during a rebinding get the new mapping.
                    let generation = self.link.binding(delivery.at);
                    layout.set_source(&mut packet, self.nat.outside(client, generation));
                }
                (Way::ToClient, _, Some(outside)) => {
                    layout.set_destination(&mut packet, self.nat.inside(outside).0);
                }
                _ => {}
            }
        }
        layout.correct_checksums(&mut packet);
        self.capture(delivery.way, false, &packet)?;
        let wire = match delivery.way {
            Way::ToServer => &mut self.server,
            Way::ToClient => &mut self.client,
        };
        wire.send(&packet);
        Ok(())
    }
}

/// Returns a packet's layout, and the datagram that represents the packet in the link.
fn split(packet: &[u8]) -> Option<(Layout, Datagram)> {
    let layout = Layout::of(packet)?;
    let flow = if layout.content == Content::Udp { QUIC } else { OTHER };
    let payload = packet.get(layout.headers..)?.to_vec();
    Some((layout, Datagram { payload, ecn: Ecn::from_bits(layout.ecn), flow }))
}
