//! Tests that every waiting task continues as soon as its condition holds: immediately for local
//! actions, and after a one-way delay or a round trip for actions of the peer. No task depends on a
//! timer or a later packet to be woken.

pub(crate) mod world;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clearway_io::Application;
use clearway_transport::{ConnectionError, DatagramOutcome, TransportConfig};
use clearway_wire::VarInt;

use self::world::{Configs, Count, DELAY, Outcome, Scene, Side, Wakes, World, now_or_never};
use crate::driver::Driver;
use crate::streams::Shared;
use crate::{Connecting, Connection, RecvStream, SendStream};

const CODE: VarInt = VarInt::from_u32(7);
const SECOND: Duration = Duration::from_secs(1);
/// The fixed windows of streams and of the connection.
const STREAM_WINDOW: usize = 64 << 10;
const CONNECTION_WINDOW: usize = 96 << 10;

/// Small windows, two streams of each kind, and four datagrams in a queue.
fn small() -> TransportConfig {
    TransportConfig::builder()
        .initial_stream_receive_window(STREAM_WINDOW as u64)
        .max_stream_receive_window(STREAM_WINDOW as u64)
        .initial_connection_receive_window(CONNECTION_WINDOW as u64)
        .max_connection_receive_window(CONNECTION_WINDOW as u64)
        .max_concurrent_bidirectional_streams(2)
        .max_concurrent_unidirectional_streams(3)
        .max_datagram_frame_size(Some(1500))
        .datagram_send_limit(4)
        .datagram_notices(true)
        .discover_path_mtu(false)
        .build()
        .unwrap()
}

/// A connected client and server.
pub(crate) struct Raw {
    pub(crate) world: World,
    pub(crate) client: Connection,
    pub(crate) server: Connection,
}

/// Returns a world with a client that begins to connect, and both ends of its connection.
pub(crate) fn begin(configs: &Configs) -> (World, [Connecting; 2]) {
    let shared = [Shared::new(None), Shared::new(None)];
    let side = |shared: &Arc<Shared>| -> Side {
        let application: Box<dyn Application> = Box::new(Driver::new(shared.clone()));
        (application, shared.clone() as Arc<dyn Wakes>)
    };
    let world = World::with(configs, shared.each_ref().map(side));
    let remote = "127.0.0.1:443".parse().unwrap();
    (world, shared.map(|shared| Connecting::new(shared, remote)))
}

impl Raw {
    pub(crate) fn new(transport: TransportConfig) -> Self {
        let (mut world, connecting) = begin(&Configs::new(b"test", transport));
        let connecting = connecting.map(|it| world.spawn(it));
        world.run_for(SECOND);
        let [client, server] = connecting.map(|it| it.take().unwrap().1.unwrap());
        Self { world, client, server }
    }

    /// Returns a unidirectional stream on which the server has sent the first byte, and the
    /// client's receiving half, from which that byte was read.
    pub(crate) fn stream(&mut self) -> (SendStream, RecvStream) {
        let (client, server) = (self.client.clone(), self.server.clone());
        let sending = self.get(async move {
            let mut sending = server.open_uni().await.unwrap();
            sending.write_all(b"1").await.unwrap();
            sending
        });
        let receiving = self.get(async move {
            let mut receiving = client.accept_uni().await.unwrap();
            assert_eq!(receiving.read_chunk(1).await.unwrap().unwrap(), b"1"[..]);
            receiving
        });
        self.world.run_for(SECOND);
        (sending, receiving)
    }
}

impl Scene for Raw {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }
}

/// Returns a pair, and an idle stream from server to client.
fn with_stream() -> (Raw, SendStream, RecvStream) {
    let mut raw = Raw::new(small());
    let (sending, receiving) = raw.stream();
    (raw, sending, receiving)
}

