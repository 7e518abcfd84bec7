//! Path events of a connection, for tasks.

use core::net::{IpAddr, SocketAddr};

use clearway_transport::{IgnoredAddress, MigrationFailure};

/// A change, or failed change, of a connection's network path (RFC 9000 §9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PathEvent {
    /// The peer's address has changed, because of a migration or a NAT rebinding.
    PeerMigrated {
        /// The peer's new address.
        remote: SocketAddr,
    },
    /// The connection has migrated: the client to another local address, or both endpoints to the
    /// server's preferred address.
    Migrated {
        /// The peer's address on the new path.
        remote: SocketAddr,
    },
    /// The client has not migrated, because the new path cannot be used. The connection continues
    /// on the old path.
    MigrationFailed {
        /// The server's address on the path that cannot be used.
        remote: SocketAddr,
        /// The reason why the path cannot be used.
        reason: MigrationFailure,
    },
    /// The client's local address is gone: an interface was disabled or its address changed.
    ///
    /// The connection continues from the address that the system chooses, if one becomes available
    /// before the idle timeout and the endpoint is not bound to the lost address. If the endpoint
    /// is bound to it, the connection can be [migrated](crate::Connection::migrate).
    LocalAddressLost {
        /// The address that is gone.
        local: IpAddr,
    },
    /// The server has responded to the client's new local address, after
    /// [`LocalAddressLost`](Self::LocalAddressLost).
    LocalAddressChanged {
        /// The address that is gone.
        from: IpAddr,
        /// The address that is used now.
        to: IpAddr,
    },
    /// The server has a preferred address to which this client does not migrate.
    PreferredAddressIgnored(IgnoredAddress),
}
