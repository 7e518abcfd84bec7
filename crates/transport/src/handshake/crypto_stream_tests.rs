use clearway_wire::{Frame, Reader, TransportErrorCode, Writer};
use proptest::prelude::*;

use super::{CryptoStream, MAX_FRAGMENTS, MAX_REPETITIONS, RECEIVE_WINDOW};
use crate::contents::PacketContents;
use crate::token::Token;

/// A packet's CRYPTO frames: offset and data.
type Frames = Vec<(u64, Vec<u8>)>;

/// Fills one packet of `room` bytes.
fn packet(stream: &mut CryptoStream, room: usize) -> Frames {
    let mut buffer = vec![0; room];
    let mut tokens = Vec::new();
    let mut writer = Writer::new(&mut buffer);
    let is_written = stream.write_frames(&mut PacketContents::new(&mut writer, &mut tokens));
    let mut reader = Reader::new(writer.filled());
    let mut frames = Frames::new();
    while !reader.is_empty() {
        match Frame::decode(&mut reader).unwrap() {
            Frame::Crypto(crypto) => frames.push((crypto.offset.get(), crypto.data.to_vec())),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(is_written, !frames.is_empty());
    let expected: Vec<Token> = frames
        .iter()
        .map(|(offset, data)| Token::Crypto { offset: *offset, length: data.len() as u64 })
        .collect();
    assert_eq!(tokens, expected, "each frame has its token");
    frames
}

fn read_all(stream: &mut CryptoStream) -> Vec<u8> {
    core::iter::from_fn(|| stream.read()).flatten().collect()
}

fn sample(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

#[test]
fn frames_fill_the_packet_and_go_on_in_the_next() {
    let mut stream = CryptoStream::default();
    assert!(!stream.has_pending());
    stream.write(sample(150));
    let first = packet(&mut stream, 100);
    assert_eq!(first, vec![(0, sample(150)[..96].to_vec())]);
    let second = packet(&mut stream, 100);
    assert_eq!(second, vec![(96, sample(150)[96..].to_vec())]);
    assert!(!stream.has_pending());
    assert!(packet(&mut stream, 100).is_empty());
}

#[test]
fn a_packet_without_room_changes_nothing() {
    let mut stream = CryptoStream::default();
    stream.write(sample(10));
    for room in 0..4 {
        assert!(packet(&mut stream, room).is_empty());
    }
    assert!(stream.has_pending());
}

#[test]
fn a_settled_stream_goes_on_where_it_was_given_back() {
    let mut stream = CryptoStream::default();
    assert_eq!(stream.settled(), Some(0));
    stream.write(sample(100));
    assert_eq!(stream.settled(), None, "there are bytes to send");
    packet(&mut stream, 104);
    assert_eq!(stream.settled(), None, "they are not acknowledged");
    stream.on_lost(0, 100);
    stream.on_acked(0, 100);
    assert_eq!(stream.settled(), Some(100));

    let mut again = CryptoStream::after(100);
    again.on_acked(0, 100);
    again.on_lost(0, 100);
    assert!(!again.has_pending(), "the old bytes are acknowledged");
    again.write(sample(10));
    assert_eq!(packet(&mut again, 100), vec![(100, sample(10))]);

    stream.receive(1, &[7]).unwrap();
    assert_eq!(stream.settled(), None, "received bytes are kept");
}

#[test]
fn lost_bytes_go_first_and_only_what_was_not_acknowledged() {
    let mut stream = CryptoStream::default();
    stream.write(sample(100));
    packet(&mut stream, 104);
    stream.write(sample(10));
    stream.on_acked(40, 20);
    stream.on_lost(30, 40);
    let frames = packet(&mut stream, 1200);
    let places: Vec<_> = frames.iter().map(|(offset, data)| (*offset, data.len())).collect();
    assert_eq!(places, [(30, 10), (60, 10), (100, 10)]);
}

#[test]
fn what_is_acknowledged_after_it_was_lost_is_not_sent_again() {
    let mut stream = CryptoStream::default();
    stream.write(sample(100));
    packet(&mut stream, 1200);
    stream.on_lost(0, 100);
    stream.on_acked(0, 100);
    assert!(!stream.has_pending());
    assert!(stream.is_fully_acked());
    stream.on_lost(0, 100);
    assert!(!stream.has_pending());
}

#[test]
fn repeated_probes_do_not_queue_bytes_twice() {
    let mut stream = CryptoStream::default();
    stream.write(sample(100));
    packet(&mut stream, 1200);
    for _ in 0..5 {
        stream.retransmit_all_unacked();
        stream.on_lost(0, 100);
    }
    assert_eq!(packet(&mut stream, 1200), vec![(0, sample(100))]);
    assert!(!stream.has_pending());
}

#[test]
fn a_probe_does_not_make_unsent_bytes_lost() {
    let mut stream = CryptoStream::default();
    stream.write(sample(100));
    packet(&mut stream, 53);
    stream.retransmit_all_unacked();
    let frames = packet(&mut stream, 1200);
    let places: Vec<_> = frames.iter().map(|(offset, data)| (*offset, data.len())).collect();
    assert_eq!(places, [(0, 50), (50, 50)]);
}

#[test]
fn acknowledgments_out_of_order_free_everything() {
    let mut stream = CryptoStream::default();
    stream.write(sample(90));
    packet(&mut stream, 1200);
    for offset in [60, 0, 30] {
        assert!(!stream.is_fully_acked());
        stream.on_acked(offset, 30);
        stream.on_acked(offset, 30);
    }
    assert!(stream.is_fully_acked());
    stream.write(vec![7]);
    assert_eq!(packet(&mut stream, 1200), vec![(90, vec![7])]);
}

#[test]
fn data_beyond_the_window_is_refused() {
    let mut stream = CryptoStream::default();
    stream.receive(RECEIVE_WINDOW - 1, &[1]).unwrap();
    let error = stream.receive(RECEIVE_WINDOW, &[1]).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::CRYPTO_BUFFER_EXCEEDED);
    let error = stream.receive((1 << 62) - 1, &[1]).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::CRYPTO_BUFFER_EXCEEDED);
    // The window advances with the bytes read.
    stream.receive(0, &[0]).unwrap();
    assert_eq!(stream.read(), Some(vec![0]));
    stream.receive(RECEIVE_WINDOW, &[1]).unwrap();
}

#[test]
fn pieces_that_do_not_join_are_limited() {
    let mut stream = CryptoStream::default();
    for index in 0..MAX_FRAGMENTS as u64 {
        stream.receive(2 * index + 1, &[1]).unwrap();
    }
    let error = stream.receive(2 * MAX_FRAGMENTS as u64 + 1, &[1]).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::CRYPTO_BUFFER_EXCEEDED);
}

