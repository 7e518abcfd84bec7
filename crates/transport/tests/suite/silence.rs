//! Tests that a client that is waiting for data and receives nothing sends PINGs, and that the
//! server reacts to them.

use std::time::Duration;

use crate::support::{Packet, Pair, delayed, milliseconds, pattern, seconds};
use bytes::Bytes;
use clearway_network::{LinkConfig, QueueLimit, Rebind, Way};
use clearway_transport::{Event, Side};
use clearway_units::{Random, Rate, Timestamp};
use clearway_wire::{Direction, StreamId};

const PING: u64 = 0x01;
const ACK: u64 = 0x02;

/// On the short paths of these tests, the time without data after which a client sends its first
/// PING.
const MINIMUM_WAIT: Duration = Duration::from_millis(200);

/// A download that a test advances step by step.
struct Download {
    stream: StreamId,
    rest: Bytes,
    received: Vec<u8>,
    is_requested: bool,
    is_done: bool,
}

impl Download {
    /// Sends the client's request for `size` bytes.
    fn of(pair: &mut Pair, size: usize) -> Self {
        let stream = pair.client().open(Direction::Bidirectional).unwrap();
        pair.client().write_slice(stream, b"give").unwrap();
        pair.client().finish(stream).unwrap();
        let rest = pattern(size);
        Self { stream, rest, received: Vec::new(), is_requested: false, is_done: false }
    }

    /// Writes as much as possible on the server.
    fn serve(&mut self, pair: &mut Pair) {
        self.is_requested |= pair.server().accept(Direction::Bidirectional).is_some();
        if self.is_requested {
            pair.write_rest(self.stream, &mut self.rest);
        }
    }

    /// Writes on the server and reads on the client as much as possible now.
    fn go_on(&mut self, pair: &mut Pair) {
        self.serve(pair);
        self.is_done |= pair.read_all(self.stream, &mut self.received);
    }

    fn run_for(&mut self, pair: &mut Pair, duration: Duration) {
        pair.run_until(duration, |pair| {
            self.go_on(pair);
            false
        });
    }
}

fn pings(pair: &Pair, side: Side, from: Timestamp) -> usize {
    let sent = pair.watch.sent(side);
    sent.iter().filter(|packet| packet.at > from && packet.has(PING)).count()
}

/// The directions in which nothing is delivered.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Dead {
    ToClient,
    ToServer,
    Both,
}

impl Dead {
    fn includes(self, way: Way) -> bool {
        match self {
            Self::Both => true,
            Self::ToClient => way == Way::ToClient,
            Self::ToServer => way == Way::ToServer,
        }
    }
}

/// After an outage of three seconds, new data soon reaches the client (see `response_ping.rs`). The
/// client sends its next PING after the longest of 200 ms, three probe timeouts and an eighth of
/// the time without received packets; the server's response to it arrives a round trip later. The
/// queue to the client may still be full of earlier datagrams, which delays the response by at most
/// one more round trip.
fn continues_after_an_outage(dead: Dead) {
    let outage = seconds(3);
    for seed in 0..100 {
        let (mut pair, mut download) = downloading(seed);
        let end = pair.now + outage;
        pair.filter = Some(Box::new(move |now, way, _| now >= end || !dead.includes(way)));
        download.run_for(&mut pair, outage);
        let client = pair.client().statistics();
        let before = download.received.len();
        let continues = pair.run_until(seconds(60), |pair| {
            download.go_on(pair);
            download.received.len() > before
        });
        let took = pair.now.saturating_since(end);
        let round_trip = client.smoothed_rtt.unwrap();
        let probe_timeout = round_trip + 4 * client.rtt_variation.unwrap() + milliseconds(25);
        let wait = MINIMUM_WAIT.max(3 * probe_timeout).max(outage / 8);
        assert!(continues && took <= wait + 2 * round_trip, "{dead:?}, seed {seed}: {took:?}");
        assert!(took < milliseconds(600), "{dead:?}, seed {seed}: {took:?}");
    }
}

