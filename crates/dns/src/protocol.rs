//! The protocols of a server.

/// The protocol by which a query arrived.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Protocol {
    /// DNS over QUIC (RFC 9250).
    Quic,
    /// DNS over HTTP/3 (RFC 8484).
    Https,
    /// UDP (RFC 1035), without encryption.
    Udp,
    /// TCP (RFC 7766), without encryption.
    Tcp,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::Quic, Self::Https, Self::Udp, Self::Tcp];

    /// Returns the name for logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quic => "quic",
            Self::Https => "https",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }

    /// Returns whether messages are encrypted, and therefore padded.
    pub(crate) const fn is_encrypted(self) -> bool {
        matches!(self, Self::Quic | Self::Https)
    }
}
