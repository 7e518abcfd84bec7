//! Tunnels through HTTP/3 proxies (MASQUE): UDP (RFC 9298), IP (RFC 9484), and TCP (RFC 9114 §4.4,
//! draft-ietf-httpbis-connect-tcp).
//!
//! A client opens a tunnel with [`Client::connect_udp`](crate::http3::Client::connect_udp) or
//! [`Client::connect_ip`](crate::http3::Client::connect_ip) on a connection to the proxy. A QUIC
//! endpoint can run inside of a UDP tunnel: [`UdpTunnel::into_socket`]. The packets of an IP tunnel
//! usually come from a TUN device.
//!
//! A [`Proxy`] responds to the requests of an [`http3::Server`](crate::http3::Server): it checks the
//! client and the target, opens a socket, and relays. IP tunnels need an address pool and a device
//! ([`IpOptions`]), which all tunnels share through an [`IpRouter`]. [`Proxy::statistics`] returns
//! counts for metrics. For other decisions, use [`request::TunnelRequest::parse`], [`relay_udp`],
//! [`relay_ip`] and [`relay_tcp`].
//!
//! Both endpoints need [`Config::datagrams`](crate::http3::Config::datagrams), and
//! [`transport_config`], whose first datagrams are large enough for the 1200 bytes of a QUIC
//! handshake inside of the tunnel, and for the 1280 bytes that an IPv6 link needs (RFC 9484 §7.1).

mod batches;
mod counters;
mod device;
mod error;
mod ip_end;
mod ip_relay;
mod ip_service;
mod ip_tunnel;
mod opening;
mod proxy;
mod router;
mod service;
mod socket;
mod stream;
mod target_socket;
mod tunnel;
mod turns;

pub use clearway_masque::{
    QueueLimits, TunnelKind, UriTemplate, auth, ip, limits, policy, pool, proxy_status, request,
    target, udp,
};
pub use counters::{ProxyStatistics, TunnelStatistics};
pub use device::IpDevice;
pub use error::{RelayEnd, TunnelError};
pub use ip_relay::{IpRelayOptions, IpRules, Verdict, relay_ip};
pub use ip_service::IpOptions;
pub use ip_tunnel::{IpEvent, IpTunnel, Origin};
pub use proxy::{RelayOptions, relay_udp};
pub use router::{IpPort, IpRouter};
pub use service::{Proxy, ProxyOptions, Served};
pub use socket::TunnelSocket;
pub use stream::{TcpRelayError, relay_tcp};
pub use tunnel::UdpTunnel;

use crate::TransportConfigBuilder;

/// Initial size of the QUIC datagrams of a connection that carries tunnels, in bytes. Nearly all
/// paths carry this size, and it leaves room for inner datagrams of 1280 bytes.
const INITIAL_DATAGRAM_SIZE: usize = 1350;
/// Maximum size of a DATAGRAM frame in bytes: as large as a QUIC datagram can be.
const MAX_DATAGRAM_FRAME_SIZE: u64 = 65_535;
/// Maximum number of datagrams in the send queue.
const DATAGRAM_QUEUE: usize = 2048;
/// Maximum size of the send queue in bytes: a burst that fits the queue of a request fits here, too.
const DATAGRAM_QUEUE_BYTES: u64 = 2 << 20;

/// Prepares the transport configuration of connections that carry tunnels: datagrams are enabled
/// (RFC 9221), the oldest ones are dropped when the queue is full (2,048 datagrams or 2 MiB), and the
/// initial size of QUIC datagrams is 1350 bytes.
pub fn transport_config(builder: TransportConfigBuilder) -> TransportConfigBuilder {
    builder
        .max_datagram_frame_size(Some(MAX_DATAGRAM_FRAME_SIZE))
        .datagram_send_limit(DATAGRAM_QUEUE)
        .datagram_send_buffer(DATAGRAM_QUEUE_BYTES)
        .datagram_drops_oldest(true)
        .initial_datagram_size(INITIAL_DATAGRAM_SIZE)
}
