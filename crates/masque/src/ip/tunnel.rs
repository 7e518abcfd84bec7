//! One side of an IP tunnel.

mod budget;
mod outcome;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeSet;

use bytes::Bytes;
use clearway_http3::{Capsule, CapsuleDecoder, DATAGRAM_CAPSULE};
use clearway_units::Timestamp;
use ipnet::IpNet;

use super::control::{
    ADDRESS_ASSIGN, ADDRESS_REQUEST, AssignedAddress, IpCapsule, MAX_ADDRESSES,
    ROUTE_ADVERTISEMENT, RequestedAddress,
};
use super::icmp::{IcmpError, echo_reply};
use super::packet::{IpHeader, decrement_hop_limit};
use super::{CapsuleFault, Routes};
use crate::context::{ContextId, Contexts, Datagram, Side};
use crate::udp::Traffic;
use budget::ErrorBudget;
pub use outcome::{IpDropReason, IpReceived, IpSent, IpStatistics, IpTunnelError};

/// The minimum MTU of an IPv6 link in bytes (RFC 8200 §5). A tunnel whose HTTP Datagrams carry
/// fewer bytes must be aborted when an IPv6 packet does not fit (RFC 9484 §7.1).
pub const MIN_IPV6_MTU: usize = 1280;

/// Maximum length of a capsule's value: an IPv6 packet with its Context ID.
const MAX_CAPSULE: usize = 40 + 65_535 + ContextId::MAX_LENGTH;

/// The addresses of this end of the tunnel, from which ICMP messages are sent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OwnAddresses {
    /// The IPv4 address; without it, no ICMP messages for IPv4 are sent.
    pub v4: Option<Ipv4Addr>,
    /// The IPv6 address; without it, no ICMPv6 messages are sent.
    pub v6: Option<Ipv6Addr>,
}

/// The origin of a packet that is sent into the tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Another host: the packet is forwarded, and its hop limit is decremented (RFC 9484 §7.2).
    Forwarded,
    /// This host.
    Local,
}

/// One side of an IP tunnel: its addresses and routes, and the checks of each packet (RFC 9484
/// §7.2).
///
/// A packet from the peer passes if its source is an address that is assigned to the peer, or in a
/// route that the peer advertised; and its destination is in a route that this endpoint advertised,
/// or an address that is assigned to this endpoint. For packets to the peer, source and destination
/// change places. In both directions, the protocol must be in the scope of the request. ICMP is in
/// every scope; clients also accept it from any source, since routers outside the scope report
/// errors.
///
/// Packets that fail a check are dropped, and reported to their sender by ICMP where permitted, at
/// most 100 times per second. The tunnel does not fragment.
///
/// Routes are what an endpoint offers, and wide. Which destinations a proxy permits inside of them
/// is decided by [`Policy::check_destination`](crate::policy::Policy::check_destination) for each
/// packet, in the hands of the tunnel's user.
#[derive(Debug)]
pub struct IpTunnel {
    side: Side,
    protocol: Option<u8>,
    own: OwnAddresses,
    is_aborted: bool,
    contexts: Contexts,
    decoder: CapsuleDecoder,
    /// The addresses that this endpoint has assigned to the peer.
    peer_addresses: Vec<AssignedAddress>,
    /// The addresses that the peer has assigned to this endpoint.
    our_addresses: Vec<IpNet>,
    our_routes: Routes,
    peer_routes: Routes,
    /// The Request IDs that the peer has used.
    peer_requests: BTreeSet<u64>,
    next_request: u64,
    budget: ErrorBudget,
    statistics: IpStatistics,
}

impl IpTunnel {
    /// Creates a tunnel without addresses and routes. `protocol` is the protocol in the scope of
    /// the request: an Internet Protocol Number, or `None` for all.
    pub fn new(side: Side, protocol: Option<u8>, own: OwnAddresses, now: Timestamp) -> Self {
        const KNOWN: &[u64] = &[ADDRESS_ASSIGN, ADDRESS_REQUEST, ROUTE_ADVERTISEMENT];
        Self {
            side,
            protocol,
            own,
            is_aborted: false,
            contexts: Contexts::new(side),
            decoder: CapsuleDecoder::new(KNOWN, MAX_CAPSULE),
            peer_addresses: Vec::new(),
            our_addresses: Vec::new(),
            our_routes: Routes::default(),
            peer_routes: Routes::default(),
            peer_requests: BTreeSet::new(),
            next_request: 1,
            budget: ErrorBudget::new(now),
            statistics: IpStatistics::default(),
        }
    }

