//! Pools of addresses for the clients of IP tunnels.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use crate::ip::{AssignedAddress, RequestedAddress};

/// Number of released addresses to accumulate before the oldest of them is assigned again. Until
/// then, addresses that were never assigned are preferred, so that a new client does not receive
/// packets for the previous one. This also bounds the pool's memory.
const MAX_RELEASED: usize = 1024;

/// The reason why no address was assigned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// The pool has no prefix of this IP version.
    NoPrefix,
    /// All addresses are assigned.
    Exhausted,
    /// The address is not in any of the prefixes.
    OutsideOfPool,
    /// The address is the network address, the broadcast address, or the gateway.
    Reserved,
    /// The address is assigned already.
    Assigned,
    /// Two prefixes of the pool overlap.
    Overlap,
    /// A prefix has no address for clients.
    TooSmall,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPrefix => "the address pool has no prefix of this IP version; add one",
            Self::Exhausted => "the address pool is exhausted; add a prefix, or close tunnels",
            Self::OutsideOfPool => "the address is not in any prefix of the address pool",
            Self::Reserved => "the address is a network, broadcast or gateway address",
            Self::Assigned => "the address is assigned to another client",
            Self::Overlap => "two prefixes of the address pool overlap; remove one",
            Self::TooSmall => "a prefix of the address pool is too small; use at least /30 or /126",
        })
    }
}

impl core::error::Error for PoolError {}

/// A pool of single addresses from configured prefixes.
///
/// The first address of a prefix after that of the network is the gateway: the proxy's own address,
/// from which it sends ICMP errors. The addresses of networks, broadcasts and gateways are never
/// assigned; for IPv6, the first address is that of all routers (RFC 4291 §2.6.1), and the last one
/// is left out, too.
///
/// ```
/// use clearway_masque::pool::AddressPool;
///
/// let mut pool = AddressPool::new(&["192.0.2.0/29".parse()?])?;
/// assert_eq!(pool.gateways().next(), Some("192.0.2.1".parse()?));
/// let address = pool.assign_any(true)?;
/// assert_eq!(address, "192.0.2.2".parse::<std::net::IpAddr>()?);
/// assert!(pool.release(address));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AddressPool {
    prefixes: Vec<Prefix>,
}

#[derive(Clone, Debug)]
struct Prefix {
    network: IpNet,
    /// The first and the last address for clients.
    first: u128,
    last: u128,
    /// The lowest address that was never assigned, apart from those in `assigned`.
    next: u128,
    assigned: BTreeSet<u128>,
    /// Released addresses below `next`, each with the sequence number of its release.
    released: BTreeMap<u128, u64>,
    order: BTreeMap<u64, u128>,
    releases: u64,
}

impl AddressPool {
    /// Creates a pool of addresses from prefixes. Bits after the prefix length are ignored.
    ///
    /// # Errors
    /// If prefixes overlap, or one is too small.
    pub fn new(networks: &[IpNet]) -> Result<Self, PoolError> {
        let mut prefixes: Vec<Prefix> = Vec::new();
        for network in networks {
            let network = network.trunc();
            let overlaps = |other: &Prefix| {
                other.network.contains(&network) || network.contains(&other.network)
            };
            if prefixes.iter().any(overlaps) {
                return Err(PoolError::Overlap);
            }
            prefixes.push(Prefix::new(network)?);
        }
        Ok(Self { prefixes })
    }

    /// Returns the gateway address of each prefix.
    pub fn gateways(&self) -> impl Iterator<Item = IpAddr> {
        self.prefixes.iter().map(Prefix::gateway)
    }

    /// Returns the number of assigned addresses.
    pub fn assigned(&self) -> usize {
        self.prefixes.iter().map(|prefix| prefix.assigned.len()).fold(0, usize::saturating_add)
    }

    /// Assigns any address of the IP version. The choice depends only on earlier calls.
    ///
    /// # Errors
    /// If there is no prefix of this version, or none with a free address.
    pub fn assign_any(&mut self, is_ipv4: bool) -> Result<IpAddr, PoolError> {
        let mut error = PoolError::NoPrefix;
        for prefix in &mut self.prefixes {
            if prefix.is_ipv4() != is_ipv4 {
                continue;
            }
            match prefix.assign_any() {
                Some(address) => return Ok(address),
                None => error = PoolError::Exhausted,
            }
        }
        Err(error)
    }

