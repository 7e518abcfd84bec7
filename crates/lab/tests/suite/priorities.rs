//! Tests that priorities (RFC 9218) determine the order in which response bytes arrive, across the
//! whole stack.

use std::collections::BTreeMap;

use bytes::Bytes;
use clearway_http3::conformance::Harness;
use clearway_http3::{Config, Connection as Http3, Event, Priority, Role};
use clearway_lab::stack::ClearwayStack;
use clearway_transport::TransportConfig;
use clearway_units::Random;
use http::{Request, Response};

use crate::two_ends::{DELAY, Pair, clearway, feed};

/// The length of each response in bytes: many times the window of a new connection.
const SIZE: usize = 400_000;
/// The maximum number of bytes of another stream in the same packet: the rest of a datagram.
const REST: usize = 1500;

/// A client, and a server that answers every request immediately.
struct World {
    pair: Pair<ClearwayStack>,
    http3: [Http3; 2],
    /// The content that the server still has to send.
    sending: BTreeMap<u64, Bytes>,
    /// The bytes of content that have arrived.
    received: BTreeMap<u64, usize>,
    /// The streams whose responses are complete, in this order, each with the bytes that had
    /// arrived on all others.
    complete: Vec<(u64, BTreeMap<u64, usize>)>,
    /// A stream, and the priority that the server itself assigns to it.
    decided: Option<(u64, Priority)>,
}

impl World {
    fn new(server: Config) -> Self {
        // Flow control allows every response to be sent as a whole, so that only priorities matter.
        let pair = clearway(|| {
            let config = TransportConfig::builder().initial_stream_receive_window(2 * SIZE as u64);
            config.discover_path_mtu(false).build().unwrap()
        });
        let client = Http3::new(Role::Client, Config::default(), &mut Random::from_number(3));
        let server = Http3::new(Role::Server, server, &mut Random::from_number(4));
        let mut world = Self {
            pair,
            http3: [client, server],
            sending: BTreeMap::new(),
            received: BTreeMap::new(),
            complete: Vec::new(),
            decided: None,
        };
        for http3 in &mut world.http3 {
            world.pair.end(http3.role(), &mut |streams| http3.on_streams_available(streams));
        }
        world.settle();
        world
    }

    /// Sends a request with this priority.
    fn request(&mut self, priority: Option<Priority>) -> u64 {
        let mut request = Request::get("https://lab.example/").body(()).unwrap();
        request.extensions_mut().extend(
            priority
                .map(|priority| {
                    let mut extensions = http::Extensions::new();
                    extensions.insert(priority);
                    extensions
                })
                .unwrap_or_default(),
        );
        let client = &mut self.http3[0];
        let mut stream = 0;
        self.pair.end(Role::Client, &mut |streams| {
            stream = client.send_request(streams, &request, true).unwrap();
        });
        stream
    }

    fn set_priority(&mut self, role: Role, stream: u64, priority: Priority) {
        let http3 = &mut self.http3[usize::from(role == Role::Server)];
        self.pair.end(role, &mut |streams| {
            http3.set_priority(streams, stream, priority).unwrap();
        });
    }

    fn serve(&mut self) {
        let [_, server] = &mut self.http3;
        self.pair.end(Role::Server, &mut |streams| {
            while let Some(event) = server.next_event() {
                if let Event::Request { stream, .. } = event {
                    server.send_response(streams, stream, &Response::new(()), false).unwrap();
                    self.sending.insert(stream, Bytes::from(vec![7; SIZE]));
                    if let Some((_, priority)) = self.decided.filter(|(it, _)| *it == stream) {
                        server.set_priority(streams, stream, priority).unwrap();
                    }
                }
            }
            self.sending.retain(|stream, content| {
                let taken = server.send_body(streams, *stream, content.clone()).unwrap();
                let _ = content.split_to(taken);
                if content.is_empty() {
                    server.finish(streams, *stream).unwrap();
                }
                !content.is_empty()
            });
        });
    }

