use proptest::prelude::*;

use super::super::test_packets::{hex, ip, packet};
use super::*;

/// UDP packets of 3 bytes from port 1000 to port 53.
const UDP4: &str = "4500001f0000400040114e88c000020bc633640703e80035000b0000616263";
const UDP6: &str = "60000000000b114020010db800000000000000000000001120010db80001000000000000\
    0000000703e80035000b0000616263";

fn about(error: IcmpError, packet: &[u8], own: &str) -> Option<Vec<u8>> {
    error.about(packet, &IpHeader::parse(packet).unwrap(), ip(own))
}

/// Checks that the checksums of a packet are correct.
fn check(packet: &[u8]) -> IpHeader {
    let header = IpHeader::parse(packet).unwrap();
    let message = &packet[header.payload_offset..];
    let pseudo = match header.source {
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => {
            checksum::pseudo_header(header.source, header.destination, ICMPV6, message.len())
        }
    };
    assert_eq!(checksum::finish(checksum::sum(message) + pseudo), 0);
    header
}

/// Compares ICMP errors with packets that were computed independently.
#[test]
fn errors_have_the_right_form() {
    let (v4, v6) = (hex(UDP4), hex(UDP6));
    let too_big = IcmpError::PacketTooBig { mtu: 1300 };
    for (error, packet, own, expected) in [
        (too_big, &v4, "192.0.2.1", "4500003b000040004001b6b5c0000201c000020b03042f5d00000514"),
        (
            IcmpError::TimeExceeded,
            &v4,
            "192.0.2.1",
            "4500003b000040004001b6b5c0000201c000020b0b002c7500000000",
        ),
        (
            too_big,
            &v6,
            "2001:db8::1",
            "60000000003b3a4020010db800000000000000000000000120010db8000000000000000000000011\
             0200079100000514",
        ),
        (
            IcmpError::SourcePolicy,
            &v6,
            "2001:db8::1",
            "60000000003b3a4020010db800000000000000000000000120010db8000000000000000000000011\
             01050da000000000",
        ),
    ] {
        let mut expected = hex(expected);
        expected.extend_from_slice(packet);
        assert_eq!(about(error, packet, own), Some(expected));
    }
    for (error, v4_type, v6_type) in [
        (IcmpError::NoRoute, [3, 0], [1, 0]),
        (IcmpError::Prohibited, [3, 13], [1, 1]),
        (IcmpError::SourcePolicy, [3, 13], [1, 5]),
        (IcmpError::TimeExceeded, [11, 0], [3, 0]),
    ] {
        assert_eq!(about(error, &v4, "192.0.2.1").unwrap()[20..22], v4_type);
        assert_eq!(about(error, &v6, "2001:db8::1").unwrap()[40..42], v6_type);
        assert_eq!(about(error, &v6, "192.0.2.1"), None);
    }
}

#[test]
fn what_is_quoted_is_bounded() {
    for length in [0, 500, 548, 1000, 1500, 9000] {
        let payload = vec![7; length];
        let v4 = packet("192.0.2.11", "198.51.100.7", 17, &payload);
        let error = about(IcmpError::NoRoute, &v4, "192.0.2.1").unwrap();
        assert_eq!(error.len(), (28 + v4.len()).min(MAX_ICMPV4_ERROR));
        check(&error);
        let v6 = packet("2001:db8::11", "2001:db8:1::7", 17, &payload);
        let error = about(IcmpError::NoRoute, &v6, "2001:db8::1").unwrap();
        assert_eq!(error.len(), (48 + v6.len()).min(MAX_ICMPV6_ERROR));
        check(&error);
    }
}