    /// Assigns addresses to the peer, in addition to earlier ones, and returns the capsule to send:
    /// the full list (RFC 9484 §4.7.1). [Rejections](AssignedAddress::is_rejection) appear only in
    /// this capsule.
    ///
    /// # Errors
    /// [`CapsuleFault::TooManyEntries`] if more than [`MAX_ADDRESSES`] would be assigned; nothing
    /// changes then.
    pub fn assign(&mut self, added: &[AssignedAddress]) -> Result<Bytes, CapsuleFault> {
        let mut all = self.peer_addresses.clone();
        all.extend_from_slice(added);
        if all.len() > MAX_ADDRESSES {
            return Err(CapsuleFault::TooManyEntries);
        }
        let capsule = IpCapsule::AddressAssign(all.clone()).encode();
        all.retain(|address| !address.is_rejection());
        self.peer_addresses = all;
        Ok(capsule)
    }

    /// Withdraws an address that is assigned to the peer, and returns the capsule to send.
    pub fn withdraw(&mut self, prefix: IpNet) -> Bytes {
        self.peer_addresses.retain(|address| address.prefix != prefix);
        IpCapsule::AddressAssign(self.peer_addresses.clone()).encode()
    }

    /// Replaces the routes that are advertised to the peer, and returns the capsule to send (RFC
    /// 9484 §4.7.3).
    pub fn advertise(&mut self, routes: Routes) -> Bytes {
        self.our_routes = routes;
        IpCapsule::RouteAdvertisement(self.our_routes.clone()).encode()
    }

    /// Returns the capsule that requests addresses from the peer (RFC 9484 §4.7.2); `None` if
    /// `prefixes` is empty or has more than [`MAX_ADDRESSES`] entries. An unspecified address
    /// requests any address.
    pub fn request(&mut self, prefixes: &[IpNet]) -> Option<Bytes> {
        if prefixes.is_empty() || prefixes.len() > MAX_ADDRESSES {
            return None;
        }
        let requests = (self.next_request..).zip(prefixes);
        let requests = requests
            .map(|(request_id, prefix)| RequestedAddress { request_id, prefix: prefix.trunc() });
        let capsule = IpCapsule::AddressRequest(requests.collect()).encode();
        self.next_request = self.next_request.saturating_add(prefixes.len() as u64);
        Some(capsule)
    }

    /// Returns the addresses that the peer has assigned to this endpoint.
    pub fn our_addresses(&self) -> &[IpNet] {
        &self.our_addresses
    }

    /// Returns the addresses that this endpoint has assigned to the peer.
    pub fn peer_addresses(&self) -> &[AssignedAddress] {
        &self.peer_addresses
    }

    /// Returns the routes that the peer has advertised.
    pub const fn peer_routes(&self) -> &Routes {
        &self.peer_routes
    }

    /// Discards the routes that the peer has advertised: packets from and to the addresses in these
    /// routes are dropped. A proxy whose clients route no networks must do this for each
    /// [`IpReceived::RoutesChanged`]; otherwise, a client could use any source address.
    pub fn discard_peer_routes(&mut self) {
        self.peer_routes = Routes::default();
    }

    /// Discards the addresses that the peer has assigned to this endpoint, for example because it
    /// wants none.
    pub fn discard_our_addresses(&mut self) {
        self.our_addresses = Vec::new();
    }

    /// Drops a packet that has passed the tunnel's checks, but whose destination is prohibited by a
    /// policy of the tunnel's user. Returns the HTTP Datagram that reports this to the peer, if it
    /// may be sent.
    pub fn prohibit(&mut self, packet: &[u8], now: Timestamp) -> Option<Bytes> {
        self.discard_received(packet.len(), IpDropReason::Policy);
        let header = IpHeader::parse(packet).ok()?;
        let reply = self.error(IcmpError::Prohibited, packet, &header, now)?;
        Some(Datagram::encode(ContextId::PAYLOAD, &reply))
    }

