//! Address normalization for hashing and comparison, and detection of addresses that are invalid
//! for a server.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The reason why an address is invalid for a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AddressFault {
    /// The port is 0.
    NoPort,
    /// The IP address is unspecified.
    Unspecified,
    /// The address is a multicast address: every member of the group would respond.
    Multicast,
    /// The address is the broadcast address 255.255.255.255.
    Broadcast,
    /// The address is an IPv6 link-local address (fe80::/10) without a zone.
    NoZone,
}

impl AddressFault {
    /// Returns the reason why an address is invalid for a server; `None` if it is valid.
    pub fn of(address: SocketAddr) -> Option<Self> {
        let ip = address.ip().to_canonical();
        let zone = match address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(address) => address.scope_id(),
        };
        match ip {
            _ if address.port() == 0 => Some(Self::NoPort),
            ip if ip.is_unspecified() => Some(Self::Unspecified),
            ip if ip.is_multicast() => Some(Self::Multicast),
            IpAddr::V4(Ipv4Addr::BROADCAST) => Some(Self::Broadcast),
            IpAddr::V6(ip) if ip.is_unicast_link_local() && zone == 0 => Some(Self::NoZone),
            _ => None,
        }
    }
}

impl fmt::Display for AddressFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPort => "the port is 0",
            Self::Unspecified => "the IP address is unspecified",
            Self::Multicast => "it is a multicast address",
            Self::Broadcast => "it is a broadcast address",
            Self::NoZone => "a link-local address needs a zone, such as fe80::1%2",
        })
    }
}

/// Returns the IP address and the port as 64-bit words. IPv4-mapped IPv6 addresses are treated as
/// the IPv4 address, since the form that a socket reports depends on how it was opened. The flow
/// label and scope are ignored.
pub(crate) fn words(address: SocketAddr) -> [u64; 3] {
    let ip = match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let bits = ip.to_bits();
    [(bits >> 64) as u64, bits as u64, u64::from(address.port())]
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddrV6;

    use super::*;

    #[test]
    fn addresses_that_no_server_can_have() {
        let of = |text: &str| AddressFault::of(text.parse().unwrap());
        for text in ["192.0.2.1:443", "127.0.0.1:1", "[2001:db8::1]:443", "[fe80::1%3]:443"] {
            assert_eq!(of(text), None, "{text}");
        }
        for (texts, fault) in [
            (["192.0.2.1:0", "[::1]:0"], AddressFault::NoPort),
            (["0.0.0.0:443", "[::ffff:0.0.0.0]:443"], AddressFault::Unspecified),
            (["224.0.0.1:443", "[ff02::1]:443"], AddressFault::Multicast),
            (["239.255.255.255:443", "[::ffff:224.0.0.1]:443"], AddressFault::Multicast),
            (["255.255.255.255:443", "[::ffff:255.255.255.255]:443"], AddressFault::Broadcast),
            (["[fe80::1]:443", "[febf::1]:443"], AddressFault::NoZone),
        ] {
            assert_eq!(texts.map(of), [Some(fault); 2], "{texts:?}");
        }
    }

    #[test]
    fn one_address_in_two_forms() {
        let of = |text: &str| words(text.parse().unwrap());
        assert_eq!(of("192.0.2.1:443"), of("[::ffff:192.0.2.1]:443"));
        assert_ne!(of("192.0.2.1:443"), of("192.0.2.1:444"));
        assert_ne!(of("192.0.2.1:443"), of("[::192.0.2.1]:443"));
        assert_ne!(of("[2001:db8::1]:443"), of("[2001:db8:1::]:443"));
    }

    #[test]
    fn a_flow_label_is_not_part_of_an_address() {
        let ip = "2001:db8::1".parse().unwrap();
        let of = |flow, scope| words(SocketAddr::V6(SocketAddrV6::new(ip, 443, flow, scope)));
        assert_eq!(of(0, 0), of(7, 3));
    }
}
