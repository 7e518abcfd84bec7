//! Tests of stream functions, in virtual time: waiting tasks are woken as soon as the peer or a local
//! action allows them to continue, and a dropped future neither loses data nor leaves state behind.

use core::future::{Future, poll_fn};
use core::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use clearway_transport::{ConnectionError, TransportConfig};
use clearway_wire::VarInt;

use crate::wakes_tests::world::{Configs, DELAY, Scene, now_or_never};
use crate::wakes_tests::{Raw, begin};
use crate::{ReadError, ReadExactError, RecvStream, SendStream, Stopped, WriteError};

const CODE: VarInt = VarInt::from_u32(7);
const SECOND: Duration = Duration::from_secs(1);
const WINDOW: usize = 64 << 10;

fn transport() -> TransportConfig {
    TransportConfig::builder()
        .initial_stream_receive_window(WINDOW as u64)
        .max_stream_receive_window(WINDOW as u64)
        .initial_connection_receive_window(2 * WINDOW as u64)
        .max_connection_receive_window(2 * WINDOW as u64)
        .max_concurrent_unidirectional_streams(3)
        .discover_path_mtu(false)
        .build()
        .unwrap()
}

/// Returns a pair, and an idle stream from server to client.
fn with_stream() -> (Raw, SendStream, RecvStream) {
    let mut raw = Raw::new(transport());
    let (sending, receiving) = raw.stream();
    (raw, sending, receiving)
}

fn write(sending: &mut SendStream, data: &[u8]) {
    now_or_never(sending.write_all(data)).unwrap().unwrap();
}

type Ended = Result<Option<VarInt>, ConnectionError>;
/// An action that ends a stream, and the number of one-way delays until its sender sees the end.
type Ending = (u32, fn(&mut Raw, SendStream, RecvStream), fn(&Ended) -> bool);

/// All ways in which waiting for the end of a stream can end. Some drop the stream's handle.
const ENDINGS: [Ending; 7] = [
    (
        1,
        |_, sending, mut receiving| {
            receiving.stop(CODE).unwrap();
            std::mem::forget((sending, receiving));
        },
        |ended| *ended == Ok(Some(CODE)),
    ),
    (
        1,
        |_, sending, mut receiving| {
            drop(sending);
            receiving.stop(CODE).unwrap();
            std::mem::forget(receiving);
        },
        |ended| *ended == Ok(Some(CODE)),
    ),
    (
        2,
        |_, mut sending, receiving| {
            sending.finish().unwrap();
            std::mem::forget((sending, receiving));
        },
        |ended| *ended == Ok(None),
    ),
    (
        2,
        |_, sending, receiving| {
            drop(sending);
            std::mem::forget(receiving);
        },
        |ended| *ended == Ok(None),
    ),
    (
        0,
        |_, mut sending, receiving| {
            sending.reset(CODE).unwrap();
            std::mem::forget((sending, receiving));
        },
        |ended| *ended == Ok(None),
    ),
    (
        0,
        |raw, sending, receiving| {
            raw.server.close(CODE, b"over");
            std::mem::forget((sending, receiving));
        },
        |ended| *ended == Err(ConnectionError::LocallyClosed),
    ),
    (
        1,
        |raw, sending, receiving| {
            drop(sending);
            raw.client.close(CODE, b"over");
            std::mem::forget(receiving);
        },
        Result::is_err,
    ),
];

#[test]
fn all_who_wait_for_the_end_of_a_stream_see_it() {
    for (number, (trips, end, is_expected)) in ENDINGS.into_iter().enumerate() {
        let (mut raw, sending, receiving) = with_stream();
        let waiting = [sending.stopped(), sending.stopped()].map(|it| raw.world.spawn(it));
        // This one is polled only after the end.
        let unpolled = sending.stopped();
        raw.world.run_for(SECOND);
        let ended = raw.expect_of(trips, &waiting[0], |raw| end(raw, sending, receiving));
        assert!(is_expected(&ended), "ending {number}: {ended:?}");
        let (_, other) = waiting[1].take().expect("both are woken");
        assert!(is_expected(&other), "ending {number}: {other:?}");
        raw.world.run_for(SECOND);
        let late = now_or_never(unpolled).unwrap();
        assert!(is_expected(&late), "ending {number}: {late:?}");
    }
}

