//! Addresses that a server must not have: this balancer's own, and those that do not belong to a
//! single host, such as multicast and broadcast addresses.
//!
//! A balancer that is its own server forwards datagrams in a loop, and one whose server is a
//! multicast group multiplies them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clearway_balancer::AddressFault;
use nix::ifaddrs::getifaddrs;

/// The balancer's listening address, and the addresses of this host.
#[derive(Clone, Debug)]
pub(super) struct Own {
    listen: SocketAddr,
    addresses: Vec<IpAddr>,
    /// The broadcast addresses of this host's networks.
    broadcasts: Vec<Ipv4Addr>,
}

impl Own {
    /// Reads the addresses of this host. If the system does not list them, only loopback addresses
    /// are known.
    pub(super) fn listening_on(listen: SocketAddr) -> Self {
        let interfaces: Vec<_> = getifaddrs().into_iter().flatten().collect();
        let address = |interface: &nix::ifaddrs::InterfaceAddress| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
        };
        let broadcast = |interface: &nix::ifaddrs::InterfaceAddress| {
            Some(interface.broadcast?.as_sockaddr_in()?.ip())
        };
        let broadcasts: Vec<_> = interfaces.iter().filter_map(broadcast).collect();
        let addresses: Vec<_> = interfaces.iter().filter_map(address).collect();
        // Point-to-point links and single-host networks report their own address as broadcast
        // address.
        let is_hosts = |ip: &Ipv4Addr| addresses.contains(&IpAddr::V4(*ip));
        let broadcasts = broadcasts.into_iter().filter(|ip| !is_hosts(ip)).collect();
        Self { listen, addresses, broadcasts }
    }

    /// Returns why an address is invalid for a server of this balancer; `None` if it is valid.
    pub(super) fn fault(&self, address: SocketAddr) -> Option<String> {
        let ip = address.ip().to_canonical();
        if let Some(fault) = AddressFault::of(address) {
            return Some(fault.to_string());
        }
        if self.broadcasts.iter().any(|broadcast| ip == *broadcast) {
            return Some("it is the broadcast address of one of this host's networks".to_owned());
        }
        if self.is_own(ip, address.port()) {
            return Some(format!("this balancer itself listens there ({})", self.listen));
        }
        None
    }

    fn is_own(&self, ip: IpAddr, port: u16) -> bool {
        let listen = self.listen.ip().to_canonical();
        // A socket bound to the unspecified IPv6 address also receives IPv4.
        let is_served = match (listen, ip) {
            (IpAddr::V4(any), IpAddr::V6(_)) if any.is_unspecified() => false,
            (any, ip) if any.is_unspecified() => ip.is_loopback() || self.addresses.contains(&ip),
            (listen, ip) => listen == ip,
        };
        // Port 0 means a port that is not known yet.
        port == self.listen.port() && is_served
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(listen: &str) -> Own {
        let addresses = vec!["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
        let broadcasts = vec![[192, 0, 2, 255].into()];
        Own { listen: listen.parse().unwrap(), addresses, broadcasts }
    }

    #[test]
    fn addresses_at_which_the_balancer_listens() {
        for (listen, own_ones, others) in [
            (
                "192.0.2.7:443",
                &["192.0.2.7:443", "[::ffff:192.0.2.7]:443"][..],
                &["192.0.2.7:444", "127.0.0.1:443", "192.0.2.8:443", "[2001:db8::7]:443"][..],
            ),
            (
                "0.0.0.0:443",
                &["192.0.2.7:443", "127.0.0.1:443", "127.5.6.7:443"],
                &["192.0.2.8:443", "192.0.2.7:80", "[2001:db8::7]:443", "[::1]:443"],
            ),
            (
                "[::]:443",
                &["192.0.2.7:443", "127.0.0.1:443", "[2001:db8::7]:443", "[::1]:443"],
                &["192.0.2.8:443", "[2001:db8::8]:443"],
            ),
            ("127.0.0.1:0", &[], &["127.0.0.1:443", "127.0.0.1:1"]),
        ] {
            let own = own(listen);
            let fault = |text: &str| own.fault(text.parse().unwrap());
            for text in own_ones {
                let expected = format!("this balancer itself listens there ({listen})");
                assert_eq!(fault(text), Some(expected), "{listen} {text}");
            }
            for text in others {
                assert_eq!(fault(text), None, "{listen} {text}");
            }
        }
    }

    #[test]
    fn addresses_of_no_single_host() {
        let own = own("192.0.2.7:443");
        for (text, part) in [
            ("192.0.2.255:1", "the broadcast address of one of this host's networks"),
            ("255.255.255.255:1", "a broadcast address"),
            ("224.0.0.1:1", "multicast"),
            ("[fe80::1]:1", "zone"),
            ("0.0.0.0:1", "unspecified"),
            ("192.0.2.8:0", "port is 0"),
        ] {
            let fault = own.fault(text.parse().unwrap()).unwrap();
            assert!(fault.contains(part), "{fault}");
        }
    }

    /// Every host has a loopback address.
    #[test]
    fn the_system_lists_its_addresses() {
        let own = Own::listening_on(([0, 0, 0, 0], 443).into());
        assert!(own.addresses.contains(&Ipv4Addr::LOCALHOST.into()), "{own:?}");
        assert!(!own.broadcasts.contains(&Ipv4Addr::LOCALHOST), "{own:?}");
    }
}
