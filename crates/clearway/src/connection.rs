//! A connection, as tasks see it.

use core::fmt;
use core::future::Future;
use core::net::SocketAddr;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;

use bytes::Bytes;
use clearway_transport::{ConnectionError, Statistics};
use clearway_wire::{Direction, StreamId, VarInt};
use rustls::pki_types::CertificateDer;
use tokio::sync::oneshot;

use crate::bridge::{Established, Signal};
use crate::error::{ConnectError, ExportError, SendDatagramError};
use crate::recv_stream::RecvStream;
use crate::send_stream::SendStream;
use crate::streams::{ExportRequest, Opened, Shared, incoming};

/// What this end's tasks learn when this end closes the connection.
const CLOSED: ConnectError = ConnectError::Lost(ConnectionError::LocallyClosed);

/// What keeps a connection open: when the last is dropped, the connection is closed.
#[derive(Clone)]
pub(crate) struct ConnectionRef(Arc<Owner>);

struct Owner(Arc<Shared>);

impl ConnectionRef {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(Arc::new(Owner(shared)))
    }
}

impl Deref for ConnectionRef {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close(VarInt::ZERO, Bytes::new(), CLOSED);
    }
}

/// A connection whose handshake goes on: a future of the connection. Dropped, it gives the connection
/// up.
#[must_use = "a connection that nobody waits for is closed"]
pub struct Connecting {
    reference: Option<ConnectionRef>,
    remote: SocketAddr,
}

impl Connecting {
    pub(crate) fn new(shared: Arc<Shared>, remote: SocketAddr) -> Self {
        Self { reference: Some(ConnectionRef::new(shared)), remote }
    }

    /// Where the peer is.
    pub fn remote_address(&self) -> SocketAddr {
        self.remote
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(reference) = self.reference.take() else {
            // Asked again after it was done.
            return Poll::Ready(Err(CLOSED));
        };
        match reference.poll_established(context) {
            Poll::Ready(Ok(established)) => Poll::Ready(Ok(Connection { reference, established })),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                self.reference = Some(reference);
                Poll::Pending
            }
        }
    }
}

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connecting").field("remote", &self.remote).finish_non_exhaustive()
    }
}

/// An established connection. Clones are the same connection.
///
/// When the last clone and the last stream are dropped, the connection is closed with code 0, and what
/// was not delivered yet is lost: wait for [`SendStream::stopped`] or [`closed`](Self::closed) first.
#[derive(Clone)]
pub struct Connection {
    reference: ConnectionRef,
    established: Arc<Established>,
}

