//! Connection events for the application.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use clearway_wire::{Direction, StreamId, TransportErrorCode, VarInt};

use crate::TransportError;
use crate::address::SocketIndex;
use crate::drops::HandshakePackets;
use crate::send_failure::SendFailure;

/// A connection event, returned by `Connection::next_event`.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The TLS handshake is complete, and the peer is authenticated as far as this endpoint
    /// requires (RFC 9001 §4.1.1).
    Connected,
    /// The server accepts early data (RFC 9001 §4.6.2). On a client this precedes
    /// [`Connected`](Self::Connected), and the data sent early is delivered. On a server, streams
    /// may be opened from this point on, before the handshake is complete.
    EarlyDataAccepted,
    /// The server rejected this client's early data (RFC 9001 §4.6.2): all data on its streams is
    /// retransmitted after the handshake. An application whose early data depends on remembered
    /// server state has to reset its streams.
    EarlyDataRejected,
    /// The handshake is confirmed (RFC 9001 §4.1.2).
    HandshakeConfirmed,
    /// The peer opened a stream; accept it with `accept`.
    Opened(Direction),
    /// A stream is readable: it has data, its end (FIN) or a reset. Reported once after a read was
    /// blocked. A reset is also reported while data is unread, and
    /// [`received_reset`](crate::Connection::received_reset) distinguishes the two cases.
    Readable(StreamId),
    /// A stream that was blocked is writable again.
    Writable(StreamId),
    /// The peer sent STOP_SENDING for a stream (RFC 9000 §19.5).
    Stopped {
        /// The stream.
        stream_id: StreamId,
        /// The application's error code.
        error_code: VarInt,
    },
    /// All data of a stream and its FIN have been acknowledged.
    Finished(StreamId),
    /// The peer acknowledged the RESET_STREAM of a stream.
    ResetAcknowledged(StreamId),
    /// The peer raised its stream limit after this endpoint could not open a stream.
    StreamsAvailable(Direction),
    /// Unreliable datagrams were received (RFC 9221); call `receive_datagram` until it returns
    /// none.
    DatagramReceived,
    /// The outcome of an unreliable datagram (RFC 9221 §5.2), if
    /// [`datagram_notices`](crate::TransportConfigBuilder::datagram_notices) is enabled.
    DatagramSettled {
        /// The ID of the datagram, as returned by `send_datagram`.
        id: DatagramId,
        /// The outcome.
        outcome: DatagramOutcome,
    },
    /// There is room for unreliable datagrams again after one was rejected with
    /// [`QueueFull`](crate::DatagramError::QueueFull): half of the queue is empty, and the rejected
    /// datagram would fit.
    DatagramsWritable,
    /// The peer's address changed (RFC 9000 §9.3).
    PeerMigrated(SocketAddr),
    /// The connection has moved to a validated path: to the local address of
    /// [`Connection::migrate`](crate::Connection::migrate), or, at either end, to the server's
    /// preferred address (RFC 9000 §9.2, §9.6).
    Migrated {
        /// The socket of the new path.
        socket: SocketIndex,
        /// The peer's address on the new path.
        remote: SocketAddr,
    },
    /// A client did not migrate because the new path cannot be used. The connection continues on
    /// its current path.
    MigrationFailed {
        /// The socket of the new path.
        socket: SocketIndex,
        /// The server's address on the new path.
        remote: SocketAddr,
        /// The reason.
        reason: MigrationFailure,
    },
    /// Follows [`Migrated`](Self::Migrated): no more packets are expected on the old path. If the
    /// path's socket was used only for this connection, it can be closed.
    PathLeft {
        /// The socket of the old path.
        socket: SocketIndex,
        /// The peer's address on the old path.
        remote: SocketAddr,
    },
    /// A client's local address is gone. The connection continues from the address that the
    /// operating system chooses, as soon as there is one (RFC 9000 §9.2); the server learns the new
    /// address from the first packet sent from it.
    LocalAddressLost(IpAddr),
    /// Follows [`LocalAddressLost`](Self::LocalAddressLost): the server has responded to another
    /// local address.
    LocalAddressChanged {
        /// The address that is gone.
        from: IpAddr,
        /// The address now in use.
        to: IpAddr,
    },
    /// The server announced a preferred address that a client must not migrate to. The connection
    /// stays at the current address.
    PreferredAddressIgnored(IgnoredAddress),
    /// The server sent a token for a later connection to it (RFC 9000 §8.1.3). The bytes are opaque
    /// to the application; they also encode the QUIC version in which the token may be used (RFC
    /// 9369 §5).
    NewToken(Bytes),
    /// The connection has ended. This is the last event; everything that the peer sent before is
    /// reported first.
    Closed(ConnectionError),
}

