use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_round_trip, decode, number};
use crate::strategies::{hex, varint};

type Range = RangeInclusive<PacketNumber>;

fn range(smallest: u64, largest: u64) -> Range {
    PacketNumber::new(smallest).unwrap()..=PacketNumber::new(largest).unwrap()
}

fn decode_ack(encoded: &[u8]) -> Ack<'_> {
    match decode(encoded) {
        Ok(Frame::Ack(ack)) => ack,
        other => panic!("{other:?}"),
    }
}

/// Descending ranges with at least one packet number between any two of them.
fn ranges(most: usize) -> impl Strategy<Value = Vec<Range>> {
    let pairs = vec((any::<u32>(), 0_u32..32, any::<u32>(), 0_u32..32), 1..=most);
    (pairs, varint()).prop_map(|(pairs, spare)| {
        let total: u64 = pairs
            .iter()
            .map(|(gap, a, length, b)| u64::from(gap >> a) + u64::from(length >> b) + 2)
            .sum();
        let mut top = (total + spare.get()).min(PacketNumber::MAX.get());
        let mut ranges = Vec::new();
        for (gap, a, length, b) in pairs {
            let smallest = top - u64::from(length >> b);
            ranges.push(range(smallest, top));
            top = smallest.saturating_sub(u64::from(gap >> a) + 2);
        }
        ranges
    })
}

fn ecn() -> impl Strategy<Value = Option<EcnCounts>> {
    let counts = (varint(), varint(), varint());
    proptest::option::of(counts.prop_map(|(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce }))
}

#[test]
fn on_the_wire() {
    // The ranges are 20 to 18, a gap of 3 packets that is encoded as 2, and 14 alone.
    let encoded = hex("02 14 05 01 02 02 00");
    let ack = decode_ack(&encoded);
    assert_eq!((ack.largest.get(), ack.delay, ack.ecn), (20, number(5), None));
    assert_eq!(ack.ranges().collect::<Vec<_>>(), [range(18, 20), range(14, 14)]);
    check_round_trip(Frame::Ack(ack));

    let mut buffer = [0; 7];
    let mut writer = Writer::new(&mut buffer);
    let written = Ack::encode_ranges(
        &mut writer,
        number(5),
        [range(18, 20), range(14, 14)].into_iter(),
        None,
    );
    assert_eq!(written, Ok(2));
    assert_eq!(writer.filled(), encoded);
}

#[test]
fn ecn_counts_on_the_wire() {
    let encoded = hex("03 00 00 00 00 01 4040 02");
    let ack = decode_ack(&encoded);
    let counts = EcnCounts { ect0: number(1), ect1: number(0x40), ce: number(2) };
    assert_eq!(ack.ecn, Some(counts));
    assert_eq!(ack.ranges().collect::<Vec<_>>(), [range(0, 0)]);
    check_round_trip(Frame::Ack(ack));
}

#[test]
fn packet_numbers_below_zero() {
    let error = |field| Err(DecodeError::invalid(field, "extends below packet number 0"));
    assert!(decode(&hex("02 05 00 00 05")).is_ok());
    assert_eq!(decode(&hex("02 05 00 00 06")), error("First ACK Range"));
    // After range 5, the gap has 1 or more packets: the next range ends at 3 - gap.
    assert!(decode(&hex("02 05 00 01 00 03 00")).is_ok());
    assert_eq!(decode(&hex("02 05 00 01 00 04 00")), error("Gap"));
    assert_eq!(decode(&hex("02 05 00 01 00 ffffffffffffffff 00")), error("Gap"));
    assert!(decode(&hex("02 05 00 01 00 01 02")).is_ok());
    assert_eq!(decode(&hex("02 05 00 01 00 01 03")), error("ACK Range Length"));
    assert_eq!(decode(&hex("02 01 00 01 00 00 00")), error("Gap"));
}

#[test]
fn more_ranges_than_bytes() {
    let cut = Err(DecodeError::Truncated { field: "Gap" });
    assert_eq!(decode(&hex("02 20 00 02 00 00 00")), cut);
    assert_eq!(decode(&hex("02 20 00 ffffffffffffffff 00 00 00")), cut);
}

#[test]
fn ranges_out_of_order_are_refused() {
    let mut buffer = [0; 100];
    let mut writer = Writer::new(&mut buffer);
    let wrong: [&[Range]; 5] = [
        &[],
        &[range(2, 3), range(2, 3)],
        &[range(2, 3), range(5, 5)],
        // These two are adjacent: there is no packet number between them.
        &[range(2, 3), range(1, 1)],
        &[RangeInclusive::new(PacketNumber::MAX, PacketNumber::ZERO)],
    ];
    for ranges in wrong {
        let result = Ack::encode_ranges(&mut writer, VarInt::ZERO, ranges.iter().cloned(), None);
        assert_eq!(result, Err(EncodeError), "{ranges:?}");
        assert_eq!(writer.written(), 0, "{ranges:?}");
    }
}

