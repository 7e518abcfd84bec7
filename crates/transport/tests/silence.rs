//! What a client does that awaits data and hears nothing, and what its sign of life does for the server.

mod support;

use std::time::Duration;

use bytes::Bytes;
use clearway_network::{LinkConfig, QueueLimit, Rebind, Way};
use clearway_transport::{Event, Side};
use clearway_units::{Random, Rate, Timestamp};
use clearway_wire::{Direction, StreamId};
use support::{Packet, Pair, delayed, milliseconds, pattern, seconds};

const PING: u64 = 0x01;
const ACK: u64 = 0x02;

/// A client asks after this long without an answer, on the short paths here.
const LEAST_WAIT: Duration = Duration::from_millis(200);

/// A download that a test can look at between two instants.
struct Download {
    stream: StreamId,
    rest: Bytes,
    received: Vec<u8>,
    is_asked: bool,
    is_done: bool,
}

impl Download {
    /// The client has asked for `size` bytes.
    fn of(pair: &mut Pair, size: usize) -> Self {
        let stream = pair.client().open(Direction::Bidirectional).unwrap();
        pair.client().write_slice(stream, b"give").unwrap();
        pair.client().finish(stream).unwrap();
        let rest = pattern(size);
        Self { stream, rest, received: Vec::new(), is_asked: false, is_done: false }
    }

    /// The server writes what it can.
    fn serve(&mut self, pair: &mut Pair) {
        self.is_asked |= pair.server().accept(Direction::Bidirectional).is_some();
        if self.is_asked {
            pair.write_rest(self.stream, &mut self.rest);
        }
    }

