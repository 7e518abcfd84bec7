use super::{DropCounts, DropReason, HandshakePackets};

fn dropped(counts: &[(DropReason, usize)]) -> DropCounts {
    let mut dropped = DropCounts::default();
    counts.iter().for_each(|(reason, count)| dropped.add(*reason, *count));
    dropped
}

#[test]
fn what_arrived_is_said_in_words() {
    let nine = [(DropReason::UnsupportedVersion, 3), (DropReason::DecryptionFailure, 9)];
    let retries = [(DropReason::Retry, 2)];
    let cases = [
        (0, false, dropped(&[]), "nothing arrived"),
        (1, false, dropped(&[]), "1 packet arrived"),
        (
            0,
            false,
            dropped(&nine),
            "12 packets arrived and all were dropped: 9 could not be decrypted, 3 had an unknown \
             version",
        ),
        (
            0,
            false,
            dropped(&nine[..1]),
            "3 packets arrived and all were dropped: 3 had an unknown version",
        ),
        (
            0,
            true,
            dropped(&retries),
            "3 packets arrived, a Retry was accepted and 2 were dropped: 2 contained an \
             unacceptable Retry",
        ),
        (
            4,
            false,
            dropped(&[(DropReason::Duplicate, 1)]),
            "5 packets arrived and 1 was dropped: 1 arrived twice",
        ),
        (
            0,
            false,
            dropped(&[(DropReason::Invalid, 1)]),
            "1 packet arrived and was dropped: 1 did not parse as QUIC",
        ),
    ];
    for (processed, followed_retry, dropped, expected) in cases {
        let packets =
            HandshakePackets { processed, followed_retry, dropped, ..HandshakePackets::default() };
        assert_eq!(packets.to_string(), expected);
    }
}

/// The discriminant of a reason is the index of its counter.
#[test]
fn every_reason_has_its_count() {
    for (place, reason) in DropReason::ALL.into_iter().enumerate() {
        assert_eq!(place, reason as usize);
        let mut counts = dropped(&[(reason, 2), (reason, usize::MAX)]);
        assert_eq!(counts.get(reason), u64::from(u32::MAX));
        assert_eq!(counts.total(), counts.get(reason));
        DropReason::ALL.iter().for_each(|reason| counts.add(*reason, usize::MAX));
        assert_eq!(counts.total(), 9 * u64::from(u32::MAX));
    }
}
