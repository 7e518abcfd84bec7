//! HTTP/3 for [tower](tower_service) services, on Clearway.
//!
//! [`serve`] responds to the requests of a [`clearway::http3::Server`] with a service, such as an
//! axum `Router`. Services stream the content of requests and responses, with trailers, as any
//! [`http_body::Body`].
//!
//! ```no_run
//! # use std::convert::Infallible;
//! # use clearway::{ServerConfig, http3::{Body, Server}};
//! # use http::{Request, Response};
//! # async fn hello(_: Request<clearway_tower::RequestBody>) -> Result<Response<Body>, Infallible> {
//! #     Ok(Response::new("Hello".into()))
//! # }
//! # async fn run(config: ServerConfig) -> Result<(), Box<dyn std::error::Error>> {
//! let app = tower::service_fn(hello);
//! let server = Server::bind("[::]:443".parse()?, config)?;
//! clearway_tower::serve(&server, app).await;
//! # Ok(())
//! # }
//! ```
//!
//! [`Serve`] has options: the client's address as an extension of requests, a hook for failures,
//! graceful shutdown, and the same service on HTTP/1.1 and HTTP/2.
//!
//! HTTP/3 requests have these extensions: [`Peer`](clearway::http3::Peer) always,
//! [`Early`](clearway::http3::Early) if the request may be a replay (RFC 8470),
//! [`Priority`](clearway::http3::Priority) if the client has stated one, and in CONNECT requests
//! [`OnTunnel`](clearway::http3::OnTunnel). With the feature `upgrade`, which is on by default, these
//! also have hyper's `OnUpgrade` and `Protocol`, from which frameworks such as axum open WebSockets
//! (RFC 9220) if the server accepts [extended
//! CONNECT](clearway::http3::Config::extended_connect).
//!
//! Clients of HTTP/1.1 and HTTP/2 learn from the Alt-Svc field of a response that a server also
//! supports HTTP/3: [`AltSvcLayer`] adds it to the responses of any service.

mod alt_svc;
mod body;
mod date;
mod exchange;
mod failure;
mod serve;
mod stop;
#[cfg(feature = "tcp")]
mod tcp;
#[cfg(feature = "upgrade")]
mod upgrade;

pub use alt_svc::{AltSvc, AltSvcFuture, AltSvcLayer};
pub use body::RequestBody;
pub use failure::{Failure, FailureReason};
pub use serve::{Serve, serve};

/// The error type of services and bodies.
type BoxError = Box<dyn core::error::Error + Send + Sync>;