    /// The server writes and the client reads what they can now.
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

/// Which ways are dead.
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

/// After a silence of three seconds new data reaches the client soon: see `answer.rs`. The client's next
/// PING comes after the longest of 200 ms, three probe timeouts and an eighth of the silence; a round trip
/// later comes what the server answers it with. The server's queue may be full of what it sent before,
/// which is one round trip more at most.
fn goes_on_after_a_silence(dead: Dead) {
    let silence = seconds(3);
    for seed in 0..100 {
        let (mut pair, mut download) = downloading(seed);
        let end = pair.now + silence;
        pair.filter = Some(Box::new(move |now, way, _| now >= end || !dead.includes(way)));
        download.run_for(&mut pair, silence);
        let client = pair.client().statistics();
        let before = download.received.len();
        let goes_on = pair.run_until(seconds(60), |pair| {
            download.go_on(pair);
            download.received.len() > before
        });
        let took = pair.now.saturating_since(end);
        let round_trip = client.smoothed_rtt.unwrap();
        let probe_timeout = round_trip + 4 * client.rtt_variation.unwrap() + milliseconds(25);
        let wait = LEAST_WAIT.max(3 * probe_timeout).max(silence / 8);
        assert!(goes_on && took <= wait + 2 * round_trip, "{dead:?}, seed {seed}: {took:?}");
        assert!(took < milliseconds(600), "{dead:?}, seed {seed}: {took:?}");
    }
}

/// A download over a path of 10 Mbit/s that has gone on for a while.
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
fn a_download_goes_on_after_the_way_to_the_client_was_dead() {
    goes_on_after_a_silence(Dead::ToClient);
}

#[test]
fn a_download_goes_on_after_the_way_to_the_server_was_dead() {
    goes_on_after_a_silence(Dead::ToServer);
}

#[test]
fn a_download_goes_on_after_both_ways_were_dead() {
    goes_on_after_a_silence(Dead::Both);
}

/// While nothing reaches the client, what the server sends remains rare: for each of the client's packets
/// the two datagrams of a probe at most, and the probes of its own timer. Both become rarer with time.
#[test]
fn signs_of_life_into_a_dead_path_are_few() {
    for seed in 0..20 {
        let (mut pair, mut download) = downloading(seed);
        pair.filter = Some(Box::new(|_, way, _| way == Way::ToServer));
        // What is under way when the path dies still lets the window grow.
        download.run_for(&mut pair, milliseconds(500));
        let begin = pair.now;
        download.run_for(&mut pair, seconds(30));
        let after = |packets: Vec<Packet>| {
            packets.into_iter().filter(|packet| packet.at > begin).collect::<Vec<_>>()
        };
        let asked = after(pair.watch.sent(Side::Client));
        let sent = after(pair.watch.sent(Side::Server));
        // Each wait is an eighth of the time before it, so ln(60) / ln(9 / 8) of them and a few.
        assert!((20..45).contains(&asked.len()), "seed {seed}: {}", asked.len());
        assert!(sent.len() <= 2 * asked.len() + 12, "seed {seed}: {} {}", sent.len(), asked.len());
    }
}

/// RFC 9000 §13.2.1: a PING says again what the client received, in case its ACKs were lost; so do the
/// client's probes.
#[test]
fn every_sign_of_life_acknowledges() {
    let (mut pair, mut download) = downloading(1);
    let begin = pair.now;
    pair.filter = Some(Box::new(|_, _, _| false));
    download.run_for(&mut pair, seconds(5));
    let sent = pair.watch.sent(Side::Client);
    let mut late = sent.iter().filter(|packet| packet.at > begin + milliseconds(100)).peekable();
    assert!(late.peek().is_some());
    assert!(late.all(|packet| packet.has(ACK)));
}

/// A server that thinks for a minute is asked 200 ms, 400 ms, ... and then every 15 s, and answers with
/// ACKs alone.
#[test]
fn a_server_that_thinks_is_not_disturbed() {
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
    // The first data starts the waits anew, and the end ends them.
    pair.server().accept(Direction::Bidirectional).unwrap();
    pair.server().write_slice(stream, b"well").unwrap();
    pair.run_for(milliseconds(20));
    let mut received = Vec::new();
    assert!(!pair.read_all(stream, &mut received));
    let again = pair.now;
    pair.run_for(milliseconds(650));
    assert_eq!(pings(&pair, Side::Client, again), 2);
    pair.server().finish(stream).unwrap();
    pair.run_for(milliseconds(20));
    let end = pair.now;
    pair.run_for(seconds(100));
    assert_eq!(pings(&pair, Side::Client, end), 0);
}

/// An application that does not read is not waiting, whether its windows are full or not.
#[test]
fn an_application_that_does_not_read_sends_no_pings() {
    for size in [10_000, 5 << 20] {
        let mut pair = Pair::new(delayed(10, 1));
        pair.establish();
        let mut download = Download::of(&mut pair, size);
        // Once, so that it has asked to be told; from then on it only writes.
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

/// Streams on which nobody knows whether anything is owed: the peer's own, as those that HTTP/3 keeps
/// open, and one on which this end may still ask.
#[test]
fn two_ends_that_owe_nothing_are_silent() {
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

/// A client that only reads, behind a NAT that forgets it every two seconds, without a keep-alive: now a
/// late ACK shows the server where it is, now a PING.
#[test]
fn a_receiver_whose_nat_rebinds_is_found_again() {
    for address in [false, true] {
        for seed in 0..10 {
            let rebind = Rebind { first: milliseconds(300), every: Some(seconds(2)), address };
            let mut link = delayed(10, seed);
            link.to_client.rate = Some(Rate::from_bits_per_second(10_000_000));
            let mut pair = Pair::new(LinkConfig { rebind: Some(rebind), ..link });
            let took = pair.download(3 << 20, seconds(60));
            assert!(took.is_some_and(|took| took < seconds(10)), "{address}, {seed}: {took:?}");
            let moved = |event: &Event| matches!(event, Event::PeerMigrated(_));
            assert!(pair.server_events.iter().any(moved), "{address}, {seed}");
        }
    }
}

/// The NAT forgets the client while the server thinks. Nothing is under way that could tell the server,
/// and it would answer where nobody listens; but by then a PING has come from the new port.
#[test]
fn a_server_that_thinks_learns_of_a_rebinding() {
    for address in [false, true] {
        let rebind = Rebind { first: seconds(1), every: None, address };
        let mut pair = Pair::new(LinkConfig { rebind: Some(rebind), ..delayed(10, 1) });
        pair.establish();
        let mut download = Download::of(&mut pair, 1000);
        pair.run_for(seconds(5));
        let asked = pair.now;
        let done = pair.run_until(seconds(1), |pair| {
            download.go_on(pair);
            download.is_done
        });
        assert!(done, "{address}");
        assert_eq!(pair.now.saturating_since(asked), milliseconds(10), "{address}");
    }
}
