use clearway_wire::header::{HeaderKind, ProtectedHeader};

use super::*;

const V1: Version = Version::V1;
const V2: Version = Version::V2;

fn versions_of(packet: &[u8]) -> Vec<Version> {
    match ProtectedHeader::decode(packet, 8).unwrap().kind {
        HeaderKind::VersionNegotiation(packet) => packet.versions().collect(),
        other => panic!("{other:?}"),
    }
}

/// The connection IDs are swapped, regardless of their lengths (RFC 9000 §17.2.1), and a reserved
/// version is listed (§6.3).
#[test]
fn the_answer_swaps_the_ids_and_lists_a_reserved_version() {
    let mut random = Random::from_number(1);
    for length in [0, 8, 20, 255] {
        let (destination, source) = (vec![1; length], vec![2; length]);
        let packet = negotiate(&[V2, V1], 1200, &destination, &source, &mut random).unwrap();
        let HeaderKind::VersionNegotiation(decoded) =
            ProtectedHeader::decode(&packet, 8).unwrap().kind
        else {
            panic!("{packet:?}")
        };
        assert_eq!((decoded.destination, decoded.source), (&source[..], &destination[..]));
        let versions = versions_of(&packet);
        assert_eq!(versions[..2], [V2, V1]);
        assert!(versions.len() == 3 && versions[2].is_reserved());
        assert!(packet.len() < 1200, "never more than what it answers");
    }
}

#[test]
fn small_datagrams_are_not_answered() {
    let mut random = Random::from_number(1);
    assert_eq!(negotiate(&[V1], 1199, &[1; 8], &[2; 8], &mut random), None);
}

fn information(chosen: Version, available: &[Version]) -> VersionInformation {
    VersionInformation { chosen, available: available.to_vec() }
}

#[test]
fn a_server_changes_only_to_what_the_client_offers() {
    let client = |available: &[Version]| information(V1, available);
    for (preferred, offered, expected) in [
        (&[V2, V1][..], &[V1, V2][..], V2),
        (&[V1, V2], &[V2, V1], V1),
        (&[V2, V1], &[V1], V1),
        (&[V1], &[V2, V1], V1),
        (&[V2, V1], &[Version::reserved(1), V1], V1),
    ] {
        let client = client(offered);
        assert_eq!(compatible(preferred, V1, Some(&client)), expected, "{preferred:?} {client:?}");
    }
    assert_eq!(compatible(&[V2, V1], V1, None), V1);
    // The information contradicts the version of the packets.
    assert_eq!(compatible(&[V2, V1], V1, Some(&information(V2, &[V2, V1]))), V1);
}

const PLAIN: Expected<'static> =
    Expected { spoken: &[V2, V1], chosen: V1, negotiated: V1, has_reacted: false };

fn verdict(server: Option<VersionInformation>, expected: Expected<'_>) -> Option<&'static str> {
    let error = check_server(server.as_ref(), expected).err()?;
    assert_eq!(error.code, TransportErrorCode::VERSION_NEGOTIATION_ERROR);
    Some(error.reason())
}

/// RFC 9368 §4: the version information that a server may send without a Version Negotiation packet
/// before it.
#[test]
fn what_a_server_may_say_without_a_version_negotiation_packet() {
    let changed = Expected { negotiated: V2, ..PLAIN };
    assert_eq!(verdict(None, PLAIN), None);
    assert_eq!(verdict(Some(information(V1, &[])), PLAIN), None);
    assert_eq!(verdict(Some(information(V1, &[V1])), PLAIN), None);
    assert_eq!(verdict(Some(information(V2, &[V1, V2])), changed), None);
    let missing = Some("the server's version information is missing");
    assert_eq!(verdict(None, changed), missing);
    let another = Some("the version of the server's packets differs from its chosen version");
    assert_eq!(verdict(Some(information(V2, &[V1, V2])), PLAIN), another);
    assert_eq!(verdict(Some(information(V1, &[V1, V2])), changed), another);
    let unasked = Some("the server chose a version that was not offered");
    assert_eq!(verdict(Some(information(Version(3), &[V1])), PLAIN), unasked);
    let only_1 = Expected { spoken: &[V1], ..PLAIN };
    assert_eq!(verdict(Some(information(V2, &[V2])), only_1), unasked);
}

/// RFC 9368 §4 and §8: the version information that a server must send after a Version Negotiation
/// packet.
#[test]
fn what_a_server_has_to_say_after_a_version_negotiation_packet() {
    let to_2 = Expected { chosen: V2, negotiated: V2, has_reacted: true, ..PLAIN };
    let to_1 = Expected { has_reacted: true, ..PLAIN };
    let prefers_1 = Expected { spoken: &[V1, V2], ..to_1 };
    let missing = Some("the server's version information is missing");
    assert_eq!(verdict(None, to_2), missing);
    assert_eq!(verdict(None, to_1), None, "version 1 alone is what it would have listed");
    assert_eq!(verdict(None, prefers_1), None);
    let empty = Some("the server's version list is empty after a Version Negotiation packet");
    assert_eq!(verdict(Some(information(V2, &[])), to_2), empty);
    assert_eq!(verdict(Some(information(V2, &[V2])), to_2), None);
    assert_eq!(verdict(Some(information(V2, &[V1, V2])), to_2), None);
    // The version in use counts as listed, because the server may be about to remove it from its
    // list.
    assert_eq!(verdict(Some(information(V2, &[Version::reserved(0)])), to_2), None);
    // The client prefers version 2, which the server supports, so the Version Negotiation packet
    // must have been forged.
    let forged = "the server's version list contradicts the Version Negotiation packet";
    assert_eq!(verdict(Some(information(V1, &[V1, V2])), to_1), Some(forged));
    assert_eq!(verdict(Some(information(V1, &[V1])), to_1), None);
    assert_eq!(verdict(Some(information(V1, &[V1, V2])), prefers_1), None);
}

#[test]
fn a_client_names_the_version_of_its_packets() {
    assert_eq!(check_client(None, V1), Ok(()));
    assert_eq!(check_client(Some(&information(V1, &[V1])), V1), Ok(()));
    let error = check_client(Some(&information(V2, &[V2, V1])), V1).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::VERSION_NEGOTIATION_ERROR);
}

/// RFC 9369 §5.
#[test]
fn a_token_is_used_in_its_own_version_only() {
    let kept = with_version(V2, b"token");
    assert_eq!(token_for(V2, &kept), b"token");
    for (version, kept) in [(V1, &kept[..]), (V2, &kept[..3]), (V2, b"")] {
        assert_eq!(token_for(version, kept), b"");
    }
}
