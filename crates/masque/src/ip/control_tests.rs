use proptest::prelude::*;

use super::*;
use crate::target::{IpScope, ScopeTarget};

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Returns the type and the value of an encoded capsule.
fn split(capsule: &[u8]) -> (u64, &[u8]) {
    let mut reader = Reader::new(capsule);
    let capsule_type = VarInt::decode(&mut reader, "type").unwrap().get();
    (capsule_type, reader.length_prefixed("value").unwrap())
}

fn decode(capsule: &[u8]) -> Result<IpCapsule, CapsuleFault> {
    let (capsule_type, value) = split(capsule);
    IpCapsule::decode(capsule_type, value).unwrap()
}

fn range(start: &str, end: &str, protocol: u8) -> AddressRange {
    AddressRange { start: ip(start), end: ip(end), protocol }
}

/// Tests the capsules of the example in RFC 9484 §8.1.
#[test]
fn example_of_a_remote_access_vpn() {
    let request = RequestedAddress { request_id: 1, prefix: net("0.0.0.0/32") };
    let assigned = AssignedAddress { request_id: 1, prefix: net("192.0.2.11/32") };
    let routes = Routes::new(vec![range("0.0.0.0", "255.255.255.255", 0)]).unwrap();
    assert_eq!(AddressRange::from(net("0.0.0.0/0")), routes.ranges()[0]);
    for (capsule, bytes) in [
        (IpCapsule::AddressRequest(vec![request]), &[2, 7, 1, 4, 0, 0, 0, 0, 32][..]),
        (IpCapsule::AddressAssign(vec![assigned]), &[1, 7, 1, 4, 192, 0, 2, 11, 32]),
        (IpCapsule::RouteAdvertisement(routes), &[3, 10, 4, 0, 0, 0, 0, 255, 255, 255, 255, 0]),
    ] {
        assert_eq!(capsule.encode(), bytes);
        assert_eq!(decode(bytes), Ok(capsule));
    }
    assert_eq!(IpCapsule::decode(4, &[]), None);
}

/// Tests the requirements of RFC 9484 §4.7.1 and §4.7.2.
#[test]
fn section_4_7_1_addresses() {
    assert_eq!(decode(&[1, 0]), Ok(IpCapsule::AddressAssign(vec![])));
    for (value, fault) in [
        (&[1][..], CapsuleFault::Truncated),
        (&[1, 4, 192, 0, 2], CapsuleFault::Truncated),
        (&[1, 4, 192, 0, 2, 11], CapsuleFault::Truncated),
        (&[1, 5, 192, 0, 2, 11, 32], CapsuleFault::IpVersion(5)),
        (&[1, 4, 192, 0, 2, 11, 33], CapsuleFault::PrefixLength(33)),
        (&[1, 4, 192, 0, 2, 11, 31], CapsuleFault::HostBits),
        (&[1, 4, 192, 0, 2, 11, 0], CapsuleFault::HostBits),
    ] {
        for capsule_type in [ADDRESS_ASSIGN, ADDRESS_REQUEST] {
            let result = IpCapsule::decode(capsule_type, value);
            assert_eq!(result, Some(Err(fault)), "{value:?}");
        }
    }
    assert_eq!(decode(&[2, 0]), Err(CapsuleFault::NoRequestedAddress));
    assert_eq!(decode(&[2, 7, 0, 4, 0, 0, 0, 0, 32]), Err(CapsuleFault::ZeroRequestId));
    let many = [1, 4, 192, 0, 2, 11, 32].repeat(MAX_ADDRESSES + 1);
    let result = IpCapsule::decode(ADDRESS_ASSIGN, &many);
    assert_eq!(result, Some(Err(CapsuleFault::TooManyEntries)));
    let request = RequestedAddress { request_id: 7, prefix: net("2001:db8::/64") };
    let rejection = AssignedAddress::rejection(&request);
    assert_eq!((rejection.request_id, rejection.prefix), (7, net("::/128")));
    assert!(rejection.is_rejection());
    assert!(!AssignedAddress { request_id: 7, prefix: net("::/0") }.is_rejection());
}

