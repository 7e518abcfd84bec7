//! Connection IDs (RFC 9000 §5.1): the IDs issued by this endpoint and those issued by the peer.

mod generator;
mod local;
mod remote;

pub use generator::{ConnectionIdGenerator, RandomIds, ResetKey};
pub(crate) use generator::{FixedResetKey, ResetKeySource};
pub(crate) use local::{LocalIds, RoutingChange};
pub(crate) use remote::RemoteIds;

/// The smallest datagram that can be a stateless reset, in bytes: 5 bytes of header and unpredictable bits, and
/// the token (RFC 9000 §10.3).
pub(crate) const MINIMUM_RESET_SIZE: usize = 21;
