use proptest::prelude::*;

use super::*;
use crate::strategies::packet_number;

fn number(value: u64) -> PacketNumber {
    PacketNumber::new(value).unwrap()
}

#[test]
fn a_number_is_shown_with_its_type() {
    assert_eq!(format!("{:?}", PacketNumber::new(7).unwrap()), "PacketNumber(7)");
}

/// Tests the examples in RFC 9000 §A.2.
#[test]
fn encoding_examples_of_the_rfc() {
    let largest_acked = Some(number(0xab_e8b3));
    assert_eq!(number(0xac_5c02).encoded_len(largest_acked, 0), 2);
    assert_eq!(number(0xac_e8fe).encoded_len(largest_acked, 0), 3);
    let mut space = [0; 2];
    number(0xac_5c02).encode_truncated(&mut space);
    assert_eq!(space, [0x5c, 0x02]);
    let mut space = [0; 3];
    number(0xac_e8fe).encode_truncated(&mut space);
    assert_eq!(space, [0xac, 0xe8, 0xfe]);
}

/// Tests the example in RFC 9000 §A.3.
#[test]
fn decoding_example_of_the_rfc() {
    let largest = Some(number(0xa82f_30ea));
    assert_eq!(PacketNumber::decode(0x9b32, 2, largest), number(0xa82f_9b32));
    assert_eq!(PacketNumber::decode_truncated(&[0x9b, 0x32], largest), number(0xa82f_9b32));
}

/// The result is above the expected number minus half a window, and at most the expected number
/// plus half a window (RFC 9000 §A.3).
#[test]
fn the_ends_of_the_window() {
    let decode = |truncated, largest| PacketNumber::decode(truncated, 1, Some(number(largest)));
    assert_eq!(decode(0x80, 0xff), number(0x180));
    assert_eq!(decode(0x81, 0xff), number(0x81));
    assert_eq!(decode(0x00, 0x17f), number(0x200));
    assert_eq!(decode(0x01, 0x17f), number(0x101));
}

/// Tests the example in RFC 9001 §A.2, §A.3 and §A.5.
#[test]
fn packet_numbers_of_sample_packets() {
    assert_eq!(PacketNumber::decode_truncated(&[0, 0, 0, 2], None), number(2));
    assert_eq!(PacketNumber::decode_truncated(&[0, 1], None), number(1));
    let previous = Some(number(654_360_563));
    let decoded = PacketNumber::decode_truncated(&[0x00, 0xbf, 0xf4], previous);
    assert_eq!(decoded, number(654_360_564));
    let mut space = [0; 3];
    number(654_360_564).encode_truncated(&mut space);
    assert_eq!(space, [0x00, 0xbf, 0xf4]);
}

#[test]
fn each_length_represents_more_than_twice_the_distance() {
    let lengths = |number: PacketNumber, acked| (number.encoded_len(acked, 0), acked);
    for base in [0, 1, 1000, 1 << 40] {
        let acked = Some(number(base));
        assert_eq!(lengths(number(base + 1), acked), (1, acked));
        assert_eq!(lengths(number(base + 127), acked), (1, acked));
        assert_eq!(lengths(number(base + 128), acked), (2, acked));
        assert_eq!(lengths(number(base + 32_767), acked), (2, acked));
        assert_eq!(lengths(number(base + 32_768), acked), (3, acked));
        assert_eq!(lengths(number(base + 8_388_607), acked), (3, acked));
        assert_eq!(lengths(number(base + 8_388_608), acked), (4, acked));
        assert_eq!(lengths(number(base + (1 << 33)), acked), (4, acked));
    }
    // No packet has been acknowledged yet, so packet 0 counts too.
    assert_eq!(number(0).encoded_len(None, 0), 1);
    assert_eq!(number(126).encoded_len(None, 0), 1);
    assert_eq!(number(127).encoded_len(None, 0), 2);
}

#[test]
fn each_length_leaves_room_for_packets_that_arrive_before() {
    let acked = Some(number(1000));
    for (overtaken_by, length) in [
        (126, 1),
        (127, 2),
        (32_766, 2),
        (32_767, 3),
        (8_388_606, 3),
        (8_388_607, 4),
        (u64::MAX, 4),
    ] {
        assert_eq!(number(1001).encoded_len(acked, overtaken_by), length, "{overtaken_by}");
    }
    assert_eq!(number(1200).encoded_len(acked, 0), 2);
}

#[test]
fn the_ends_of_the_space() {
    assert_eq!(PacketNumber::MAX.next(), None);
    assert_eq!(PacketNumber::new(1 << 62), None);
    for length in 1..=4 {
        let mask = u64::MAX >> (64 - 8 * length);
        let last = Some(PacketNumber::MAX);
        assert_eq!(PacketNumber::decode(mask, length, last), PacketNumber::MAX);
        // The nearest candidate is beyond the last packet number, so the result is the candidate
        // before it.
        let below = PacketNumber::MAX.get() - mask;
        assert_eq!(PacketNumber::decode(0, length, last), number(below));
        assert_eq!(PacketNumber::decode(0, length, None), PacketNumber::ZERO);
        // The nearest candidate is below zero, so the result is the candidate after it.
        assert_eq!(PacketNumber::decode(mask, length, Some(PacketNumber::ZERO)), number(mask));
    }
}

proptest! {
    #[test]
    fn the_peer_gets_the_number_back(
        largest_acked in proptest::option::of(packet_number()),
        ahead in 0_u64..1 << 31,
        shift in 0_u32..31,
        received in 0_u64..1 << 31,
        overtaken_by in 0_u64..(1 << 31) - 1,
        overtaken in any::<bool>(),
    ) {
        // The peer has acknowledged one packet number, and may have received more numbers below the
        // new one, or some above it.
        let base = largest_acked.map_or(0, |largest| largest.get() + 1);
        let ahead = ahead >> shift;
        prop_assume!(base + ahead <= PacketNumber::MAX.get());
        let packet_number = number(base + ahead);
        let overtaken_by = overtaken_by >> shift;
        let next = match overtaken {
            true => base + ahead + 1 + received % (overtaken_by + 1),
            false => base + received % (ahead + 1),
        };
        prop_assume!(next <= PacketNumber::MAX.get());
        let largest_received = next.checked_sub(1).map(number);
        let length = packet_number.encoded_len(largest_acked, overtaken_by);
        let mut space = [0; 4];
        let (space, _) = space.split_at_mut(length);
        packet_number.encode_truncated(space);
        prop_assert_eq!(PacketNumber::decode_truncated(space, largest_received), packet_number);
    }

    #[test]
    fn any_number_is_nearest_to_what_is_expected(
        truncated: u64,
        length in 1_usize..=4,
        largest in proptest::option::of(packet_number()),
    ) {
        let decoded = PacketNumber::decode(truncated, length, largest).get();
        let window = 1_u64 << (8 * length);
        prop_assert_eq!(decoded % window, truncated % window);
        let expected = largest.map_or(0, |largest| (largest.get() + 1).min(PacketNumber::MAX.get()));
        for other in [decoded.checked_sub(window), decoded.checked_add(window)] {
            if let Some(other) = other.filter(|other| *other <= PacketNumber::MAX.get()) {
                prop_assert!(other.abs_diff(expected) >= decoded.abs_diff(expected));
            }
        }
    }

    #[test]
    fn lengths_out_of_range_do_no_harm(truncated: u64, length: usize, bytes in crate::strategies::bytes(20)) {
        PacketNumber::decode(truncated, length, None);
        PacketNumber::decode_truncated(&bytes, Some(PacketNumber::MAX));
    }
}
