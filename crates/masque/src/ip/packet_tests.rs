use proptest::prelude::*;

use super::super::test_packets::{hex, ip, packet, set_checksum};
use super::*;

#[test]
fn headers_are_read() {
    let header = IpHeader::parse(&packet("192.0.2.11", "198.51.100.7", 17, &[0; 8])).unwrap();
    let expected = IpHeader {
        source: ip("192.0.2.11"),
        destination: ip("198.51.100.7"),
        protocol: 17,
        hop_limit: 64,
        payload_offset: 20,
        is_later_fragment: false,
    };
    assert_eq!(header, expected);
    let header = IpHeader::parse(&packet("2001:db8::11", "2001:db8:1::7", 6, &[])).unwrap();
    let (source, destination) = (ip("2001:db8::11"), ip("2001:db8:1::7"));
    let expected = IpHeader { source, destination, protocol: 6, payload_offset: 40, ..expected };
    assert_eq!(header, expected);
}

#[test]
fn malformed_ipv4_headers_are_refused() {
    let valid = packet("192.0.2.11", "198.51.100.7", 17, &[0; 8]);
    let change = |position: usize, byte: u8| {
        let mut packet = valid.clone();
        packet[position] = byte;
        packet
    };
    assert_eq!(IpHeader::parse(&[]), Err(PacketError::Truncated));
    assert_eq!(IpHeader::parse(&valid[..19]), Err(PacketError::Truncated));
    assert_eq!(IpHeader::parse(&valid[..27]), Err(PacketError::Length));
    assert_eq!(IpHeader::parse(&change(0, 0x55)), Err(PacketError::Version(5)));
    assert_eq!(IpHeader::parse(&change(0, 0x44)), Err(PacketError::HeaderLength));
    assert_eq!(IpHeader::parse(&change(0, 0x4f)), Err(PacketError::Truncated));
    assert_eq!(IpHeader::parse(&change(8, 63)), Err(PacketError::Checksum));
    // Options in place of the payload.
    let with_options = |options: [u8; 8]| {
        let mut packet = valid.clone();
        packet[0] = 0x47;
        packet[20..].copy_from_slice(&options);
        set_checksum(&mut packet);
        IpHeader::parse(&packet).map(|header| header.payload_offset)
    };
    assert_eq!(with_options([1, 7, 4, 0, 0, 0, 9, 9]), Ok(28));
    assert_eq!(with_options([131, 7, 4, 192, 0, 2, 1, 0]), Err(PacketError::SourceRoute));
    assert_eq!(with_options([1, 137, 7, 4, 192, 0, 2, 1]), Err(PacketError::SourceRoute));
    assert_eq!(with_options([7, 1, 0, 0, 0, 0, 0, 0]), Err(PacketError::HeaderLength));
    assert_eq!(with_options([7, 9, 0, 0, 0, 0, 0, 0]), Err(PacketError::HeaderLength));
    let mut fragment = change(7, 1);
    set_checksum(&mut fragment);
    assert!(IpHeader::parse(&fragment).unwrap().is_later_fragment);
}