/// Tests the requirements of RFC 9484 §4.7.3.
#[test]
fn section_4_7_3_routes() {
    let check = |ranges: &[AddressRange]| {
        let result = Routes::new(ranges.to_vec());
        // A capsule with these ranges is judged in the same way.
        let capsule = IpCapsule::RouteAdvertisement(Routes(ranges.to_vec())).encode();
        let expected = result.clone().map(IpCapsule::RouteAdvertisement);
        assert_eq!(decode(&capsule), expected);
        result.map(|_| ())
    };
    let (a, b) = (range("10.0.0.0", "10.0.0.9", 6), range("10.0.0.10", "10.0.0.20", 6));
    let (six, any) = (range("::1", "::9", 6), range("10.0.0.5", "10.0.0.15", 0));
    assert_eq!(check(&[]), Ok(()));
    assert_eq!(check(&[a, b, six]), Ok(()));
    assert_eq!(check(&[a, AddressRange { protocol: 17, ..a }]), Ok(()));
    assert_eq!(check(&[range("10.0.0.2", "10.0.0.1", 0)]), Err(CapsuleFault::StartAfterEnd));
    assert_eq!(check(&[six, a]), Err(CapsuleFault::Order));
    assert_eq!(check(&[AddressRange { protocol: 17, ..a }, b]), Err(CapsuleFault::Order));
    assert_eq!(check(&[b, a]), Err(CapsuleFault::Overlap));
    assert_eq!(check(&[a, a]), Err(CapsuleFault::Overlap));
    assert_eq!(check(&[a, range("10.0.0.9", "10.0.0.9", 6)]), Err(CapsuleFault::Overlap));
    assert_eq!(check(&[any, a]), Err(CapsuleFault::OverlapWithAnyProtocol));
    assert_eq!(check(&[any, b]), Err(CapsuleFault::OverlapWithAnyProtocol));
    assert_eq!(check(&[any, range("10.0.0.16", "10.0.0.16", 6)]), Ok(()));
    assert_eq!(check(&[any, six]), Ok(()));
    let inner = range("10.0.0.7", "10.0.0.8", 6);
    assert_eq!(check(&[any, inner]), Err(CapsuleFault::OverlapWithAnyProtocol));
    assert_eq!(Routes::sorted(vec![six, b, a]).unwrap().ranges(), [a, b, six]);
    let mixed = AddressRange { end: ip("::1"), ..a };
    assert_eq!(Routes::new(vec![mixed]), Err(CapsuleFault::StartAfterEnd));
    let many: Vec<u8> = (0..=MAX_ROUTES as u32)
        .flat_map(|index| {
            let octets = (index * 2).to_be_bytes();
            [&[4], &octets[..], &octets, &[0]].concat()
        })
        .collect();
    let result = IpCapsule::decode(ROUTE_ADVERTISEMENT, &many);
    assert_eq!(result, Some(Err(CapsuleFault::TooManyEntries)));
    for fault in [CapsuleFault::IpVersion(5), CapsuleFault::PrefixLength(9), CapsuleFault::Order] {
        assert!(!fault.to_string().is_empty());
    }
}

#[test]
fn routes_permit_by_address_and_protocol() {
    let routes = Routes::sorted(vec![
        range("10.0.0.0", "10.0.0.9", 6),
        range("10.0.0.20", "10.0.0.29", 6),
        range("10.0.0.5", "10.0.0.9", 17),
        range("10.1.0.0", "10.1.0.9", 0),
        range("2001:db8::", "2001:db8::ffff", 17),
    ])
    .unwrap();
    for (address, protocol, expected) in [
        ("10.0.0.0", 6, true),
        ("10.0.0.9", 6, true),
        ("10.0.0.10", 6, false),
        ("10.0.0.19", 6, false),
        ("10.0.0.20", 6, true),
        ("10.0.0.4", 17, false),
        ("10.0.0.5", 17, true),
        ("10.0.0.5", 1, true),
        ("10.0.0.10", 1, false),
        ("10.1.0.5", 50, true),
        ("10.1.0.10", 50, false),
        ("2001:db8::1", 17, true),
        ("2001:db8::1", 6, false),
        ("2001:db8::1", 58, true),
        ("2001:db8::1", 1, false),
        ("9.255.255.255", 6, false),
    ] {
        assert_eq!(routes.contains(ip(address), protocol), expected, "{address} {protocol}");
    }
    assert!(!Routes::default().contains(ip("10.0.0.1"), 6));
}