#[test]
fn a_two_byte_count_starts_with_the_sixty_fifth_range() {
    for count in [63, 64, 65, 66, 200] {
        let ranges = (0..count).rev().map(|index| range(index * 2, index * 2));
        let mut buffer = [0xff; 1000];
        let mut writer = Writer::new(&mut buffer);
        let written = Ack::encode_ranges(&mut writer, VarInt::ZERO, ranges.clone(), None);
        assert_eq!(written, Ok(count as usize));
        let ack = decode_ack(writer.filled());
        assert!(ack.ranges().eq(ranges), "{count} ranges");
    }
}

#[test]
fn a_two_byte_count_works_in_any_space() {
    let ecn = Some(EcnCounts::default());
    let ranges = || (0..70).rev().map(|index| range(index * 2, index * 2));
    for space in 9..200_usize {
        let mut buffer = [0; 200];
        let mut writer = Writer::new(&mut buffer[..space]);
        let written = Ack::encode_ranges(&mut writer, VarInt::ZERO, ranges(), ecn).unwrap();
        // Type, largest (two bytes), delay, count, first range and three ECN counts take 9 bytes;
        // each additional range takes two bytes, and the 65th range takes one more.
        let in_narrow = ((space - 9) / 2 + 1).min(64);
        let expected = if space >= 138 { ((space - 10) / 2 + 1).min(70) } else { in_narrow };
        assert_eq!(written, expected, "{space} bytes");
        assert!(decode_ack(writer.filled()).ranges().eq(ranges().take(written)));
    }
}

#[test]
fn at_most_as_many_ranges_as_a_two_byte_count_holds() {
    let ranges = (0..20_000).rev().map(|index| range(index * 2, index * 2));
    let mut buffer = vec![0; 65_000];
    let mut writer = Writer::new(&mut buffer);
    let written = Ack::encode_ranges(&mut writer, VarInt::ZERO, ranges.clone(), None);
    assert_eq!(written, Ok(Ack::MAX_RANGES));
    let ack = decode_ack(writer.filled());
    assert!(ack.ranges().eq(ranges.take(Ack::MAX_RANGES)));
}

proptest! {
    #[test]
    fn round_trip(ranges in ranges(20), delay in varint(), ecn in ecn()) {
        let mut buffer = [0; 1000];
        let mut writer = Writer::new(&mut buffer);
        let written = Ack::encode_ranges(&mut writer, delay, ranges.iter().cloned(), ecn);
        prop_assert_eq!(written, Ok(ranges.len()));
        let ack = decode_ack(writer.filled());
        prop_assert_eq!(ack.largest, *ranges[0].end());
        prop_assert_eq!((ack.delay, ack.ecn), (delay, ecn));
        prop_assert!(ack.ranges().eq(ranges.iter().cloned()));
        check_round_trip(Frame::Ack(ack));
    }

    #[test]
    fn as_many_ranges_as_fit(
        ranges in ranges(90),
        delay in varint(),
        ecn in ecn(),
        space in 0_usize..1000,
    ) {
        let mut buffer = [0x77; 1001];
        let mut whole = [0; 2000];
        let mut whole = Writer::new(&mut whole);
        Ack::encode_ranges(&mut whole, delay, ranges.iter().cloned(), ecn).unwrap();

        let mut writer = Writer::new(&mut buffer[..space + 1]);
        writer.u8(0x55).unwrap();
        match Ack::encode_ranges(&mut writer, delay, ranges.iter().cloned(), ecn) {
            Ok(written) => {
                let ack = decode_ack(&writer.filled()[1..]);
                prop_assert!(ack.ranges().eq(ranges.iter().take(written).cloned()));
                // One more range would not have fit.
                if let Some(next) = ranges.get(written) {
                    let more = ranges[..=written].iter().cloned();
                    let mut buffer = [0; 2000];
                    let mut longer = Writer::new(&mut buffer);
                    Ack::encode_ranges(&mut longer, delay, more, ecn).unwrap();
                    prop_assert!(longer.written() > space, "{next:?} would have fit");
                } else {
                    prop_assert_eq!(&writer.filled()[1..], whole.filled());
                }
            }
            Err(EncodeError) => {
                prop_assert_eq!(writer.filled(), [0x55]);
                let mut first = [0; 60];
                let mut first = Writer::new(&mut first);
                let one = ranges[..1].iter().cloned();
                Ack::encode_ranges(&mut first, delay, one, ecn).unwrap();
                prop_assert!(first.written() > space);
            }
        }
        prop_assert_eq!(buffer[space + 1], 0x77);
    }

    #[test]
    fn what_is_decoded_never_breaks_the_rules(encoded in vec(0_u8..0x50, 0..60)) {
        let encoded = [&[0x02], encoded.as_slice()].concat();
        if let Ok(Frame::Ack(ack)) = Frame::decode(&mut Reader::new(&encoded)) {
            let ranges: Vec<_> = ack.ranges().collect();
            prop_assert_eq!(ranges.len() as u64, ack.range_count.get() + 1);
            prop_assert!(ranges.iter().all(|range| range.start() <= range.end()));
            for pair in ranges.windows(2) {
                prop_assert!(pair[1].end().get() + 1 < pair[0].start().get());
            }
        }
    }
}