    /// Assigns this address.
    ///
    /// # Errors
    /// If the address is not in the pool, reserved, or assigned already.
    pub fn assign(&mut self, address: IpAddr) -> Result<(), PoolError> {
        let mut prefixes = self.prefixes.iter_mut();
        let prefix = prefixes.find(|prefix| prefix.network.contains(&address));
        prefix.ok_or(PoolError::OutsideOfPool)?.assign(bits(address))
    }

    /// Releases an address. Returns whether it was assigned.
    pub fn release(&mut self, address: IpAddr) -> bool {
        let mut prefixes = self.prefixes.iter_mut();
        let prefix = prefixes.find(|prefix| prefix.network.contains(&address));
        prefix.is_some_and(|prefix| prefix.release(bits(address)))
    }

    /// Assigns an address for a request of an IP tunnel (RFC 9484 §4.7.2): the preferred address if
    /// it is free, otherwise any address of the same IP version. Only single addresses are
    /// assigned, regardless of the requested prefix length. If none is available, the answer is a
    /// [rejection](AssignedAddress::is_rejection).
    pub fn answer(&mut self, request: &RequestedAddress) -> AssignedAddress {
        let wanted = request.prefix.addr();
        let address = match self.assign(wanted) {
            Ok(()) => Ok(wanted),
            Err(_) => self.assign_any(wanted.is_ipv4()),
        };
        match address {
            Ok(address) => {
                AssignedAddress { request_id: request.request_id, prefix: address.into() }
            }
            Err(_) => AssignedAddress::rejection(request),
        }
    }
}

impl Prefix {
    fn new(network: IpNet) -> Result<Self, PoolError> {
        // After the network's address and the gateway's, and before the broadcast's.
        let first = bits(network.network()).checked_add(2).ok_or(PoolError::TooSmall)?;
        let last = bits(network.broadcast()).checked_sub(1).ok_or(PoolError::TooSmall)?;
        if first > last {
            return Err(PoolError::TooSmall);
        }
        Ok(Self {
            network,
            first,
            last,
            next: first,
            assigned: BTreeSet::new(),
            released: BTreeMap::new(),
            order: BTreeMap::new(),
            releases: 0,
        })
    }

    fn is_ipv4(&self) -> bool {
        matches!(self.network, IpNet::V4(_))
    }

    fn gateway(&self) -> IpAddr {
        self.address(self.first.saturating_sub(1))
    }

    /// Returns the address with these bits.
    fn address(&self, bits: u128) -> IpAddr {
        match self.network {
            IpNet::V4(_) => Ipv4Addr::from_bits(bits as u32).into(),
            IpNet::V6(_) => Ipv6Addr::from_bits(bits).into(),
        }
    }

    fn assign_any(&mut self) -> Option<IpAddr> {
        while self.assigned.contains(&self.next) {
            self.next = self.next.checked_add(1)?;
        }
        let is_new = self.next <= self.last && self.order.len() < MAX_RELEASED;
        let bits = match is_new {
            true => self.next,
            false => self.order.first_key_value().map(|(_, bits)| *bits)?,
        };
        self.assign(bits).ok()?;
        Some(self.address(bits))
    }

    fn assign(&mut self, bits: u128) -> Result<(), PoolError> {
        if !(self.first..=self.last).contains(&bits) {
            return Err(PoolError::Reserved);
        }
        if !self.assigned.insert(bits) {
            return Err(PoolError::Assigned);
        }
        if let Some(release) = self.released.remove(&bits) {
            self.order.remove(&release);
        }
        if bits == self.next {
            self.next = self.next.saturating_add(1);
        }
        Ok(())
    }

    fn release(&mut self, bits: u128) -> bool {
        if !self.assigned.remove(&bits) {
            return false;
        }
        // Addresses from `next` on are free without being listed.
        if bits < self.next {
            self.releases = self.releases.saturating_add(1);
            self.released.insert(bits, self.releases);
            self.order.insert(self.releases, bits);
        }
        true
    }
}

/// Returns the address as a number.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