#[test]
fn a_far_offset_does_not_allocate() {
    let mut stream = CryptoStream::default();
    stream.receive(RECEIVE_WINDOW - 1, &[1]).unwrap();
    let held: usize = stream.receive.fragments.values().map(Vec::capacity).sum();
    assert!(held < 64, "{held} bytes for one");
}

#[test]
fn bytes_in_order_are_one_piece() {
    let mut stream = CryptoStream::default();
    for offset in 0..1000 {
        stream.receive(offset + 1, &[1]).unwrap();
    }
    assert_eq!(stream.receive.fragments.len(), 1);
    assert_eq!(stream.read(), None);
    assert!(stream.has_unread());
    assert_eq!(stream.received_end(), 1001);
    assert_eq!(stream.read_offset(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Loss, duplication and reordering never change the bytes.
    #[test]
    fn any_network_delivers_the_same_bytes(
        length in 1_usize..3000,
        rooms in proptest::collection::vec(5_usize..300, 1..20),
        fates in proptest::collection::vec((0_u8..4, any::<prop::sample::Index>()), 1..400),
    ) {
        let bytes = sample(length);
        let (mut sender, mut receiver) = (CryptoStream::default(), CryptoStream::default());
        sender.write(bytes.clone());
        let mut in_flight: Vec<Frames> = Vec::new();
        let mut received = Vec::new();
        for (step, (fate, which)) in fates.iter().enumerate() {
            in_flight.push(packet(&mut sender, rooms[step % rooms.len()]));
            let frames = in_flight.swap_remove(which.index(in_flight.len()));
            deliver(&frames, *fate, &mut sender, &mut receiver)?;
            received.extend(read_all(&mut receiver));
        }
        // Nothing is lost from this point on.
        while !in_flight.is_empty() || sender.has_pending() {
            in_flight.push(packet(&mut sender, 1200));
            for frames in core::mem::take(&mut in_flight) {
                deliver(&frames, 0, &mut sender, &mut receiver)?;
            }
            received.extend(read_all(&mut receiver));
        }
        prop_assert!(sender.is_fully_acked());
        prop_assert_eq!(received, bytes);
    }

    /// Whatever arrives, there is no panic, and the buffered data never exceeds the limits.
    #[test]
    fn the_limits_hold(
        frames in proptest::collection::vec((0_u64..70_000, 0_usize..2000), 0..400)
    ) {
        let mut stream = CryptoStream::default();
        let data = sample(2000);
        for (offset, length) in frames {
            let is_taken = stream.receive(offset, &data[..length]).is_ok();
            let held: usize = stream.receive.fragments.values().map(Vec::len).sum();
            prop_assert!(held as u64 <= RECEIVE_WINDOW);
            prop_assert!(stream.receive.fragments.len() <= MAX_FRAGMENTS);
            if !is_taken {
                break;
            }
        }
    }

    /// Overlapping pieces of the same bytes, in any order, eventually form the complete data.
    #[test]
    fn overlaps_are_harmless(
        pieces in proptest::collection::vec((0_usize..500, 1_usize..100), 0..100)
    ) {
        let bytes = sample(500);
        let mut stream = CryptoStream::default();
        let mut received = Vec::new();
        for (start, length) in pieces {
            let end = (start + length).min(500);
            stream.receive(start as u64, &bytes[start..end]).unwrap();
            received.extend(read_all(&mut stream));
        }
        stream.receive(0, &bytes).unwrap();
        received.extend(read_all(&mut stream));
        prop_assert_eq!(received, bytes);
        prop_assert!(!stream.has_unread());
    }
}

/// Delivers a packet according to its outcome. 0: delivered and acknowledged; 1: delivered, but the
/// ACK is lost and the packet declared lost; 2: lost; 3: delivered twice.
fn deliver(
    frames: &Frames,
    fate: u8,
    sender: &mut CryptoStream,
    receiver: &mut CryptoStream,
) -> Result<(), TestCaseError> {
    for (offset, data) in frames {
        let length = data.len() as u64;
        for _ in 0..[1, 1, 0, 2][usize::from(fate)] {
            let taken = receiver.receive(*offset, data);
            prop_assert_eq!(taken, Ok(()));
        }
        match fate {
            0 | 3 => sender.on_acked(*offset, length),
            _ => sender.on_lost(*offset, length),
        }
    }
    Ok(())
}

#[test]
fn bytes_in_order_are_not_buffered() {
    let mut stream = CryptoStream::default();
    let bytes = sample(100);
    assert_eq!(stream.receive_next(0, &bytes[..40]).unwrap(), &bytes[..40]);
    assert_eq!(stream.receive_next(10, &bytes[10..60]).unwrap(), &bytes[40..60]);
    assert_eq!((stream.read_offset(), stream.received_end()), (60, 60));
    // Some of the bytes were received before, and others are behind a gap.
    assert!(stream.receive_next(20, &bytes[20..60]).unwrap().is_empty());
    assert!(stream.receive_next(80, &bytes[80..]).unwrap().is_empty());
    assert!(stream.has_unread() && stream.read().is_none());
    // Now other bytes are waiting.
    assert!(stream.receive_next(60, &bytes[60..80]).unwrap().is_empty());
    assert_eq!(stream.read().unwrap(), &bytes[60..80]);
    assert_eq!(stream.read().unwrap(), &bytes[80..]);
    let far = stream.receive_next(100, &vec![0; 1 + (64 << 10)]).unwrap_err();
    assert_eq!(far.code, TransportErrorCode::CRYPTO_BUFFER_EXCEEDED);
}

/// Bytes that were acknowledged without having been read are retransmitted a few times.
#[test]
fn acknowledged_bytes_are_repeated_a_few_times() {
    let mut stream = CryptoStream::default();
    stream.write(b"before".to_vec());
    stream.make_repeatable();
    assert_eq!(packet(&mut stream, 100), [(0, b"before".to_vec())]);
    stream.on_acked(0, 6);
    stream.repeat_acked();
    assert!(!stream.has_pending(), "what was written before is not kept");

    let mut stream = CryptoStream::default();
    stream.make_repeatable();
    stream.write(b"server".to_vec());
    stream.write(b"hello".to_vec());
    stream.repeat_acked();
    for round in 0..=MAX_REPETITIONS {
        assert_eq!(packet(&mut stream, 100), [(0, b"serverhello".to_vec())], "{round}");
        // Nothing is repeated while an acknowledgment is still outstanding.
        stream.repeat_acked();
        assert!(!stream.has_pending());
        stream.on_acked(0, 11);
        stream.repeat_acked();
    }
    assert!(!stream.has_pending());
}
