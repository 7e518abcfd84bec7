//! Conversions between the types of the transport and those of the sockets.

use core::net::{IpAddr, SocketAddr};
use std::io;

use clearway_transport::{EcnCodepoint, SendFailure, Transmit};
use clearway_udp::Batch;

use crate::via::Via;

/// Source and metadata of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meta {
    /// The sender.
    pub(crate) remote: SocketAddr,
    /// The local address that the datagram was sent to.
    pub(crate) local_ip: Option<IpAddr>,
    /// The datagram's ECN field (RFC 3168).
    pub(crate) ecn: EcnCodepoint,
    /// The balancer that forwarded the datagram, if the addresses above were taken from its
    /// preface.
    pub(crate) via: Option<Via>,
}

impl From<clearway_udp::Meta> for Meta {
    fn from(meta: clearway_udp::Meta) -> Self {
        let clearway_udp::Meta { remote, local_ip, ecn } = meta;
        Self { remote, local_ip, ecn: EcnCodepoint::from_bits(ecn.bits()), via: None }
    }
}

/// Returns the datagrams that a connection has built at the beginning of `buffer`, as a batch for
/// its socket.
pub(crate) fn batch<'a>(transmit: &Transmit, buffer: &'a [u8]) -> Batch<'a> {
    Batch {
        destination: transmit.destination,
        source_ip: transmit.source_ip,
        ecn: clearway_udp::EcnCodepoint::from_bits(transmit.ecn.bits()),
        contents: &buffer[..transmit.size],
        segment_size: transmit.segment_size,
    }
}

/// Returns why a batch with this source address failed with `error`.
pub(crate) fn send_failure(error: &io::Error, source_ip: Option<IpAddr>) -> SendFailure {
    match clearway_udp::SendFailure::of(error, source_ip) {
        clearway_udp::SendFailure::AddressGone => SendFailure::AddressGone,
        clearway_udp::SendFailure::NoRoute => SendFailure::NoRoute,
        clearway_udp::SendFailure::Forbidden => SendFailure::Forbidden,
        _ => SendFailure::Other,
    }
}
