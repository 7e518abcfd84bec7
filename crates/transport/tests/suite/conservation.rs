//! Tests that nothing is lost between two queues. Everything accepted for sending was sent, or
//! reported as lost or dropped. Everything received can be read, even after the end of the
//! connection, or was discarded with an error that the reader gets.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Pair, delayed, lossy, milliseconds, pattern, quiet, seconds};
use bytes::Bytes;
use clearway_transport::{
    Connection, DatagramError, DatagramId, DatagramOutcome, Event, ReadError, ReadOutcome,
    TransportConfig,
};
use clearway_units::Random;
use clearway_wire::{Direction, StreamId, VarInt};

const CODE: VarInt = VarInt::from_u32(7);

/// Returns a configuration with small datagram queues, which either drop the oldest datagrams or
/// reject the newest.
fn config(drops_oldest: bool, receive_limit: usize) -> TransportConfig {
    quiet()
        .to_builder()
        .max_datagram_frame_size(Some(1500))
        .datagram_send_limit(5)
        .datagram_receive_limit(receive_limit)
        .datagram_drops_oldest(drops_oldest)
        .datagram_notices(true)
        .initial_stream_receive_window(20_000)
        .max_stream_receive_window(20_000)
        .initial_connection_receive_window(50_000)
        .max_connection_receive_window(50_000)
        .max_concurrent_unidirectional_streams(4)
        .reset_stream_at(true)
        .build()
        .unwrap()
}

/// The outcomes of one endpoint's datagrams.
#[derive(Default)]
struct Datagrams {
    /// Accepted datagrams, each with the number in its payload.
    accepted: BTreeMap<DatagramId, u64>,
    outcomes: BTreeMap<DatagramId, Vec<DatagramOutcome>>,
    refused: u64,
    /// The numbers of the peer's datagrams that were read.
    read: BTreeSet<u64>,
}

impl Datagrams {
    fn send(&mut self, connection: &mut Connection, number: u64, size: usize) {
        let payload = [&number.to_be_bytes()[..], &vec![0; size]].concat();
        match connection.send_datagram(Bytes::from(payload)) {
            Ok(id) => assert_eq!(self.accepted.insert(id, number), None, "{id} was assigned twice"),
            Err(DatagramError::QueueFull | DatagramError::ConnectionClosed) => self.refused += 1,
            Err(error) => panic!("{error}"),
        }
    }

    fn receive(&mut self, connection: &mut Connection) {
        while let Some(data) = connection.receive_datagram() {
            let number = u64::from_be_bytes(data[..8].try_into().unwrap());
            assert!(self.read.insert(number), "{number} arrived twice");
        }
    }

    fn note(&mut self, events: &mut Vec<Event>) {
        events.retain(|event| {
            if let Event::DatagramSettled { id, outcome } = event {
                self.outcomes.entry(*id).or_default().push(*outcome);
                return false;
            }
            true
        });
    }

    /// Checks the records of one endpoint at any point in time. `peer` is the other endpoint.
    fn check(&self, connection: &Connection, peer: &Self, of_peer: &Connection) {
        let (own, others) = (connection.datagram_statistics(), of_peer.datagram_statistics());
        let accounted = own.sent + own.displaced + own.outgrown + own.queued;
        assert_eq!(self.accepted.len() as u64, accounted, "{own:?}");
        assert!(own.sent >= others.received, "{own:?}, {others:?}");
        for (id, outcomes) in &self.outcomes {
            assert!(self.accepted.contains_key(id), "an outcome of {id}, which is unknown");
            let is_late = outcomes[..] == [DatagramOutcome::Lost, DatagramOutcome::Acknowledged];
            assert!(outcomes.len() == 1 || is_late, "{id}: {outcomes:?}");
        }
        let of = |outcome: &DatagramOutcome| {
            self.outcomes.values().filter(|all| all.contains(outcome)).count() as u64
        };
        let reported = [
            of(&DatagramOutcome::Acknowledged),
            of(&DatagramOutcome::Lost),
            of(&DatagramOutcome::Displaced),
            of(&DatagramOutcome::Outgrown),
        ];
        let counted = [own.acknowledged, own.lost, own.displaced, own.outgrown];
        assert_eq!(reported, counted, "the outcomes, and what was counted");
        // Everything that was read had been sent.
        let is_unsent = |all: &Vec<DatagramOutcome>| {
            all.contains(&DatagramOutcome::Displaced) || all.contains(&DatagramOutcome::Outgrown)
        };
        for (id, number) in &self.accepted {
            let is_unsent = self.outcomes.get(id).is_some_and(is_unsent);
            assert!(!(is_unsent && peer.read.contains(number)), "{id} was sent after all");
        }
    }

