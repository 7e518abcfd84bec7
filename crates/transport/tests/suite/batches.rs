//! Tests that the datagrams are the same regardless of how many are built at a time.

use std::sync::Arc;

use crate::support::{Packet, Pair, delayed, lossy, pattern, quiet, seconds};
use bytes::Bytes;
use clearway_congestion::Algorithm;
use clearway_network::LinkConfig;
use clearway_transport::Side;
use clearway_wire::{Direction, StreamId};

/// The sizes of three responses, and their priorities: two take turns, and the third is sent first.
const ANSWERS: [(usize, i32); 3] = [(300_000, 0), (200_000, 0), (40_000, 1)];

/// Returns everything that the server has sent by the time the client has received all responses.
fn sent_by_server(link: LinkConfig, controller: Algorithm, batch: usize) -> Vec<Packet> {
    let config = quiet().to_builder().controller(Arc::new(controller)).build().unwrap();
    let mut pair = Pair::with(link, config.clone(), config);
    pair.batch = batch;
    pair.establish();
    let streams = ANSWERS.map(|_| {
        let stream = pair.client().open(Direction::Bidirectional).unwrap();
        pair.client().write_slice(stream, b"give").unwrap();
        pair.client().finish(stream).unwrap();
        stream
    });
    let mut answers: Vec<(StreamId, Bytes)> = Vec::new();
    let mut received = ANSWERS.map(|_| Vec::new());
    let done = pair.run_until(seconds(120), |pair| {
        while let Some(stream) = pair.server().accept(Direction::Bidirectional) {
            let (size, priority) = ANSWERS[answers.len()];
            pair.server().set_priority(stream, priority, true).unwrap();
            answers.push((stream, pattern(size)));
        }
        for (stream, rest) in &mut answers {
            pair.write_rest(*stream, rest);
        }
        let ended = streams.iter().zip(&mut received);
        ended.fold(true, |all, (stream, received)| pair.read_all(*stream, received) && all)
    });
    assert!(done);
    for ((size, _), received) in ANSWERS.iter().zip(&received) {
        assert!(*received == pattern(*size), "the received bytes differ from the sent ones");
    }
    pair.watch.sent(Side::Server)
}

#[test]
fn a_batch_has_the_packets_of_single_datagrams() {
    for controller in [Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr] {
        for link in [delayed(20, 1), lossy(2.0, 20, 2)] {
            let single = sent_by_server(link.clone(), controller, 1);
            for batch in [2, 10, 64] {
                let sent = sent_by_server(link.clone(), controller, batch);
                let differs = single.iter().zip(&sent).position(|(one, other)| one != other);
                assert_eq!(differs, None, "{controller:?}, batches of {batch}");
                assert_eq!(single.len(), sent.len(), "{controller:?}, batches of {batch}");
            }
        }
    }
}

/// On some streams, the last datagram is exactly full. The next stream must not wait for its
/// acknowledgment.
#[test]
fn the_end_of_a_stream_may_fill_a_datagram() {
    let sent = |batch| {
        let many = quiet().to_builder().max_concurrent_unidirectional_streams(10_000).build();
        let mut pair = Pair::with(delayed(1, 3), many.unwrap(), quiet());
        pair.batch = batch;
        pair.establish();
        for size in 4_000..5_300 {
            for size in [size, 3_000] {
                let stream = pair.server().open(Direction::Unidirectional).unwrap();
                assert_eq!(pair.server().write(stream, pattern(size)), Ok(size));
                pair.server().finish(stream).unwrap();
            }
            for _ in 0..2 {
                let mut stream = None;
                let mut received = Vec::new();
                assert!(pair.run_until(seconds(10), |pair| {
                    stream = stream.or_else(|| pair.client().accept(Direction::Unidirectional));
                    stream.is_some_and(|stream| pair.read_all(stream, &mut received))
                }));
            }
        }
        pair.watch.sent(Side::Server)
    };
    assert!(sent(1) == sent(10), "the packets differ");
}

/// DATAGRAM frames are not split, so packets with them are rarely full.
#[test]
fn packets_of_datagrams_are_batched_while_none_is_longer() {
    let sizes_of_batch = |lengths: &[usize]| {
        let accepting = quiet().to_builder().max_datagram_frame_size(Some(65_535));
        let accepting = accepting.build().unwrap();
        let mut pair = Pair::with(delayed(10, 1), accepting.clone(), accepting);
        pair.establish();
        for length in lengths {
            pair.server().send_datagram(Bytes::from(vec![7; *length])).unwrap();
        }
        let (now, mut buffer) = (pair.now, vec![0; 65_535]);
        let mut sizes = Vec::new();
        while let Some(transmit) = pair.server().transmit(now, &mut buffer, 64) {
            pair.server().transmitted(now);
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            sizes.push((segment, transmit.size.div_ceil(segment)));
        }
        assert_eq!(pair.server().datagram_statistics().sent, lengths.len() as u64);
        sizes
    };
    let packets = |lengths: &[usize]| {
        sizes_of_batch(lengths).into_iter().map(|(_, packets)| packets).collect::<Vec<_>>()
    };
    assert_eq!(packets(&[1000; 8]), [8]);
    assert_eq!(packets(&[800, 1000, 1000, 900, 900]), [1, 3, 1]);
    assert_eq!(packets(&[1000, 900, 1000]), [2, 1]);
    assert_eq!(packets(&[1000]), [1]);
    let [(segment, 8)] = sizes_of_batch(&[1000; 8])[..] else { panic!("not one batch") };
    assert!((1000..1060).contains(&segment), "{segment}");
}