impl Connection {
    /// Opens a stream for both directions, as soon as the peer permits one. The peer learns of it with
    /// the first data.
    ///
    /// # Errors
    /// If the connection ends.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.open(Direction::Bidirectional).await?;
        Ok(self.both(id))
    }

    /// Opens a stream that only this end sends on, as soon as the peer permits one. The peer learns of
    /// it with the first data.
    ///
    /// # Errors
    /// If the connection ends.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        let id = self.open(Direction::Unidirectional).await?;
        Ok(SendStream::new(self.reference.clone(), id))
    }

    async fn open(&self, direction: Direction) -> Result<StreamId, ConnectionError> {
        let (reply, opened) = oneshot::channel();
        self.reference.act(|state, effects| {
            if let Some(error) = state.lost() {
                return Err(error);
            }
            let opening = state.face.opening.get_mut(direction);
            opening.retain(|reply| !reply.is_closed());
            opening.push_back(reply);
            effects.wake_shard();
            Ok(())
        })?;
        let id = opened.await.ok().and_then(Opened::take);
        id.ok_or_else(|| self.why_lost())
    }

    /// The next stream for both directions that the peer opened. One that is not accepted counts as with
    /// [`accept_uni`](Self::accept_uni).
    ///
    /// # Errors
    /// If the connection ends.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.accept(Direction::Bidirectional).await?;
        Ok(self.both(id))
    }

    /// The next stream that the peer opened and only it sends on.
    ///
    /// A stream that is not accepted keeps its place among those that the peer may have open, and its data counts
    /// against the connection's receive window (RFC 9000 §4). A program that never calls this should allow no such
    /// streams (`max_concurrent_unidirectional_streams`).
    ///
    /// # Errors
    /// If the connection ends.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        let id = self.accept(Direction::Unidirectional).await?;
        Ok(RecvStream::new(self.reference.clone(), id))
    }

    async fn accept(&self, direction: Direction) -> Result<StreamId, ConnectionError> {
        let wanted = self.reference.wait(incoming(direction), |state| {
            let next = state.face.incoming.get_mut(direction).pop_front();
            next.map(Ok).or_else(|| state.lost().map(Err))
        });
        wanted.await
    }

    fn both(&self, id: StreamId) -> (SendStream, RecvStream) {
        let send = SendStream::new(self.reference.clone(), id);
        (send, RecvStream::new(self.reference.clone(), id))
    }

    fn why_lost(&self) -> ConnectionError {
        self.reference.lock().lost().unwrap_or(ConnectionError::LocallyClosed)
    }

    /// Waits until the connection is over, and says why.
    pub async fn closed(&self) -> ConnectionError {
        self.reference.wait(Signal::Connection, |state| state.lost()).await
    }

    /// Why the connection is over, if it is.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.reference.lock().lost()
    }

    /// Closes the connection at once: the peer is told `error_code` and `reason`, of which the first
    /// few hundred bytes count. What was not delivered yet is lost.
    pub fn close(&self, error_code: VarInt, reason: &[u8]) {
        self.reference.close(error_code, Bytes::copy_from_slice(reason), CLOSED);
    }

    /// Sends `data` at most once, without order (RFC 9221). It may be lost without notice, on the way
    /// or before it.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub fn send_datagram(&self, data: Bytes) -> Result<(), SendDatagramError> {
        let maximum = self.max_datagram_size().ok_or(SendDatagramError::Unsupported)?;
        if data.len() > maximum {
            return Err(SendDatagramError::TooLarge { maximum });
        }
        self.reference.act(|state, effects| {
            if let Some(error) = state.lost() {
                return Err(SendDatagramError::ConnectionLost(error));
            }
            if !state.face.datagrams_to_send.has_room_for(&data) {
                return Err(SendDatagramError::QueueFull);
            }
            state.face.datagrams_to_send.push(data);
            effects.wake_shard();
            Ok(())
        })
    }

    /// The largest payload that [`send_datagram`](Self::send_datagram) takes; `None` if the peer takes
    /// no datagrams.
    pub fn max_datagram_size(&self) -> Option<usize> {
        let limit = self.established.peer_datagram_limit;
        (limit > 0).then(|| limit.saturating_sub(MAX_DATAGRAM_HEADER).min(MAX_DATAGRAM_PAYLOAD))
    }

    /// The next unreliable datagram of the peer.
    ///
    /// # Errors
    /// If the connection ends.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        let wanted = self.reference.wait(Signal::Datagrams, |state| {
            let next = state.face.datagrams_received.pop();
            next.map(Ok).or_else(|| state.lost().map(Err))
        });
        wanted.await
    }

    /// Where the peer is now.
    pub fn remote_address(&self) -> SocketAddr {
        self.reference.lock().remote_address.unwrap_or(UNKNOWN_ADDRESS)
    }

    /// The application protocol (ALPN) agreed on.
    pub fn application_protocol(&self) -> Option<&[u8]> {
        self.established.application_protocol.as_deref()
    }

    /// The peer's certificate chain, its own certificate first.
    pub fn peer_identity(&self) -> Option<&[CertificateDer<'static>]> {
        self.established.peer_certificates.as_deref()
    }

    /// The name by which the client called the server.
    pub fn server_name(&self) -> Option<&str> {
        self.established.server_name.as_deref()
    }

    /// The connection's metrics, as of the last batch of datagrams.
    pub fn statistics(&self) -> Statistics {
        self.reference.lock().statistics.unwrap_or(self.established.statistics)
    }

    /// A token that the server gave, with which a later connection to it can do without Retry; see
    /// [`ClientConfig::token`](crate::ClientConfig::token). The newest, once.
    pub fn new_token(&self) -> Option<Bytes> {
        self.reference.lock().face.new_token.take()
    }

    /// Derives `length` bytes of keying material from the session (RFC 8446 §7.5).
    ///
    /// # Errors
    /// If TLS cannot derive so many, or the connection ends.
    pub async fn export_keying_material(
        &self,
        length: usize,
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<Vec<u8>, ExportError> {
        let (reply, exported) = oneshot::channel();
        self.reference.act(|state, effects| {
            if let Some(error) = state.lost() {
                return Err(ExportError::ConnectionLost(error));
            }
            state.face.exports.push(ExportRequest {
                label: label.to_vec(),
                context: context.map(<[u8]>::to_vec),
                length,
                reply,
            });
            effects.wake_shard();
            Ok(())
        })?;
        let lost = |_| Err(ExportError::ConnectionLost(self.why_lost()));
        exported.await.unwrap_or_else(lost)
    }
}

/// The type and the longest Length field of a DATAGRAM frame.
const MAX_DATAGRAM_HEADER: usize = 3;
/// What a packet of 1200 bytes has room for beside the longest header, the authentication tag and the
/// frame's own: larger paths are not made use of here.
const MAX_DATAGRAM_PAYLOAD: usize = 1200 - 25 - 16 - MAX_DATAGRAM_HEADER;
/// For a peer that was never heard of, which no established connection has.
const UNKNOWN_ADDRESS: SocketAddr =
    SocketAddr::new(core::net::IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED), 0);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("remote", &self.remote_address()).finish_non_exhaustive()
    }
}
