//! Events of a connection's paths, for tasks.

use core::net::{IpAddr, SocketAddr};

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
    /// The local address of a client is gone: an interface was switched off, or was given another
    /// address. The connection continues from the address that the system chooses, if there is one
    /// before the idle timeout and the endpoint is not bound to the lost address; an endpoint that
    /// is can [migrate](crate::Connection::migrate).
    LocalAddressLost {
        /// The address that is gone.
        local: IpAddr,
    },
    /// After [`LocalAddressLost`](Self::LocalAddressLost): the server has answered at another local
    /// address.
    LocalAddressChanged {
        /// The address that is gone.
        from: IpAddr,
        /// The address that is used now.
        to: IpAddr,
    },
    /// The server prefers an address to which this client does not move.
    PreferredAddressIgnored(IgnoredAddress),
}
