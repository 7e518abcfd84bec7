//! Addresses and names that are not globally reachable, from the IANA registries of special-purpose
//! addresses (RFC 6890) and domain names (RFC 6761).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::Refusal;
use crate::target::Name;

/// A range of addresses that is denied by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Special {
    pub(super) network: IpNet,
    pub(super) refusal: Refusal,
}

/// IPv4 ranges; the first range that contains an address applies.
const V4: [(Ipv4Addr, u8, Refusal); 17] = [
    (Ipv4Addr::new(255, 255, 255, 255), 32, Refusal::Broadcast),
    (Ipv4Addr::new(0, 0, 0, 0), 8, Refusal::Unspecified),
    (Ipv4Addr::new(10, 0, 0, 0), 8, Refusal::Private),
    (Ipv4Addr::new(100, 64, 0, 0), 10, Refusal::Shared),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Refusal::Loopback),
    (Ipv4Addr::new(169, 254, 0, 0), 16, Refusal::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, Refusal::Private),
    (Ipv4Addr::new(192, 0, 0, 0), 24, Refusal::Reserved),
    (Ipv4Addr::new(192, 0, 2, 0), 24, Refusal::Documentation),
    (Ipv4Addr::new(192, 88, 99, 0), 24, Refusal::Reserved),
    (Ipv4Addr::new(192, 168, 0, 0), 16, Refusal::Private),
    (Ipv4Addr::new(198, 18, 0, 0), 15, Refusal::Benchmarking),
    (Ipv4Addr::new(198, 51, 100, 0), 24, Refusal::Documentation),
    (Ipv4Addr::new(203, 0, 113, 0), 24, Refusal::Documentation),
    (Ipv4Addr::new(233, 252, 0, 0), 24, Refusal::Documentation),
    (Ipv4Addr::new(224, 0, 0, 0), 4, Refusal::Multicast),
    (Ipv4Addr::new(240, 0, 0, 0), 4, Refusal::Reserved),
];

/// IPv6 ranges; the first range that contains an address applies.
const V6: [(Ipv6Addr, u8, Refusal); 14] = [
    (Ipv6Addr::UNSPECIFIED, 128, Refusal::Unspecified),
    (Ipv6Addr::LOCALHOST, 128, Refusal::Loopback),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, Refusal::UniqueLocal),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, Refusal::LinkLocal),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, Refusal::UniqueLocal),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, Refusal::Multicast),
    (Ipv6Addr::new(0x2001, 0x2, 0, 0, 0, 0, 0, 0), 48, Refusal::Benchmarking),
    (Ipv6Addr::new(0x2001, 0x10, 0, 0, 0, 0, 0, 0), 28, Refusal::Reserved),
    (Ipv6Addr::new(0x2001, 0x20, 0, 0, 0, 0, 0, 0), 28, Refusal::Reserved),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, Refusal::Documentation),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, Refusal::Documentation),
    // Everything outside of 2000::/3 but NAT64 is reserved or not global unicast.
    (Ipv6Addr::UNSPECIFIED, 3, Refusal::Reserved),
    (Ipv6Addr::new(0x4000, 0, 0, 0, 0, 0, 0, 0), 2, Refusal::Reserved),
    (Ipv6Addr::new(0x8000, 0, 0, 0, 0, 0, 0, 0), 1, Refusal::Reserved),
];

/// The well-known NAT64 prefix (RFC 6052 §2.1). Its addresses are as reachable as the IPv4
/// addresses embedded in them.
const NAT64: (Ipv6Addr, u8) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Returns the range that denies an address by default.
pub(super) fn address(address: IpAddr) -> Option<Special> {
    match address {
        IpAddr::V4(address) => V4.iter().find_map(|(network, length, refusal)| {
            let network = Ipv4Net::new(*network, *length).ok()?;
            network
                .contains(&address)
                .then_some(Special { network: network.into(), refusal: *refusal })
        }),
        IpAddr::V6(address) => {
            let contains = |network: Ipv6Addr, length: u8| {
                Ipv6Net::new(network, length).ok().filter(|network| network.contains(&address))
            };
            if contains(NAT64.0, NAT64.1).is_some() {
                return None;
            }
            V6.iter().find_map(|(network, length, refusal)| {
                let network = contains(*network, *length)?;
                Some(Special { network: network.into(), refusal: *refusal })
            })
        }
    }
}

/// Returns the reason to refuse a name before it is resolved: names that always mean this host (RFC
/// 6761 §6.3) or the local link (RFC 6762 §3).
pub(super) fn name(name: &Name) -> Option<Refusal> {
    let top = name.as_str().rsplit('.').next()?;
    match top {
        "localhost" => Some(Refusal::Loopback),
        "local" => Some(Refusal::LinkLocal),
        _ => None,
    }
}
