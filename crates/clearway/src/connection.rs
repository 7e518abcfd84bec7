//! A connection, as used by tasks.

mod handle;

use core::fmt;
use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use clearway_transport::{
    ConnectionError, DatagramId, DatagramOutcome, DatagramStatistics, Statistics,
};
use clearway_wire::{Direction, StreamId, VarInt};
use rustls::pki_types::CertificateDer;
use tokio::sync::oneshot;

use crate::bridge::{Established, Signal};
use crate::connection_ref::{CLOSED, ConnectionRef};
use crate::error::{ConnectError, DatagramWaitError, ExportError, MigrateError, SendDatagramError};
use crate::path::PathEvent;
use crate::recv_stream::RecvStream;
use crate::send_stream::SendStream;
use crate::streams::{ExportRequest, Opened, Shared, incoming};

/// A connection whose handshake is in progress.
///
/// This future resolves to the [`Connection`] once the handshake is complete. It does so even if an
/// established connection has ended in the meantime, so that data received earlier can be read.
/// Dropping the future closes the connection.
#[must_use = "dropping this future closes the connection"]
pub struct Connecting {
    reference: Option<ConnectionRef>,
    remote: SocketAddr,
}

impl Connecting {
    pub(crate) fn new(shared: Arc<Shared>, remote: SocketAddr) -> Self {
        Self { reference: Some(ConnectionRef::new(shared)), remote }
    }

    /// Returns the peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.remote
    }

    /// Returns the connection before its handshake is complete, if early data (0-RTT) can be
    /// exchanged on it (RFC 9001 §4.6), and a future that resolves to whether the server accepts
    /// that data.
    ///
    /// If the handshake has completed in the meantime, this still returns the connection, which
    /// then does not differ from one obtained by awaiting `self`.
    ///
    /// A client can send early data if its [configuration](crate::ClientConfig::early_data) enables
    /// it and the connection resumes a session that allows it. An on-path attacker can replay
    /// everything that is sent before the handshake is complete, so the server may process it more
    /// than once. If the server rejects the early data, everything that was written is sent again.
    /// An application whose data assumes that the server would accept it early should then reset
    /// its streams.
    ///
    /// A server can receive early data if it [accepts](crate::ServerConfig::early_data) this
    /// client's early data. Data that arrives before the handshake is complete may be a replay, so
    /// processing it twice must be harmless. The server's responses go to a client that is not
    /// authenticated yet.
    ///
    /// # Errors
    /// Returns `self` if early data cannot be exchanged; it can be used to wait for the handshake.
    pub async fn into_0rtt(self) -> Result<(Connection, ZeroRttAccepted), Self> {
        let Some(reference) = &self.reference else { return Err(self) };
        let reference = reference.clone();
        match core::future::poll_fn(|context| reference.poll_early(context)).await {
            Ok(Some(early)) => {
                let accepted = ZeroRttAccepted(reference.clone());
                Ok((Connection::new(reference, early), accepted))
            }
            Ok(None) | Err(_) => Err(self),
        }
    }
}

/// A future that resolves to whether the server accepted a connection's early data, once the
/// handshake is complete.
pub struct ZeroRttAccepted(ConnectionRef);

impl ZeroRttAccepted {
    /// Waits for the end of the handshake. Returns `false` if the early data was rejected or the
    /// connection was lost before the handshake completed.
    pub async fn wait(self) -> bool {
        self.0.early_data_accepted().await
    }
}