/// The task is woken for both, although it waits for room first and for the end afterward.
#[test]
fn a_task_that_writes_and_waits_for_the_end_continues_with_either() {
    let race = |mut sending: SendStream| async move {
        let stopped = sending.stopped();
        tokio::select! {
            biased;
            written = sending.write_all(&[0; 2 << 20]) => {
                std::mem::forget(sending);
                written.map(|()| None)
            }
            ended = stopped => Ok(Some(ended)),
        }
    };
    let (mut raw, sending, mut receiving) = with_stream();
    let outcome = raw.world.spawn(race(sending));
    raw.world.run_for(SECOND);
    let stopped = raw.expect_of(1, &outcome, |_| receiving.stop(CODE).unwrap());
    assert!(matches!(stopped, Err(WriteError::Stopped(CODE)) | Ok(Some(Ok(Some(CODE))))));

    let (mut raw, sending, mut receiving) = with_stream();
    let outcome = raw.world.spawn(race(sending));
    raw.world.run_for(SECOND);
    raw.world.spawn(async move { while receiving.read_chunk(1 << 20).await.is_ok() {} });
    let (_, written) = raw.world.wait(&outcome, 60 * SECOND).unwrap();
    assert_eq!(written, Ok(None), "the peer has not stopped the stream");

    // The same with poll functions.
    let (mut raw, mut sending, mut receiving) = with_stream();
    let polling = raw.world.spawn(poll_fn(move |context| {
        while matches!(sending.poll_write(context, &[0; 1 << 16]), Poll::Ready(Ok(_))) {}
        sending.poll_stopped(context)
    }));
    raw.world.run_for(SECOND);
    let read = raw.world.spawn(async move {
        let mut left = 2 << 20;
        while left > 0 {
            left -= receiving.read_chunk(1 << 20).await.unwrap().unwrap().len().min(left);
        }
        receiving
    });
    let (_, mut receiving) = raw.world.wait(&read, 60 * SECOND).expect("room wakes the writer");
    assert!(polling.take().is_none());
    let _ = &mut receiving;
    let ended = raw.expect_of(0, &polling, |raw| raw.server.close(CODE, b"over"));
    assert_eq!(ended, Err(ConnectionError::LocallyClosed));
}

#[test]
fn nothing_is_kept_of_futures_that_are_gone() {
    let (mut raw, sending, receiving) = with_stream();
    let id = sending.id();
    for number in 0..10_000 {
        let mut stopped = sending.stopped();
        if number % 2 == 0 {
            assert!(poll(&mut stopped).is_pending());
        }
    }
    assert!(!raw.server.is_watched(id));
    let last = sending.stopped();
    drop((sending, receiving));
    raw.world.run_for(SECOND);
    assert_eq!([&raw.client, &raw.server].map(|it| it.kept_streams()), [0, 1]);
    assert!(raw.server.is_watched(id));
    drop(last);
    assert_eq!(raw.server.kept_streams(), 0);
}

fn poll(stopped: &mut Stopped) -> Poll<Ended> {
    core::pin::Pin::new(stopped).poll(&mut Context::from_waker(Waker::noop()))
}

/// A future keeps its connection open, like a stream.
#[test]
fn a_connection_stays_open_while_a_future_waits() {
    let (raw, sending, receiving) = with_stream();
    let Raw { mut world, client, server } = raw;
    let stopped = world.spawn(sending.stopped());
    drop((sending, server));
    world.run_for(SECOND);
    assert_eq!(stopped.take().unwrap().1, Ok(None));
    assert!(client.close_reason().is_some(), "it was the last handle");
    drop(receiving);
}

#[test]
fn a_task_that_waits_for_a_reset_is_woken_although_it_reads_nothing() {
    // The pieces are so many that some stay in the transport.
    for pieces in [0, 1, 100] {
        let fill = |raw: &mut Raw, sending: &mut SendStream| {
            for _ in 0..pieces {
                write(sending, b"1");
                raw.world.run_for(DELAY);
            }
            raw.world.run_for(SECOND);
        };
        let wait = |mut receiving: RecvStream| async move {
            let reset = receiving.received_reset().await;
            (reset, receiving.read_chunk(9).await)
        };
        let (mut raw, mut sending, receiving) = with_stream();
        fill(&mut raw, &mut sending);
        let (reset, read) = raw.expect(1, wait(receiving), |_| sending.reset(CODE).unwrap());
        assert_eq!((reset, read), (Ok(Some(CODE)), Err(ReadError::Reset(CODE))), "{pieces}");

        let (mut raw, mut sending, receiving) = with_stream();
        fill(&mut raw, &mut sending);
        let (reset, _) = raw.expect(1, wait(receiving), |raw| raw.server.close(CODE, b"over"));
        assert!(matches!(reset, Err(ConnectionError::ApplicationClosed { .. })), "{pieces}");

        let (mut raw, sending, mut receiving) = with_stream();
        assert_eq!(now_or_never(receiving.received_reset()), None);
        receiving.stop(CODE).unwrap();
        assert_eq!(now_or_never(receiving.received_reset()), Some(Ok(None)));
        raw.world.run_for(SECOND);
        drop(sending);
    }
    let (mut raw, mut sending, mut receiving) = with_stream();
    let waiting = async move { (receiving.received_reset().await, receiving) };
    let (reset, mut receiving) = raw.expect(1, waiting, |_| {
        write(&mut sending, b"data");
        sending.finish().unwrap();
    });
    assert_eq!(reset, Ok(None));
    assert_eq!(now_or_never(receiving.read_to_end(9)).unwrap().unwrap(), b"data");
}

