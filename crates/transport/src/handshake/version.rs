//! Version negotiation (RFC 9000 §6).

use clearway_units::Random;
use clearway_wire::header::VersionNegotiation;
use clearway_wire::{Version, Writer};

/// The version that this crate supports.
const SUPPORTED: Version = Version::V1;
/// Smaller datagrams are not answered (§6.1).
const MINIMUM_TRIGGER: usize = 1200;

/// Whether connections of `version` can be accepted.
pub(crate) fn is_supported(version: Version) -> bool {
    version == SUPPORTED
}

/// A Version Negotiation packet from `source` to `destination`, in answer to a datagram of `trigger_len` bytes with an
/// unknown version; `None` if the datagram is too small to be answered.
pub(crate) fn negotiate(
    trigger_len: usize,
    destination: &[u8],
    source: &[u8],
    random: &mut Random,
) -> Option<Vec<u8>> {
    if trigger_len < MINIMUM_TRIGGER {
        return None;
    }
    let [unused, a, b, c, d] = random.array::<5>();
    // A reserved version, so that clients stay able to ignore unknown ones (§6.3).
    let reserved = u32::from_be_bytes([a, b, c, d]) & 0xf0f0_f0f0 | 0x0a0a_0a0a;
    let versions = [SUPPORTED, Version(reserved)];
    let mut buffer = [0; 1200];
    let mut writer = Writer::new(&mut buffer);
    VersionNegotiation::encode(&mut writer, unused, source, destination, &versions).ok()?;
    Some(writer.filled().to_vec())
}

/// Whether a Version Negotiation packet ends a client's attempt. A packet that lists the version in use is ignored
/// (§6.2).
pub(crate) fn is_final(packet: &VersionNegotiation<'_>) -> bool {
    packet.versions().all(|version| !is_supported(version))
}

#[cfg(test)]
mod tests {
    use clearway_wire::header::{HeaderKind, ProtectedHeader};

    use super::*;

    fn versions_of(packet: &[u8]) -> Vec<Version> {
        match ProtectedHeader::decode(packet, 8).unwrap().kind {
            HeaderKind::VersionNegotiation(packet) => packet.versions().collect(),
            other => panic!("{other:?}"),
        }
    }

    /// The connection IDs are swapped, whatever their lengths (RFC 9000 §17.2.1), and a reserved version is listed (§6.3).
    #[test]
    fn the_answer_swaps_the_ids_and_lists_a_reserved_version() {
        let mut random = Random::from_number(1);
        for length in [0, 8, 20, 255] {
            let (destination, source) = (vec![1; length], vec![2; length]);
            let packet = negotiate(1200, &destination, &source, &mut random).unwrap();
            let HeaderKind::VersionNegotiation(decoded) =
                ProtectedHeader::decode(&packet, 8).unwrap().kind
            else {
                panic!("{packet:?}")
            };
            assert_eq!((decoded.destination, decoded.source), (&source[..], &destination[..]));
            let versions = versions_of(&packet);
            assert!(versions.contains(&Version::V1));
            assert!(versions.iter().any(|version| version.0 & 0x0f0f_0f0f == 0x0a0a_0a0a));
            assert!(packet.len() < 1200, "never more than what it answers");
        }
    }

    #[test]
    fn small_datagrams_are_not_answered() {
        assert_eq!(negotiate(1199, &[1; 8], &[2; 8], &mut Random::from_number(1)), None);
    }

    #[test]
    fn a_list_with_our_version_is_not_final() {
        let list = |versions: &[Version]| {
            let mut buffer = [0; 100];
            let mut writer = Writer::new(&mut buffer);
            VersionNegotiation::encode(&mut writer, 0, &[1; 8], &[2; 8], versions).unwrap();
            let packet = writer.filled().to_vec();
            match ProtectedHeader::decode(&packet, 8).unwrap().kind {
                HeaderKind::VersionNegotiation(packet) => is_final(&packet),
                other => panic!("{other:?}"),
            }
        };
        let other = Version(0x6b33_43cf);
        assert!(list(&[other]));
        assert!(!list(&[other, Version::V1]));
    }
}
