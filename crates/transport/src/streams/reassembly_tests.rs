use proptest::prelude::*;

use super::*;

/// Returns the byte at `offset`.
fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 7) as u8
}

fn bytes(offset: u64, length: usize) -> Vec<u8> {
    (offset..offset + length as u64).map(byte).collect()
}

fn read_all(reassembly: &mut Reassembly) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let data = reassembly.read(usize::MAX);
        if data.is_empty() {
            return all;
        }
        all.extend_from_slice(&data);
    }
}

/// Returns approximately how much memory was allocated.
fn capacity(reassembly: &Reassembly) -> usize {
    let pieces: usize = reassembly.held.pieces.values().map(|piece| piece.capacity() + 64).sum();
    let chunks: usize = reassembly.held.chunks.iter().map(Bytes::len).sum();
    pieces + chunks + reassembly.held.tail.capacity()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Regardless of order, overlap and duplication, each byte of the stream is read once.
    #[test]
    fn any_order_gives_the_bytes(
        frames in prop::collection::vec((0u64..3000, 0usize..900, 0usize..700), 0..80),
    ) {
        let mut reassembly = Reassembly::default();
        let mut held = [false; 4000];
        let mut got = Vec::new();
        for (offset, length, max) in frames {
            reassembly.insert(offset, &bytes(offset, length)).unwrap();
            held[offset as usize..offset as usize + length].fill(true);
            let end = held.iter().position(|held| !held).unwrap() as u64;
            prop_assert_eq!(reassembly.end(), end);
            prop_assert_eq!(reassembly.readable(), end - got.len() as u64);
            let data = reassembly.read(max);
            prop_assert!(data.len() <= max);
            got.extend_from_slice(&data);
            let beyond = held[end as usize..].iter().filter(|held| **held).count();
            prop_assert_eq!(reassembly.held.piece_bytes, beyond);
        }
        got.extend(read_all(&mut reassembly));
        let length = got.len();
        prop_assert_eq!(got, bytes(0, length));
        prop_assert_eq!(length as u64, reassembly.end());
    }

    /// Whatever data arrives, memory stays within a small multiple of the bytes plus the allowed
    /// pieces.
    #[test]
    fn memory_is_bounded(
        frames in prop::collection::vec((1u64..100_000, 1usize..40), 1000..1500),
    ) {
        let mut reassembly = Reassembly::default();
        for (offset, length) in frames {
            if reassembly.insert(offset, &bytes(offset, length)).is_err() {
                break;
            }
        }
        let (pieces, held) = (reassembly.held.pieces.len(), reassembly.held.piece_bytes);
        prop_assert!(pieces <= MAX_PIECES + held / BYTES_PER_PIECE + 1);
        prop_assert!(capacity(&reassembly) <= 4 * held + 64 * pieces);
    }
}

#[test]
fn in_order_data_allocates_once_per_chunk() {
    let mut reassembly = Reassembly::default();
    let packet = bytes(0, 1200);
    let mut chunks = 0;
    for index in 0..10_000u64 {
        let before = reassembly.held.tail.as_ptr();
        reassembly.insert(index * 1200, &packet).unwrap();
        chunks += usize::from(reassembly.held.tail.as_ptr() != before && index > 0);
        if index % 10 == 9 {
            while !reassembly.read(usize::MAX).is_empty() {}
        }
    }
    assert!(chunks < 10_000 / 9 * 2, "a chunk serves many packets: {chunks}");
    assert!(reassembly.held.pieces.is_empty() && reassembly.held.chunks.is_empty());
}

#[test]
fn a_window_beyond_one_gap_is_few_pieces_and_moves_without_a_copy() {
    let mut reassembly = Reassembly::default();
    for index in 1..1000u64 {
        reassembly.insert(index * 1200, &bytes(index * 1200, 1200)).unwrap();
    }
    assert!(reassembly.held.pieces.len() <= 1_200_000 / (MAX_CHUNK - 1200) + 1);
    let place = reassembly.held.pieces.values().nth(3).unwrap().as_ptr();
    reassembly.insert(0, &bytes(0, 1200)).unwrap();
    assert!(reassembly.held.chunks.iter().any(|chunk| chunk.as_ptr() == place));
    assert_eq!(read_all(&mut reassembly), bytes(0, 1_200_000));
}

#[test]
fn every_second_byte_in_reverse_is_refused_before_it_costs_much() {
    let mut reassembly = Reassembly::default();
    let refused =
        (0..100_000u64).rev().position(|index| reassembly.insert(1 + 2 * index, &[0]).is_err());
    assert!(refused.is_some_and(|pieces| (MAX_PIECES..MAX_PIECES + 16).contains(&pieces)));
    assert!(capacity(&reassembly) < 200 * MAX_PIECES);
}

#[test]
fn single_bytes_in_reverse_join() {
    let mut reassembly = Reassembly::default();
    for offset in (1..20_000u64).rev() {
        reassembly.insert(offset, &[byte(offset)]).unwrap();
    }
    assert!(reassembly.held.pieces.len() < 20);
    reassembly.insert(0, &[byte(0)]).unwrap();
    assert_eq!(read_all(&mut reassembly), bytes(0, 20_000));
}

#[test]
fn every_second_packet_of_a_large_window_is_held() {
    let mut reassembly = Reassembly::default();
    for index in 0..13_000u64 {
        reassembly.insert((2 * index + 1) * 1200, &[7; 1200]).unwrap();
    }
    assert_eq!(reassembly.held.pieces.len(), 13_000);
}

#[test]
fn a_cleared_reassembly_holds_nothing_and_keeps_its_place() {
    let mut reassembly = Reassembly::default();
    reassembly.insert(0, &[1, 2, 3]).unwrap();
    reassembly.insert(10, &[1, 2, 3]).unwrap();
    reassembly.clear();
    assert_eq!((reassembly.end(), reassembly.readable()), (3, 0));
    assert!(reassembly.held.pieces.is_empty() && reassembly.read(usize::MAX).is_empty());
}
