//! IP tunnels (RFC 9484): addresses, routes, packets, and ICMP errors.

mod checksum;
mod control;
mod control_error;
mod icmp;
mod packet;
mod routes;
#[cfg(test)]
mod test_packets;
mod tunnel;

pub use control::{
    ADDRESS_ASSIGN, ADDRESS_REQUEST, AssignedAddress, IpCapsule, MAX_ADDRESSES, MAX_ROUTES,
    ROUTE_ADVERTISEMENT, RequestedAddress,
};
pub use control_error::CapsuleFault;
pub use icmp::{IcmpError, MAX_ICMPV4_ERROR, MAX_ICMPV6_ERROR, echo_reply};
pub use packet::{HopLimitExceeded, ICMPV4, ICMPV6, IpHeader, PacketError, decrement_hop_limit};
pub use routes::{AddressRange, Routes};
pub use tunnel::{
    IpDropReason, IpReceived, IpSent, IpStatistics, IpTunnel, IpTunnelError, MIN_IPV6_MTU, Origin,
    OwnAddresses,
};