    /// Records that a packet from the peer ([`IpReceived::Forward`]) of `length` bytes was dropped
    /// instead of forwarded.
    pub fn discard_received(&mut self, length: usize, reason: IpDropReason) {
        self.statistics.received.remove(Traffic { datagrams: 1, bytes: length as u64 });
        self.count(reason);
    }

    /// Records that an HTTP Datagram ([`IpSent::Datagram`]) with a packet of `length` bytes was
    /// dropped instead of sent.
    pub fn discard_sent(&mut self, length: usize, reason: IpDropReason) {
        self.statistics.sent.remove(Traffic { datagrams: 1, bytes: length as u64 });
        self.count(reason);
    }

    /// Records that packets were dropped before they reached the tunnel.
    pub fn discard(&mut self, packets: u64, reason: IpDropReason) {
        self.count_many(reason, packets);
    }

    /// Returns the reply to an echo request for this endpoint's own address, as an HTTP Datagram;
    /// `None` if the packet is something else.
    pub fn own_echo(&mut self, packet: &[u8], now: Timestamp) -> Option<Bytes> {
        let header = IpHeader::parse(packet).ok()?;
        let own = self.own_address(&header).filter(|own| *own == header.destination)?;
        let reply = echo_reply(packet, &header, own)?;
        self.budget.take(now).then(|| Datagram::encode(ContextId::PAYLOAD, &reply))
    }

