//! Tests that no data is lost in the two queues per direction between a task and the network.
//! Everything that a task passes in is sent, reported lost or rejected, and everything that arrives
//! reaches a task, even after the connection has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use clearway_transport::{DatagramOutcome, TransportConfig};
use clearway_units::Random;
use clearway_wire::VarInt;

use crate::wakes_tests::Raw;
use crate::wakes_tests::world::{DELAY, Scene, now_or_never};
use crate::{Connection, DatagramId, RecvStream, SendDatagramError, SendStream};

const SECOND: Duration = Duration::from_secs(1);

fn transport(drops_oldest: bool) -> TransportConfig {
    TransportConfig::builder()
        .max_datagram_frame_size(Some(1500))
        .datagram_send_limit(6)
        .datagram_drops_oldest(drops_oldest)
        .datagram_notices(true)
        .initial_stream_receive_window(20_000)
        .max_stream_receive_window(20_000)
        .initial_connection_receive_window(50_000)
        .max_connection_receive_window(50_000)
        .discover_path_mtu(false)
        .max_idle_timeout(None)
        .build()
        .unwrap()
}

/// Returns a pair whose path loses one packet in ten in each direction.
fn lossy(drops_oldest: bool, seed: u64) -> Raw {
    let mut raw = Raw::new(transport(drops_oldest));
    let mut random = Random::from_number(seed);
    raw.world.loss = Some(Box::new(move |_, _| random.below(10) == 0));
    raw
}

/// The numbers of the datagrams that a task has sent, by datagram ID, and how many datagrams were
/// rejected.
type Given = (BTreeMap<DatagramId, u64>, u64);

