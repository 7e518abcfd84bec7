use core::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::CapsuleFault;
use super::packet::{ICMPV4, ICMPV6};
use crate::target::{IpScope, ScopeTarget};

/// An IP Address Range of a ROUTE_ADVERTISEMENT capsule (RFC 9484 §4.7.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddressRange {
    /// The first address.
    pub start: IpAddr,
    /// The last address, of the same IP version.
    pub end: IpAddr,
    /// The Internet Protocol Number that is permitted in addition to ICMP; 0 for all.
    pub protocol: u8,
}

impl AddressRange {
    /// Returns the sort key of a range within a capsule.
    fn key(&self) -> (bool, u8, IpAddr) {
        (self.start.is_ipv6(), self.protocol, self.start)
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.start.is_ipv4() == address.is_ipv4() && (self.start..=self.end).contains(&address)
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.start.is_ipv4() == other.start.is_ipv4()
            && self.start <= other.end
            && other.start <= self.end
    }
}

impl From<IpNet> for AddressRange {
    /// Returns the addresses of the network, for all protocols.
    fn from(network: IpNet) -> Self {
        let (start, end) = match network {
            IpNet::V4(network) => (network.network().into(), network.broadcast().into()),
            IpNet::V6(network) => (network.network().into(), network.broadcast().into()),
        };
        Self { start, end, protocol: 0 }
    }
}

/// The address ranges that an endpoint routes, sorted and without overlaps (RFC 9484 §4.7.3).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Routes(pub(super) Vec<AddressRange>);

impl Routes {
    /// Checks address ranges, which must be in the order that RFC 9484 requires in a capsule.
    ///
    /// # Errors
    /// If a range is invalid, out of order or overlaps another one.
    pub fn new(ranges: Vec<AddressRange>) -> Result<Self, CapsuleFault> {
        for range in &ranges {
            if range.start.is_ipv4() != range.end.is_ipv4() || range.start > range.end {
                return Err(CapsuleFault::StartAfterEnd);
            }
        }
        for (a, b) in ranges.iter().zip(ranges.iter().skip(1)) {
            let group = |range: &AddressRange| (range.start.is_ipv6(), range.protocol);
            if group(a) > group(b) {
                return Err(CapsuleFault::Order);
            }
            if group(a) == group(b) && a.end >= b.start {
                return Err(CapsuleFault::Overlap);
            }
        }
        let routes = Self(ranges);
        for range in routes.0.iter().filter(|range| range.protocol != 0) {
            // Of the ranges for all protocols, the last one that starts before the end of this one.
            let last = routes.last_at(0, range.end);
            if last.is_some_and(|any| any.overlaps(range)) {
                return Err(CapsuleFault::OverlapWithAnyProtocol);
            }
        }
        Ok(routes)
    }

    /// Sorts the address ranges, and checks them.
    ///
    /// # Errors
    /// If a range is invalid or overlaps another one.
    pub fn sorted(mut ranges: Vec<AddressRange>) -> Result<Self, CapsuleFault> {
        ranges.sort_by_key(AddressRange::key);
        Self::new(ranges)
    }

    /// Returns the routes that a proxy advertises for the scope of a request (RFC 9484 §4.6): all
    /// addresses of each IP version that `has_v4` and `has_v6` permit, the prefix in the request,
    /// or the addresses to which the name in the request has resolved.
    pub fn for_scope(scope: &IpScope, resolved: &[IpAddr], has_v4: bool, has_v6: bool) -> Self {
        let all = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
        let networks: Vec<IpNet> = match &scope.target {
            ScopeTarget::Any => all.to_vec(),
            ScopeTarget::Prefix(prefix) => vec![*prefix],
            ScopeTarget::Name(_) => resolved.iter().copied().map(IpNet::from).collect(),
        };
        let is_served = |network: &IpNet| match network {
            IpNet::V4(_) => has_v4,
            IpNet::V6(_) => has_v6,
        };
        let protocol = scope.protocol.unwrap_or(0);
        let ranges = networks.into_iter().filter(is_served);
        let ranges = ranges.map(|it| AddressRange { protocol, ..AddressRange::from(it) });
        let mut ranges: Vec<AddressRange> = ranges.collect();
        ranges.sort_by_key(AddressRange::key);
        ranges.dedup();
        Self(ranges)
    }

    /// Returns the ranges.
    pub fn ranges(&self) -> &[AddressRange] {
        &self.0
    }

    /// Returns whether a packet with this upper-layer protocol may be sent to `address`. ICMP is
    /// always permitted.
    pub fn contains(&self, address: IpAddr, protocol: u8) -> bool {
        let icmp = if address.is_ipv4() { ICMPV4 } else { ICMPV6 };
        if protocol == icmp {
            return self.0.iter().any(|range| range.contains(address));
        }
        let is_in =
            |protocol| self.last_at(protocol, address).is_some_and(|range| range.contains(address));
        is_in(0) || is_in(protocol)
    }

    /// Returns the last range for this protocol that starts at or before `address`.
    fn last_at(&self, protocol: u8, address: IpAddr) -> Option<&AddressRange> {
        let key = (address.is_ipv6(), protocol, address);
        let end = self.0.partition_point(|range| range.key() <= key);
        let last = self.0.get(end.checked_sub(1)?)?;
        let is_same = last.protocol == protocol && last.start.is_ipv4() == address.is_ipv4();
        is_same.then_some(last)
    }
}
