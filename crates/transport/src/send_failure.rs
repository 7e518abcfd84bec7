//! Why this host does not send a connection's datagrams.

use core::fmt;

/// Why this host does not send a connection's datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SendFailure {
    /// The local address that the connection uses is not one of this host any more.
    AddressGone,
    /// There is no route to the peer, or its interface is down.
    NoRoute,
    /// A rule of this host forbids it, such as its firewall's.
    Forbidden,
    /// The interface carries no datagrams of 1200 bytes, which QUIC needs (RFC 9000 §14).
    MtuTooSmall,
    /// Another reason.
    Other,
}

impl fmt::Display for SendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddressGone => "its local address is gone",
            Self::NoRoute => "it has no route there",
            Self::Forbidden => "a rule forbids it, such as the firewall's",
            Self::MtuTooSmall => "the interface's MTU is too small for datagrams of 1200 bytes",
            Self::Other => "the system refuses the datagrams",
        })
    }
}

impl core::error::Error for SendFailure {}