/// A download over a path of 10 Mbit/s that has been running for 200 to 500 ms.
fn downloading(seed: u64) -> (Pair, Download) {
    let mut random = Random::from_number(seed);
    let mut link = delayed(5 + random.below(15), seed);
    for conditions in [&mut link.to_server, &mut link.to_client] {
        conditions.rate = Some(Rate::from_bits_per_second(10_000_000));
        conditions.queue = QueueLimit { packets: Some(25), bytes: None };
    }
    let mut pair = Pair::new(link);
    pair.establish();
    let mut download = Download::of(&mut pair, 10 << 20);
    download.run_for(&mut pair, milliseconds(200 + random.below(300)));
    (pair, download)
}

#[test]
fn a_download_continues_after_an_outage_to_the_client() {
    continues_after_an_outage(Dead::ToClient);
}

#[test]
fn a_download_continues_after_an_outage_to_the_server() {
    continues_after_an_outage(Dead::ToServer);
}

#[test]
fn a_download_continues_after_an_outage_both_ways() {
    continues_after_an_outage(Dead::Both);
}

/// While nothing reaches the client, the server sends little: at most the two datagrams of a probe
/// for each packet from the client, plus the probes triggered by its own timer. Both become rarer
/// over time.
#[test]
fn packets_on_a_dead_path_are_few() {
    for seed in 0..20 {
        let (mut pair, mut download) = downloading(seed);
        pair.filter = Some(Box::new(|_, way, _| way == Way::ToServer));
        // Packets in flight at the beginning of the outage still let the window grow.
        download.run_for(&mut pair, milliseconds(500));
        let begin = pair.now;
        download.run_for(&mut pair, seconds(30));
        let after = |packets: Vec<Packet>| {
            packets.into_iter().filter(|packet| packet.at > begin).collect::<Vec<_>>()
        };
        let from_client = after(pair.watch.sent(Side::Client));
        let from_server = after(pair.watch.sent(Side::Server));
        // Each wait is an eighth of the silence so far, so there are ln(60) / ln(9 / 8) PINGs and a
        // few more.
        let (from_client, from_server) = (from_client.len(), from_server.len());
        assert!((20..45).contains(&from_client), "seed {seed}: {from_client}");
        let limit = 2 * from_client + 12;
        assert!(from_server <= limit, "seed {seed}: {from_server} from the server, limit {limit}");
    }
}

/// RFC 9000 §13.2.1: the client's PINGs and probes carry an ACK frame, in case its earlier ACKs were lost.
#[test]
fn every_ping_and_probe_carries_an_ack() {
    let (mut pair, mut download) = downloading(1);
    let begin = pair.now;
    pair.filter = Some(Box::new(|_, _, _| false));
    download.run_for(&mut pair, seconds(5));
    let sent = pair.watch.sent(Side::Client);
    let mut late = sent.iter().filter(|packet| packet.at > begin + milliseconds(100)).peekable();
    assert!(late.peek().is_some());
    assert!(late.all(|packet| packet.has(ACK)));
}

/// While a server takes a minute to respond, the client sends PINGs at intervals of 200 ms, 400 ms,
/// ... up to 15 s, and the server sends only ACKs.
#[test]
fn few_pings_are_sent_to_a_server_that_is_slow_to_respond() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, b"think").unwrap();
    pair.client().finish(stream).unwrap();
    pair.run_for(milliseconds(100));
    let begin = pair.now;
    pair.run_for(seconds(60));
    assert_eq!(pings(&pair, Side::Client, begin), 9);
    let answers = pair.watch.sent(Side::Server);
    let answers: Vec<_> = answers.iter().filter(|packet| packet.at > begin).collect();
    assert_eq!(answers.len(), 9);
    assert!(answers.iter().all(|packet| packet.frames == [ACK]), "{answers:?}");
    // The first data resets the intervals, and the end of the stream stops the PINGs.
    pair.server().accept(Direction::Bidirectional).unwrap();
    pair.server().write_slice(stream, b"well").unwrap();
    pair.run_for(milliseconds(20));
    let mut received = Vec::new();
    assert!(!pair.read_all(stream, &mut received));
    let first_data = pair.now;
    pair.run_for(milliseconds(650));
    assert_eq!(pings(&pair, Side::Client, first_data), 2);
    pair.server().finish(stream).unwrap();
    pair.run_for(milliseconds(20));
    let end = pair.now;
    pair.run_for(seconds(100));
    assert_eq!(pings(&pair, Side::Client, end), 0);
}

