//! Events of a connection's paths, for tasks.

use core::net::SocketAddr;

use clearway_transport::{IgnoredAddress, MigrationFailure};

/// The path of a connection has changed, or could not change (RFC 9000 §9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PathEvent {
    /// The peer's address has changed: it has migrated, or a NAT has rebound it.
    PeerMigrated {
        /// Its new address.
        remote: SocketAddr,
    },
    /// The connection has moved: the client to another local address, or both ends to the server's preferred address.
    Migrated {
        /// The peer's address on the new path.
        remote: SocketAddr,
    },
    /// A client has not moved, because the new path cannot be used. The connection goes on where it was.
    MigrationFailed {
        /// The server's address on that path.
        remote: SocketAddr,
        /// Why.
        reason: MigrationFailure,
    },
    /// The server prefers an address to which this client does not move.
    PreferredAddressIgnored(IgnoredAddress),
}
