//! Tunnels through HTTP/3 proxies (MASQUE): UDP (RFC 9298), and TCP (RFC 9114 §4.4,
//! draft-ietf-httpbis-connect-tcp).
//!
//! A client opens a tunnel with [`Client::connect_udp`](crate::http3::Client::connect_udp) on a
//! connection to the proxy. A QUIC
//! endpoint can run inside of a UDP tunnel: [`UdpTunnel::into_socket`].
//!
//! A [`Proxy`] responds to the requests of an [`http3::Server`](crate::http3::Server): it checks the
//! client and the target, opens a socket, and relays. For other decisions, use
//! [`request::TunnelRequest::parse`], [`relay_udp`] and [`relay_tcp`].
//!
//! Both endpoints need [`Config::datagrams`](crate::http3::Config::datagrams), and
//! [`transport_config`], whose first datagrams are large enough for the 1200 bytes of a QUIC
//! handshake inside of the tunnel.

mod error;
mod proxy;
mod service;
mod socket;
mod stream;
mod tunnel;

pub use clearway_masque::{
    QueueLimits, TunnelKind, UriTemplate, auth, limits, policy, proxy_status, request, target, udp,
};
pub use error::TunnelError;
pub use proxy::{RelayEnd, RelayOptions, relay_udp};
pub use service::{Proxy, ProxyOptions, Served};
pub use socket::TunnelSocket;
pub use stream::{TcpRelayError, relay_tcp};
pub use tunnel::UdpTunnel;

use crate::TransportConfigBuilder;

/// Size in bytes of the first QUIC datagrams of a connection that carries tunnels. Nearly all paths
/// carry it, and it leaves room for inner datagrams of 1280 bytes.
const INITIAL_DATAGRAM_SIZE: usize = 1350;
/// Maximum size of a DATAGRAM frame in bytes: as large as a QUIC datagram can be.
const MAX_DATAGRAM_FRAME_SIZE: u64 = 65_535;
/// Size in bytes of the send queue for datagrams.
const DATAGRAM_QUEUE: usize = 256;

/// Prepares the transport configuration of connections that carry tunnels: datagrams are enabled
/// (RFC 9221), the oldest ones are dropped when the queue is full, and the first QUIC datagrams have
/// 1350 bytes.
pub fn transport_config(builder: TransportConfigBuilder) -> TransportConfigBuilder {
    builder
        .max_datagram_frame_size(Some(MAX_DATAGRAM_FRAME_SIZE))
        .datagram_send_limit(DATAGRAM_QUEUE)
        .datagram_drops_oldest(true)
        .initial_datagram_size(INITIAL_DATAGRAM_SIZE)
}