/// An application that does not read does not wait for data, regardless of whether its receive
/// windows are full.
#[test]
fn an_application_that_does_not_read_sends_no_pings() {
    for size in [10_000, 5 << 20] {
        let mut pair = Pair::new(delayed(10, 1));
        pair.establish();
        let mut download = Download::of(&mut pair, size);
        // The client reads once, so that it waits for `Event::Readable`; from then on only the
        // server acts.
        download.go_on(&mut pair);
        pair.run_until(seconds(2), |pair| {
            download.serve(pair);
            false
        });
        let begin = pair.now;
        pair.run_for(seconds(120));
        assert_eq!(pings(&pair, Side::Client, begin), 0, "{size}");
        pair.run_until(seconds(10), |pair| {
            download.go_on(pair);
            download.is_done
        });
        assert!(download.is_done);
    }
}

/// Streams on which it is unknown whether more data will arrive do not cause PINGs: streams that
/// the peer opened, like those that HTTP/3 keeps open, and a stream on which this endpoint may
/// still send more of its request.
#[test]
fn open_streams_without_a_pending_response_are_silent() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    let control = pair.server().open(Direction::Unidirectional).unwrap();
    pair.server().write_slice(control, b"settings").unwrap();
    let unfinished = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(unfinished, b"perhaps").unwrap();
    pair.run_for(milliseconds(100));
    let accepted = pair.client().accept(Direction::Unidirectional).unwrap();
    let mut settings = Vec::new();
    assert!(!pair.read_all(accepted, &mut settings));
    assert_eq!(settings, b"settings");
    pair.run_for(seconds(1));
    let count =
        |pair: &Pair| pair.watch.sent(Side::Client).len() + pair.watch.sent(Side::Server).len();
    let before = count(&pair);
    pair.run_for(seconds(3600));
    assert_eq!(count(&pair), before);
}

/// A client that only reads, without a keep-alive, behind a NAT that rebinds every two seconds: the server
/// learns the new address from a late ACK or from a PING.
#[test]
fn a_download_to_a_client_whose_nat_rebinds_completes() {
    for address in [false, true] {
        for seed in 0..10 {
            let rebind = Rebind { first: milliseconds(300), every: Some(seconds(2)), address };
            let mut link = delayed(10, seed);
            link.to_client.rate = Some(Rate::from_bits_per_second(10_000_000));
            let mut pair = Pair::new(LinkConfig { rebind: Some(rebind), ..link });
            let took = pair.download(3 << 20, seconds(60));
            assert!(took.is_some_and(|took| took < seconds(10)), "{address}, {seed}: {took:?}");
            let is_migration = |event: &Event| matches!(event, Event::PeerMigrated(_));
            assert!(pair.server_events.iter().any(is_migration), "{address}, {seed}");
        }
    }
}

/// The NAT rebinds before the server responds. Without the client's PINGs the server would not
/// notice, and would send its response to the old address; but by then a PING has arrived from the
/// new one.
#[test]
fn a_ping_reveals_a_rebinding_before_the_response() {
    for address in [false, true] {
        let rebind = Rebind { first: seconds(1), every: None, address };
        let mut pair = Pair::new(LinkConfig { rebind: Some(rebind), ..delayed(10, 1) });
        pair.establish();
        let mut download = Download::of(&mut pair, 1000);
        pair.run_for(seconds(5));
        let start = pair.now;
        let done = pair.run_until(seconds(1), |pair| {
            download.go_on(pair);
            download.is_done
        });
        assert!(done, "{address}");
        assert_eq!(pair.now.saturating_since(start), milliseconds(10), "{address}");
    }
}
