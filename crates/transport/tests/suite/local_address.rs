//! Tests of a host that cannot send: its address is gone, it has no route, or its interface MTU has
//! shrunk (RFC 9000 §9, §14).

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::support::{CLIENT, Pair, Refusal, address, both, milliseconds, quiet, seconds};
use bytes::Bytes;
use clearway_network::{Conditions, LinkConfig, Rebind, Way};
use clearway_transport::{
    ConnectionError, Event, ReadOutcome, SendFailure, Transmit, TransportConfig,
};
use clearway_units::{Rate, Timestamp};
use clearway_wire::{Direction, StreamId};

/// The replacement address of the client's host.
const NEW: &str = "10.0.1.1";

/// The time at which the client's address is removed.
const GONE_AT: Duration = Duration::from_secs(2);

fn old_ip() -> IpAddr {
    address(CLIENT).ip()
}

/// Returns a network with a delay of 10 ms each way and a rate of 4 Mbit/s. After [`GONE_AT`], the
/// client's datagrams come from another IP address.
fn network(is_replaced: bool) -> LinkConfig {
    let rate = Some(Rate::from_bits_per_second(4_000_000));
    // A pair's first datagram is sent at one second.
    let rebind = Rebind { first: GONE_AT.saturating_sub(seconds(1)), every: None, address: true };
    let conditions = Conditions { delay: milliseconds(10), rate, ..Conditions::default() };
    LinkConfig { rebind: is_replaced.then_some(rebind), ..both(conditions, 1) }
}

fn idle_timeout(time: Duration) -> TransportConfig {
    let config = quiet().to_builder().discover_path_mtu(true).max_idle_timeout(Some(time));
    config.build().unwrap()
}

/// Simulates the client's kernel: the old address is gone at [`GONE_AT`], and a usable one is
/// available from `back_at` on.
fn kernel(now: Timestamp, transmit: &Transmit, back_at: Option<Duration>) -> Option<Refusal> {
    let now = now.since_origin();
    let has_address = now < GONE_AT || back_at.is_some_and(|back| now >= back);
    let is_pinned = transmit.source_ip == Some(old_ip()) && now >= GONE_AT;
    match (has_address, is_pinned) {
        (_, true) => Some(Refusal::Failed(SendFailure::AddressGone)),
        (false, false) => Some(Refusal::Failed(SendFailure::NoRoute)),
        (true, false) => None,
    }
}

/// Endless streams in the requested directions.
struct Streams {
    to_client: Option<StreamId>,
    to_server: Option<StreamId>,
    received: usize,
}

impl Streams {
    fn open(pair: &mut Pair, downloads: bool, uploads: bool) -> Self {
        let to_client = downloads.then(|| pair.server().open(Direction::Unidirectional).unwrap());
        let to_server = uploads.then(|| pair.client().open(Direction::Unidirectional).unwrap());
        Self { to_client, to_server, received: 0 }
    }

    fn pump(&mut self, pair: &mut Pair) {
        let now = pair.now;
        let chunk = Bytes::from_static(&[1; 1 << 12]);
        if let Some(stream) = self.to_client {
            while pair.server().write(stream, chunk.clone()).unwrap() > 0 {}
        }
        if let Some(stream) = self.to_server {
            while pair.client().write(stream, chunk.clone()).unwrap() > 0 {}
        }
        pair.client().accept(Direction::Unidirectional);
        pair.server().accept(Direction::Unidirectional);
        for (stream, is_client) in [(self.to_client, true), (self.to_server, false)] {
            let Some(stream) = stream else { continue };
            let connection = if is_client { pair.client() } else { pair.server() };
            while let Ok(ReadOutcome::Data(data)) = connection.read(now, stream, usize::MAX) {
                self.received += data.len();
            }
        }
    }

    fn run_until_time(&mut self, pair: &mut Pair, time: Duration) {
        let left = time.saturating_sub(pair.now.since_origin());
        pair.run_until(left, |pair| {
            self.pump(pair);
            false
        });
    }
}