    fn receive(&mut self) {
        let [client, _] = &mut self.http3;
        self.pair.end(Role::Client, &mut |streams| {
            while let Some(event) = client.next_event() {
                match event {
                    Event::Data { stream } => {
                        while let Some(chunk) = client.read_body(streams, stream, usize::MAX) {
                            *self.received.entry(stream).or_default() += chunk.len();
                        }
                    }
                    Event::Finished { stream } => {
                        self.complete.push((stream, self.received.clone()));
                    }
                    _ => {}
                }
            }
        });
    }

    /// Sends and delivers as much as possible, or waits for a timer. Returns whether there was
    /// anything to do.
    fn step(&mut self) -> bool {
        feed(&mut self.pair, &mut self.http3);
        self.serve();
        let sent = self.pair.transmit();
        if sent.is_empty() {
            return self.pair.wait();
        }
        self.pair.now += DELAY;
        for datagram in sent {
            self.pair.arrive(datagram);
            feed(&mut self.pair, &mut self.http3);
            self.receive();
        }
        true
    }

    /// Runs until nothing more is sent, not even by a timer.
    fn settle(&mut self) {
        while self.step() {}
    }

    /// Runs until this much of a response has arrived.
    fn until(&mut self, stream: u64, bytes: usize) {
        while self.received.get(&stream).is_none_or(|received| *received < bytes) {
            assert!(self.step(), "stream {stream} stands still");
        }
    }

    /// Returns the streams in the order in which they were completed.
    fn order(&self) -> Vec<u64> {
        self.complete.iter().map(|(stream, _)| *stream).collect()
    }

    /// Returns how many bytes of `other` had arrived when `stream` was complete.
    fn of_when(&self, other: u64, stream: u64) -> usize {
        let (_, received) = self.complete.iter().find(|(it, _)| *it == stream).unwrap();
        received.get(&other).copied().unwrap_or(0)
    }
}

/// RFC 9218 §10: more urgent responses are sent first, regardless of the order of the requests.
#[test]
fn urgent_responses_go_first() {
    let mut world = World::new(Config::default());
    let late = world.request(Some(Priority::new(6, false)));
    let usual = world.request(None);
    let first = world.request(Some(Priority::new(0, false)));
    world.settle();
    assert_eq!(world.order(), [first, usual, late]);
    for (other, complete) in [(usual, first), (late, first), (late, usual)] {
        let early = world.of_when(other, complete);
        assert!(early < REST, "{early} bytes of stream {other} before stream {complete} was over");
    }
}

/// Many less urgent responses fill the send buffer before the urgent one is requested. The urgent
/// response does not have to share the buffer, and needs no more round trips than it would alone.
#[test]
fn a_full_send_buffer_does_not_hold_up_what_is_urgent() {
    let mut alone = World::new(Config::default());
    let only = alone.request(Some(Priority::new(0, false)));
    let began_at = alone.pair.now;
    alone.until(only, SIZE);
    let time = alone.pair.now.saturating_since(began_at);
    let mut world = World::new(Config::default());
    let late: Vec<_> = (0..12).map(|_| world.request(Some(Priority::new(6, false)))).collect();
    let first = world.request(Some(Priority::new(0, false)));
    let began_at = world.pair.now;
    world.until(first, SIZE);
    let crowded = world.pair.now.saturating_since(began_at);
    world.settle();
    let early: usize = late.iter().map(|other| world.of_when(*other, first)).sum();
    assert!(early < REST, "{early} bytes of other responses");
    assert!(crowded <= time + DELAY, "{crowded:?} instead of {time:?}");
}

