//! Reasons why this host fails to send a connection's datagrams.

use core::fmt;

/// The reason why this host fails to send a connection's datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SendFailure {
    /// The local address that the connection uses no longer belongs to this host.
    AddressGone,
    /// There is no route to the peer, or the route's interface is down.
    NoRoute,
    /// A rule of this host, such as a firewall rule, forbids sending.
    Forbidden,
    /// The interface does not carry datagrams of 1200 bytes, which QUIC requires (RFC 9000 §14).
    MtuTooSmall,
    /// Another reason.
    Other,
}

impl fmt::Display for SendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddressGone => "its local address is gone",
            Self::NoRoute => "it has no route to the peer",
            Self::Forbidden => "a local rule, such as a firewall rule, forbids it",
            Self::MtuTooSmall => "the interface's MTU is too small for datagrams of 1200 bytes",
            Self::Other => "the operating system rejects the datagrams",
        })
    }
}

impl core::error::Error for SendFailure {}