/// The peer may open another stream once a reset was seen, as after reading it.
#[test]
fn a_reset_that_was_seen_makes_room_for_another_stream() {
    let mut raw = Raw::new(transport());
    let mut streams: Vec<_> = (0..3).map(|_| raw.stream()).collect();
    let (mut sending, mut receiving) = streams.pop().unwrap();
    sending.reset(CODE).unwrap();
    raw.world.run_for(SECOND);
    let server = raw.server.clone();
    let opening = async move { server.open_uni().await.map(|_| ()) };
    let opened = raw.expect(1, opening, |_| {
        assert_eq!(now_or_never(receiving.received_reset()), Some(Ok(Some(CODE))));
    });
    opened.unwrap();
    drop(receiving);
}

/// Data that RESET_STREAM_AT still delivers is read after the reset was seen.
#[test]
fn a_reset_leaves_what_it_delivers() {
    let (mut raw, mut sending, mut receiving) = with_stream();
    write(&mut sending, b"2345");
    sending.reset_at(CODE, 3).unwrap();
    raw.world.run_for(SECOND);
    assert_eq!(now_or_never(receiving.received_reset()), Some(Ok(Some(CODE))));
    assert_eq!(now_or_never(receiving.read_chunk(9)).unwrap().unwrap().unwrap(), b"23"[..]);
    assert_eq!(now_or_never(receiving.read_chunk(9)), Some(Err(ReadError::Reset(CODE))));
}

#[test]
fn chunks_are_written_in_order_as_far_as_there_is_room() {
    let (mut raw, mut sending, mut receiving) = with_stream();
    assert_eq!(now_or_never(sending.write_chunks(&mut [])).unwrap().unwrap().chunks, 0);
    let mut chunks = [Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"c")];
    let written = now_or_never(sending.write_chunks(&mut chunks)).unwrap().unwrap();
    assert_eq!((written.bytes, written.chunks), (3, 3));
    assert!(chunks.iter().all(Bytes::is_empty));
    raw.world.run_for(SECOND);
    let mut read = [Bytes::new(), Bytes::new(), Bytes::new()];
    let used = now_or_never(receiving.read_chunks(&mut read)).unwrap().unwrap().unwrap();
    assert_eq!(read[..used].concat(), b"abc");
    assert_eq!(now_or_never(receiving.read_chunks(&mut [])), Some(Ok(Some(0))));

    // A future that is dropped has written nothing, or can be continued.
    let mut chunks: Vec<Bytes> = (0..40_u8).map(|it| vec![it; 1 << 17].into()).collect();
    let expected = chunks.concat();
    assert!(now_or_never(sending.write_all_chunks(&mut chunks)).is_none());
    let written = chunks.iter().take_while(|it| it.is_empty()).count();
    assert!(written > 0 && chunks[written..].iter().all(|it| it.len() == 1 << 17), "{written}");
    let before = chunks.clone();
    assert!(now_or_never(sending.write_chunks(&mut chunks[written..])).is_none());
    assert_eq!(before, chunks);
    let writing = raw.world.spawn(async move {
        sending.write_all_chunks(&mut chunks).await.unwrap();
        sending.finish().unwrap();
    });
    let reading = raw.world.spawn(async move {
        let (mut all, mut part) = (Vec::new(), vec![Bytes::new(); 3]);
        while let Some(used) = receiving.read_chunks(&mut part).await.unwrap() {
            all.extend(part[..used].concat());
        }
        all
    });
    let (_, all) = raw.world.wait(&reading, 60 * SECOND).unwrap();
    assert!(writing.take().is_some() && all == expected, "{} bytes", all.len());
}

/// An action that ends a stream.
type End = fn(&mut Raw, &mut SendStream);

#[test]
fn a_task_that_waits_for_chunks_continues() {
    let (mut raw, mut sending, mut receiving) = with_stream();
    let mut part = vec![Bytes::new(); 3];
    assert_eq!(now_or_never(receiving.read_chunks(&mut part)), None);
    let reading = async move { receiving.read_chunks(&mut part).await.map(|_| part) };
    let part = raw.expect(1, reading, |_| write(&mut sending, b"data")).unwrap();
    assert_eq!(part[0], b"data"[..]);

    let ends: [(End, u32); 3] = [
        (|_, sending| sending.finish().unwrap(), 1),
        (|_, sending| sending.reset(CODE).unwrap(), 1),
        (|raw, _| raw.client.close(CODE, b"over"), 0),
    ];
    for (end, trips) in ends {
        let (mut raw, mut sending, mut receiving) = with_stream();
        let reading = async move { receiving.read_chunks(&mut [Bytes::new()]).await };
        let read = raw.expect(trips, reading, |raw| end(raw, &mut sending));
        assert!(matches!(read, Ok(None) | Err(_)), "{read:?}");
    }
}

