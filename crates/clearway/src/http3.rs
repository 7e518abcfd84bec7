//! HTTP/3 (RFC 9114) for clients and servers.
//!
//! Two faces, on the same protocol:
//!
//! * for tasks: [`Server`] and [`Client`], with [`http`]'s messages and bodies that stream both ways;
//! * inside the shard: a [`Handler`] answers with [`BodySource`]s that are pulled when the transport
//!   takes more, without a lock or a task hop.
//!
//! Every future and every handle can be dropped at any point. What is dropped before its end is given
//! up, and the peer is told so with H3_REQUEST_CANCELLED: a message that was cut off never looks
//! complete.

mod accepting;
mod batch;
mod body;
mod client;
mod driver;
mod error;
mod exchanges;
mod feed;
mod handler;
mod progress;
mod recv_body;
mod responder;
mod send_body;
mod server;

pub use body::{Body, BodySender, BodyUnwanted};
pub use clearway_http3::{Code, Config, ConnectionError as ProtocolError, SendError, StreamError};
pub use client::{Client, PendingResponse};
pub use driver::PROTOCOL;
pub use error::Error;
pub use handler::{BodySource, Handler, HandlerApplication, RequestStream, serve_in_shard};
pub use progress::Timeouts;
pub use recv_body::RecvBody;
pub use responder::Responder;
pub use send_body::SendBody;
pub use server::Server;
