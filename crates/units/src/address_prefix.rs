//! Address prefixes, the unit in which the resource usage of peers is counted.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address prefix: the range from which one peer, or one network, can choose its addresses.
///
/// Limits that peers share apply to prefixes, not to addresses and ports: a host can use any port,
/// and an IPv6 host has 2^64 addresses. There are two levels, [`host`](Self::host) and
/// [`network`](Self::network); IPv6 has a third one between them, [`customer`](Self::customer).
///
/// ```
/// use clearway_units::AddressPrefix;
///
/// let address: std::net::SocketAddr = "[2001:db8:1:2::3]:443".parse().unwrap();
/// assert_eq!(AddressPrefix::host(address).to_string(), "2001:db8:1:2::/64");
/// assert_eq!(AddressPrefix::network(address).to_string(), "2001:db8:1::/48");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AddressPrefix {
    /// The address, with all bits after the prefix set to zero. IPv4 addresses are mapped to IPv6.
    bits: u128,
    /// The prefix length, out of 128 bits.
    length: u8,
}

/// The number of bits that precede an IPv4 address mapped to IPv6.
const MAPPED: u8 = 96;

impl AddressPrefix {
    /// Returns the prefix that one host can be expected to have: the address itself (/32) for IPv4,
    /// a /64 for IPv6.
    pub fn host(address: impl Into<PeerAddress>) -> Self {
        Self::of(address.into().0, 32, 64)
    }

    /// Returns the prefix that one network can be expected to have: a /24 for IPv4, a /48 for IPv6.
    pub fn network(address: impl Into<PeerAddress>) -> Self {
        Self::of(address.into().0, 24, 48)
    }

    /// Returns the prefix that one customer of an access network can be expected to have: a /56 for
    /// IPv6. `None` for IPv4, where a customer is a host.
    pub fn customer(address: impl Into<PeerAddress>) -> Option<Self> {
        let address = address.into().0.to_canonical();
        address.is_ipv6().then(|| Self::of(address, 32, 56))
    }

    fn of(address: IpAddr, v4: u8, v6: u8) -> Self {
        let (bits, length) = match address.to_canonical() {
            IpAddr::V4(address) => (address.to_ipv6_mapped().to_bits(), MAPPED + v4),
            IpAddr::V6(address) => (address.to_bits(), v6),
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        Self { bits: bits & mask, length }
    }
}

impl fmt::Display for AddressPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from_bits(self.bits);
        match (address.to_ipv4_mapped(), self.length.checked_sub(MAPPED)) {
            (Some(address), Some(32)) => fmt::Display::fmt(&address, f),
            (Some(address), Some(length)) => write!(f, "{address}/{length}"),
            _ => write!(f, "{address}/{}", self.length),
        }
    }
}

/// A peer's address, with or without a port.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(IpAddr);

impl From<IpAddr> for PeerAddress {
    fn from(address: IpAddr) -> Self {
        Self(address)
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> Self {
        Self(address.ip())
    }
}

impl From<Ipv4Addr> for PeerAddress {
    fn from(address: Ipv4Addr) -> Self {
        Self(address.into())
    }
}

impl From<Ipv6Addr> for PeerAddress {
    fn from(address: Ipv6Addr) -> Self {
        Self(address.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(address: &str) -> [String; 2] {
        let address: IpAddr = address.parse().unwrap();
        [AddressPrefix::host(address), AddressPrefix::network(address)].map(|it| it.to_string())
    }

    #[test]
    fn hosts_and_networks_have_the_lengths_of_their_family() {
        assert_eq!(both("192.0.2.77"), ["192.0.2.77", "192.0.2.0/24"]);
        assert_eq!(both("::ffff:192.0.2.77"), ["192.0.2.77", "192.0.2.0/24"]);
        assert_eq!(both("2001:db8:a:b:c:d:e:f"), ["2001:db8:a:b::/64", "2001:db8:a::/48"]);
        assert_eq!(both("::1"), ["::/64", "::/48"]);
    }

    #[test]
    fn customers_are_between_hosts_and_networks() {
        let customer = |text: &str| {
            let address: IpAddr = text.parse().unwrap();
            AddressPrefix::customer(address).map(|it| it.to_string())
        };
        assert_eq!(customer("2001:db8:a:bcd:c:d:e:f").as_deref(), Some("2001:db8:a:b00::/56"));
        assert_eq!(customer("192.0.2.77"), None);
        assert_eq!(customer("::ffff:192.0.2.77"), None);
    }

    #[test]
    fn ports_and_the_lower_half_of_an_ipv6_address_do_not_count() {
        let host = |text: &str| AddressPrefix::host(text.parse::<SocketAddr>().unwrap());
        assert_eq!(host("192.0.2.1:1"), host("192.0.2.1:2"));
        assert_eq!(host("192.0.2.1:1"), host("[::ffff:192.0.2.1]:2"));
        assert_ne!(host("192.0.2.1:1"), host("192.0.2.2:1"));
        assert_eq!(host("[2001:db8::1]:1"), host("[2001:db8::ffff:2]:1"));
        assert_ne!(host("[2001:db8::1]:1"), host("[2001:db8:0:1::1]:1"));
    }
}
