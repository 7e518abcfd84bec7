//! Connection IDs: ours, by which the peer names this connection, and the peer's (RFC 9000 §5.1).

mod generator;
mod local;
mod remote;

pub use generator::{ConnectionIdGenerator, RandomIds, ResetKey};
pub(crate) use local::{LocalIds, RoutingChange};
pub(crate) use remote::RemoteIds;
