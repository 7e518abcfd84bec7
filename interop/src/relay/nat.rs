//! The NAT in front of the client, which can rebind.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clearway_units::Random;

/// A NAT that maps each client address to a new address after each rebinding. In generation 0,
/// addresses are unchanged.
#[derive(Debug)]
pub(super) struct Nat {
    random: Random,
    /// Whether a rebinding changes the address and not only the port.
    changes_address: bool,
    outside: BTreeMap<(SocketAddr, u64), SocketAddr>,
    inside: BTreeMap<SocketAddr, (SocketAddr, u64)>,
}

impl Nat {
    pub(super) fn new(seed: u64, changes_address: bool) -> Self {
        let (outside, inside) = (BTreeMap::new(), BTreeMap::new());
        Self { random: Random::from_number(seed), changes_address, outside, inside }
    }

    /// Returns the client's address as the server sees it.
    pub(super) fn outside(&mut self, client: SocketAddr, generation: u64) -> SocketAddr {
        if let Some(known) = self.outside.get(&(client, generation)) {
            return *known;
        }
        let mut address = client;
        while generation > 0 && !self.is_new(address, client) {
            address = self.choose(client);
        }
        self.outside.insert((client, generation), address);
        self.inside.insert(address, (client, generation));
        address
    }

    /// Returns the client behind an address that the server sees, and the generation of that
    /// mapping.
    pub(super) fn inside(&self, address: SocketAddr) -> (SocketAddr, u64) {
        self.inside.get(&address).copied().unwrap_or((address, 0))
    }

    /// Returns whether a rebinding may use this address. It must be unused and, if rebindings
    /// change the address, have a different IP address.
    fn is_new(&self, address: SocketAddr, client: SocketAddr) -> bool {
        let keeps_ip = self.changes_address && client.is_ipv4() && address.ip() == client.ip();
        address != client && !keeps_ip && !self.inside.contains_key(&address)
    }

    fn choose(&mut self, client: SocketAddr) -> SocketAddr {
        let mut draw = |from: u64, to: u64| from + self.random.below(to - from + 1);
        let port = draw(1024, 65_535);
        let ip = match client.ip() {
            IpAddr::V4(ip) if self.changes_address => {
                let [a, b, c, _] = ip.octets();
                let host = draw(2, 254);
                Ipv4Addr::new(a, b, c, u8::try_from(host).unwrap_or(2)).into()
            }
            ip => ip,
        };
        SocketAddr::new(ip, u16::try_from(port).unwrap_or(1024))
    }
}

#[cfg(test)]
mod tests {
    use super::Nat;

    #[test]
    fn every_generation_has_its_own_address() {
        let client = "193.167.0.100:50000".parse().unwrap();
        for (seed, changes_address) in (0..1000).flat_map(|seed| [(seed, false), (seed, true)]) {
            let mut nat = Nat::new(seed, changes_address);
            assert_eq!(nat.outside(client, 0), client);
            let first = nat.outside(client, 1);
            let second = nat.outside(client, 2);
            assert_eq!(nat.outside(client, 1), first);
            assert!(first != client && second != client && first != second);
            assert_eq!(first.ip() != client.ip(), changes_address);
            assert_eq!(second.ip() != client.ip(), changes_address);
            assert_eq!(nat.inside(second), (client, 2));
            assert_eq!(nat.inside(client), (client, 0));
        }
    }
}
