//! Tunnel errors.

use core::fmt;
use std::io;

use clearway_masque::ip::IpTunnelError;
use clearway_masque::request::ResponseError;
use clearway_masque::template::ExpandError;
use clearway_masque::udp::UdpError;

use crate::http3::Error;

/// The reason why a tunnel cannot be opened, or has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TunnelError {
    /// The URI template cannot be expanded for the target.
    Template(ExpandError),
    /// The proxy does not support extended CONNECT (RFC 9220).
    Unsupported,
    /// The proxy refused the tunnel.
    Refused(ResponseError),
    /// The peer sent something invalid in the tunnel, which was reset.
    Protocol(UdpError),
    /// An IP tunnel was reset: the peer sent something invalid in it, or an IPv6 packet does not fit
    /// into it.
    Ip(IpTunnelError),
    /// The number of addresses is zero, or larger than an IP tunnel allows.
    TooManyAddresses,
    /// The HTTP/3 exchange or its connection failed.
    Http(Error),
    /// The tunnel was closed.
    Closed,
}

impl fmt::Display for TunnelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(error) => error.fmt(f),
            Self::Unsupported => f.write_str(
                "the proxy does not support extended CONNECT (RFC 9220), which tunnels require",
            ),
            Self::Refused(error) => error.fmt(f),
            Self::Protocol(error) => error.fmt(f),
            Self::Ip(error) => error.fmt(f),
            Self::TooManyAddresses => {
                f.write_str("an IP tunnel can have between 1 and 256 addresses; use fewer")
            }
            Self::Http(error) => write!(f, "the exchange with the proxy failed: {error}"),
            Self::Closed => f.write_str("the tunnel is closed"),
        }
    }
}

impl core::error::Error for TunnelError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Template(error) => Some(error),
            Self::Refused(error) => Some(error),
            Self::Protocol(error) => Some(error),
            Self::Ip(error) => Some(error),
            Self::Http(error) => Some(error),
            Self::Unsupported | Self::TooManyAddresses | Self::Closed => None,
        }
    }
}

impl From<Error> for TunnelError {
    fn from(error: Error) -> Self {
        match error {
            Error::Send(crate::http3::SendError::ExtendedConnectUnsupported) => Self::Unsupported,
            error => Self::Http(error),
        }
    }
}

/// The reason why a relay has ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum RelayEnd {
    /// The client has closed the tunnel.
    Closed,
    /// No datagram was relayed within the idle timeout.
    Idle,
    /// The tunnel has failed.
    Tunnel(TunnelError),
    /// The socket has failed.
    Socket(io::Error),
    /// The device of an IP tunnel has failed.
    Device(io::Error),
}
