//! The streams of every stack behave as the HTTP/3 transport trait requires.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use clearway_http3::conformance::{CHUNK, Harness, Notice, check};
use clearway_http3::{Code, Config, Connection as Http3, Event, Role, Transport};
use clearway_lab::setup::SessionKind;
use clearway_lab::stack::{ClearwayStack, LocalAddress, Stack, StackEvent};
use clearway_network::Ecn;
use clearway_transport::TransportConfig;
use clearway_units::{Random, Timestamp};

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 1000);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 443);
/// The one-way delay of a datagram.
const DELAY: Duration = Duration::from_millis(5);
/// Longer than the delay of any acknowledgement, shorter than any idle timeout.
const QUIET: Duration = Duration::from_secs(2);
const WINDOW: u64 = 8 * CHUNK as u64;

/// Two ends, the client first, on a path that loses nothing.
struct Pair<S> {
    now: Timestamp,
    ends: [S; 2],
    notices: [Vec<Notice>; 2],
}

impl<S: Stack> Pair<S> {
    /// The ends once their handshake is complete.
    fn connect(now: Timestamp, client: S, server: S) -> Self {
        let mut pair = Self { now, ends: [client, server], notices: [Vec::new(), Vec::new()] };
        pair.deliver();
        pair.notices = [Vec::new(), Vec::new()];
        pair
    }

    /// Collects the events of both ends as notices.
    fn collect(&mut self) {
        for (end, notices) in self.ends.iter_mut().zip(&mut self.notices) {
            while let Some(event) = end.next_event() {
                notices.push(match event {
                    StackEvent::Connected => continue,
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

    /// Sends what both ends can send now and delivers it after the delay. Returns whether there was anything.
    fn exchange(&mut self) -> bool {
        let mut sent: [VecDeque<(Ecn, Vec<u8>)>; 2] = Default::default();
        for (end, sent) in self.ends.iter_mut().zip(&mut sent) {
            end.transmit(self.now, &mut |_, _, ecn, datagram| {
                sent.push_back((ecn, datagram.to_vec()))
            });
        }
        if sent.iter().all(VecDeque::is_empty) {
            return false;
        }
        self.now += DELAY;
        let [from_client, from_server] = sent;
        for (to, from, sent) in [(1, CLIENT, from_client), (0, SERVER, from_server)] {
            for (ecn, mut datagram) in sent {
                let at = LocalAddress::default();
                self.ends[to].receive(self.now, from, at, ecn, &mut datagram);
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
            let until = self.now + QUIET;
            self.collect();
            if self.exchange() {
                continue;
            }
            let deadlines = self.ends.iter().filter_map(Stack::deadline);
            let Some(deadline) = deadlines.min().filter(|deadline| *deadline < until) else {
                break;
            };
            self.now = self.now.max(deadline);
            for end in &mut self.ends {
                if end.deadline().is_some_and(|deadline| deadline <= self.now) {
                    end.on_deadline(self.now);
                }
            }
        }
    }

    fn notices(&mut self, role: Role) -> Vec<Notice> {
        self.collect();
        core::mem::take(&mut self.notices[usize::from(role == Role::Server)])
    }
}

fn clearway() -> Pair<ClearwayStack> {
    let (now, session) = (Timestamp::from_nanos(1), SessionKind::Null);
    let config = || {
        TransportConfig::builder()
            .initial_stream_receive_window(WINDOW)
            .max_stream_receive_window(WINDOW)
            .send_buffer(WINDOW)
            .max_concurrent_bidirectional_streams(8)
            .max_concurrent_unidirectional_streams(8)
            .build()
            .unwrap()
    };
    let [client, server] = [1, 2].map(Random::from_number);
    let client = ClearwayStack::client(now, SERVER, session, config(), client, None).unwrap();
    let server = ClearwayStack::server(now, session, config(), None, server, None).unwrap();
    Pair::connect(now, client, server)
}

#[cfg(feature = "quinn")]
fn quinn() -> Pair<clearway_lab::stack::QuinnStack> {
    use clearway_lab::setup::{EndSetup, StackKind};
    use clearway_lab::stack::QuinnStack;

    let (now, session) = (Timestamp::from_nanos(1), SessionKind::Null);
    let setup = EndSetup {
        stack: StackKind::Quinn,
        max_stream_receive_window: WINDOW,
        send_buffer: WINDOW,
        ..EndSetup::default()
    };
    let [client, server] = [1, 2].map(Random::from_number);
    let client = QuinnStack::client(now, SERVER, session, &setup, "cubic", client).unwrap();
    let server = QuinnStack::server(session, &setup, "cubic", server).unwrap();
    Pair::connect(now, client, server)
}

#[test]
fn the_streams_of_clearway_conform() {
    check(clearway);
}

#[cfg(feature = "quinn")]
#[test]
fn the_streams_of_quinn_conform() {
    check(quinn);
}

/// Delivers everything and passes the notices to HTTP/3 at both ends.
fn settle<S: Stack>(pair: &mut Pair<S>, http3: &mut [Http3; 2]) {
    for _ in 0..3 {
        pair.deliver();
        for http3 in http3.iter_mut() {
            let role = http3.role();
            for notice in pair.notices(role) {
                pair.end(role, &mut |streams| match notice {
                    Notice::StreamsAvailable => http3.on_streams_available(streams),
                    Notice::StreamsArrived => http3.on_streams_arrived(streams),
                    Notice::Readable(stream) => http3.on_readable(streams, stream),
                    Notice::Writable(stream) => http3.on_writable(streams, stream),
                    Notice::Stopped { stream, code } => http3.on_stopped(streams, stream, code),
                    Notice::Closed => panic!("the connection is closed"),
                });
            }
        }
    }
}

/// Part of a request's content has arrived, and the server does not read it, when the client cancels the request.
fn a_reset_overtakes_unread_content<S: Stack>(mut pair: Pair<S>) {
    let mut http3 = [Role::Client, Role::Server]
        .map(|role| Http3::new(role, Config::default(), &mut Random::from_number(3)));
    for http3 in &mut http3 {
        pair.end(http3.role(), &mut |streams| http3.on_streams_available(streams));
    }
    let request = http::Request::post("https://lab.example/").body(()).unwrap();
    pair.end(Role::Client, &mut |streams| {
        let stream = http3[0].send_request(streams, &request, false).unwrap();
        assert_eq!(stream, 0);
        let content = bytes::Bytes::from_static(&[7; CHUNK]);
        assert_eq!(http3[0].send_body(streams, stream, content), Ok(CHUNK));
    });
    settle(&mut pair, &mut http3);
    let mut events: Vec<_> = std::iter::from_fn(|| http3[1].next_event()).collect();
    assert!(matches!(events.pop(), Some(Event::Data { stream: 0 })));
    pair.end(Role::Client, &mut |streams| http3[0].reset(streams, 0, Code::REQUEST_CANCELLED));
    settle(&mut pair, &mut http3);
    let events: Vec<_> = std::iter::from_fn(|| http3[1].next_event()).collect();
    assert!(
        matches!(events[..], [Event::Reset { stream: 0, code: Code::REQUEST_CANCELLED }]),
        "{events:?}"
    );
}

#[test]
fn a_cancelled_request_is_reported_while_its_content_is_unread() {
    a_reset_overtakes_unread_content(clearway());
    #[cfg(feature = "quinn")]
    a_reset_overtakes_unread_content(quinn());
}
