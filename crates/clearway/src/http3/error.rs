use core::fmt;
use std::sync::Arc;

use clearway_http3::{
    Code, ConnectionError as ProtocolError, DatagramError, SendError, StreamError,
};
use clearway_io::ConnectFailure;
use clearway_transport::ConnectionError;

use crate::ConfigError;

/// The reason why a message could not be sent or received.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is invalid.
    Config(ConfigError),
    /// The operating system cannot provide a random seed.
    NoSeed(Arc<std::io::Error>),
    /// The connection could not be started.
    NotStarted(ConnectFailure),
    /// The negotiated application protocol is not HTTP/3.
    WrongProtocol,
    /// The QUIC connection ended.
    Connection(ConnectionError),
    /// The peer violated HTTP/3, and this endpoint closed the connection (RFC 9114 §8).
    Protocol(ProtocolError),
    /// This endpoint closed the connection.
    Closed,
    /// The connection is shutting down: the request was not sent, or the server did not process it.
    /// It can be sent again on another connection (RFC 9114 §5.2).
    GoingAway,
    /// The peer abandoned its message (RFC 9114 §4.1.1).
    Reset(Code),
    /// The peer stopped reading this endpoint's message.
    Stopped(Code),
    /// The peer's message was malformed, and this endpoint abandoned the exchange (RFC 9114 §4.1.2).
    Malformed(StreamError),
    /// The message cannot be sent.
    Send(SendError),
    /// The datagram cannot be sent.
    Datagram(DatagramError),
    /// This endpoint abandoned the exchange.
    Cancelled,
    /// The peer made no progress for longer than the server's [`Timeouts`](super::Timeouts) allow,
    /// and this endpoint abandoned the exchange.
    TimedOut,
    /// The task that should have responded panicked.
    Panicked,
    /// The body returned an error instead of content.
    Body(Arc<dyn core::error::Error + Send + Sync>),
    /// The content is larger than the caller's limit.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
}

impl Error {
    /// Returns whether the server has certainly not processed the request, in which case it can be
    /// sent again on another connection (RFC 9114 §4.1.1, §5.2).
    pub fn is_unprocessed(&self) -> bool {
        match self {
            Self::GoingAway => true,
            Self::Reset(code) | Self::Stopped(code) => *code == Code::REQUEST_REJECTED,
            _ => false,
        }
    }

    /// Returns the error for the end of the QUIC connection: [`Error::Closed`] only if this
    /// endpoint closed it.
    pub(super) fn from_connection(error: ConnectionError) -> Self {
        match error {
            ConnectionError::LocallyClosed => Self::Closed,
            other => Self::Connection(other),
        }
    }

    /// Returns the error for a message that the protocol layer refuses to send.
    pub(super) fn from_send(error: SendError) -> Self {
        match error {
            SendError::ConnectionClosed => Self::Closed,
            SendError::GoingAway => Self::GoingAway,
            SendError::Stopped(code) => Self::Stopped(code),
            SendError::StreamClosed => Self::Cancelled,
            other => Self::Send(other),
        }
    }

    /// Returns the error for a stream that this endpoint abandoned.
    pub(super) fn from_stream(error: StreamError) -> Self {
        if error.code == Code::REQUEST_REJECTED { Self::GoingAway } else { Self::Malformed(error) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::NoSeed(error) => {
                write!(f, "the operating system cannot provide a random seed: {error}")
            }
            Self::NotStarted(failure) => failure.fmt(f),
            Self::WrongProtocol => f.write_str("the peer did not negotiate HTTP/3"),
            Self::Connection(ConnectionError::ApplicationClosed { error_code, reason }) => {
                write!(f, "the peer closed the connection: {}", Code::new(error_code.get()))?;
                match reason.is_empty() {
                    true => Ok(()),
                    false => write!(f, ", reason: {:?}", String::from_utf8_lossy(reason)),
                }
            }
            Self::Connection(error) => error.fmt(f),
            Self::Protocol(error) => write!(f, "the peer violated HTTP/3: {error}"),
            Self::Closed => f.write_str("this endpoint closed the connection"),
            Self::GoingAway => {
                f.write_str("the connection is shutting down; the request was not processed")
            }
            Self::Reset(code) => write!(f, "the peer reset its message: {code}"),
            Self::Stopped(code) => write!(f, "the peer stopped reading the message: {code}"),
            Self::Malformed(error) => write!(f, "the peer's message is malformed: {error}"),
            Self::Send(error) => error.fmt(f),
            Self::Datagram(error) => error.fmt(f),
            Self::Cancelled => f.write_str("this endpoint canceled the exchange"),
            Self::TimedOut => f.write_str("the peer made no progress for too long"),
            Self::Panicked => f.write_str("the task that handled the request panicked"),
            Self::Body(error) => write!(f, "cannot produce the body: {error}"),
            Self::TooLarge { limit } => write!(f, "the content is larger than {limit} bytes"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Config(error) => error.source(),
            Self::NoSeed(error) => error.source(),
            Self::NotStarted(failure) => failure.source(),
            Self::Connection(error) => error.source(),
            Self::Protocol(error) => error.source(),
            Self::Malformed(error) => error.source(),
            Self::Send(error) => error.source(),
            Self::Datagram(error) => error.source(),
            Self::Body(error) => error.source(),
            _ => None,
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind;
        let kind = match &error {
            Error::Connection(_) | Error::Closed => ErrorKind::ConnectionAborted,
            Error::Reset(_) | Error::Stopped(_) => ErrorKind::ConnectionReset,
            Error::TimedOut => ErrorKind::TimedOut,
            Error::Protocol(_) | Error::Malformed(_) => ErrorKind::InvalidData,
            Error::Send(_) | Error::Datagram(_) | Error::Config(_) | Error::NotStarted(_) => {
                ErrorKind::InvalidInput
            }
            _ => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