/// Tests the examples of RFC 9484 §8.1 and §8.3.
#[test]
fn routes_follow_the_scope() {
    let scope =
        |target: &str, protocol| IpScope { target: ScopeTarget::parse(target).unwrap(), protocol };
    let routes = |scope: &IpScope, resolved: &[IpAddr], has_v6| {
        Routes::for_scope(scope, resolved, true, has_v6).ranges().to_vec()
    };
    let all = [range("0.0.0.0", "255.255.255.255", 0)];
    assert_eq!(routes(&IpScope::ANY, &[], false), all);
    assert_eq!(routes(&IpScope::ANY, &[], true).len(), 2);
    let prefix = scope("192.0.2.0/24", Some(6));
    assert_eq!(routes(&prefix, &[], true), [range("192.0.2.0", "192.0.2.255", 6)]);
    let name = scope("target.example.com", Some(17));
    let resolved = [ip("2001:db8:3456::b"), ip("198.51.100.2"), ip("198.51.100.2")];
    let v4 = range("198.51.100.2", "198.51.100.2", 17);
    let v6 = range("2001:db8:3456::b", "2001:db8:3456::b", 17);
    assert_eq!(routes(&name, &resolved, true), [v4, v6]);
    assert_eq!(routes(&name, &resolved, false), [v4]);
    assert_eq!(Routes::new(vec![v4, v6]).map(|routes| routes.ranges().len()), Ok(2));
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u8>().prop_map(|last| IpAddr::from([10, 0, 0, last])),
        any::<u8>().prop_map(|last| IpAddr::from([0, 0, 0, 0, 0, 0, 0, u16::from(last)])),
    ]
}

proptest! {
    #[test]
    fn addresses_survive(entries in proptest::collection::vec((1u64..1 << 62, address(), 0u8..=128), 1..10)) {
        let prefixes = entries.into_iter().filter_map(|(id, address, length)| {
            Some((id, IpNet::new(address, length).ok()?.trunc()))
        });
        let assigned: Vec<_> = prefixes
            .map(|(request_id, prefix)| AssignedAddress { request_id, prefix })
            .collect();
        let requested: Vec<_> = assigned
            .iter()
            .map(|it| RequestedAddress { request_id: it.request_id, prefix: it.prefix })
            .collect();
        let capsule = IpCapsule::AddressAssign(assigned);
        prop_assert_eq!(decode(&capsule.encode()), Ok(capsule));
        if !requested.is_empty() {
            let capsule = IpCapsule::AddressRequest(requested);
            prop_assert_eq!(decode(&capsule.encode()), Ok(capsule));
        }
    }

    #[test]
    fn routes_agree_with_a_search(
        ranges in proptest::collection::vec((address(), 0u8..40, proptest::sample::select(vec![0u8, 6, 17])), 0..12),
        probe in address(),
        protocol in proptest::sample::select(vec![1u8, 6, 17, 58]),
    ) {
        let ranges = ranges.into_iter().map(|(start, length, protocol)| {
            let end = match start {
                IpAddr::V4(start) => Ipv4Addr::from_bits(start.to_bits() + u32::from(length)).into(),
                IpAddr::V6(start) => Ipv6Addr::from_bits(start.to_bits() + u128::from(length)).into(),
            };
            AddressRange { start, end, protocol }
        });
        let ranges: Vec<AddressRange> = ranges.collect();
        let overlap = ranges.iter().enumerate().any(|(index, a)| {
            ranges[..index].iter().any(|b| {
                a.start.is_ipv4() == b.start.is_ipv4() && a.start <= b.end && b.start <= a.end
                    && (a.protocol == b.protocol || a.protocol == 0 || b.protocol == 0)
            })
        });
        let routes = Routes::sorted(ranges.clone());
        prop_assert_eq!(routes.is_err(), overlap);
        if let Ok(routes) = routes {
            let icmp = if probe.is_ipv4() { 1 } else { 58 };
            let expected = ranges.iter().any(|range| {
                range.start.is_ipv4() == probe.is_ipv4() && range.start <= probe && probe <= range.end
                    && (range.protocol == 0 || range.protocol == protocol || protocol == icmp)
            });
            prop_assert_eq!(routes.contains(probe, protocol), expected);
            let capsule = IpCapsule::RouteAdvertisement(routes);
            prop_assert_eq!(decode(&capsule.encode()), Ok(capsule));
        }
    }

    #[test]
    fn anything_is_decoded_or_refused(capsule_type in 0u64..5, value: Vec<u8>) {
        if let Some(Ok(capsule)) = IpCapsule::decode(capsule_type, &value) {
            prop_assert_eq!(decode(&capsule.encode()), Ok(capsule));
        }
    }
}