#[test]
fn a_reader_continues_with_data_an_end_and_a_reset() {
    let (mut raw, mut sending, mut receiving) = with_stream();
    let reading = async move {
        let read = receiving.read_chunk(9).await;
        (receiving, read)
    };
    let (mut receiving, read) = raw.expect(1, reading, |raw| {
        let writing = now_or_never(sending.write_all(b"2"));
        writing.unwrap().unwrap();
        raw.world.settle();
    });
    assert_eq!(read.unwrap().unwrap(), b"2"[..]);
    let reading = async move { receiving.read_chunk(9).await };
    let read = raw.expect(1, reading, |_| sending.finish().unwrap());
    assert_eq!(read, Ok(None));

    let (mut raw, mut sending, mut receiving) = with_stream();
    let reading = async move { receiving.read_chunk(9).await };
    let read = raw.expect(1, reading, |_| sending.reset(CODE).unwrap());
    assert_eq!(read, Err(crate::ReadError::Reset(CODE)));

    let (mut raw, sending, mut receiving) = with_stream();
    let reading = async move { receiving.read_chunk(9).await };
    assert_eq!(raw.expect(1, reading, |_| drop(sending)), Ok(None));
}

#[test]
fn a_writer_continues_when_the_peer_reads_and_fails_when_it_does_not_want_more() {
    /// Returns a blocked writer, which has filled all windows and buffers between it and the
    /// reader.
    fn blocked() -> (Raw, Outcome<Result<(), crate::WriteError>>, RecvStream) {
        let (mut raw, mut sending, receiving) = with_stream();
        let writing = async move {
            let data = vec![0; 2 << 20];
            let written = sending.write_all(&data).await;
            std::mem::forget(sending);
            written
        };
        let outcome = raw.world.spawn(writing);
        raw.world.run_for(SECOND);
        (raw, outcome, receiving)
    }

    let (mut raw, outcome, mut receiving) = blocked();
    raw.expect_of(1, &outcome, |_| receiving.stop(CODE).unwrap()).unwrap_err();
    let (mut raw, outcome, receiving) = blocked();
    raw.expect_of(1, &outcome, |_| drop(receiving)).unwrap_err();
    let (mut raw, outcome, _receiving) = blocked();
    raw.expect_of(1, &outcome, |raw| raw.client.close(CODE, b"over")).unwrap_err();
    let (mut raw, outcome, _receiving) = blocked();
    raw.expect_of(0, &outcome, |raw| raw.server.close(CODE, b"over")).unwrap_err();

    // The transfer proceeds by one window per round trip.
    let (mut raw, outcome, mut receiving) = blocked();
    let reading = raw.world.spawn(async move {
        let mut read = 0;
        while read < 2 << 20 {
            read += receiving.read_chunk(1 << 20).await.unwrap().unwrap().len();
        }
    });
    let limit = DELAY * 2 * (2 << 20) as u32 / STREAM_WINDOW as u32;
    let (took, ()) = raw.world.wait(&reading, 30 * SECOND).unwrap();
    assert!(took <= limit * 5 / 4, "{took:?} instead of {limit:?}");
    outcome.take().unwrap().1.unwrap();
}

#[test]
fn streams_can_be_opened_when_the_peer_has_ended_one() {
    for drops in [false, true] {
        let mut raw = Raw::new(small());
        let mut streams: Vec<_> = (0..3).map(|_| raw.stream()).collect();
        for (sending, _) in &mut streams {
            sending.finish().unwrap();
        }
        let server = raw.server.clone();
        let opening = async move { server.open_uni().await.map(|_| ()) };
        let (_sending, mut receiving) = streams.pop().unwrap();
        let opened = raw.expect(1, opening, |raw| match drops {
            true => drop(receiving),
            false => drop(raw.world.spawn(async move {
                assert_eq!(receiving.read_chunk(1).await, Ok(None));
                std::mem::forget(receiving);
            })),
        });
        opened.unwrap();
    }
    // A stream that was opened for a dropped future is given to another one.
    let mut raw = Raw::new(small());
    let mut streams: Vec<_> = (0..3).map(|_| raw.stream()).collect();
    let (server, other) = (raw.server.clone(), raw.server.clone());
    let mut abandoned = Box::pin(async move { server.open_uni().await.is_ok() });
    assert_eq!(now_or_never(&mut abandoned), None);
    let opening = raw.world.spawn(async move { other.open_uni().await.map(|_| ()) });
    raw.world.run_for(SECOND);
    let (mut sending, receiving) = streams.pop().unwrap();
    sending.finish().unwrap();
    drop(receiving);
    raw.world.run_for(SECOND);
    raw.expect_of(0, &opening, |_| drop(abandoned)).unwrap();
}