impl fmt::Debug for ZeroRttAccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZeroRttAccepted").finish_non_exhaustive()
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(reference) = self.reference.take() else {
            // The future was polled after completion.
            return Poll::Ready(Err(CLOSED));
        };
        match reference.poll_established(context) {
            Poll::Ready(Ok(known)) => Poll::Ready(Ok(Connection::new(reference, known))),
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

/// An established connection. Clones refer to the same connection.
///
/// When the last clone and the last stream are dropped, the connection is closed with code 0, and
/// data that has not been delivered is lost: wait for [`SendStream::stopped`] or
/// [`closed`](Self::closed) first.
#[derive(Clone)]
pub struct Connection {
    reference: ConnectionRef,
    /// The connection properties that were known when the connection was first used.
    first: Arc<Established>,
    /// The connection properties that are known once the handshake is complete.
    established: OnceLock<Arc<Established>>,
}

impl Connection {
    fn new(reference: ConnectionRef, first: Arc<Established>) -> Self {
        Self { reference, first, established: OnceLock::new() }
    }

    fn established(&self) -> &Established {
        if let Some(established) = self.established.get() {
            return established;
        }
        match self.reference.lock().established.clone() {
            Some(established) => self.established.get_or_init(|| established),
            None => &self.first,
        }
    }

    /// Waits until the handshake is complete, and returns whether this connection's early data was
    /// accepted: see [`Connecting::into_0rtt`].
    pub async fn early_data_accepted(&self) -> bool {
        self.reference.early_data_accepted().await
    }

    /// Opens a bidirectional stream, as soon as the peer's limit allows one. The peer learns of the
    /// stream when the first data is sent.
    ///
    /// # Errors
    /// Fails if the connection ends.
    ///
    /// # Cancel safety
    /// If the future is dropped, the peer does not see a new stream.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.open(Direction::Bidirectional).await?;
        Ok(self.both(id))
    }

    /// Opens a unidirectional stream, as soon as the peer's limit allows one. The peer learns of
    /// the stream when the first data is sent.
    ///
    /// # Errors
    /// Fails if the connection ends.
    ///
    /// # Cancel safety
    /// If the future is dropped, the peer does not see a new stream.
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
            let opening = state.app.opening.get_mut(direction);
            opening.retain(|reply| !reply.is_closed());
            opening.push_back(reply);
            effects.wake_shard();
            Ok(())
        })?;
        let id = opened.await.ok().and_then(Opened::take);
        id.ok_or_else(|| self.why_lost())
    }

    /// Waits for the next bidirectional stream that the peer opens. Streams that are not accepted
    /// count against limits, as described at [`accept_uni`](Self::accept_uni).
    ///
    /// # Errors
    /// Fails if the connection ends.
    ///
    /// # Cancel safety
    /// If the future is dropped, no stream is lost.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.accept(Direction::Bidirectional).await?;
        Ok(self.both(id))
    }

    /// Waits for the next unidirectional stream that the peer opens.
    ///
    /// A stream that is not accepted counts against the limit on the peer's open streams, and its
    /// data counts against the connection's receive window (RFC 9000 §4). A program that never
    /// calls this should allow no such streams (`max_concurrent_unidirectional_streams`).
    ///
    /// # Errors
    /// Fails if the connection ends.
    ///
    /// # Cancel safety
    /// If the future is dropped, no stream is lost.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        let id = self.accept(Direction::Unidirectional).await?;
        Ok(RecvStream::new(self.reference.clone(), id))
    }

    async fn accept(&self, direction: Direction) -> Result<StreamId, ConnectionError> {
        let wanted = self.reference.wait(incoming(direction), |state| {
            let next = state.app.incoming.get_mut(direction).pop_front();
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

    /// Waits until the connection has ended, and returns the reason.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub async fn closed(&self) -> ConnectionError {
        self.reference.wait(Signal::Connection, |state| state.lost()).await
    }

    /// Returns the reason why the connection has ended; `None` if it is still open.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.reference.lock().lost()
    }

    /// Runs `task` on the thread of the connection's shard, so that its use of this connection
    /// needs no thread switch.
    ///
    /// If called in a tokio runtime, the task runs inside that runtime: its timers, sockets and
    /// [`tokio::spawn`] use it. The shard's connections wait while the task computes, so it must
    /// not block, and work that takes more than some ten microseconds belongs in a task on the
    /// runtime. If the connection has already ended, the task may not run.
    ///
    /// The task is dropped when the runtime shuts down, like the runtime's own tasks, and when the
    /// shard ends, after the last handle of the [`Endpoint`](crate::Endpoint) and its last
    /// connection. The task outlives this connection: the connection's futures then return errors.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.reference.spawn_here(task);
    }

    /// Closes the connection immediately with `error_code` and `reason`, which is truncated to a
    /// few hundred bytes. Data that has not been delivered is lost; datagrams that were queued
    /// before are sent first, unless the path permits no more.
    pub fn close(&self, error_code: VarInt, reason: &[u8]) {
        self.reference.close(error_code, Bytes::copy_from_slice(reason), CLOSED);
    }

    /// Queues `data` as an unreliable datagram (RFC 9221). Returns its ID for
    /// [`datagram_outcome`](Self::datagram_outcome).
    ///
    /// Datagrams are delivered at most once and in any order. A datagram may be lost on the path or
    /// before it is sent.
    ///
    /// If the send queue is full, the datagram is rejected, or replaces the oldest one
    /// ([`datagram_drops_oldest`](crate::TransportConfigBuilder::datagram_drops_oldest)).
    ///
    /// # Errors
    /// Fails if the datagram cannot be sent.
    pub fn send_datagram(&self, data: Bytes) -> Result<DatagramId, SendDatagramError> {
        let maximum = self.max_datagram_size().ok_or(SendDatagramError::Unsupported)?;
        if data.len() > maximum {
            self.reference.act(|state, effects| {
                state.app.datagrams.wants_larger = true;
                effects.wake_shard();
            });
            return Err(SendDatagramError::TooLarge { maximum });
        }
        self.reference.act(|state, effects| {
            if let Some(error) = state.lost() {
                return Err(SendDatagramError::ConnectionLost(error));
            }
            let id = state.app.datagrams.send(data, effects);
            let id = id.ok_or(SendDatagramError::QueueFull)?;
            effects.wake_shard();
            Ok(id)
        })
    }

    /// Like [`send_datagram`](Self::send_datagram), but waits until the send queue has room.
    ///
    /// # Errors
    /// Fails if the datagram cannot be sent; [`QueueFull`](SendDatagramError::QueueFull) only if it
    /// is larger than the entire queue.
    ///
    /// # Cancel safety
    /// If the future is dropped, the datagram is not sent.
    pub async fn send_datagram_wait(&self, data: Bytes) -> Result<DatagramId, SendDatagramError> {
        loop {
            match self.send_datagram(data.clone()) {
                Err(SendDatagramError::QueueFull) => {}
                outcome => return outcome,
            }
            let room = self.reference.wait_acting(Signal::DatagramRoom, |state, effects| {
                let datagrams = &mut state.app.datagrams;
                if state.error.is_some() || datagrams.has_room_for(&data) {
                    return Some(true);
                }
                if !datagrams.can_ever_hold(data.len() as u64) {
                    return Some(false);
                }
                if datagrams.await_room(data.len() as u64) {
                    // The shard checks whether room has become available since the last batch, and
                    // otherwise signals when it does.
                    effects.wake_shard();
                }
                None
            });
            if !room.await {
                return Err(SendDatagramError::QueueFull);
            }
        }
    }

    /// Returns the number of streams for which task state is kept.
    #[cfg(test)]
    pub(crate) fn kept_streams(&self) -> usize {
        self.reference.lock().app.streams.len()
    }

    /// Returns whether a future waits for the end of a stream.
    #[cfg(test)]
    pub(crate) fn is_watched(&self, id: StreamId) -> bool {
        let mut state = self.reference.lock();
        state.send_half(id).is_some_and(|send| send.buffer.is_watched())
    }

    /// Returns the largest datagram payload that fits into the send queue now, in bytes. The path
    /// may allow less: see [`max_datagram_size`](Self::max_datagram_size).
    pub fn datagram_send_buffer_space(&self) -> usize {
        usize::try_from(self.reference.lock().app.datagrams.send_space()).unwrap_or(usize::MAX)
    }

    /// Waits for the next outcome of an unreliable datagram: acknowledged, lost, or dropped before
    /// it was sent (RFC 9221 §5.2).
    ///
    /// Requires [`datagram_notices`](crate::TransportConfigBuilder::datagram_notices). At most the
    /// newest 16,384 outcomes are queued.
    ///
    /// # Errors
    /// Returns [`NotEnabled`](DatagramWaitError::NotEnabled) immediately without that setting;
    /// otherwise the error that ended the connection.
    ///
    /// # Cancel safety
    /// If the future is dropped, no outcome is lost.
    pub async fn datagram_outcome(
        &self,
    ) -> Result<(DatagramId, DatagramOutcome), DatagramWaitError> {
        let wanted = self.reference.wait(Signal::DatagramOutcomes, |state| {
            if let Some(next) = state.app.datagrams.next_outcome() {
                return Some(Ok(next));
            }
            state.datagram_wait_error(state.app.datagrams.are_reported()).map(Err)
        });
        wanted.await
    }

    /// Returns the connection's counters of unreliable datagrams, as of the last batch of UDP
    /// datagrams.
    pub fn datagram_statistics(&self) -> DatagramStatistics {
        self.reference.lock().app.datagrams.statistics()
    }

    /// Returns the largest payload that [`send_datagram`](Self::send_datagram) accepts now; `None`
    /// if the peer does not support datagrams.
    ///
    /// The limit changes with the path: it grows when path MTU discovery finds that larger
    /// datagrams are delivered (RFC 8899), and falls to 1,156 bytes when they no longer are. Queued
    /// datagrams that have become too large are then dropped. A payload of up to 1,156 bytes is
    /// always accepted, unless the peer's `max_datagram_frame_size` is smaller (RFC 9221 §3).
    pub fn max_datagram_size(&self) -> Option<usize> {
        let now = self.reference.lock().app.datagrams.max_payload;
        now.or(self.established().max_datagram_payload)
    }

    /// Waits for the next unreliable datagram from the peer.
    ///
    /// # Errors
    /// Returns [`NotEnabled`](DatagramWaitError::NotEnabled) immediately if this endpoint accepts
    /// no datagrams, which is the default
    /// ([`max_datagram_frame_size`](crate::TransportConfigBuilder::max_datagram_frame_size));
    /// otherwise the error that ended the connection.
    ///
    /// # Cancel safety
    /// If the future is dropped, no datagram is lost.
    pub async fn read_datagram(&self) -> Result<Bytes, DatagramWaitError> {
        let wanted = self.reference.wait(Signal::Datagrams, |state| {
            if let Some(next) = state.app.datagrams.receive() {
                return Some(Ok(next));
            }
            state.datagram_wait_error(state.app.datagrams.are_accepted()).map(Err)
        });
        wanted.await
    }

    /// Returns the peer's current address.
    pub fn remote_address(&self) -> SocketAddr {
        self.reference.lock().remote_address.unwrap_or(UNKNOWN_ADDRESS)
    }

    /// Migrates this client's connection to the local address `local` (RFC 9000 §9.2), and returns
    /// the new local address once the migration is complete.
    ///
    /// Port 0 means any free port, and 0.0.0.0 or :: means the IP address of the route to the
    /// server. So `0.0.0.0:0` means another port on the same address, or a new address after the
    /// network has changed. Pass the [endpoint's address](crate::Endpoint::local_address) to return
    /// to the endpoint's own socket.
    ///
    /// A socket is opened for this connection only, unless another connection of the endpoint has
    /// already migrated to exactly this address and port. The new path is validated while the
    /// connection continues on the old one, so nothing is lost if the new path does not work. The
    /// new path gets new connection IDs; congestion control, the round-trip time estimate and the
    /// path MTU are reset unless only the port differs (§9.4, §9.5). The old socket is closed soon
    /// afterward.
    ///
    /// Other libraries replace the endpoint's socket (quinn's `Endpoint::rebind`), which moves all
    /// connections immediately and without path validation. In Clearway, each connection migrates
    /// separately.
    ///
    /// The call first waits until the handshake is confirmed, about one round trip after it is
    /// complete.
    ///
    /// # Errors
    /// Fails if the connection cannot migrate. It then stays on its current path.
    ///
    /// # Cancel safety
    /// If the future is dropped, the migration still continues.
    pub async fn migrate(&self, local: SocketAddr) -> Result<SocketAddr, MigrateError> {
        self.reference.shared().migrate(local).await
    }

    /// Waits for the next change of the connection's path, such as a NAT rebinding of the peer. At
    /// most the last 16 events are queued.
    ///
    /// # Errors
    /// Fails if the connection ends.
    ///
    /// # Cancel safety
    /// If the future is dropped, no event is lost.
    pub async fn path_event(&self) -> Result<PathEvent, ConnectionError> {
        let wanted = self.reference.wait(Signal::Path, |state| {
            let next = state.next_path_event();
            next.map(Ok).or_else(|| state.lost().map(Err))
        });
        wanted.await
    }

    /// Returns the negotiated application protocol (ALPN).
    pub fn application_protocol(&self) -> Option<&[u8]> {
        self.established().application_protocol.as_deref()
    }

    /// Returns the IANA name of the negotiated key exchange group, such as "X25519MLKEM768".
    pub fn key_exchange_group(&self) -> Option<&'static str> {
        self.established().key_exchange_group
    }

    /// Returns the peer's certificate chain, starting with its own certificate.
    ///
    /// A server has the client's chain only if it requests client certificates
    /// ([`ServerConfig::client_certificates`](crate::ServerConfig::client_certificates)); the chain
    /// has then been verified. If a certificate is [required](crate::ClientCertificates::Required),
    /// this is never `None`, not even on resumed connections.
    pub fn peer_identity(&self) -> Option<&[CertificateDer<'static>]> {
        self.established().peer_certificates.as_deref()
    }

    /// Returns the server name that the client requested (SNI).
    pub fn server_name(&self) -> Option<&str> {
        self.established().server_name.as_deref()
    }

    /// Returns the connection's statistics, as of the last batch of datagrams.
    pub fn statistics(&self) -> Statistics {
        *self.reference.lock().statistics.as_deref().expect("set when the handshake is complete")
    }

    /// Returns the newest token that the server sent in a NEW_TOKEN frame, with which a later
    /// connection to it can avoid a Retry; see [`ClientConfig::token`](crate::ClientConfig::token).
    /// Each token is returned once.
    pub fn new_token(&self) -> Option<Bytes> {
        self.reference.lock().app.new_token.take()
    }

    /// Derives `length` bytes of keying material from the TLS session (RFC 8446 §7.5).
    ///
    /// # Errors
    /// Returns [`ExportError::Tls`] if TLS cannot derive that many bytes (the cipher suites of TLS
    /// 1.3 allow at most 8,160 or 12,240); otherwise the error that ended the connection.
    pub async fn export_keying_material(
        &self,
        length: usize,
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<Vec<u8>, ExportError> {
        if length > MAX_EXPORT {
            return Err(ExportError::Tls(clearway_transport::ExportError));
        }
        let (reply, exported) = oneshot::channel();
        self.reference.act(|state, effects| {
            if let Some(error) = state.lost() {
                return Err(ExportError::ConnectionLost(error));
            }
            state.app.exports.push(ExportRequest {
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

/// Upper bound on the length of exported keying material: 255 times the hash length (RFC 5869 §2.3)
/// of SHA-512, the longest hash in TLS. Longer requests are rejected before any memory is
/// allocated.
const MAX_EXPORT: usize = 255 * 64;

/// Placeholder for an unknown peer address; an established connection never has it.
const UNKNOWN_ADDRESS: SocketAddr =
    SocketAddr::new(core::net::IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED), 0);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("remote", &self.remote_address()).finish_non_exhaustive()
    }
}
