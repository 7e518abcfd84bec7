//! HTTP/3 (RFC 9114) for clients and servers.
//!
//! There are two interfaces to the same protocol:
//!
//! * for tasks: [`Server`] and [`Client`], with the message types of [`http`] and bodies that
//!   stream in both directions;
//! * inside the shard: a [`Handler`] responds with [`BodySource`]s. The shard pulls content from
//!   them when the transport accepts more, without locks or thread switches.
//!
//! A [`Priority`] extension on a request or response sets the priority of the response (RFC 9218);
//! it can be changed later. A CONNECT request with a [`Protocol`] extension opens a tunnel (RFC
//! 9220), whose bytes are the content of the request and of its response, and which can carry
//! [`Datagrams`] (RFC 9297).
//!
//! A server's requests have their [`Peer`] as an extension, which leads to the
//! [`ConnectionHandle`]. For frameworks, [`RecvBody`] is an [`http_body::Body`], and an
//! [`OnTunnel`] lets a service that returns responses open tunnels.
//!
//! Every future and every handle can be dropped at any point. If a handle is dropped before its
//! message is complete, the exchange is canceled, and the peer gets H3_REQUEST_CANCELLED: a partial
//! message never looks complete.

mod accepting;
mod answering;
mod body;
mod client;
mod datagram_queues;
mod datagrams;
mod driver;
mod early;
mod error;
mod exchanges;
mod extent;
#[cfg(test)]
mod faces_tests;
mod handler;
mod listener;
mod recv_body;
mod responder;
mod send_body;
mod server;
mod tasks;
mod tunnel;
#[cfg(test)]
mod wakes_tests;

pub use body::{Body, BodySender, BodyUnwanted};
pub use clearway_http3::{
    Capsule, CapsuleDecoder, CapsuleError, Code, Config, ConnectionError as ProtocolError,
    DATAGRAM_CAPSULE, DatagramError, EarlySettings, Priority, Protocol, QpackError, SendError,
    StreamError,
};
pub use client::{Client, PendingResponse};
pub use datagrams::Datagrams;
pub use driver::{PROTOCOL, Timeouts};
pub use early::Early;
pub use error::Error;
pub use exchanges::{ConnectionHandle, Peer};
pub use handler::{BodySource, Handler, HandlerApplication, RequestStream, serve_in_shard};
pub use listener::ResponseFailure;
pub use recv_body::RecvBody;
pub use responder::Responder;
pub use send_body::{AbortHandle, SendBody};
pub use server::Server;
pub use tunnel::{OnTunnel, Tunnel, TunnelRefused, TunnelRequest};