#[test]
fn acceptors_and_readers_of_datagrams_continue() {
    let mut raw = Raw::new(small());
    let (client, server) = (raw.client.clone(), raw.server.clone());
    let accepting = async move { server.accept_bi().await.map(|_| ()) };
    let accepted = raw.expect(1, accepting, |raw| {
        raw.get(async move {
            let (mut sending, receiving) = client.open_bi().await.unwrap();
            sending.write_all(b"1").await.unwrap();
            std::mem::forget((sending, receiving));
        });
    });
    accepted.unwrap();
    let server = raw.server.clone();
    let datagram = raw.expect(1, async move { server.read_datagram().await }, |raw| {
        raw.client.send_datagram(Bytes::from_static(b"datagram")).unwrap();
    });
    assert_eq!(datagram.unwrap(), b"datagram"[..]);
}

#[test]
fn the_end_of_a_connection_reaches_those_who_wait() {
    let mut raw = Raw::new(small());
    let server = raw.server.clone();
    let ended = raw.expect(1, async move { server.closed().await }, |raw| {
        raw.client.close(CODE, b"over");
    });
    assert!(matches!(ended, ConnectionError::ApplicationClosed { .. }));
    let mut raw = Raw::new(small());
    let client = raw.client.clone();
    let ended = raw.expect(0, async move { client.closed().await }, |raw| {
        raw.client.close(CODE, b"over");
    });
    assert_eq!(ended, ConnectionError::LocallyClosed);
    let Raw { mut world, client, server } = Raw::new(small());
    let waiting = world.spawn(async move { server.read_datagram().await });
    world.run_for(SECOND);
    drop(client);
    let (took, ended) = world.wait(&waiting, SECOND).unwrap();
    assert!(ended.is_err());
    assert_eq!(took, DELAY);
}

/// More datagrams than the queue holds are sent immediately: each batch makes room for the next.
#[test]
fn datagrams_that_wait_for_room_follow_those_that_have_left() {
    let mut raw = Raw::new(small());
    let (client, sent) = (raw.client.clone(), Count::default());
    let counted = sent.clone();
    let sending = raw.world.spawn(async move {
        for _ in 0..50 {
            client.send_datagram_wait(Bytes::from_static(b"datagram")).await.unwrap();
            counted.add(1);
        }
    });
    let done = raw.world.wait(&sending, SECOND).map(|(took, ())| took);
    assert_eq!(done, Some(Duration::ZERO), "{} were sent", sent.get());

    // Two tasks, one of which sends large datagrams: room for the other task's datagrams is not
    // enough for the large ones.
    let large = TransportConfig::builder()
        .max_datagram_frame_size(Some(1500))
        .datagram_send_buffer(2000)
        .build()
        .unwrap();
    let mut raw = Raw::new(large);
    let tasks = [1000, 10].map(|size| {
        let client = raw.client.clone();
        raw.world.spawn(async move {
            for _ in 0..5 {
                client.send_datagram_wait(Bytes::from(vec![0; size])).await.unwrap();
            }
        })
    });
    raw.world.settle();
    let at_once = tasks.map(|task| task.take().is_some());
    assert_eq!(
        at_once, [true; 2],
        "datagrams that fit in the congestion window are sent immediately"
    );
}