/// The client's address is replaced: it continues from the new address, regardless of how long it
/// has had none, with another connection ID and a new congestion window, and the application gets
/// events.
#[test]
fn a_client_whose_address_is_replaced_continues() {
    for (downloads, uploads) in [(true, false), (false, true), (true, true), (false, false)] {
        for gap in [Duration::ZERO, milliseconds(70), seconds(9)] {
            let case = format!("downloads {downloads}, uploads {uploads}, no address for {gap:?}");
            let mut pair = Pair::new(network(true));
            pair.establish();
            let mut streams = Streams::open(&mut pair, downloads, uploads);
            let back = GONE_AT + gap;
            pair.kernel = Some(Box::new(move |now, sent| kernel(now, sent, Some(back))));
            streams.run_until_time(&mut pair, GONE_AT);
            let failures = pair.client().statistics().send_failures;
            assert_eq!(failures, 0, "{case}");
            pair.local_ip = NEW.parse().unwrap();
            if !downloads && !uploads {
                pair.client().ping();
            }
            streams.run_until_time(&mut pair, back);
            let before = streams.received;
            let moved = |pair: &mut Pair| pair.server().remote_address().ip() == pair.local_ip;
            let is_moved = pair.run_until(milliseconds(700), |pair| {
                streams.pump(pair);
                moved(pair)
            });
            assert!(is_moved, "{case}: the server is not notified within 0.7 s");
            streams.run_until_time(&mut pair, back + seconds(3));
            let lost = Event::LocalAddressLost(old_ip());
            let changed = Event::LocalAddressChanged { from: old_ip(), to: pair.local_ip };
            for event in [lost, changed] {
                assert!(pair.client_events.contains(&event), "{case}: {:?}", pair.client_events);
            }
            assert!(pair.client().statistics().send_failures > 0, "{case}");
            let is_idle = !downloads && !uploads;
            assert!(streams.received > before + 500_000 || is_idle, "{case}: {}", streams.received);
        }
    }
}

/// RFC 9000 §9.5: no connection ID of the server is used from two addresses.
#[test]
fn the_new_address_has_a_connection_id_of_its_own() {
    let mut pair = Pair::new(network(true));
    pair.establish();
    let seen = std::rc::Rc::new(std::cell::RefCell::new([BTreeSet::new(), BTreeSet::new()]));
    let ids = seen.clone();
    pair.kernel = Some(Box::new(move |now, sent| kernel(now, sent, Some(GONE_AT))));
    pair.filter = Some(Box::new(move |now, way, datagram| {
        if way == clearway_network::Way::ToServer && datagram[0] & 0x80 == 0 {
            let is_new = usize::from(now.since_origin() >= GONE_AT);
            ids.borrow_mut()[is_new].insert(datagram[1..9].to_vec());
        }
        true
    }));
    let mut streams = Streams::open(&mut pair, true, true);
    streams.run_until_time(&mut pair, GONE_AT);
    pair.local_ip = NEW.parse().unwrap();
    streams.run_until_time(&mut pair, GONE_AT + seconds(2));
    let [old, new] = &*seen.borrow();
    assert!(!old.is_empty() && !new.is_empty() && old.is_disjoint(new), "{old:?} {new:?}");
}

/// RFC 9000 §18.2: if the server forbids migration, no other address is used. The connection waits
/// for the old one to come back, and if that does not happen, its error states the cause.
#[test]
fn a_client_that_may_not_move_waits_for_its_address() {
    for comes_back in [true, false] {
        let server = quiet().to_builder().allow_active_migration(false).build().unwrap();
        let mut pair = Pair::with(network(false), idle_timeout(seconds(20)), server);
        pair.establish();
        let mut streams = Streams::open(&mut pair, true, true);
        streams.run_until_time(&mut pair, GONE_AT);
        let is_back =
            move |now: Timestamp| comes_back && now.since_origin() >= GONE_AT + seconds(9);
        pair.kernel = Some(Box::new(move |now, _| {
            (!is_back(now)).then_some(Refusal::Failed(SendFailure::AddressGone))
        }));
        pair.filter = Some(Box::new(move |now, _, _| is_back(now)));
        streams.run_until_time(&mut pair, GONE_AT + seconds(9));
        let before = streams.received;
        let end = GONE_AT + seconds(40);
        let left = end.saturating_sub(pair.now.since_origin());
        let is_closed = pair.run_until(left, |pair| {
            let is_closed = pair.client().is_closed();
            if !is_closed && !pair.server().is_closed() {
                streams.pump(pair);
            }
            is_closed || streams.received > before + 500_000
        });
        assert!(is_closed, "it neither ends nor continues");
        let closed = Event::Closed(ConnectionError::CannotSend(SendFailure::AddressGone));
        assert_eq!(pair.client_events.contains(&closed), !comes_back, "{:?}", pair.client_events);
        assert!(comes_back || pair.now.since_origin() <= GONE_AT + seconds(21));
    }
}

