//! Tests of a NAT that drops its mapping at any time in the first round trips (RFC 9000 §9.3): the
//! handshake and the first transfers still complete.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use crate::support::{Pair, Tls, delayed, large_tls, milliseconds, pattern, quiet, seconds, tls};
use bytes::Bytes;
use clearway_network::{LinkConfig, Rebind};
use clearway_transport::{Connection, Event, ReadOutcome};
use clearway_units::{Random, Timestamp};
use clearway_wire::{Direction, StreamId};

/// The number of bytes transferred once the handshake is complete.
const SIZE: usize = 20_000;
/// Enough bytes to keep the sender's congestion window full for many round trips.
const LARGE: usize = 500_000;

/// The traffic that the applications send over the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Traffic {
    /// Only the handshake.
    Nothing,
    /// The client sends a request, and the server sends a response.
    Download,
    /// The client sends data.
    Upload,
    /// The server sends without a request. Only a keep-alive reveals the new address of a client
    /// that has nothing to send.
    Push,
}

const TRAFFIC: [Traffic; 4] = [Traffic::Nothing, Traffic::Download, Traffic::Upload, Traffic::Push];

/// One connection with its traffic.
struct Run {
    pair: Pair,
    traffic: Traffic,
    contents: Bytes,
    sent: usize,
    received: usize,
    at_client: Option<StreamId>,
    at_server: Option<StreamId>,
}

impl Run {
    fn new(link: LinkConfig, traffic: Traffic, tls: &Tls) -> Self {
        Self::with_size(SIZE, link, traffic, tls)
    }

    fn with_size(size: usize, link: LinkConfig, traffic: Traffic, tls: &Tls) -> Self {
        let keep_alive = (traffic == Traffic::Push).then_some(milliseconds(500));
        let client = quiet().to_builder().keep_alive_interval(keep_alive).build().unwrap();
        let pair = Pair::with_tls(link, client, quiet(), tls);
        Self {
            pair,
            traffic,
            contents: pattern(size),
            sent: 0,
            received: 0,
            at_client: None,
            at_server: None,
        }
    }

    fn is_connected(&self) -> (bool, bool) {
        let connected = |events: &[Event]| events.contains(&Event::Connected);
        (connected(&self.pair.client_events), connected(&self.pair.server_events))
    }

    /// Acts as both applications, and returns whether the transfer and the handshake are complete.
    fn act(&mut self) -> bool {
        let (client, server) = self.is_connected();
        match self.traffic {
            Traffic::Nothing => {}
            Traffic::Download => {
                if client && self.at_client.is_none() {
                    self.at_client = self.pair.client().open(Direction::Bidirectional);
                    self.pair.client().write_slice(self.at_client.unwrap(), b"give").unwrap();
                    self.pair.client().finish(self.at_client.unwrap()).unwrap();
                }
                if server && self.at_server.is_none() {
                    self.at_server = self.pair.server().accept(Direction::Bidirectional);
                }
                self.send_from_server();
                self.read_at_client();
            }
            Traffic::Upload => {
                if client && self.at_client.is_none() {
                    self.at_client = self.pair.client().open(Direction::Unidirectional);
                }
                if let Some(stream) = self.at_client.filter(|_| self.sent < self.contents.len()) {
                    let rest = self.contents.slice(self.sent..);
                    self.sent += self.pair.client().write(stream, rest).unwrap();
                }
                if server && self.at_server.is_none() {
                    self.at_server = self.pair.server().accept(Direction::Unidirectional);
                }
                let now = self.pair.now;
                if let Some(stream) = self.at_server {
                    self.received += read_all(self.pair.server(), now, stream);
                }
            }
            Traffic::Push => {
                if server && self.at_server.is_none() {
                    self.at_server = self.pair.server().open(Direction::Unidirectional);
                }
                self.send_from_server();
                if client && self.at_client.is_none() {
                    self.at_client = self.pair.client().accept(Direction::Unidirectional);
                }
                self.read_at_client();
            }
        }
        let expected = if self.traffic == Traffic::Nothing { 0 } else { self.contents.len() };
        let is_confirmed = |events: &[Event]| events.contains(&Event::HandshakeConfirmed);
        self.received == expected
            && is_confirmed(&self.pair.client_events)
            && is_confirmed(&self.pair.server_events)
    }

    fn send_from_server(&mut self) {
        if let Some(stream) = self.at_server.filter(|_| self.sent < self.contents.len()) {
            let rest = self.contents.slice(self.sent..);
            self.sent += self.pair.server().write(stream, rest).unwrap();
        }
    }

    fn read_at_client(&mut self) {
        let now = self.pair.now;
        if let Some(stream) = self.at_client {
            self.received += read_all(self.pair.client(), now, stream);
        }
    }

    /// Runs to completion and returns how long that took; `None` if it exceeded `limit`.
    fn run(&mut self, limit: Duration) -> Option<Duration> {
        let start = self.pair.now;
        let end = start + limit;
        while !self.act() {
            // Data that the applications wrote is sent before time advances.
            let left = end.saturating_since(self.pair.now);
            let before = self.pair.now;
            self.pair.run_until(left, |pair| pair.now > before);
            if self.pair.now >= end {
                return None;
            }
        }
        Some(self.pair.now.saturating_since(start))
    }
}

/// Reads everything that is available and returns the number of bytes.
fn read_all(connection: &mut Connection, now: Timestamp, stream: StreamId) -> usize {
    let mut length = 0;
    while let ReadOutcome::Data(data) = connection.read(now, stream, usize::MAX).unwrap() {
        length += data.len();
    }
    length
}