#[test]
fn a_buffer_is_filled_or_the_end_is_reported() {
    let (mut raw, mut sending, mut receiving) = with_stream();
    write(&mut sending, b"ab");
    raw.world.run_for(SECOND);
    let reading = async move {
        let mut buffer = [0; 3];
        (receiving.read_exact(&mut buffer).await.map(|()| buffer), receiving)
    };
    let (read, mut receiving) = raw.expect(1, reading, |_| write(&mut sending, b"cde"));
    assert_eq!(read.unwrap(), *b"abc");
    assert_eq!(now_or_never(receiving.read_exact(&mut [])), Some(Ok(())));
    let reading = async move { receiving.read_exact(&mut [0; 3]).await };
    let read = raw.expect(1, reading, |_| sending.finish().unwrap());
    assert_eq!(read, Err(ReadExactError::FinishedEarly(2)));

    let (mut raw, _sending, mut receiving) = with_stream();
    let reading = async move { receiving.read_exact(&mut [0; 3]).await };
    let read = raw.expect(0, reading, |raw| raw.client.close(CODE, b"over"));
    let lost = ReadError::ConnectionLost(ConnectionError::LocallyClosed);
    assert_eq!(read, Err(ReadExactError::Read(lost)));
}

#[test]
fn streams_share_bandwidth_only_if_they_are_incremental() {
    for is_incremental in [true, false] {
        let mut raw = Raw::new(transport());
        let mut streams: Vec<_> = (0..2).map(|_| raw.stream()).collect();
        for (sending, _) in &mut streams {
            assert_eq!(sending.priority(), 0);
            sending.set_priority(-3);
            sending.set_incremental(is_incremental);
            assert_eq!(sending.priority(), -3);
        }
        raw.world.settle();
        // Six packets are more than one turn, and less than one stream.
        let mut passed = 0;
        raw.world.loss = Some(Box::new(move |_, to| {
            passed += usize::from(to == 0);
            passed > 6
        }));
        for (sending, _) in &mut streams {
            write(sending, &[0; 10_000]);
        }
        raw.world.run_for(DELAY);
        let arrived: Vec<bool> = streams
            .iter_mut()
            .map(|(_, receiving)| now_or_never(receiving.read_chunk(1)).is_some())
            .collect();
        assert_eq!(arrived, [true, is_incremental]);
    }
}

#[test]
fn early_data_is_marked_until_the_handshake_is_complete() {
    let configs = Configs::new(b"test", transport());
    // The first connection gets a session.
    let (mut world, connecting) = begin(&configs);
    let [client, server] = connecting.map(|it| world.spawn(it));
    world.run_for(SECOND);
    let _first = (client.take().unwrap(), server.take().unwrap());

    let (mut world, [client, server]) = begin(&configs);
    let sending = world.spawn(async move {
        let (client, _) = client.into_0rtt().await.unwrap();
        let mut sending = client.open_uni().await.unwrap();
        sending.write_all(b"early").await.unwrap();
        (client, sending)
    });
    let receiving = world.spawn(async move {
        let (server, _) = server.into_0rtt().await.unwrap();
        let mut receiving = server.accept_uni().await.unwrap();
        let data = receiving.read_chunk(9).await.unwrap().unwrap();
        (data, receiving.is_early(), receiving, server)
    });
    let (took, (data, is_early, receiving, server)) = world.wait(&receiving, SECOND).unwrap();
    assert_eq!((took, &data[..], is_early), (DELAY, &b"early"[..], true));
    world.run_for(SECOND);
    assert!(!receiving.is_early(), "the client has proved that it is not an attacker");

    // Data that is sent after the handshake.
    let (_, (client, sending)) = sending.take().unwrap();
    let accepting = world.spawn(async move { (server.accept_uni().await.unwrap(), server) });
    let late = world.spawn(async move {
        let mut late = client.open_uni().await.unwrap();
        late.write_all(b"late").await.unwrap();
        (client, late)
    });
    let (_, (mut accepted, _server)) = world.wait(&accepting, SECOND).unwrap();
    assert!(now_or_never(accepted.read_chunk(9)).is_some() && !accepted.is_early());
    drop((sending, late.take()));
}