    /// Checks at the end that every datagram has an outcome, and that all acknowledged data was
    /// read unless the reader was too slow.
    fn check_end(&self, connection: &Connection, peer: &Self, of_peer: &Connection) {
        let own = connection.datagram_statistics();
        assert_eq!(own.queued, 0, "{own:?}");
        assert_eq!(self.outcomes.len(), self.accepted.len(), "all have an outcome");
        let others = of_peer.datagram_statistics();
        assert_eq!(peer.read.len() as u64 + others.dropped, others.received, "{others:?}");
        if others.dropped == 0 {
            for (id, outcomes) in &self.outcomes {
                let is_there = peer.read.contains(&self.accepted[id]);
                assert!(is_there || !outcomes.contains(&DatagramOutcome::Acknowledged), "{id}");
                assert!(!is_there || outcomes.contains(&DatagramOutcome::Acknowledged), "{id}");
            }
        }
    }
}

/// How the writer of a stream has ended it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    No,
    Finished,
    Reset,
    /// The stream was reset, but this many bytes are still delivered.
    ResetAt(u64),
}

/// A stream from the client to the server.
struct Stream {
    id: StreamId,
    written: u64,
    ended: Ended,
    is_stopped: bool,
    read: u64,
    end: Option<Result<(), VarInt>>,
}

/// Both endpoints, and their actions.
struct Model {
    pair: Pair,
    random: Random,
    datagrams: [Datagrams; 2],
    streams: Vec<Stream>,
    next: u64,
}

impl Model {
    fn new(seed: u64, drops_oldest: bool, receive_limit: usize) -> Self {
        let config = || config(drops_oldest, receive_limit);
        let mut pair = Pair::with(lossy(8.0, 10, seed), config(), config());
        pair.establish();
        let random = Random::from_number(seed);
        Self { pair, random, datagrams: Default::default(), streams: Vec::new(), next: 0 }
    }

    fn act(&mut self) {
        match self.random.below(12) {
            0..=3 => {
                self.next += 1;
                let (size, side) = (self.random.below(1000) as usize, self.random.below(2));
                let [client, server] = &mut self.datagrams;
                match side {
                    0 => client.send(self.pair.client(), self.next, size),
                    _ => server.send(self.pair.server(), self.next, size),
                }
            }
            4 => {
                if let Some(id) = self.pair.client().open(Direction::Unidirectional) {
                    let (ended, end) = (Ended::No, None);
                    let stream = Stream { id, written: 0, ended, is_stopped: false, read: 0, end };
                    self.streams.push(stream);
                }
            }
            5..=7 => self.write(),
            8 => self.end_stream(),
            9 => self.stop(),
            _ => self.read(),
        }
    }

    fn pick(&mut self) -> Option<usize> {
        let count = self.streams.len().min(6) as u64;
        (count > 0).then(|| self.streams.len() - 1 - self.random.below(count) as usize)
    }

    fn write(&mut self) {
        let Some(at) = self.pick() else { return };
        let size = self.random.below(8000);
        let stream = &mut self.streams[at];
        if stream.ended != Ended::No {
            return;
        }
        let data = pattern((stream.written + size) as usize).slice(stream.written as usize..);
        if let Ok(taken) = self.pair.client().write(stream.id, data) {
            stream.written += taken as u64;
        }
    }

    fn end_stream(&mut self) {
        let Some(at) = self.pick() else { return };
        let choice = self.random.below(4);
        let stream = &mut self.streams[at];
        if stream.ended != Ended::No {
            return;
        }
        let client = self.pair.client();
        let half = stream.written / 2;
        stream.ended = match choice {
            0 if client.reset(stream.id, CODE).is_ok() => Ended::Reset,
            1 if half > 0 && client.reset_at(stream.id, CODE, half).is_ok() => Ended::ResetAt(half),
            2.. if client.finish(stream.id).is_ok() => Ended::Finished,
            _ => return,
        };
    }

    fn stop(&mut self) {
        let Some(at) = self.pick() else { return };
        let (now, is_chosen) = (self.pair.now, self.random.below(6) == 0);
        let stream = &mut self.streams[at];
        if is_chosen && self.pair.server().stop_sending(now, stream.id, CODE).is_ok() {
            stream.is_stopped = true;
        }
    }

    fn read(&mut self) {
        let [client, server] = &mut self.datagrams;
        client.receive(self.pair.client());
        server.receive(self.pair.server());
        while self.pair.server().accept(Direction::Unidirectional).is_some() {}
        for stream in &mut self.streams {
            read_stream(&mut self.pair, stream);
        }
    }

    fn check(&mut self) {
        let [client, server] = &mut self.datagrams;
        client.note(&mut self.pair.client_events);
        server.note(&mut self.pair.server_events);
        let (ends, handle) = (&self.pair, self.pair.accepted[0]);
        let of_client = ends.client.connection(ends.handle).unwrap();
        let of_server = ends.server.connection(handle).unwrap();
        client.check(of_client, server, of_server);
        server.check(of_server, client, of_client);
    }

