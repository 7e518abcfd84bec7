//! Fair division of a limited resource among address prefixes.

use std::collections::{BTreeMap, BTreeSet};

use crate::AddressPrefix;
use crate::address_prefix::PeerAddress;

/// The free amount divided by this number is the share of a host.
const HOST_PART: u64 = 4;

/// The free amount divided by this number is the share of a network.
const NETWORK_PART: u64 = 2;

/// Accounting of a limited resource, such as memory, by the address prefixes of the peers that use
/// it.
///
/// A share is not a fixed number: a host may use a quarter of the free amount, and its network half
/// of it. So a single peer, or a thousand users behind one NAT, can use a lot while others use
/// little. A host that uses its maximum leaves four fifths of the amount that was free. Once too
/// little is free for everyone, the [heaviest](Self::heaviest) host is the one to reclaim from.
#[derive(Clone, Debug)]
pub struct FairShares {
    limit: u64,
    held: u64,
    /// The part of the used amount that is not attributed to any address.
    unattributed: u64,
    hosts: Ranking<AddressPrefix>,
    networks: Ranking<AddressPrefix>,
    /// For each network, the hosts that use the resource, ordered by amount.
    of_network: BTreeMap<AddressPrefix, BTreeSet<(u64, AddressPrefix)>>,
}

/// The amount that each key uses, and an index ordered by amount.
#[derive(Clone, Debug)]
struct Ranking<K> {
    held: BTreeMap<K, u64>,
    order: BTreeSet<(u64, K)>,
}

impl<K: Copy + Ord> Ranking<K> {
    const fn new() -> Self {
        Self { held: BTreeMap::new(), order: BTreeSet::new() }
    }

    fn get(&self, key: K) -> u64 {
        self.held.get(&key).copied().unwrap_or(0)
    }

    /// Sets the amount that a key uses. Returns the previous amount.
    fn set(&mut self, key: K, held: u64) -> u64 {
        let before = match held {
            0 => self.held.remove(&key),
            _ => self.held.insert(key, held),
        };
        let before = before.unwrap_or(0);
        self.order.remove(&(before, key));
        if held > 0 {
            self.order.insert((held, key));
        }
        before
    }
}

/// The reason why an address is refused an additional amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shortage {
    /// The host already uses its full share.
    Host,
    /// The network already uses its full share.
    Network,
    /// The request exceeds the share of every address, because too little of the resource is free.
    All,
}

impl FairShares {
    /// Creates the accounting of a resource with the total amount `limit`, all of which is free.
    pub const fn new(limit: u64) -> Self {
        Self {
            limit,
            held: 0,
            unattributed: 0,
            hosts: Ranking::new(),
            networks: Ranking::new(),
            of_network: BTreeMap::new(),
        }
    }

    /// Returns the total amount of the resource.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the total amount that is used.
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Returns the amount that is free.
    pub const fn free(&self) -> u64 {
        self.limit.saturating_sub(self.held)
    }

    /// Returns the amount that the host of `address` uses.
    pub fn held_by(&self, address: impl Into<PeerAddress>) -> u64 {
        self.hosts.get(AddressPrefix::host(address))
    }

    /// Returns whether the host of `address` or its network uses more than its share.
    pub fn exceeds(&self, address: impl Into<PeerAddress>) -> bool {
        self.check(address, 0).is_err()
    }

    /// Checks whether `address` may use an additional `amount`.
    ///
    /// # Errors
    /// Returns the reason why `address` may not use the additional amount.
    pub fn check(&self, address: impl Into<PeerAddress>, amount: u64) -> Result<(), Shortage> {
        let address = address.into();
        let of_host = self.hosts.get(AddressPrefix::host(address));
        let of_network = self.networks.get(AddressPrefix::network(address));
        let free = self.free();
        if amount > free / HOST_PART {
            return Err(Shortage::All);
        }
        if of_host.saturating_add(amount) > free / HOST_PART {
            return Err(Shortage::Host);
        }
        if of_network.saturating_add(amount) > free / NETWORK_PART {
            return Err(Shortage::Network);
        }
        Ok(())
    }

    /// Adds `amount` for `address`, whether or not this is within its share.
    pub fn add(&mut self, address: impl Into<PeerAddress>, amount: u64) {
        self.change(address.into(), |held| held.saturating_add(amount));
    }

    /// Subtracts `amount` for `address`.
    pub fn remove(&mut self, address: impl Into<PeerAddress>, amount: u64) {
        self.change(address.into(), |held| held.saturating_sub(amount));
    }

    /// Adds `amount` that is not attributed to any address, which reduces the share of every
    /// address.
    pub fn add_unattributed(&mut self, amount: u64) {
        self.unattributed = self.unattributed.saturating_add(amount);
        self.held = self.held.saturating_add(amount);
    }

    /// Subtracts `amount` that is not attributed to any address.
    pub fn remove_unattributed(&mut self, amount: u64) {
        let amount = amount.min(self.unattributed);
        self.unattributed = self.unattributed.saturating_sub(amount);
        self.held = self.held.saturating_sub(amount);
    }