async fn give(client: Connection, seed: u64, waits: bool) -> Given {
    let (mut random, mut given, mut refused) = (Random::from_number(seed), BTreeMap::new(), 0);
    for number in 0..300_u64 {
        let payload = [&number.to_be_bytes()[..], &vec![0; random.below(1000) as usize]].concat();
        let (length, space) = (payload.len(), client.datagram_send_buffer_space());
        let sent = match waits {
            true => client.send_datagram_wait(Bytes::from(payload)).await,
            false => client.send_datagram(Bytes::from(payload)),
        };
        match sent {
            Ok(id) => {
                assert!(waits || length <= space, "{length} bytes in {space}");
                assert_eq!(given.insert(id, number), None, "{id} was given twice");
            }
            Err(SendDatagramError::QueueFull) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        if random.below(4) == 0 {
            tokio::task::yield_now().await;
        }
    }
    (given, refused)
}

/// All outcomes, in order of arrival.
type Outcomes = Arc<Mutex<Vec<(DatagramId, DatagramOutcome)>>>;

#[test]
fn each_datagram_has_an_outcome_and_what_is_acknowledged_was_read() {
    for seed in 0..12 {
        let (waits, drops_oldest) = (seed % 2 == 0, seed % 3 == 0);
        let mut raw = lossy(drops_oldest, seed);
        let outcomes = Outcomes::default();
        let (client, noted) = (raw.client.clone(), outcomes.clone());
        raw.world.spawn(async move {
            while let Ok(outcome) = client.datagram_outcome().await {
                noted.lock().unwrap().push(outcome);
            }
        });
        let read = Arc::<Mutex<BTreeSet<u64>>>::default();
        let (server, numbers) = (raw.server.clone(), read.clone());
        raw.world.spawn(async move {
            while let Ok(data) = server.read_datagram().await {
                let number = u64::from_be_bytes(data[..8].try_into().unwrap());
                assert!(numbers.lock().unwrap().insert(number), "{number} arrived twice");
            }
        });
        let giving = raw.world.spawn(give(raw.client.clone(), seed, waits));
        let (_, (given, refused)) = raw.world.wait(&giving, 60 * SECOND).unwrap();
        assert_eq!(given.len() as u64 + refused, 300);
        assert!(!waits || refused == 0, "datagrams are not rejected if the task waits");
        raw.world.run_for(30 * SECOND);
        let (outcomes, read) = (outcomes.lock().unwrap(), read.lock().unwrap());
        let mut last = BTreeMap::new();
        for (id, outcome) in outcomes.iter() {
            let before = last.insert(*id, *outcome);
            let is_late =
                before == Some(DatagramOutcome::Lost) && *outcome == DatagramOutcome::Acknowledged;
            assert!(before.is_none() || is_late, "{id}: {before:?}, then {outcome:?}");
        }
        assert_eq!(last.len(), given.len(), "seed {seed}: all have an outcome");
        for (id, outcome) in &last {
            let is_read = read.contains(&given[id]);
            match outcome {
                DatagramOutcome::Acknowledged => assert!(is_read, "{id} was acknowledged"),
                DatagramOutcome::Displaced | DatagramOutcome::Outgrown => {
                    assert!(!is_read, "{id} was not sent");
                }
                _ => {}
            }
        }
        let statistics = raw.client.datagram_statistics();
        let accounted = statistics.sent + statistics.displaced + statistics.outgrown;
        assert_eq!((accounted, statistics.queued), (given.len() as u64, 0), "{statistics:?}");
    }
}

/// The client closes while datagrams wait in both of its queues. They were neither sent nor dropped
/// as too large.
#[test]
fn what_waits_at_the_end_is_still_counted() {
    let mut raw = Raw::new(transport(false));
    raw.world.loss = Some(Box::new(|_, _| true));
    let mut given = 0;
    for _ in 0..100 {
        given += u64::from(raw.client.send_datagram(Bytes::from(vec![0; 1000])).is_ok());
        raw.world.settle();
    }
    // The transport has not accepted these datagrams yet.
    let other = Raw::new(transport(false));
    for _ in 0..3 {
        other.client.send_datagram(Bytes::from(vec![0; 10])).unwrap();
    }
    for (mut raw, given) in [(raw, given), (other, 3)] {
        raw.client.close(VarInt::ZERO, b"over");
        raw.world.run_for(SECOND);
        let statistics = raw.client.datagram_statistics();
        let accounted = statistics.sent + statistics.displaced + statistics.queued;
        assert_eq!((accounted, statistics.outgrown), (given, 0), "{statistics:?}");
    }
}

/// Tasks that start to read after the end can read everything that arrived before it.
#[test]
fn what_has_arrived_can_be_read_after_the_end() {
    for seed in 0..10 {
        let mut random = Random::from_number(seed);
        let mut raw = Raw::new(transport(false));
        let sizes = [random.below(6000), 1 + random.below(6000)].map(|size| size as usize);
        // This is more pieces than are taken from the transport in one call.
        let pieces = 60;
        let client = raw.client.clone();
        let mut streams = raw.get(async move {
            let mut streams = Vec::new();
            for size in sizes {
                let mut stream = client.open_uni().await.unwrap();
                stream.write_all(&vec![7; size]).await.unwrap();
                streams.push(stream);
            }
            streams
        });
        for _ in 0..pieces {
            now_or_never(streams[1].write_all(b"1")).unwrap().unwrap();
            raw.world.run_for(DELAY);
        }
        for datagram in ["first", "second"] {
            raw.client.send_datagram(Bytes::from(datagram)).unwrap();
        }
        raw.world.settle();
        // Everything arrives at the same time, or the end arrives after the rest.
        if seed % 2 == 0 {
            raw.world.run_for(SECOND);
        }
        raw.client.close(VarInt::from_u32(3), b"over");
        raw.world.run_for(SECOND);
        let server = &raw.server;
        assert!(server.close_reason().is_some());
        for datagram in ["first", "second"] {
            assert_eq!(now_or_never(server.read_datagram()).unwrap().unwrap(), datagram);
        }
        now_or_never(server.read_datagram()).unwrap().unwrap_err();
        let mut read = Vec::new();
        while let Ok(mut stream) = now_or_never(server.accept_uni()).unwrap() {
            let mut length = 0;
            let error = loop {
                match now_or_never(stream.read_chunk(usize::MAX)).unwrap() {
                    Ok(Some(chunk)) => length += chunk.len(),
                    Ok(None) => panic!("the stream was not finished"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, crate::ReadError::ConnectionLost(_)), "{error:?}");
            read.push(length);
        }
        // An empty stream never appears at the receiver.
        let sizes = [sizes[0], sizes[1] + pieces];
        let sent: Vec<usize> = sizes.into_iter().filter(|size| *size > 0).collect();
        assert_eq!(read, sent, "{seed}");
        drop(streams);
    }
}

/// Whatever packets the path drops, a stream whose delivery is confirmed was read completely, and a
/// stream that was reset ends with the error code.
#[test]
fn streams_arrive_whole_or_end_with_an_error() {
    for seed in 0..8 {
        let mut raw = lossy(false, seed);
        let mut random = Random::from_number(seed);
        let sizes: Vec<usize> = (0..20).map(|_| random.below(60_000) as usize).collect();
        let server = raw.server.clone();
        let reading = raw.world.spawn(async move {
            let mut read = Vec::new();
            while let Ok(mut stream) = server.accept_uni().await {
                read.push((stream.id(), stream.read_to_end(1 << 20).await));
            }
            read
        });
        let client = raw.client.clone();
        let writing = raw.world.spawn(async move {
            let mut written = BTreeMap::new();
            for (number, size) in sizes.into_iter().enumerate() {
                let mut stream = client.open_uni().await.unwrap();
                stream.write_all(&vec![number as u8; size]).await.unwrap();
                if number % 5 == 4 {
                    stream.reset(VarInt::from_u32(9)).unwrap();
                } else {
                    stream.finish().unwrap();
                    assert_eq!(stream.stopped().await, Ok(None));
                }
                written.insert(stream.id(), (number as u8, size));
            }
            client.close(VarInt::ZERO, b"");
            written
        });
        let (_, written) = raw.world.wait(&writing, 600 * SECOND).unwrap();
        let (_, read) = raw.world.wait(&reading, 60 * SECOND).unwrap();
        for (id, outcome) in read {
            let (number, size) = written[&id];
            match outcome {
                Ok(data) => assert_eq!(data, vec![number; size], "{id}"),
                Err(error) => assert_eq!(number % 5, 4, "{id}: {error}"),
            }
        }
    }
}

/// No matter which endpoint abandons a stream, and how, neither endpoint keeps any state for it.
#[test]
fn nothing_is_kept_of_streams_that_are_over() {
    let code = VarInt::from_u32(9);
    let ways: [fn(&mut SendStream, &mut RecvStream, VarInt); 5] = [
        |sending, _, _| sending.finish().unwrap(),
        |sending, _, code| sending.reset(code).unwrap(),
        |_, receiving, code| receiving.stop(code).unwrap(),
        |sending, receiving, code| {
            sending.reset(code).unwrap();
            receiving.stop(code).unwrap();
        },
        |_, _, _| {},
    ];
    for (way, end) in ways.into_iter().enumerate() {
        for seed in 0..4 {
            let mut raw = if seed == 0 { Raw::new(transport(false)) } else { lossy(false, seed) };
            for _ in 0..5 {
                let (mut sending, mut receiving) = raw.stream();
                now_or_never(sending.write_all(&[0; 1000])).unwrap().unwrap();
                raw.world.run_for(SECOND);
                end(&mut sending, &mut receiving, code);
                drop(sending);
                if seed % 2 == 0 {
                    raw.world.run_for(SECOND);
                }
                drop(receiving);
                raw.world.run_for(10 * SECOND);
            }
            let kept = [&raw.client, &raw.server].map(Connection::kept_streams);
            assert_eq!(kept, [0, 0], "way {way}, seed {seed}");
        }
    }
}
