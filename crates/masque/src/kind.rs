//! The kinds of tunnels.

use core::fmt;

/// The kind of a tunnel: the protocol whose payloads it carries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TunnelKind {
    /// UDP payloads (RFC 9298).
    Udp,
    /// IP packets (RFC 9484).
    Ip,
    /// A TCP byte stream (draft-ietf-httpbis-connect-tcp).
    Tcp,
}

impl TunnelKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Udp, Self::Ip, Self::Tcp];

    /// Returns the upgrade token, which is the value of `:protocol` (RFC 9298 §3.4, RFC 9484 §4.5,
    /// draft-ietf-httpbis-connect-tcp §3).
    pub const fn upgrade_token(self) -> &'static str {
        match self {
            Self::Udp => "connect-udp",
            Self::Ip => "connect-ip",
            Self::Tcp => "connect-tcp",
        }
    }

    /// Returns the kind with this upgrade token. `connect-tcp-12`, the token for interoperability
    /// tests of version 12 of the draft, also identifies TCP tunnels.
    pub fn from_upgrade_token(token: &str) -> Option<Self> {
        match token {
            "connect-udp" => Some(Self::Udp),
            "connect-ip" => Some(Self::Ip),
            "connect-tcp" | "connect-tcp-12" => Some(Self::Tcp),
            _ => None,
        }
    }

    /// Returns the path and query of the default template (RFC 9298 §2, RFC 9484 §3,
    /// draft-ietf-httpbis-connect-tcp §5.2).
    pub const fn well_known_path(self) -> &'static str {
        match self {
            Self::Udp => "/.well-known/masque/udp/{target_host}/{target_port}/",
            Self::Ip => "/.well-known/masque/ip/{target}/{ipproto}/",
            Self::Tcp => "/.well-known/masque/tcp/{target_host}/{target_port}/",
        }
    }
}

impl fmt::Display for TunnelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "UDP",
            Self::Ip => "IP",
            Self::Tcp => "TCP",
        })
    }
}