    fn change(&mut self, address: PeerAddress, change: impl Fn(u64) -> u64) {
        let (host, network) = (AddressPrefix::host(address), AddressPrefix::network(address));
        let before = self.hosts.get(host);
        let now = change(before);
        if now == before {
            return;
        }
        self.hosts.set(host, now);
        let others = self.networks.get(network).saturating_sub(before);
        self.networks.set(network, others.saturating_add(now));
        self.held = self.held.saturating_sub(before).saturating_add(now);
        let hosts = self.of_network.entry(network).or_default();
        hosts.remove(&(before, host));
        if now > 0 {
            hosts.insert((now, host));
        } else if hosts.is_empty() {
            self.of_network.remove(&network);
        }
    }

    /// Returns the hosts that use the resource, with their amounts, largest first.
    pub fn heaviest_first(&self) -> impl Iterator<Item = (AddressPrefix, u64)> {
        self.hosts.order.iter().rev().map(|(held, host)| (*host, *held))
    }

    /// Returns the heaviest host in the heaviest network.
    pub fn heaviest(&self) -> Option<AddressPrefix> {
        let (_, network) = self.networks.order.last()?;
        self.heaviest_of(*network)
    }

    /// Returns the heaviest host in `network`.
    pub fn heaviest_of(&self, network: AddressPrefix) -> Option<AddressPrefix> {
        self.of_network.get(&network)?.last().map(|(_, host)| *host)
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;

    const LIMIT: u64 = 256 << 20;
    const PIECE: u64 = 64 << 10;

    /// Uses the entire share of `address`, one piece at a time. Returns the amount.
    fn take_all(shares: &mut FairShares, address: IpAddr) -> u64 {
        let before = shares.held();
        while shares.check(address, PIECE).is_ok() {
            shares.add(address, PIECE);
        }
        shares.held() - before
    }

    fn v4(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    fn v6(network: u128, number: u128) -> IpAddr {
        Ipv6Addr::from_bits((0x2001_0db8 << 96) | (network << 80) | (number << 64)).into()
    }

    #[test]
    fn a_single_host_may_hold_much_and_leaves_most_to_others() {
        let mut shares = FairShares::new(LIMIT);
        let taken = take_all(&mut shares, v4(1));
        assert!((LIMIT / 6..=LIMIT / 4).contains(&taken), "{taken}");
        assert_eq!(shares.held_by(v4(1)), taken);
        assert_eq!(shares.check(v4(1), PIECE), Err(Shortage::Host));
        assert_eq!(shares.check(v4(2), PIECE), Ok(()));
    }

    #[test]
    fn a_network_has_one_share_however_many_hosts_it_has() {
        let mut shares = FairShares::new(LIMIT);
        for number in 0..1000 {
            take_all(&mut shares, v6(1, number));
        }
        assert!(shares.held() <= LIMIT / 3, "{}", shares.held());
        assert_eq!(shares.check(v6(1, 70_000), PIECE), Err(Shortage::Network));
        assert!(take_all(&mut shares, v6(2, 0)) > LIMIT / 10);
    }

    #[test]
    fn a_host_that_takes_all_it_can_leaves_four_fifths() {
        let mut shares = FairShares::new(LIMIT);
        for number in 0..10 {
            let free = shares.free();
            take_all(&mut shares, v4(number << 8));
            // The last piece was allowed based on the amount that was free before it was used.
            assert!(shares.free() + PIECE >= free / 5 * 4, "{} of {free}", shares.free());
        }
        assert_eq!(shares.check(v4(10 << 8), PIECE), Ok(()));
    }

    #[test]
    fn the_heaviest_host_is_in_the_heaviest_network() {
        let mut shares = FairShares::new(LIMIT);
        shares.add(v4(0x0101), 5);
        shares.add(v4(0x0102), 6);
        shares.add(v4(0x0201), 8);
        assert_eq!(shares.heaviest(), Some(AddressPrefix::host(v4(0x0102))));
        shares.remove(v4(0x0102), 4);
        assert_eq!(shares.heaviest(), Some(AddressPrefix::host(v4(0x0201))));
        for (address, amount) in [(0x0101, 5), (0x0102, 2), (0x0201, 8)] {
            shares.remove(v4(address), amount);
        }
        assert_eq!((shares.held(), shares.heaviest()), (0, None));
        assert!(shares.hosts.held.is_empty() && shares.networks.order.is_empty());
        assert!(shares.of_network.is_empty());
    }

    #[test]
    fn nobody_may_hold_more_than_a_part_of_what_is_free() {
        let shares = FairShares::new(LIMIT);
        assert_eq!(shares.check(v4(1), LIMIT / 4), Ok(()));
        assert_eq!(shares.check(v4(1), LIMIT / 4 + 1), Err(Shortage::All));
        assert!(!shares.exceeds(v4(1)));
    }
}