/// RFC 9218 §10: among responses of the same urgency, incremental ones take turns, and the others
/// follow one another.
#[test]
fn incremental_responses_take_turns() {
    let mut world = World::new(Config::default());
    let parts: Vec<_> = (0..3).map(|_| world.request(Some(Priority::new(4, true)))).collect();
    world.settle();
    let first = world.order()[0];
    for &other in parts.iter().filter(|other| **other != first) {
        let received = world.of_when(other, first);
        assert!(received > SIZE * 9 / 10, "{received} bytes of stream {other}");
    }
    let mut world = World::new(Config::default());
    let whole: Vec<_> = (0..3).map(|_| world.request(Some(Priority::new(4, false)))).collect();
    world.settle();
    assert_eq!(world.order(), whole);
    assert!(world.of_when(whole[1], whole[0]) < REST);
}

/// Incremental responses share bandwidth with the non-incremental responses of the same urgency,
/// which together count as one.
#[test]
fn incremental_and_other_responses_share() {
    let mut world = World::new(Config::default());
    let [one, other] = [0, 1].map(|_| world.request(Some(Priority::new(3, false))));
    let part = world.request(Some(Priority::new(3, true)));
    world.settle();
    assert!(world.of_when(other, one) < 2 * REST);
    let share = world.of_when(part, one);
    assert!(share > SIZE * 8 / 10, "{share} bytes");
}

/// RFC 9218 §7: a PRIORITY_UPDATE takes effect in the middle of the response.
#[test]
fn a_change_in_the_middle_takes_effect() {
    let mut world = World::new(Config::default());
    let [one, other] = [0, 1].map(|_| world.request(None));
    world.until(one, SIZE / 4);
    assert!(world.received.get(&other).is_none_or(|received| *received < REST));
    world.set_priority(Role::Client, other, Priority::new(1, false));
    let before = world.received[&one];
    let sent_at = world.pair.now;
    world.until(other, REST);
    assert!(world.pair.now <= sent_at + 3 * DELAY, "the change takes a round trip");
    world.settle();
    assert_eq!(world.order(), [other, one]);
    // The first response continues until the change has arrived, with whatever was in flight by
    // then, and then pauses.
    let meanwhile = world.of_when(one, other) - before;
    assert!(meanwhile < SIZE / 2, "{meanwhile} bytes");
    assert_eq!(world.of_when(one, one), SIZE);
}

/// RFC 9218 §7: a PRIORITY_UPDATE that arrives before its request is stored until then. Here it
/// arrives in the same packet, because the control stream is sent first.
#[test]
fn a_change_before_the_request_is_kept() {
    for (kept, is_first) in [(128, true), (0, false)] {
        let server = Config { max_early_priorities: kept, ..Config::default() };
        let mut world = World::new(server);
        let [one, other] = [0, 1].map(|_| world.request(None));
        world.set_priority(Role::Client, other, Priority::new(2, false));
        world.settle();
        let expected = if is_first { [other, one] } else { [one, other] };
        assert_eq!(world.order(), expected, "{kept} early priorities");
    }
}

/// RFC 9218 §8: the server's priority overrides the client's request.
#[test]
fn the_server_has_the_last_word() {
    let mut world = World::new(Config::default());
    let asked = world.request(Some(Priority::new(0, false)));
    let favoured = asked + 4;
    world.decided = Some((asked, Priority::new(7, false)));
    assert_eq!(world.request(Some(Priority::new(5, false))), favoured);
    world.until(favoured, REST);
    // Even a later change by the client has no effect.
    world.set_priority(Role::Client, asked, Priority::new(0, true));
    world.settle();
    assert_eq!(world.order(), [favoured, asked]);
    assert!(world.of_when(asked, favoured) < REST);
}

/// Without priorities all responses take turns.
#[test]
fn priorities_can_be_ignored() {
    let mut world = World::new(Config { prioritize: false, ..Config::default() });
    let late = world.request(Some(Priority::new(7, false)));
    let first = world.request(Some(Priority::new(0, false)));
    world.settle();
    let share = world.of_when(late, first).max(world.of_when(first, late));
    assert!(share > SIZE * 9 / 10, "{share} bytes");
}