    /// Checks that everything that can be delivered was delivered.
    fn check_end(&mut self) {
        for stream in &self.streams {
            let Stream { id, written, ended, is_stopped, read, end } = stream;
            if *is_stopped {
                continue;
            }
            match (ended, end) {
                (Ended::No, None) => assert_eq!(read, written, "{id}"),
                (Ended::Finished, Some(Ok(()))) => assert_eq!(read, written, "{id}"),
                (Ended::Reset, Some(Err(code))) => assert_eq!(*code, CODE, "{id}"),
                (Ended::ResetAt(size), Some(Err(code))) => {
                    assert_eq!(*code, CODE, "{id}");
                    assert!(read >= size, "{id}: {read} of {size} bytes");
                }
                // All data was delivered before the reset.
                (Ended::Reset | Ended::ResetAt(_), Some(Ok(()))) => panic!("{id} was not finished"),
                other => panic!("{id}: {other:?}, {read} of {written} bytes"),
            }
        }
        let [client, server] = &self.datagrams;
        let (ends, handle) = (&self.pair, self.pair.accepted[0]);
        let of_client = ends.client.connection(ends.handle).unwrap();
        let of_server = ends.server.connection(handle).unwrap();
        client.check_end(of_client, server, of_server);
        server.check_end(of_server, client, of_client);
        let (sent, received) = (of_client.streams_statistics(), of_server.streams_statistics());
        assert_eq!(sent.bytes_buffered, 0, "{sent:?}");
        // Only the state of open streams remains, because all credit was returned.
        assert!(of_server.held_bytes() <= 512 * received.open, "{received:?}");
        assert_eq!(sent.bytes_sent, received.bytes_received, "{sent:?}, {received:?}");
    }
}

/// Reads the available data of a stream, and checks that it is what was written.
fn read_stream(pair: &mut Pair, stream: &mut Stream) {
    let now = pair.now;
    while stream.end.is_none() && !stream.is_stopped {
        match pair.server().read(now, stream.id, usize::MAX) {
            Ok(ReadOutcome::Data(data)) => {
                let expected = pattern((stream.read as usize) + data.len());
                assert_eq!(data, expected[stream.read as usize..], "{}", stream.id);
                stream.read += data.len() as u64;
            }
            Ok(ReadOutcome::Finished) => stream.end = Some(Ok(())),
            Err(ReadError::Reset(code)) => stream.end = Some(Err(code)),
            Ok(ReadOutcome::Blocked) | Err(_) => return,
        }
    }
}

/// Random use of datagrams and streams over a lossy path.
#[test]
fn what_is_accepted_is_sent_or_reported_and_what_is_received_can_be_read() {
    for seed in 0..24 {
        let (drops_oldest, receive_limit) = (seed % 2 == 0, [3, 1 << 14][seed as usize / 2 % 2]);
        let mut model = Model::new(seed, drops_oldest, receive_limit);
        for _ in 0..150 {
            for _ in 0..=model.random.below(4) {
                model.act();
            }
            let pause = model.random.below(15);
            model.pair.run_for(milliseconds(pause));
            model.check();
        }
        for _ in 0..200 {
            model.read();
            model.pair.run_for(milliseconds(50));
            model.check();
        }
        model.read();
        model.check_end();
    }
}

/// The client writes, sends datagrams and closes; the server begins to read after it has learned
/// that the connection ended. All data sent before the end can be read.
#[test]
fn what_came_before_the_end_can_be_read_after_it() {
    for seed in 0..20 {
        let mut pair =
            Pair::with(delayed(10, seed), config(false, 1 << 14), config(false, 1 << 14));
        pair.establish();
        let mut random = Random::from_number(seed);
        let mut datagrams = [Datagrams::default(), Datagrams::default()];
        let mut streams = Vec::new();
        for number in 0..3 {
            let id = pair.client().open(Direction::Unidirectional).unwrap();
            let written = random.below(5000);
            assert_eq!(pair.client().write(id, pattern(written as usize)), Ok(written as usize));
            let ended = if number == 1 { Ended::Finished } else { Ended::No };
            if ended == Ended::Finished {
                pair.client().finish(id).unwrap();
            }
            streams.push(Stream { id, written, ended, is_stopped: false, read: 0, end: None });
            datagrams[0].send(pair.client(), number, 100);
        }
        // Everything happens at the same time, or the end follows after the rest.
        let pause = if seed % 2 == 0 { 0 } else { random.below(30) };
        pair.run_for(milliseconds(pause));
        pair.settle();
        let sent = pair.client().streams_statistics().bytes_sent;
        let of_datagrams = pair.client().datagram_statistics().sent;
        let now = pair.now;
        pair.client().close(now, CODE, b"over");
        pair.run_for(seconds(1));
        let is_end = |event: &Event| matches!(event, Event::Closed(_));
        let news: Vec<_> = pair.server_events.iter().collect();
        assert!(news.last().is_some_and(|event| is_end(event)), "{news:?}");
        let announced = |event: &Event| pair.server_events.contains(event);
        assert!(announced(&Event::Opened(Direction::Unidirectional)));
        assert!(announced(&Event::DatagramReceived));
        while pair.server().accept(Direction::Unidirectional).is_some() {}
        for stream in &mut streams {
            read_stream(&mut pair, stream);
        }
        datagrams[1].receive(pair.server());
        assert_eq!(streams.iter().map(|stream| stream.read).sum::<u64>(), sent, "{seed}");
        assert_eq!(datagrams[1].read.len() as u64, of_datagrams, "{seed}");
    }
}