fn link(
    round_trip: u64,
    rebind: Option<(Duration, Option<Duration>)>,
    address: bool,
) -> LinkConfig {
    let rebind = rebind.map(|(first, every)| Rebind { first, every, address });
    LinkConfig { rebind, ..delayed(round_trip / 2, 7) }
}

/// Returns the times at which a datagram enters or leaves the network in a run without a rebinding,
/// and how long that run takes.
fn undisturbed(round_trip: u64, traffic: Traffic, tls: &Tls) -> (BTreeSet<Duration>, Duration) {
    let moments = Rc::new(RefCell::new(BTreeSet::new()));
    let mut run = Run::new(link(round_trip, None, false), traffic, tls);
    let (start, noted) = (run.pair.now, moments.clone());
    run.pair.filter = Some(Box::new(move |now, _, _| {
        let entered = now.saturating_since(start);
        noted.borrow_mut().extend([entered, entered + milliseconds(round_trip / 2)]);
        true
    }));
    let took = run.run(seconds(60)).expect("not finished without a rebinding");
    (moments.take(), took)
}

/// Returns the maximum cost of a rebinding: the first probe timeout, which applies before any RTT
/// is known, and the time to notice the silence, validate the address, and retransmit lost data.
fn bound(round_trip: u64, undisturbed: Duration) -> Duration {
    undisturbed + seconds(1) + milliseconds(10 * round_trip) + milliseconds(500)
}

/// Checks that a run with one rebinding at the point `moment` completes within `limit` (see
/// [`bound`]).
fn check(round_trip: u64, traffic: Traffic, tls: &Tls, limit: Duration, moment: Duration) {
    for address in [false, true] {
        let link = link(round_trip, Some((moment, None)), address);
        let took = Run::new(link, traffic, tls).run(seconds(600));
        assert!(
            took.is_some_and(|took| took <= limit),
            "{traffic:?} at {round_trip} ms, rebound at {moment:?}, address {address}: took {took:?}, limit {limit:?}"
        );
    }
}

/// Rebinds just before and just after every datagram that enters or leaves the network.
fn at_every_datagram(round_trip: u64) {
    for traffic in TRAFFIC {
        for tls in [tls(), large_tls()] {
            let (moments, took) = undisturbed(round_trip, traffic, tls);
            let limit = bound(round_trip, took);
            for moment in moments {
                check(round_trip, traffic, tls, limit, moment);
                check(round_trip, traffic, tls, limit, moment + Duration::from_nanos(1));
            }
        }
    }
}

#[test]
fn a_rebinding_at_any_datagram_is_survived_at_10_ms() {
    at_every_datagram(10);
}

#[test]
fn a_rebinding_at_any_datagram_is_survived_at_200_ms() {
    at_every_datagram(200);
}

/// Rebinds at every millisecond of the first five round trips. Each time is tested with `kinds` of
/// the four kinds of traffic, which alternate.
fn at_every_millisecond(round_trip: u64, kinds: usize) {
    let limits =
        TRAFFIC.map(|traffic| bound(round_trip, undisturbed(round_trip, traffic, tls()).1));
    let all = TRAFFIC.into_iter().zip(limits).cycle();
    for moment in 0..5 * round_trip {
        for (traffic, limit) in all.clone().skip(moment as usize % TRAFFIC.len()).take(kinds) {
            check(round_trip, traffic, tls(), limit, milliseconds(moment));
        }
    }
}

#[test]
fn a_rebinding_at_any_millisecond_is_survived_at_10_ms() {
    at_every_millisecond(10, TRAFFIC.len());
}

#[test]
fn a_rebinding_at_any_millisecond_is_survived_at_200_ms() {
    at_every_millisecond(200, 1);
}

/// Packets in flight to the old port are lost, which is not a congestion signal (RFC 9000 §9.4):
/// the congestion window is kept. Although those packets fill the window, the new port is
/// validated.
#[test]
fn a_new_port_costs_no_more_when_the_window_is_full() {
    for round_trip in [10, 200] {
        let run = |rebind| {
            let link = link(round_trip, rebind, false);
            Run::with_size(LARGE, link, Traffic::Download, tls()).run(seconds(60))
        };
        let limit = bound(round_trip, run(None).expect("not finished without a rebinding"));
        for moment in (0..12 * round_trip).step_by(round_trip as usize / 5) {
            let took = run(Some((milliseconds(moment), None)));
            // Once a round-trip time is known, the cost of the first probe timeout no longer applies.
            let limit = if moment < 2 * round_trip { limit } else { limit - seconds(1) };
            assert!(
                took.is_some_and(|took| took <= limit),
                "at {round_trip} ms, rebound at {moment} ms: took {took:?}, limit {limit:?}"
            );
        }
    }
}

/// A NAT that rebinds repeatedly, with time for ten round trips and the first probe timeout in between.
#[test]
fn repeated_rebindings_are_survived() {
    let mut random = Random::from_number(17);
    for round_trip in [10, 200] {
        for (traffic, number) in TRAFFIC.into_iter().cycle().zip(0..60) {
            let first = milliseconds(random.below(4 * round_trip));
            let every = milliseconds(1500 + 10 * round_trip + random.below(10 * round_trip));
            let link = link(round_trip, Some((first, Some(every))), number % 8 < 4);
            let took = Run::new(link, traffic, large_tls()).run(seconds(60));
            assert!(took.is_some(), "{traffic:?} at {round_trip} ms, {first:?}, {every:?}");
        }
    }
}
