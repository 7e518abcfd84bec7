//! A NAT that forgets its mapping at any moment of the first round trips (RFC 9000 §9.3): the handshake and
//! the first transfers come to their end all the same.

mod support;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use clearway_network::{LinkConfig, Rebind};
use clearway_transport::{Connection, Event, ReadOutcome};
use clearway_units::{Random, Timestamp};
use clearway_wire::{Direction, StreamId};
use support::{Pair, Tls, delayed, large_tls, milliseconds, pattern, quiet, seconds, tls};

/// What is transferred once the handshake is complete.
const SIZE: usize = 20_000;
/// What keeps the sender's window full for many round trips.
const LARGE: usize = 500_000;

/// What the two ends do with the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Traffic {
    /// Only the handshake.
    Nothing,
    /// The client asks, the server answers.
    Download,
    /// The client sends.
    Upload,
    /// The server sends unasked. A client that has nothing to say is found by its keep-alive only.
    Push,
}

const TRAFFIC: [Traffic; 4] = [Traffic::Nothing, Traffic::Download, Traffic::Upload, Traffic::Push];

/// One connection with its traffic.
struct Story {
    pair: Pair,
    traffic: Traffic,
    contents: Bytes,
    sent: usize,
    received: usize,
    at_client: Option<StreamId>,
    at_server: Option<StreamId>,
}

impl Story {
    fn new(link: LinkConfig, traffic: Traffic, tls: &Tls) -> Self {
        Self::of(SIZE, link, traffic, tls)
    }

    fn of(size: usize, link: LinkConfig, traffic: Traffic, tls: &Tls) -> Self {
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

    /// Does what the applications do, and says whether all is done.
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
        let wanted = if self.traffic == Traffic::Nothing { 0 } else { self.contents.len() };
        let is_confirmed = |events: &[Event]| events.contains(&Event::HandshakeConfirmed);
        self.received == wanted
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

    /// How long it took until all was done.
    fn run(&mut self, limit: Duration) -> Option<Duration> {
        let start = self.pair.now;
        let end = start + limit;
        while !self.act() {
            // What the applications did is sent before time goes on.
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

/// How many bytes there are to read.
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

/// The moments at which a datagram enters the undisturbed network or comes out of it, and how long all
/// takes without a rebinding.
fn undisturbed(round_trip: u64, traffic: Traffic, tls: &Tls) -> (BTreeSet<Duration>, Duration) {
    let moments = Rc::new(RefCell::new(BTreeSet::new()));
    let mut story = Story::new(link(round_trip, None, false), traffic, tls);
    let (start, noted) = (story.pair.now, moments.clone());
    story.pair.filter = Some(Box::new(move |now, _, _| {
        let entered = now.saturating_since(start);
        noted.borrow_mut().extend([entered, entered + milliseconds(round_trip / 2)]);
        true
    }));
    let took = story.run(seconds(60)).expect("not finished without a rebinding");
    (moments.take(), took)
}

/// A rebinding costs at most the first probe timeout, for which no round-trip time is known, and then what
/// it takes to notice the silence, to validate the address, and to send again what was lost.
fn bound(round_trip: u64, undisturbed: Duration) -> Duration {
    undisturbed + seconds(1) + milliseconds(10 * round_trip) + milliseconds(500)
}

/// One rebinding at `moment` must not cost more than [`bound`].
fn check(round_trip: u64, traffic: Traffic, tls: &Tls, limit: Duration, moment: Duration) {
    for address in [false, true] {
        let link = link(round_trip, Some((moment, None)), address);
        let took = Story::new(link, traffic, tls).run(seconds(600));
        assert!(
            took.is_some_and(|took| took <= limit),
            "{traffic:?} at {round_trip} ms, rebound at {moment:?}, address {address}: {took:?} of {limit:?}"
        );
    }
}

/// Just before and just after every datagram that enters the network or comes out of it.
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

/// At every millisecond of the first five round trips; the kinds of traffic take turns where there are
/// many milliseconds.
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

/// What was on its way to the old port is lost and says nothing about congestion (RFC 9000 §9.4), so that the window
/// stays; and that it fills the window does not keep the new port from being validated.
#[test]
fn a_new_port_costs_no_more_where_much_is_sent() {
    for round_trip in [10, 200] {
        let story = |rebind| {
            let link = link(round_trip, rebind, false);
            Story::of(LARGE, link, Traffic::Download, tls()).run(seconds(60))
        };
        let limit = bound(round_trip, story(None).expect("not finished without a rebinding"));
        for moment in (0..12 * round_trip).step_by(round_trip as usize / 5) {
            let took = story(Some((milliseconds(moment), None)));
            // Once there is a round-trip time no probe timeout is the first.
            let limit = if moment < 2 * round_trip { limit } else { limit - seconds(1) };
            assert!(
                took.is_some_and(|took| took <= limit),
                "at {round_trip} ms, rebound at {moment} ms: {took:?} of {limit:?}"
            );
        }
    }
}

/// A NAT that forgets again and again, but leaves time for ten round trips and the first probe timeout.
#[test]
fn rebindings_in_a_row_are_survived() {
    let mut random = Random::from_number(17);
    for round_trip in [10, 200] {
        for (traffic, number) in TRAFFIC.into_iter().cycle().zip(0..60) {
            let first = milliseconds(random.below(4 * round_trip));
            let every = milliseconds(1500 + 10 * round_trip + random.below(10 * round_trip));
            let link = link(round_trip, Some((first, Some(every))), number % 8 < 4);
            let took = Story::new(link, traffic, large_tls()).run(seconds(60));
            assert!(took.is_some(), "{traffic:?} at {round_trip} ms, {first:?}, {every:?}");
        }
    }
}
