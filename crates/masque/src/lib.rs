//! MASQUE without I/O: proxying UDP (RFC 9298), IP (RFC 9484) and TCP
//! (draft-ietf-httpbis-connect-tcp) in HTTP/3.
//!
//! The crate has the protocols and the decisions of a client and a proxy. Sockets, name resolution,
//! TUN devices and the HTTP/3 connection belong to its user; time is an argument.
//!
//! * A client expands a [`UriTemplate`] for a [`target`], sends the [`request`], and passes HTTP
//!   Datagrams and content to a [`udp::UdpFlow`], an [`ip::IpTunnel`] or a [`tcp::TcpReceiver`].
//! * A proxy matches requests against its templates ([`request::TunnelRequest`]), authenticates
//!   clients ([`auth`]), applies a [`policy`] to each name and each resolved address, counts tunnels
//!   and bandwidth ([`limits`]), assigns addresses from a [`pool`], and reports failures as
//!   [`proxy_status`].
//!
//! ```
//! use bytes::Bytes;
//! use clearway_masque::context::Side;
//! use clearway_masque::policy::Policy;
//! use clearway_masque::request::{TunnelRequest, accept, check_response, extended_connect};
//! use clearway_masque::target::{Target, Values};
//! use clearway_masque::udp::{Received, UdpFlow};
//! use clearway_masque::{QueueLimits, TunnelKind, UriTemplate};
//!
//! // The client requests a tunnel to port 443 of 8.8.8.8.
//! let template = UriTemplate::well_known(TunnelKind::Udp, "proxy.example".parse()?);
//! let values = Values::Target(Target::from_authority("8.8.8.8:443")?);
//! let request = extended_connect(&template, &values)?;
//!
//! // The proxy checks the request and the target, and opens a socket.
//! let tunnel = TunnelRequest::parse(&request, [&template])?;
//! let Values::Target(target) = &tunnel.destination else { unreachable!() };
//! let address = target.host.address().unwrap();
//! Policy::default().check_literal(address, target.port)?;
//! let response = accept(tunnel.form);
//! let mut proxy = UdpFlow::new(Side::Proxy, QueueLimits::default());
//! proxy.open();
//!
//! // The client sends a UDP payload as an HTTP Datagram.
//! check_response(tunnel.form, &response)?;
//! let mut client = UdpFlow::new(Side::Client, QueueLimits::default());
//! client.open();
//! client.queue(b"payload");
//! let datagram = client.next_datagram(1200).unwrap();
//! assert_eq!(proxy.receive_datagram(datagram), Received::Forward(Bytes::from("payload")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The memory that a peer can make this crate use is bounded: one capsule and two
//! [queues](QueueLimits) per UDP tunnel; 256 addresses and 1,024 routes per IP tunnel.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails"))]

pub mod auth;
mod capsule;
pub mod context;
#[cfg(fuzzing)]
pub mod fuzzing;
mod host;
pub mod ip;
mod kind;
pub mod limits;
pub mod policy;
pub mod pool;
pub mod proxy_status;
mod queue;
pub mod request;
mod scope;
pub mod target;
mod target_error;
pub mod tcp;
pub mod template;
pub mod udp;

pub use kind::TunnelKind;
pub use queue::QueueLimits;
pub use template::UriTemplate;