/// With every packet lost, no incoming packet can wake a task.
#[test]
fn outcomes_of_displaced_datagrams_are_reported_at_once() {
    let transport = small().to_builder().datagram_drops_oldest(true).build().unwrap();
    let mut raw = Raw::new(transport.clone());
    let waiting = raw.client.clone();
    let waiting = async move { waiting.datagram_outcome().await };
    let outcome = raw.expect(0, waiting, |raw| {
        for _ in 0..5 {
            raw.client.send_datagram(Bytes::from_static(b"datagram")).unwrap();
        }
    });
    assert!(matches!(outcome, Ok((_, DatagramOutcome::Displaced))), "{outcome:?}");

    // The congestion window is full, so datagrams wait in the transport.
    let mut raw = Raw::new(transport);
    raw.world.loss = Some(Box::new(|_, _| true));
    for _ in 0..40 {
        raw.client.send_datagram(Bytes::from(vec![0; 1000])).unwrap();
        raw.world.settle();
    }
    raw.world.settle();
    let client = raw.client.clone();
    let earlier = raw.get(async move {
        let mut earlier = Vec::new();
        while let Some(next) = now_or_never(client.datagram_outcome()) {
            earlier.push(next.unwrap());
        }
        earlier
    });
    let waiting = raw.client.clone();
    let waiting = raw.world.spawn(async move { waiting.datagram_outcome().await });
    raw.world.settle();
    let outcome = raw.expect_of(0, &waiting, |raw| {
        raw.client.send_datagram(Bytes::from(vec![0; 1000])).unwrap();
    });
    assert!(matches!(outcome, Ok((_, DatagramOutcome::Displaced))), "{outcome:?}, {earlier:?}");
}

#[test]
fn credit_is_passed_on_at_once() {
    // The peer reads.
    let (mut raw, mut sending, mut receiving) = with_stream();
    let sending = raw.get(async move {
        let credit = sending.credit(usize::MAX).await.unwrap();
        sending.write_all(&vec![0; credit]).await.unwrap();
        sending
    });
    raw.world.run_for(SECOND);
    let mut sending = sending;
    let waiting = async move {
        let credit = sending.credit(usize::MAX).await;
        std::mem::forget(sending);
        credit
    };
    let credit = raw.expect(1, waiting, |raw| {
        raw.get(async move {
            let mut left = STREAM_WINDOW - 1;
            while left > 0 {
                left -= receiving.read_chunk(left).await.unwrap().unwrap().len();
            }
            std::mem::forget(receiving);
        });
    });
    assert!(credit.unwrap() > 0);

    // Another stream ends without using all of its share of the connection's credit.
    let mut raw = Raw::new(small());
    let (mut first, _first) = raw.stream();
    let (mut second, _second) = raw.stream();
    let first = raw.get(async move {
        assert!(first.credit(usize::MAX).await.unwrap() > STREAM_WINDOW / 2);
        first
    });
    let waiting = async move {
        let granted = second.credit(usize::MAX).await.unwrap();
        second.write_all(&vec![0; granted]).await.unwrap();
        let credit = second.credit(1).await;
        std::mem::forget(second);
        credit
    };
    let mut first = first;
    let credit = raw.expect(0, waiting, |_| first.reset(CODE).unwrap());
    assert!(credit.unwrap() > 0);

    // The peer reads another stream, which has used up the connection's credit. No written data is
    // waiting for that credit.
    let mut raw = Raw::new(small());
    let (mut first, mut reading) = raw.stream();
    let (mut second, _of_second) = raw.stream();
    let first = raw.get(async move {
        let credit = first.credit(usize::MAX).await.unwrap();
        first.write_all(&vec![0; credit]).await.unwrap();
        first
    });
    let rest = CONNECTION_WINDOW - STREAM_WINDOW - 1;
    let second = raw.get(async move {
        second.write_all(&vec![0; rest]).await.unwrap();
        second
    });
    raw.world.run_for(SECOND);
    let mut second = second;
    let waiting = async move {
        let credit = second.credit(usize::MAX).await;
        std::mem::forget(second);
        credit
    };
    let credit = raw.expect(1, waiting, |raw| {
        raw.get(async move {
            let mut left = STREAM_WINDOW - 1;
            while left > 0 {
                left -= reading.read_chunk(left).await.unwrap().unwrap().len();
            }
            std::mem::forget(reading);
        });
    });
    assert!(credit.unwrap() > 0);
    drop(first);
}