    /// Returns whether an address is one of this endpoint's own addresses.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.own.v4.is_some_and(|own| address == own)
            || self.own.v6.is_some_and(|own| address == own)
    }

    /// Returns the Context IDs of this tunnel, for extensions.
    pub fn contexts_mut(&mut self) -> &mut Contexts {
        &mut self.contexts
    }

    /// Returns the statistics.
    pub const fn statistics(&self) -> &IpStatistics {
        &self.statistics
    }

    /// Processes content of the peer's stream: removes the next known capsule from the start of
    /// `content`. Returns `None` when `content` is exhausted.
    pub fn receive_content(&mut self, content: &mut Bytes, now: Timestamp) -> Option<IpReceived> {
        if self.is_aborted {
            content.clear();
            return None;
        }
        match self.decoder.next(content) {
            Ok(None) => None,
            Ok(Some(capsule)) if capsule.capsule_type == DATAGRAM_CAPSULE => {
                Some(self.receive_datagram(capsule.value, now))
            }
            Ok(Some(capsule)) => Some(self.receive_capsule(&capsule)),
            Err(error) => Some(self.abort(IpTunnelError::CapsuleProtocol(error))),
        }
    }

    fn receive_capsule(&mut self, capsule: &Capsule) -> IpReceived {
        let Some(decoded) = IpCapsule::decode(capsule.capsule_type, &capsule.value) else {
            // The decoder skips all other types.
            return self.ignore(IpDropReason::UnknownContext);
        };
        match decoded {
            Ok(IpCapsule::AddressAssign(addresses)) => {
                let assigned = addresses.iter().filter(|address| !address.is_rejection());
                self.our_addresses = assigned.map(|address| address.prefix).collect();
                IpReceived::Assigned(addresses)
            }
            Ok(IpCapsule::AddressRequest(requests)) => match self.note_requests(&requests) {
                Ok(()) => IpReceived::Requested(requests),
                Err(fault) => self.abort(IpTunnelError::Capsule(fault)),
            },
            Ok(IpCapsule::RouteAdvertisement(routes)) => {
                self.peer_routes = routes;
                IpReceived::RoutesChanged
            }
            Err(fault) => self.abort(IpTunnelError::Capsule(fault)),
        }
    }

    /// Checks that Request IDs are new (RFC 9484 §4.7.2).
    fn note_requests(&mut self, requests: &[RequestedAddress]) -> Result<(), CapsuleFault> {
        for request in requests {
            if self.peer_requests.len() >= MAX_ADDRESSES {
                return Err(CapsuleFault::TooManyEntries);
            }
            if !self.peer_requests.insert(request.request_id) {
                return Err(CapsuleFault::ReusedRequestId);
            }
        }
        Ok(())
    }

    /// Checks that the peer's stream may end here. The tunnel is then closed.
    ///
    /// # Errors
    /// If the stream ends inside a capsule.
    pub fn finish(&self) -> Result<(), IpTunnelError> {
        if self.is_aborted {
            return Ok(());
        }
        self.decoder.finish().map_err(IpTunnelError::CapsuleProtocol)
    }

    /// Processes the payload of an HTTP Datagram from the peer.
    pub fn receive_datagram(&mut self, datagram: Bytes, now: Timestamp) -> IpReceived {
        if self.is_aborted {
            return self.ignore(IpDropReason::Aborted);
        }
        let Ok(Datagram { context, payload }) = Datagram::decode(datagram) else {
            return self.abort(IpTunnelError::TruncatedDatagram);
        };
        if context != ContextId::PAYLOAD {
            return match self.contexts.is_known(context) {
                true => IpReceived::Extension(Datagram { context, payload }),
                false => self.ignore(IpDropReason::UnknownContext),
            };
        }
        let Ok(header) = IpHeader::parse(&payload) else {
            return self.ignore(IpDropReason::Malformed);
        };
        match self.check(&header, Direction::FromPeer) {
            Ok(()) => {
                self.statistics.received.add(payload.len());
                IpReceived::Forward(payload)
            }
            Err((reason, error)) => {
                let reply = match error {
                    Some(error) => self.error(error, &payload, &header, now),
                    None => self.link_local_echo(&payload, &header, now),
                };
                self.count(reason);
                match reply {
                    Some(reply) => IpReceived::Reply {
                        datagram: Datagram::encode(ContextId::PAYLOAD, &reply),
                        reason,
                    },
                    None => IpReceived::Ignored(reason),
                }
            }
        }
    }

    /// Processes an IP packet for the peer. `maximum` is the length in bytes of the largest HTTP
    /// Datagram that fits into a DATAGRAM frame; `None` if capsules are used instead.
    pub fn send_packet(
        &mut self,
        packet: &[u8],
        origin: Origin,
        maximum: Option<usize>,
        now: Timestamp,
    ) -> IpSent {
        if self.is_aborted {
            return self.drop_packet(IpDropReason::Aborted);
        }
        let Ok(header) = IpHeader::parse(packet) else {
            return self.drop_packet(IpDropReason::Malformed);
        };
        if let Err((reason, error)) = self.check(&header, Direction::ToPeer) {
            let reply = error.and_then(|error| self.error(error, packet, &header, now));
            return self.refuse(reason, reply);
        }
        let mtu = maximum.map(|maximum| maximum.saturating_sub(ContextId::PAYLOAD.encoded_len()));
        if let Some(mtu) = mtu.filter(|mtu| *mtu < packet.len()) {
            if header.source.is_ipv6() && mtu < MIN_IPV6_MTU {
                self.is_aborted = true;
                self.count(IpDropReason::TooBig);
                return IpSent::Abort(IpTunnelError::MtuTooLow { mtu });
            }
            let error = IcmpError::PacketTooBig { mtu: u32::try_from(mtu).unwrap_or(u32::MAX) };
            let reply = self.error(error, packet, &header, now);
            return self.refuse(IpDropReason::TooBig, reply);
        }
        let mut is_expired = false;
        let datagram = Datagram::encode_with(ContextId::PAYLOAD, packet, |packet| {
            is_expired = origin == Origin::Forwarded && decrement_hop_limit(packet).is_err();
        });
        if is_expired {
            let reply = self.error(IcmpError::TimeExceeded, packet, &header, now);
            return self.refuse(IpDropReason::HopLimit, reply);
        }
        self.statistics.sent.add(packet.len());
        IpSent::Datagram(datagram)
    }

    /// Checks whether a packet may pass. The error consists of the reason and the ICMP error for
    /// the packet's source, if any.
    fn check(
        &self,
        header: &IpHeader,
        direction: Direction,
    ) -> Result<(), (IpDropReason, Option<IcmpError>)> {
        let IpHeader { source, destination, protocol, .. } = *header;
        if header.is_link_local() {
            return Err((IpDropReason::LinkLocal, None));
        }
        if is_martian(source) || source.is_multicast() {
            return Err((IpDropReason::Source, None));
        }
        let is_peers = |address| self.is_peers(address, protocol);
        let is_ours = |address| self.is_ours(address, protocol);
        let (is_source_valid, is_destination_valid) = match direction {
            Direction::FromPeer => {
                let is_router = self.side == Side::Client && header.is_icmp();
                (is_peers(source) || is_router, is_ours(destination))
            }
            Direction::ToPeer => {
                let is_router = self.side == Side::Proxy && header.is_icmp();
                (is_ours(source) || is_router, is_peers(destination))
            }
        };
        if !is_source_valid {
            return Err((IpDropReason::Source, Some(IcmpError::SourcePolicy)));
        }
        if is_martian(destination) || !is_destination_valid {
            return Err((IpDropReason::Destination, Some(IcmpError::NoRoute)));
        }
        if self.protocol.is_some_and(|scope| scope != protocol) && !header.is_icmp() {
            return Err((IpDropReason::Protocol, Some(IcmpError::Prohibited)));
        }
        Ok(())
    }

    /// Returns whether an address belongs to the peer's side of the tunnel.
    fn is_peers(&self, address: IpAddr, protocol: u8) -> bool {
        self.peer_addresses.iter().any(|it| it.prefix.contains(&address))
            || self.peer_routes.contains(address, protocol)
    }

    /// Returns whether an address belongs to this side of the tunnel.
    fn is_ours(&self, address: IpAddr, protocol: u8) -> bool {
        self.our_addresses.iter().any(|it| it.contains(&address))
            || self.our_routes.contains(address, protocol)
            || self.is_own(address)
    }

    /// Returns the packet that carries an ICMP error, if it may be sent.
    fn error(
        &mut self,
        error: IcmpError,
        packet: &[u8],
        header: &IpHeader,
        now: Timestamp,
    ) -> Option<Vec<u8>> {
        let own = self.own_address(header)?;
        let reply = error.about(packet, header, own)?;
        self.budget.take(now).then_some(reply)
    }

    /// Returns the reply to an echo request to all nodes on the link (RFC 9484 §7.1).
    fn link_local_echo(
        &mut self,
        packet: &[u8],
        header: &IpHeader,
        now: Timestamp,
    ) -> Option<Vec<u8>> {
        const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        if header.destination != ALL_NODES {
            return None;
        }
        let own = self.own_address(header)?;
        let reply = echo_reply(packet, header, own)?;
        self.budget.take(now).then_some(reply)
    }

    fn own_address(&self, header: &IpHeader) -> Option<IpAddr> {
        match header.source {
            IpAddr::V4(_) => self.own.v4.map(IpAddr::from),
            IpAddr::V6(_) => self.own.v6.map(IpAddr::from),
        }
    }

    fn count(&mut self, reason: IpDropReason) {
        self.count_many(reason, 1);
    }

    fn count_many(&mut self, reason: IpDropReason, dropped: u64) {
        if dropped > 0 {
            let count = self.statistics.dropped.entry(reason).or_default();
            *count = count.saturating_add(dropped);
        }
    }

    fn ignore(&mut self, reason: IpDropReason) -> IpReceived {
        self.count(reason);
        IpReceived::Ignored(reason)
    }

    fn drop_packet(&mut self, reason: IpDropReason) -> IpSent {
        self.refuse(reason, None)
    }

    fn refuse(&mut self, reason: IpDropReason, reply: Option<Vec<u8>>) -> IpSent {
        self.count(reason);
        match reply {
            Some(packet) => IpSent::Reply { packet, reason },
            None => IpSent::Dropped(reason),
        }
    }

    fn abort(&mut self, error: IpTunnelError) -> IpReceived {
        self.is_aborted = true;
        IpReceived::Abort(error)
    }
}

/// The direction of a packet in the tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    FromPeer,
    ToPeer,
}

/// Returns whether an address cannot appear in packets between hosts (a martian address).
fn is_martian(address: IpAddr) -> bool {
    let is_other = match address {
        IpAddr::V4(address) => address.is_broadcast() || address.octets().starts_with(&[0]),
        IpAddr::V6(address) => address.to_ipv4_mapped().is_some(),
    };
    address.is_unspecified() || address.is_loopback() || is_other
}

#[cfg(test)]
#[path = "tunnel_tests.rs"]
mod tests;
