//! Streams and unreliable datagrams between two endpoints (RFC 9000 §2 to §4, §19; RFC 9221).

use crate::support::{Pair, delayed, lossy, milliseconds, pattern, quiet, seconds};
use bytes::Bytes;
use clearway_transport::{
    DatagramError, Event, ReadError, ReadOutcome, Side, TransportConfig, WriteError,
};
use clearway_wire::{Direction, StreamId, VarInt};

const CODE: VarInt = VarInt::from_u32(0x1234);

/// Opens a stream from the client with `data`, which the server accepts.
fn opened(pair: &mut Pair, direction: Direction, data: &[u8]) -> StreamId {
    let stream = pair.client().open(direction).unwrap();
    pair.client().write_slice(stream, data).unwrap();
    pair.run_for(milliseconds(200));
    assert_eq!(pair.server().accept(direction), Some(stream));
    stream
}

fn read_server(pair: &mut Pair, stream: StreamId) -> Result<ReadOutcome, ReadError> {
    let now = pair.now;
    pair.server().read(now, stream, usize::MAX)
}

/// §3.1, §19.4: a reset reaches the reader with its error code.
#[test]
fn a_reset_reaches_the_reader_with_its_code() {
    let mut pair = Pair::new(lossy(10.0, 10, 1));
    pair.establish();
    let stream = opened(&mut pair, Direction::Unidirectional, b"begun");
    assert_eq!(read_server(&mut pair, stream), Ok(ReadOutcome::Data(Bytes::from_static(b"begun"))));
    pair.client().reset(stream, CODE).unwrap();
    pair.run_for(seconds(1));
    let read = read_server(&mut pair, stream);
    assert_eq!(read, Err(ReadError::Reset(CODE)));
    assert!(pair.client_events.contains(&Event::ResetAcknowledged(stream)));
    assert_eq!(pair.client().streams_statistics().open, 0);
    assert_eq!(pair.server().streams_statistics().open, 0);
}

/// §3.5, §19.5: the sender responds to STOP_SENDING with RESET_STREAM and the same error code.
#[test]
fn stop_sending_resets_the_stream_with_its_code() {
    let mut pair = Pair::new(lossy(10.0, 10, 2));
    pair.establish();
    let stream = opened(&mut pair, Direction::Unidirectional, b"begun");
    let now = pair.now;
    pair.server().stop_sending(now, stream, CODE).unwrap();
    pair.run_for(seconds(1));
    let stopped = Event::Stopped { stream_id: stream, error_code: CODE };
    assert!(pair.client_events.contains(&stopped), "{:?}", pair.client_events);
    let write = pair.client().write_slice(stream, b"more");
    // Once the reset is acknowledged, the stream's state is discarded.
    assert_eq!(write, Err(WriteError::UnknownStream));
    pair.run_for(seconds(1));
    assert_eq!(pair.server().streams_statistics().open, 0);
}

#[test]
fn the_halves_of_a_bidirectional_stream_end_independently() {
    let mut pair = Pair::new(delayed(10, 3));
    pair.establish();
    let stream = opened(&mut pair, Direction::Bidirectional, b"question");
    pair.client().finish(stream).unwrap();
    pair.run_for(milliseconds(100));
    assert_eq!(
        read_server(&mut pair, stream),
        Ok(ReadOutcome::Data(Bytes::from_static(b"question")))
    );
    assert_eq!(read_server(&mut pair, stream), Ok(ReadOutcome::Finished));
    pair.server().write_slice(stream, b"answer").unwrap();
    pair.server().finish(stream).unwrap();
    pair.run_for(milliseconds(100));
    let mut answer = Vec::new();
    assert!(pair.read_all(stream, &mut answer));
    assert_eq!(answer, b"answer");
    assert!(pair.client_events.contains(&Event::Finished(stream)));
    assert!(pair.server_events.contains(&Event::Finished(stream)));
}