/// Both streams have buffered data that the network does not accept. When one is reset, its room
/// becomes available to the other immediately.
#[test]
fn a_reset_makes_room_for_other_writers() {
    let transport = TransportConfig::builder()
        .initial_window(Some(1 << 20))
        .initial_stream_receive_window(16 << 20)
        .initial_connection_receive_window(32 << 20)
        .build()
        .unwrap();
    let mut raw = Raw::new(transport);
    let (mut first, _first) = raw.stream();
    let (mut second, _second) = raw.stream();
    raw.world.loss = Some(Box::new(|_, _| true));
    let (reset, is_reset) = tokio::sync::oneshot::channel::<()>();
    raw.world.spawn(async move {
        let data = vec![0; 16 << 20];
        tokio::select! {
            _ = first.write_all(&data) => panic!("everything has room"),
            _ = is_reset => first.reset(CODE).unwrap(),
        }
        std::mem::forget(first);
    });
    raw.world.settle();
    let writing = raw.world.spawn(async move {
        let written = second.write_all(&vec![0; 3 << 20]).await;
        std::mem::forget(second);
        written
    });
    raw.world.settle();
    raw.expect_of(0, &writing, |_| reset.send(()).unwrap()).unwrap();
}

/// One stream has a small part of the connection's window, and streams that nobody reads have the
/// rest. A reader waiting on that stream gets more data, although it has read less than usually
/// triggers a window update (RFC 9000 §4.1: a receiver must not wait for DATA_BLOCKED).
#[test]
fn a_reader_gets_more_although_others_fill_the_connections_window() {
    for part in [100, 8 << 10] {
        let (mut raw, mut sending, mut receiving) = with_stream();
        let (mut other, _other) = raw.stream();
        let (mut third, _third) = raw.stream();
        let sending = raw.get(async move {
            sending.write_all(&vec![0; part]).await.unwrap();
            sending
        });
        raw.world.run_for(SECOND);
        // Each stream has received one byte. None of the other streams is waiting for more credit.
        let of_third = CONNECTION_WINDOW - 3 - part - (STREAM_WINDOW - 1);
        for (stream, size) in [(&mut other, STREAM_WINDOW - 1), (&mut third, of_third)] {
            now_or_never(stream.write_all(&vec![0; size])).unwrap().unwrap();
        }
        raw.world.run_for(SECOND);
        let mut sending = sending;
        now_or_never(sending.write_all(b"more")).unwrap().unwrap();
        // Wait long enough for DATA_BLOCKED to become rare.
        raw.world.run_for(20 * SECOND);
        let reading = raw.world.spawn(async move {
            let mut left = part + 4;
            while left > 0 {
                left -= receiving.read_chunk(left).await.unwrap().unwrap().len();
            }
            std::mem::forget(receiving);
        });
        raw.expect_of(2, &reading, |_| {});
    }
}

#[test]
fn keying_material_needs_no_packet() {
    let mut raw = Raw::new(small());
    let client = raw.client.clone();
    let exporting = raw.world.spawn(async move {
        client.export_keying_material(32, b"label", None).await.map(|it| it.len())
    });
    assert_eq!(raw.world.wait(&exporting, SECOND), Some((Duration::ZERO, Ok(32))));
}
