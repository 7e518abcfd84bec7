//! HTTP/3 (RFC 9114) for clients and servers.
//!
//! There are two interfaces to the same protocol:
//!
//! * for tasks: [`Server`] and [`Client`], with [`http`]'s messages and bodies that stream in both directions;
//! * inside the shard: a [`Handler`] answers with [`BodySource`]s, from which content is pulled when the
//!   transport accepts more, without a lock or a switch between tasks.
//!
//! Every future and every handle can be dropped at any point. If it is dropped before its end, the exchange is
//! cancelled, and the peer gets H3_REQUEST_CANCELLED: a partial message never looks complete.

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
