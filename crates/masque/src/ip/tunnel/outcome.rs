use core::fmt;
use std::collections::BTreeMap;

use bytes::Bytes;
use clearway_http3::{CapsuleError, Code};

use crate::context::Datagram;
use crate::ip::CapsuleFault;
use crate::ip::control::{AssignedAddress, RequestedAddress};
use crate::udp::Traffic;

/// The result of an HTTP Datagram or a capsule from the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum IpReceived {
    /// Forward this IP packet, or process it. The tunnel must not decrement its hop limit; a router
    /// that forwards the packet does so.
    Forward(Bytes),
    /// A datagram of an extension, whose Context ID is
    /// [registered](crate::context::Contexts::register).
    Extension(Datagram),
    /// The packet was dropped. Send this HTTP Datagram, an ICMP message, to the peer.
    Reply {
        /// The payload of the HTTP Datagram.
        datagram: Bytes,
        /// The reason why the packet was dropped.
        reason: IpDropReason,
    },
    /// The peer has assigned these addresses, which replace all earlier ones. Those that are
    /// [rejections](AssignedAddress::is_rejection) answer a request.
    Assigned(Vec<AssignedAddress>),
    /// The peer requests addresses: answer each request with
    /// [`IpTunnel::assign`](super::IpTunnel::assign).
    Requested(Vec<RequestedAddress>),
    /// The peer has advertised new routes.
    RoutesChanged,
    /// The packet was dropped.
    Ignored(IpDropReason),
    /// Reset the stream with the error's [code](IpTunnelError::code).
    Abort(IpTunnelError),
}

/// The result of an IP packet for the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum IpSent {
    /// Send this HTTP Datagram to the peer.
    Datagram(Bytes),
    /// The packet was dropped. Send this packet, an ICMP message, to its source.
    Reply {
        /// The IP packet.
        packet: Vec<u8>,
        /// The reason why the packet was dropped.
        reason: IpDropReason,
    },
    /// The packet was dropped.
    Dropped(IpDropReason),
    /// Reset the stream with the error's [code](IpTunnelError::code).
    Abort(IpTunnelError),
}

/// The reason why an IP packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum IpDropReason {
    /// Its Context ID is neither [`ContextId::PAYLOAD`](crate::context::ContextId::PAYLOAD) nor
    /// registered.
    UnknownContext,
    /// Its header is malformed, or has a source route.
    Malformed,
    /// An address is link-local; such packets are not forwarded (RFC 9484 §7.2).
    LinkLocal,
    /// The sender may not use the source address.
    Source,
    /// There is no route to the destination.
    Destination,
    /// The protocol is not in the scope of the request.
    Protocol,
    /// A policy prohibits the destination.
    Policy,
    /// The hop limit was exceeded.
    HopLimit,
    /// The packet does not fit into a DATAGRAM frame.
    TooBig,
    /// The stream was aborted.
    Aborted,
    /// A bandwidth limit was reached.
    Bandwidth,
    /// The queue was full, and this packet was the oldest.
    QueueFull,
    /// The device or the stream had no room for the packet.
    NotSent,
}

impl IpDropReason {
    /// All reasons.
    pub const ALL: [Self; 13] = [
        Self::UnknownContext,
        Self::Malformed,
        Self::LinkLocal,
        Self::Source,
        Self::Destination,
        Self::Protocol,
        Self::Policy,
        Self::HopLimit,
        Self::TooBig,
        Self::Aborted,
        Self::Bandwidth,
        Self::QueueFull,
        Self::NotSent,
    ];

    /// Returns the name of the reason in metrics, such as `hop_limit`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownContext => "unknown_context",
            Self::Malformed => "malformed",
            Self::LinkLocal => "link_local",
            Self::Source => "source",
            Self::Destination => "destination",
            Self::Protocol => "protocol",
            Self::Policy => "policy",
            Self::HopLimit => "hop_limit",
            Self::TooBig => "too_big",
            Self::Aborted => "aborted",
            Self::Bandwidth => "bandwidth",
            Self::QueueFull => "queue_full",
            Self::NotSent => "not_sent",
        }
    }
}

impl fmt::Display for IpDropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownContext => "unknown Context ID",
            Self::Malformed => "malformed IP header",
            Self::LinkLocal => "link-local address",
            Self::Source => "source address not allowed",
            Self::Destination => "no route to the destination",
            Self::Protocol => "protocol not in the scope of the request",
            Self::Policy => "destination prohibited by policy",
            Self::HopLimit => "hop limit exceeded",
            Self::TooBig => "too big for a DATAGRAM frame",
            Self::Aborted => "the stream was aborted",
            Self::Bandwidth => "bandwidth limit reached",
            Self::QueueFull => "queue full",
            Self::NotSent => "could not be sent",
        })
    }
}

/// Statistics of an IP tunnel.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct IpStatistics {
    /// Packets from the peer that passed.
    pub received: Traffic,
    /// Packets to the peer that passed.
    pub sent: Traffic,
    /// Dropped packets in both directions, by reason.
    pub dropped: BTreeMap<IpDropReason, u64>,
}

/// The reason why an IP tunnel was aborted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IpTunnelError {
    /// A capsule is malformed (RFC 9484 §4.7).
    Capsule(CapsuleFault),
    /// The Capsule Protocol was violated (RFC 9297 §3.3).
    CapsuleProtocol(CapsuleError),
    /// An HTTP Datagram ends inside its Context ID.
    TruncatedDatagram,
    /// DATAGRAM frames are too small for an IPv6 packet of 1,280 bytes (RFC 9484 §7.1).
    MtuTooLow {
        /// The length of the longest packet in bytes.
        mtu: usize,
    },
}

impl IpTunnelError {
    /// Returns the error code with which to reset the stream.
    pub const fn code(self) -> Code {
        match self {
            Self::Capsule(_) | Self::CapsuleProtocol(_) => Code::MESSAGE_ERROR,
            Self::TruncatedDatagram => Code::DATAGRAM_ERROR,
            Self::MtuTooLow { .. } => Code::CONNECT_ERROR,
        }
    }
}

impl fmt::Display for IpTunnelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capsule(fault) => write!(f, "the peer sent a malformed capsule: {fault}"),
            Self::CapsuleProtocol(error) => {
                write!(f, "the peer's capsules cannot be read: {error}")
            }
            Self::TruncatedDatagram => {
                f.write_str("the peer sent an HTTP Datagram that ends inside its Context ID")
            }
            Self::MtuTooLow { mtu } => write!(
                f,
                "the tunnel's MTU is {mtu} bytes, and IPv6 needs 1280; check the path's MTU"
            ),
        }
    }
}

impl core::error::Error for IpTunnelError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Capsule(fault) => Some(fault),
            Self::CapsuleProtocol(error) => Some(error),
            _ => None,
        }
    }
}