/// Tests the requirements of RFC 9484 §4.8.
#[test]
fn section_4_8_extension_headers_are_walked() {
    let parse = |next: u8, payload: &[u8]| {
        let header = IpHeader::parse(&packet("2001:db8::1", "2001:db8::2", next, payload))?;
        Ok((header.protocol, header.payload_offset, header.is_later_fragment))
    };
    let hop_by_hop = [60, 0, 0, 0, 0, 0, 0, 0];
    let destination = [44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let fragment = [51, 0, 0, 1, 0, 0, 0, 7];
    let authentication = [17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let chain = [&hop_by_hop[..], &destination, &fragment, &authentication, &[0; 8]].concat();
    assert_eq!(parse(0, &chain), Ok((17, 84, false)));
    let later = [17, 0, 0, 0x09, 0, 0, 0, 7];
    assert_eq!(parse(44, &[&later[..], &[0; 5]].concat()), Ok((17, 48, true)));
    assert_eq!(parse(50, &[0; 8]), Ok((50, 40, false)));
    assert_eq!(parse(59, &[]), Ok((59, 40, false)));
    assert_eq!(parse(43, &[17, 0, 0, 0, 0, 0, 0, 0]), Err(PacketError::SourceRoute));
    assert_eq!(parse(43, &[17, 0, 4, 0, 0, 0, 0, 0]), Ok((17, 48, false)));
    assert_eq!(parse(0, &[17, 1, 0, 0, 0, 0, 0, 0]), Err(PacketError::Truncated));
    assert_eq!(parse(44, &[17]), Err(PacketError::Truncated));
    assert_eq!(parse(60, &[]), Err(PacketError::Truncated));
    let loops = [60, 0, 0, 0, 0, 0, 0, 0].repeat(9);
    assert_eq!(parse(60, &loops), Err(PacketError::TooManyExtensions));
    let eight = [&[60, 0, 0, 0, 0, 0, 0, 0].repeat(7)[..], &[6, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(parse(60, &eight), Ok((6, 104, false)));
    let whole = packet("2001:db8::1", "2001:db8::2", 17, &[0; 8]);
    assert_eq!(IpHeader::parse(&whole[..39]), Err(PacketError::Truncated));
    assert_eq!(IpHeader::parse(&whole[..47]), Err(PacketError::Length));
}

/// The protocols that are skipped as extension headers are exactly those that cannot be the scope
/// of a tunnel.
#[test]
fn extension_headers_are_those_that_scopes_exclude() {
    for next in 0..=255 {
        let payload = [59, 0, 1, 0, 0, 0, 0, 0];
        let header = IpHeader::parse(&packet("2001:db8::1", "2001:db8::2", next, &payload));
        let is_skipped = header.is_err_and(|error| error == PacketError::TooManyExtensions)
            || header.is_ok_and(|header| header.protocol != next);
        assert_eq!(is_skipped, crate::scope::EXTENSION_HEADERS.contains(&next), "{next}");
    }
}

#[test]
fn link_local_addresses_are_recognized() {
    let is_link_local = |source: &str, destination: &str| {
        IpHeader::parse(&packet(source, destination, 17, &[])).unwrap().is_link_local()
    };
    assert!(is_link_local("fe80::1", "2001:db8::1"));
    assert!(is_link_local("2001:db8::1", "ff02::1"));
    assert!(is_link_local("2001:db8::1", "ff12::1"));
    assert!(is_link_local("2001:db8::1", "ff01::1"));
    assert!(!is_link_local("2001:db8::1", "ff0e::1"));
    assert!(is_link_local("169.254.1.1", "192.0.2.1"));
    assert!(is_link_local("192.0.2.1", "224.0.0.251"));
    assert!(!is_link_local("192.0.2.1", "224.0.1.1"));
}

/// The IPv4 header is a widely used example, with the checksum 0xb861.
#[test]
fn the_checksum_follows_the_hop_limit() {
    let mut packet = hex("45000073000040004011b861c0a80001c0a800c7");
    assert_eq!(decrement_hop_limit(&mut packet), Ok(()));
    assert_eq!(packet, hex("4500007300004000 3f11b961c0a80001c0a800c7".replace(' ', "").as_str()));
    let mut packet = hex("60000000000011 40".replace(' ', "").as_str());
    assert_eq!(decrement_hop_limit(&mut packet), Ok(()));
    assert_eq!(packet[7], 0x3f);
    for limit in [0, 1] {
        let mut packet = hex("45000073000040004011b861c0a80001c0a800c7");
        packet[8] = limit;
        let before = packet.clone();
        assert_eq!(decrement_hop_limit(&mut packet), Err(HopLimitExceeded));
        assert_eq!(packet, before);
    }
    assert_eq!(decrement_hop_limit(&mut []), Err(HopLimitExceeded));
}

proptest! {
    #[test]
    fn an_updated_checksum_is_that_of_a_new_header(
        header in proptest::array::uniform20(0u8..),
        limit in 2u8..,
    ) {
        let mut packet = header.to_vec();
        (packet[0], packet[8]) = (0x45, limit);
        set_checksum(&mut packet);
        prop_assert_eq!(decrement_hop_limit(&mut packet), Ok(()));
        let mut expected = packet.clone();
        set_checksum(&mut expected);
        prop_assert_eq!(packet, expected);
    }

    #[test]
    fn anything_is_parsed_or_refused(
        version in proptest::sample::select(vec![0x45u8, 0x46, 0x4f, 0x60, 0x10]),
        mut bytes in proptest::collection::vec(0u8.., 0..120),
        is_repaired: bool,
    ) {
        if let Some(first) = bytes.first_mut() {
            *first = version;
        }
        if is_repaired && bytes.len() > 60 {
            let length = bytes.len() as u16;
            if version >> 4 == 4 {
                bytes[2..4].copy_from_slice(&length.to_be_bytes());
                set_checksum(&mut bytes);
            } else {
                bytes[4..6].copy_from_slice(&(length - 40).to_be_bytes());
                bytes[6] %= 64;
            }
        }
        if let Ok(header) = IpHeader::parse(&bytes) {
            prop_assert!(header.payload_offset <= bytes.len());
        }
        _ = decrement_hop_limit(&mut bytes);
    }
}