/// §4.6: no more streams are open than the peer allows; as streams end, more are opened.
#[test]
fn many_streams_wait_for_the_limit_and_all_are_answered() {
    let server = quiet().to_builder().max_concurrent_bidirectional_streams(10).build().unwrap();
    let mut pair = Pair::with(lossy(5.0, 5, 4), quiet(), server);
    pair.establish();
    let (mut requested, mut answered) = (Vec::new(), 0);
    let mut most = 0;
    let done = pair.run_until(seconds(60), |pair| {
        while requested.len() < 200
            && let Some(stream) = pair.client().open(Direction::Bidirectional)
        {
            pair.client().write_slice(stream, &[7; 300]).unwrap();
            pair.client().finish(stream).unwrap();
            requested.push(stream);
        }
        most = most.max(pair.server().streams_statistics().open);
        while let Some(stream) = pair.server().accept(Direction::Bidirectional) {
            pair.server().write(stream, pattern(2000)).unwrap();
            pair.server().finish(stream).unwrap();
        }
        let now = pair.now;
        for event in std::mem::take(&mut pair.server_events) {
            if let Event::Readable(stream) = event {
                while let Ok(ReadOutcome::Data(_)) = pair.server().read(now, stream, usize::MAX) {}
            }
        }
        for event in std::mem::take(&mut pair.client_events) {
            if let Event::Readable(stream) = event {
                let mut answer = Vec::new();
                if pair.read_all(stream, &mut answer) {
                    answered += 1;
                }
            }
        }
        answered == 200
    });
    assert!(done, "requested {}, answered {answered}", requested.len());
    assert!(most <= 10, "{most}");
}

/// When the network cannot carry everything, streams of a higher priority are sent first.
#[test]
fn streams_of_a_higher_priority_finish_first() {
    let mut link = delayed(10, 5);
    link.to_client.rate = Some(clearway_units::Rate::from_bits_per_second(8_000_000));
    let mut pair = Pair::new(link);
    pair.establish();
    let streams: Vec<StreamId> = (0..4)
        .map(|priority| {
            let stream = pair.server().open(Direction::Unidirectional).unwrap();
            pair.server().set_priority(stream, priority, true).unwrap();
            pair.server().write(stream, pattern(200_000)).unwrap();
            pair.server().finish(stream).unwrap();
            stream
        })
        .collect();
    let mut ended = Vec::new();
    let mut received = vec![Vec::new(); 4];
    pair.run_until(seconds(20), |pair| {
        while pair.client().accept(Direction::Unidirectional).is_some() {}
        for (index, stream) in streams.iter().enumerate() {
            let is_open = !ended.contains(&index) && !received[index].is_empty()
                || pair.client_events.contains(&Event::Readable(*stream));
            if is_open && !ended.contains(&index) && pair.read_all(*stream, &mut received[index]) {
                ended.push(index);
            }
        }
        ended.len() == 4
    });
    assert_eq!(ended, [3, 2, 1, 0]);
}

fn small_windows() -> TransportConfig {
    quiet()
        .to_builder()
        .initial_stream_receive_window(5000)
        .max_stream_receive_window(5000)
        .initial_connection_receive_window(8000)
        .max_connection_receive_window(8000)
        .build()
        .unwrap()
}

/// §4: a sender stays within the flow control limits of a receiver that does not read, and
/// continues as soon as data is read.
#[test]
fn a_slow_reader_is_not_overrun_and_unblocks_the_sender() {
    let mut pair = Pair::with(lossy(10.0, 5, 6), small_windows(), quiet());
    pair.establish();
    let stream = pair.server().open(Direction::Unidirectional).unwrap();
    let data = pattern(100_000);
    assert_eq!(pair.server().write(stream, data.clone()), Ok(100_000));
    pair.server().finish(stream).unwrap();
    pair.run_for(seconds(5));
    assert_eq!(pair.server().streams_statistics().bytes_sent, 5000);
    assert_eq!(pair.client().accept(Direction::Unidirectional), Some(stream));
    let mut received = Vec::new();
    let mut is_over = false;
    for _ in 0..1000 {
        // The application reads a little at a time.
        let now = pair.now;
        match pair.client().read(now, stream, 700) {
            Ok(ReadOutcome::Data(data)) => received.extend_from_slice(&data),
            Ok(ReadOutcome::Finished) => is_over = true,
            _ => {}
        }
        if is_over {
            break;
        }
        let sent = pair.server().streams_statistics().bytes_sent;
        assert!(sent <= received.len() as u64 + 5000, "{sent} sent, {} read", received.len());
        pair.run_for(milliseconds(30));
    }
    assert!(is_over && received == data, "{}", received.len());
}

/// §4.1: the connection flow control limit applies to the sum over all streams.
#[test]
fn the_connection_limit_applies_to_all_streams_together() {
    let mut pair = Pair::with(delayed(5, 7), small_windows(), quiet());
    pair.establish();
    for _ in 0..4 {
        let stream = pair.server().open(Direction::Unidirectional).unwrap();
        pair.server().write(stream, pattern(4000)).unwrap();
    }
    pair.run_for(seconds(2));
    assert_eq!(pair.server().streams_statistics().bytes_sent, 8000);
}

