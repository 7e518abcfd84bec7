//! Two endpoints of a stack on a lossless path, in virtual time, with HTTP/3 on both of them.

use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr};

use clearway_http3::conformance::{Harness, Notice};
use clearway_http3::{Connection as Http3, Role, Transport};
use clearway_lab::setup::SessionKind;
use clearway_lab::stack::{ClearwayStack, LocalAddress, Stack, StackEvent};
use clearway_network::Ecn;
use clearway_transport::TransportConfig;
use clearway_units::{Random, Timestamp};

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 1000);
pub(crate) const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 443);
/// The one-way delay of a datagram.
pub(crate) const DELAY: Duration = Duration::from_millis(5);
/// The maximum time to wait for a timer: longer than any ACK delay, shorter than any idle timeout.
const QUIET: Duration = Duration::from_secs(2);

/// Two endpoints on a lossless path; the first is the client.
pub(crate) struct Pair<S> {
    pub(crate) now: Timestamp,
    ends: [S; 2],
    notices: [Vec<Notice>; 2],
}

impl<S: Stack> Pair<S> {
    /// Returns the endpoints after completing their handshake.
    pub(crate) fn connect(now: Timestamp, client: S, server: S) -> Self {
        let mut pair = Self { now, ends: [client, server], notices: [Vec::new(), Vec::new()] };
        pair.deliver();
        pair.notices = [Vec::new(), Vec::new()];
        pair
    }

    /// Collects the events of both endpoints as notices.
    fn collect(&mut self) {
        for (end, notices) in self.ends.iter_mut().zip(&mut self.notices) {
            while let Some(event) = end.next_event() {
                notices.push(match event {
                    StackEvent::EarlyDataOffered | StackEvent::Connected => continue,
                    StackEvent::StreamsAvailable => Notice::StreamsAvailable,
                    StackEvent::StreamsArrived => Notice::StreamsArrived,
                    StackEvent::Readable(stream) => Notice::Readable(stream),
                    StackEvent::Writable(stream) => Notice::Writable(stream),
                    StackEvent::Stopped { stream, code } => Notice::Stopped { stream, code },
                    StackEvent::Closed(_) => Notice::Closed,
                });
            }
        }
    }

    /// Returns the datagrams that both endpoints can send now, each with the index of its
    /// destination: the server is 1.
    pub(crate) fn transmit(&mut self) -> Vec<(usize, Ecn, Vec<u8>)> {
        let mut sent = Vec::new();
        for (place, end) in self.ends.iter_mut().enumerate() {
            end.transmit(self.now, &mut |_, _, ecn, datagram| {
                sent.push((1 - place, ecn, datagram.to_vec()))
            });
        }
        sent
    }

    /// Delivers a datagram.
    pub(crate) fn arrive(&mut self, (to, ecn, mut datagram): (usize, Ecn, Vec<u8>)) {
        let from = if to == 1 { CLIENT } else { SERVER };
        self.ends[to].receive(self.now, from, LocalAddress::default(), ecn, &mut datagram);
    }

    /// Sends everything that both endpoints can send now, and delivers it after the delay. Returns
    /// whether there was anything to send.
    fn exchange(&mut self) -> bool {
        let sent = self.transmit();
        if sent.is_empty() {
            return false;
        }
        self.now += DELAY;
        for datagram in sent {
            self.arrive(datagram);
        }
        true
    }

    /// Advances to the next timer, unless both endpoints stay idle for a while. Returns whether
    /// there was a timer.
    pub(crate) fn wait(&mut self) -> bool {
        let deadlines = self.ends.iter().filter_map(Stack::deadline);
        let until = self.now + QUIET;
        let Some(deadline) = deadlines.min().filter(|deadline| *deadline < until) else {
            return false;
        };
        self.now = self.now.max(deadline);
        for end in &mut self.ends {
            if end.deadline().is_some_and(|deadline| deadline <= self.now) {
                end.on_deadline(self.now);
            }
        }
        true
    }
}

impl<S: Stack> Harness for Pair<S> {
    fn end(&mut self, role: Role, act: &mut dyn FnMut(&mut dyn Transport)) {
        let end = usize::from(role == Role::Server);
        self.ends[end].with_streams(self.now, act);
    }

    fn deliver(&mut self) {
        loop {
            self.collect();
            if !self.exchange() && !self.wait() {
                break;
            }
        }
    }

    fn notices(&mut self, role: Role) -> Vec<Notice> {
        self.collect();
        core::mem::take(&mut self.notices[usize::from(role == Role::Server)])
    }
}

/// Returns two Clearway endpoints after completing their handshake.
pub(crate) fn clearway(config: impl Fn() -> TransportConfig) -> Pair<ClearwayStack> {
    let (now, session) = (Timestamp::from_nanos(1), SessionKind::Null);
    let [client, server] = [1, 2].map(Random::from_number);
    let client = ClearwayStack::client(now, SERVER, session, config(), client, None).unwrap();
    let server = ClearwayStack::server(now, session, config(), None, server, None).unwrap();
    Pair::connect(now, client, server)
}

/// Passes the events of both endpoints to HTTP/3.
pub(crate) fn feed<S: Stack>(pair: &mut Pair<S>, http3: &mut [Http3; 2]) {
    for http3 in http3.iter_mut() {
        let role = http3.role();
        for notice in pair.notices(role) {
            pair.end(role, &mut |streams| match notice {
                Notice::StreamsAvailable => http3.on_streams_available(streams),
                Notice::StreamsArrived => http3.on_streams_arrived(streams),
                Notice::Readable(stream) => http3.on_readable(streams, stream),
                Notice::Writable(stream) => http3.on_writable(streams, stream),
                Notice::Stopped { stream, code } => http3.on_stopped(streams, stream, code),
                Notice::Closed => http3.on_transport_closed(),
            });
        }
    }
}
