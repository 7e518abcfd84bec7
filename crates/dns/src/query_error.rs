use core::fmt;
use core::time::Duration;

use clearway::ConnectionError;
use hickory_proto::ProtoError;

use crate::code::ErrorCode;
use crate::violation::Violation;

/// The reason why a query has no response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum QueryError {
    /// The query cannot be encoded.
    Encode(ProtoError),
    /// The query is for a zone transfer (AXFR or IXFR), which may have several responses.
    ZoneTransfer,
    /// The server reset the stream with this error code.
    Reset(ErrorCode),
    /// The server violated the protocol, and the connection was closed.
    Violation(Violation),
    /// The server did not respond in time.
    TimedOut(Duration),
    /// The connection has ended.
    ConnectionLost(ConnectionError),
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encode(error) => write!(f, "cannot encode the query: {error}"),
            Self::ZoneTransfer => {
                f.write_str("zone transfers are not supported; query single records")
            }
            Self::Reset(code) => write!(f, "the server reset the stream: {code}"),
            Self::Violation(violation) => write!(f, "the server violated RFC 9250: {violation}"),
            Self::TimedOut(limit) => write!(f, "no response within {limit:?}"),
            Self::ConnectionLost(error) => write!(f, "the connection ended: {error}"),
        }
    }
}

impl core::error::Error for QueryError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Encode(error) => error.source(),
            Self::ConnectionLost(error) => error.source(),
            Self::ZoneTransfer | Self::Reset(_) | Self::Violation(_) | Self::TimedOut(_) => None,
        }
    }
}

/// The reason why a client could not connect to a DoQ server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration is invalid.
    Config(clearway::ConfigError),
    /// The connection was not established.
    Connect(clearway::ConnectError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Config(error) => error.source(),
            Self::Connect(error) => error.source(),
        }
    }
}