impl Event {
    /// Returns whether the connection has ended for a reason other than a close by this endpoint's
    /// application, which expects no further events.
    pub(crate) fn is_end_by_peer(&self) -> bool {
        matches!(self, Self::Closed(error) if *error != ConnectionError::LocallyClosed)
    }
}

/// Why a client cannot start a migration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MigrationError {
    /// Only clients migrate (RFC 9000 §9).
    NotAClient,
    /// The connection has ended.
    Closed,
    /// The handshake is not confirmed yet (RFC 9000 §9).
    HandshakeNotConfirmed,
    /// The server sent `disable_active_migration`, and the connection has not moved to its preferred address (RFC 9000
    /// §18.2).
    DisabledByPeer,
    /// A path is being validated already.
    InProgress,
    /// The connection already uses that socket.
    SameSocket,
    /// The server uses zero-length connection IDs, so observers could link the two paths (RFC 9000
    /// §9.5).
    NoConnectionIdsOfPeer,
    /// The server has issued no unused connection ID for the new path (RFC 9000 §9.5). It may issue
    /// one soon.
    NoSpareConnectionId,
}

impl fmt::Display for MigrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAClient => "only clients migrate",
            Self::Closed => "the connection has ended",
            Self::HandshakeNotConfirmed => "the handshake is not confirmed yet",
            Self::DisabledByPeer => "the server forbids migration (disable_active_migration)",
            Self::InProgress => "another path is being validated",
            Self::SameSocket => "the connection already uses this socket",
            Self::NoConnectionIdsOfPeer => "the server uses zero-length connection IDs",
            Self::NoSpareConnectionId => "the server has not issued an unused connection ID",
        })
    }
}

impl core::error::Error for MigrationError {}

/// Why a migration failed after it was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MigrationFailure {
    /// The PATH_CHALLENGE frames on the new path were not answered (RFC 9000 §8.2.4).
    NotValidated,
    /// The server retired the connection ID of the new path without issuing another (RFC 9000
    /// §9.5).
    NoConnectionId,
}

impl fmt::Display for MigrationFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotValidated => "the server did not respond on the new path",
            Self::NoConnectionId => "the server retired the connection ID of the new path",
        })
    }
}

impl core::error::Error for MigrationFailure {}

/// Why a client does not migrate to its server's preferred address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IgnoredAddress {
    /// The server's preferred address has no entry for the address family over which the client is
    /// connected.
    OtherFamily,
    /// The address is unspecified: 0.0.0.0 or ::.
    Unspecified,
    /// The port is 0.
    NoPort,
    /// The address is a multicast or broadcast address.
    Multicast,
    /// The address is a loopback address, and the server that announced it is on another host.
    Loopback,
}

