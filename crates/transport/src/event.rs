//! What a connection tells its application.

use core::fmt;
use core::net::SocketAddr;

use bytes::Bytes;
use clearway_wire::{Direction, StreamId, TransportErrorCode, VarInt};

use crate::TransportError;

/// Something that the application may want to know. Drained with `Connection::next_event`.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The TLS handshake is complete: the peer is who it claims to be, as far as this end checks.
    Connected,
    /// The handshake is confirmed (RFC 9001 §4.1.2).
    HandshakeConfirmed,
    /// The peer opened a stream; take it with `accept`.
    Opened(Direction),
    /// A stream has data, its end or its reset to read. Told once after a read that was blocked, and a
    /// reset also while data is left unread: [`received_reset`](crate::Connection::received_reset) says
    /// which.
    Readable(StreamId),
    /// A stream that had refused data takes some again.
    Writable(StreamId),
    /// The peer does not want more of a stream.
    Stopped {
        /// The stream.
        stream_id: StreamId,
        /// Why, in the application's words.
        error_code: VarInt,
    },
    /// Everything on a stream, its end included, has been acknowledged.
    Finished(StreamId),
    /// The peer knows that a stream was reset.
    ResetAcknowledged(StreamId),
    /// The peer's limit on streams was raised after it had been in the way.
    StreamsAvailable(Direction),
    /// Unreliable datagrams came; take them with `receive_datagram` until there is none.
    DatagramReceived,
    /// The peer is at another address now.
    PeerMigrated(SocketAddr),
    /// The server gave a token for a later connection to it.
    NewToken(Bytes),
    /// The connection is over. Nothing comes after this.
    Closed(ConnectionError),
}

/// Why a connection ended.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ConnectionError {
    /// This end's application closed it.
    LocallyClosed,
    /// The peer's application closed it.
    ApplicationClosed {
        /// Why, in the application's words.
        error_code: VarInt,
        /// Text from the peer, for people.
        reason: Bytes,
    },
    /// The peer's transport closed it.
    ConnectionClosed {
        /// The code (RFC 9000 §20.1).
        error_code: TransportErrorCode,
        /// The type of the frame that caused it, 0 if unknown.
        frame_type: u64,
        /// Text from the peer, for people.
        reason: Bytes,
    },
    /// The peer broke a rule, or TLS failed, and this end closed.
    TransportError(TransportError),
    /// The peer lost its state (RFC 9000 §10.3).
    Reset,
    /// The network says that nobody receives at the peer's address.
    Unreachable,
    /// Nothing came from the peer for the idle timeout.
    TimedOut,
    /// The handshake did not complete in time.
    HandshakeTimedOut,
    /// The server speaks none of our versions.
    VersionMismatch,
    /// The endpoint ran out of connection IDs or memory for another connection.
    Refused,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LocallyClosed => f.write_str("closed by this end"),
            Self::ApplicationClosed { error_code, reason } => {
                write!(f, "closed by the peer's application with code {:#x}", error_code.get())?;
                write_reason(f, reason)
            }
            Self::ConnectionClosed { error_code, frame_type, reason } => {
                write!(f, "closed by the peer: {error_code}")?;
                if *frame_type != 0 {
                    write!(f, " (frame type {frame_type:#x})")?;
                }
                write_reason(f, reason)
            }
            Self::TransportError(error) => write!(f, "closed because {error}"),
            Self::Reset => f.write_str("the peer does not know this connection any more"),
            Self::Unreachable => f.write_str("nobody receives there"),
            Self::TimedOut => f.write_str("nothing came from the peer for the idle timeout"),
            Self::HandshakeTimedOut => f.write_str("the handshake did not complete in time"),
            Self::VersionMismatch => f.write_str("the server does not speak QUIC version 1"),
            Self::Refused => f.write_str("the connection was refused"),
        }
    }
}

fn write_reason(f: &mut fmt::Formatter<'_>, reason: &Bytes) -> fmt::Result {
    if reason.is_empty() {
        return Ok(());
    }
    write!(f, ": {}", String::from_utf8_lossy(reason).escape_debug())
}

impl core::error::Error for ConnectionError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::TransportError(error) => Some(error),
            _ => None,
        }
    }
}