/// Tests the requirements of RFC 1812 §4.3.2.7 and RFC 4443 §2.4.
#[test]
fn no_error_is_sent_where_none_may_be() {
    let about = |packet: &[u8]| {
        let own = if packet[0] >> 4 == 4 { "192.0.2.1" } else { "2001:db8::1" };
        about(IcmpError::NoRoute, packet, own).is_some()
    };
    for (kind, v4, v6) in [
        (0, true, false),
        (1, false, false),
        (3, false, false),
        (5, false, false),
        (8, true, false),
        (11, false, false),
        (12, false, false),
        (13, true, false),
        (128, false, true),
        (129, false, true),
        (137, false, false),
    ] {
        let message = [kind, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(about(&packet("192.0.2.11", "198.51.100.7", 1, &message)), v4, "{kind}");
        assert_eq!(about(&packet("2001:db8::11", "2001:db8:1::7", 58, &message)), v6, "{kind}");
    }
    assert!(!about(&packet("192.0.2.11", "198.51.100.7", 1, &[])));
    for (source, destination) in [
        ("192.0.2.11", "224.0.1.1"),
        ("192.0.2.11", "255.255.255.255"),
        ("224.0.1.1", "192.0.2.11"),
        ("0.0.0.0", "192.0.2.11"),
        ("127.0.0.1", "192.0.2.11"),
        ("255.255.255.255", "192.0.2.11"),
        ("2001:db8::1", "ff0e::1"),
        ("::", "2001:db8::1"),
        ("::1", "2001:db8::1"),
        ("ff0e::1", "2001:db8::1"),
    ] {
        assert!(!about(&packet(source, destination, 17, &[0; 8])), "{source} {destination}");
    }
    let later = packet("2001:db8::11", "2001:db8:1::7", 44, &[17, 0, 0, 0x09, 0, 0, 0, 7]);
    let first = packet("2001:db8::11", "2001:db8:1::7", 44, &[17, 0, 0, 0x01, 0, 0, 0, 7]);
    assert!(about(&first) && !about(&later));
}

#[test]
fn echo_requests_are_answered() {
    let request4 = hex("45000021000040004001b6cfc000020bc00002010800f82b0001000270696e6721");
    let reply4 = hex("45000021000040004001b6cfc0000201c000020b0000002c0001000270696e6721");
    let request6 = hex(
        "60000000000d3a4020010db8000000000000000000000011ff0200000000000000000000000000018000531600\
         01000270696e6721",
    );
    let reply6 = hex(
        "60000000000d3a4020010db800000000000000000000000120010db8000000000000000000000011810023600001\
         000270696e6721",
    );
    let reply =
        |packet: &[u8], own: &str| echo_reply(packet, &IpHeader::parse(packet).unwrap(), ip(own));
    assert_eq!(reply(&request4, "192.0.2.1"), Some(reply4.clone()));
    assert_eq!(reply(&request6, "2001:db8::1"), Some(reply6));
    assert_eq!(reply(&reply4, "192.0.2.1"), None);
    assert_eq!(reply(&request6, "192.0.2.1"), None);
    let mut damaged = request6.clone();
    damaged[50] ^= 1;
    assert_eq!(reply(&damaged, "2001:db8::1"), None);
    assert_eq!(reply(&packet("192.0.2.11", "192.0.2.1", 1, &[8, 0, 0]), "192.0.2.1"), None);
    assert_eq!(reply(&hex(UDP4), "192.0.2.1"), None);
}

proptest! {
    #[test]
    fn checksums_are_right(
        payload in proptest::collection::vec(0u8.., 0..1400),
        source: u32,
        mtu: u32,
        kind in 0usize..5,
    ) {
        let error = [
            IcmpError::PacketTooBig { mtu },
            IcmpError::TimeExceeded,
            IcmpError::NoRoute,
            IcmpError::Prohibited,
            IcmpError::SourcePolicy,
        ][kind];
        let source4 = Ipv4Addr::from_bits(source).to_string();
        if let Some(error) = about(error, &packet(&source4, "198.51.100.7", 17, &payload), "192.0.2.1") {
            prop_assert_eq!(check(&error).destination.to_string(), source4);
        }
        let source6 = format!("2001:db8::{:x}:{:x}", source >> 16, source & 0xffff);
        let error = about(error, &packet(&source6, "2001:db8:1::7", 17, &payload), "2001:db8::1");
        check(&error.unwrap());
    }
}