/// Datagrams that the host fails to send have not reached the network. This is not treated as
/// congestion, and the connection continues within a second after the route is back.
#[test]
fn a_missing_route_is_no_congestion() {
    let mut pair = Pair::new(network(false));
    pair.establish();
    let mut streams = Streams::open(&mut pair, false, true);
    streams.run_until_time(&mut pair, milliseconds(1300));
    let before = pair.client().statistics();
    pair.kernel = Some(Box::new(|now, _| {
        let is_gone = now.since_origin() < seconds(15);
        is_gone.then_some(Refusal::Failed(SendFailure::NoRoute))
    }));
    streams.run_until_time(&mut pair, seconds(15));
    let received = streams.received;
    streams.run_until_time(&mut pair, milliseconds(15_600));
    assert!(streams.received > received, "nothing arrives in the 0.6 s after");
    let after = pair.client().statistics();
    assert_eq!(after.persistent_congestion_events, before.persistent_congestion_events);
    assert!(after.send_failures > 10 && after.send_failures < 100, "{}", after.send_failures);
}

/// The rejected packet may have contained only an ACK frame, which is not retransmitted. The client
/// still retries within the first wait. Otherwise, only the server's probes would reveal that the
/// host can send.
#[test]
fn a_client_tries_again_although_it_has_nothing_to_send() {
    let refused_at = Rc::new(Cell::new(None));
    let sent_at = Rc::new(Cell::new(None));
    let mut pair = Pair::new(network(false));
    pair.establish();
    pair.run_until(seconds(1), |_| false);
    let (refused, sent) = (refused_at.clone(), sent_at.clone());
    pair.kernel = Some(Box::new(move |now, _| match refused.get() {
        None => {
            refused.set(Some(now));
            Some(Refusal::Failed(SendFailure::Other))
        }
        Some(_) => {
            sent.set(sent.get().or(Some(now)));
            None
        }
    }));
    // The server's only datagram: its probes would trigger another acknowledgment.
    let mut arrived = 0;
    pair.filter = Some(Box::new(move |_, way, _| {
        arrived += usize::from(way == Way::ToClient);
        way == Way::ToServer || arrived == 1
    }));
    pair.server().ping();
    pair.run_until(seconds(2), |_| sent_at.get().is_some());
    let (refused, sent) = (refused_at.get().unwrap(), sent_at.get().expect("the client is silent"));
    assert!(sent.saturating_since(refused) <= milliseconds(20), "{refused:?} {sent:?}");
}

/// EMSGSIZE: smaller datagrams follow immediately, and the error is not treated as congestion. If
/// even 1200 bytes are too many, the connection ends with an error that states this.
#[test]
fn an_interface_whose_mtu_falls_is_followed() {
    for mtu in [1300_usize, 1199] {
        let config = idle_timeout(seconds(10));
        let mut pair = Pair::with(network(false), config.clone(), config);
        pair.establish();
        let mut streams = Streams::open(&mut pair, false, true);
        streams.run_until_time(&mut pair, GONE_AT);
        let before = pair.client().statistics();
        assert!(before.datagram_size > 1400);
        pair.kernel = Some(Box::new(move |_, sent| {
            let size = sent.segment_size.unwrap_or(sent.size);
            (size > mtu).then_some(Refusal::TooLarge)
        }));
        let received = streams.received;
        // The server's probes arrive until its own idle timeout.
        let end = pair.now + seconds(21);
        pair.run_until(seconds(21), |pair| {
            if !pair.client().is_closed() && !pair.server().is_closed() {
                streams.pump(pair);
            }
            pair.client().is_closed() || streams.received > received + 500_000
        });
        let after = pair.client().statistics();
        if mtu >= 1200 {
            assert!(streams.received > received + 500_000 && pair.now < end, "{mtu}");
            assert_eq!(after.persistent_congestion_events, before.persistent_congestion_events);
            assert!((1200..1300).contains(&after.datagram_size));
        } else {
            let error = ConnectionError::CannotSend(SendFailure::MtuTooSmall);
            let closed = Event::Closed(error);
            assert!(pair.client_events.contains(&closed), "{:?}", pair.client_events);
        }
    }
}