/// Why a connection ended.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ConnectionError {
    /// This endpoint's application closed the connection.
    LocallyClosed,
    /// The peer's application closed the connection.
    ApplicationClosed {
        /// The application's error code.
        error_code: VarInt,
        /// The human-readable reason phrase.
        reason: Bytes,
    },
    /// The peer's transport closed the connection.
    ConnectionClosed {
        /// The error code (RFC 9000 §20.1).
        error_code: TransportErrorCode,
        /// The type of the frame that caused the error; 0 if unknown.
        frame_type: u64,
        /// The human-readable reason phrase.
        reason: Bytes,
    },
    /// The peer violated the protocol, or TLS failed, and this endpoint closed the connection.
    TransportError(TransportError),
    /// The peer sent a stateless reset: it no longer has the state of this connection (RFC 9000 §10.3).
    Reset,
    /// ICMP reported that the peer's address is unreachable.
    Unreachable,
    /// Nothing was received from the peer for the idle timeout (RFC 9000 §10.1), after the handshake
    /// was complete.
    TimedOut,
    /// Nothing was received from the peer in time, and this host has been unable to send to it
    /// since.
    CannotSend(SendFailure),
    /// The handshake did not complete within
    /// [`handshake_timeout`](crate::TransportConfigBuilder::handshake_timeout) or before the idle
    /// timeout. The value describes the packets that arrived in that time.
    HandshakeTimedOut(HandshakePackets),
    /// The server supports no version that this endpoint supports (RFC 9368 §2.1).
    VersionMismatch,
    /// The endpoint ran out of connection IDs or memory for another connection.
    Refused,
    /// The local thread that served the connection failed: it panicked, or its socket became
    /// unusable. The string describes the cause. No CONNECTION_CLOSE was sent.
    EndpointFailed(Arc<str>),
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LocallyClosed => f.write_str("closed by this endpoint"),
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
            Self::Reset => f.write_str(
                "the peer sent a stateless reset: it has lost the state of this connection",
            ),
            Self::Unreachable => f.write_str("nothing is listening at that address and port"),
            Self::TimedOut => {
                f.write_str("nothing was received from the peer for the idle timeout")
            }
            Self::CannotSend(failure) => {
                write!(f, "this host could not send to the peer before the timeout: {failure}")
            }
            Self::HandshakeTimedOut(packets) => {
                write!(f, "the handshake did not complete in time: {packets}")
            }
            Self::VersionMismatch => {
                f.write_str("the server supports no QUIC version that this endpoint supports")
            }
            Self::Refused => f.write_str("the connection was refused"),
            Self::EndpointFailed(reason) => {
                write!(f, "the thread that served the connection has exited: {reason}")
            }
        }
    }
}

fn write_reason(f: &mut fmt::Formatter<'_>, reason: &Bytes) -> fmt::Result {
    if reason.is_empty() {
        return Ok(());
    }
    // Quoted, so that nobody takes the peer's words for this endpoint's.
    write!(f, ", reason: {:?}", String::from_utf8_lossy(reason))
}

impl core::error::Error for ConnectionError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::TransportError(error) => error.source(),
            _ => None,
        }
    }
}

impl From<ConnectionError> for io::Error {
    fn from(error: ConnectionError) -> Self {
        let kind = match error {
            ConnectionError::LocallyClosed => io::ErrorKind::NotConnected,
            ConnectionError::ApplicationClosed { .. }
            | ConnectionError::ConnectionClosed { .. } => io::ErrorKind::ConnectionAborted,
            ConnectionError::Reset => io::ErrorKind::ConnectionReset,
            ConnectionError::TimedOut
            | ConnectionError::HandshakeTimedOut(_)
            | ConnectionError::CannotSend(_) => io::ErrorKind::TimedOut,
            ConnectionError::Unreachable | ConnectionError::Refused => {
                io::ErrorKind::ConnectionRefused
            }
            ConnectionError::TransportError(_)
            | ConnectionError::VersionMismatch
            | ConnectionError::EndpointFailed(_) => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// Identifies an unreliable datagram among those queued on one connection. IDs are increasing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DatagramId(pub u64);

impl fmt::Display for DatagramId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The outcome of an unreliable datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DatagramOutcome {
    /// The packet that carried the datagram was acknowledged: the peer's transport has received it,
    /// but its application may not have. This may also follow [`Lost`](Self::Lost) if the datagram
    /// was only late (RFC 9221 §5.2).
    Acknowledged,
    /// The packet that carried the datagram was declared lost. The datagram is not retransmitted.
    Lost,
    /// The datagram was dropped before it was sent because a newer one displaced it from a full
    /// queue.
    Displaced,
    /// The datagram was dropped before it was sent because it no longer fits the path MTU (RFC 8899
    /// §4.4).
    Outgrown,
}