fn with_datagrams() -> TransportConfig {
    quiet().to_builder().max_datagram_frame_size(Some(1100)).build().unwrap()
}

/// RFC 9221 §5: a datagram arrives complete or not at all; lost ones are not retransmitted.
#[test]
fn unreliable_datagrams_arrive_at_most_once_and_whole() {
    let mut pair = Pair::with(lossy(20.0, 10, 8), with_datagrams(), with_datagrams());
    pair.establish();
    for number in 0..200_u8 {
        pair.client().send_datagram(Bytes::from(vec![number; 1 + usize::from(number)])).unwrap();
        pair.run_for(milliseconds(5));
    }
    pair.run_for(seconds(5));
    let mut seen = std::collections::BTreeSet::new();
    while let Some(data) = pair.server().receive_datagram() {
        assert_eq!(data, vec![data[0]; 1 + usize::from(data[0])]);
        assert!(seen.insert(data[0]), "datagram {} arrived twice", data[0]);
    }
    assert!((120..190).contains(&seen.len()), "{}", seen.len());
    assert_eq!(pair.client().datagram_statistics().sent, 200);
    assert!(pair.client().datagram_statistics().lost > 10);
}

#[test]
fn an_unreliable_datagram_causes_an_event() {
    let mut pair = Pair::with(delayed(10, 9), with_datagrams(), with_datagrams());
    pair.establish();
    pair.client().send_datagram(Bytes::from_static(b"now")).unwrap();
    pair.run_for(milliseconds(50));
    assert!(pair.server_events.contains(&Event::DatagramReceived), "{:?}", pair.server_events);
    assert_eq!(pair.server().receive_datagram(), Some(Bytes::from_static(b"now")));
}

#[test]
fn unreliable_datagrams_that_cannot_be_sent_are_refused() {
    let mut pair = Pair::with(delayed(10, 10), quiet(), with_datagrams());
    pair.establish();
    let refused = pair.server().send_datagram(Bytes::from_static(b"x"));
    assert_eq!(refused, Err(DatagramError::Unsupported));
    let refused = pair.client().send_datagram(Bytes::from(vec![0; 1101]));
    assert!(matches!(refused, Err(DatagramError::TooLarge { .. })), "{refused:?}");
    let many = (0..10_000).map(|_| pair.client().send_datagram(Bytes::from(vec![0; 1000])));
    assert!(many.into_iter().any(|sent| sent == Err(DatagramError::QueueFull)));
    pair.run_for(seconds(20));
    assert!(pair.watch.received(Side::Server).len() > 500);
    let now = pair.now;
    pair.client().close(now, CODE, b"done");
    let refused = pair.client().send_datagram(Bytes::from_static(b"x"));
    assert_eq!(refused, Err(DatagramError::ConnectionClosed));
}

/// Law 4: a blocked sender continues as soon as it is no longer blocked, whether by the congestion
/// window, the pacer, flow control of the stream or the connection, or the stream limit.
#[test]
fn every_blocked_sender_continues() {
    let limited =
        small_windows().to_builder().max_concurrent_unidirectional_streams(2).build().unwrap();
    for seed in 0..6 {
        let mut pair =
            Pair::with(lossy(f64::from(seed as u32) * 4.0, 20, seed), limited.clone(), quiet());
        pair.establish();
        let (mut begun, mut ended) = (0, 0);
        let mut open: Vec<(StreamId, Vec<u8>)> = Vec::new();
        let done = pair.run_until(seconds(120), |pair| {
            while begun < 12
                && let Some(stream) = pair.server().open(Direction::Unidirectional)
            {
                pair.server().write(stream, pattern(20_000)).unwrap();
                pair.server().finish(stream).unwrap();
                begun += 1;
            }
            while let Some(stream) = pair.client().accept(Direction::Unidirectional) {
                open.push((stream, Vec::new()));
            }
            open.retain_mut(|(stream, received)| {
                let is_over = pair.read_all(*stream, received);
                ended += usize::from(is_over);
                assert!(!is_over || *received == pattern(20_000));
                !is_over
            });
            ended == 12
        });
        assert!(done, "seed {seed}: begun {begun}, ended {ended}");
    }
}
