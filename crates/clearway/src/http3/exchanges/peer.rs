//! The clients of a server, and handles to their connections.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use clearway_http3::Code;
use clearway_transport::{Connection, Statistics};
use clearway_wire::VarInt;
use http::Request;
use rustls::pki_types::CertificateDer;

use super::super::Error;
use super::{Shared, State};
use crate::bridge::{Established, Signal};

/// The client of a request: an extension of every request that a server passes to tasks.
/// [`Handler`](crate::http3::Handler)s get it from
/// [`RequestStream::peer`](crate::http3::RequestStream::peer).
///
/// It does not keep the connection open, and can be used after the connection has ended. Its clones
/// and those of other requests on the connection share their memory.
#[derive(Clone)]
pub struct Peer(Arc<PeerState>);

pub(in crate::http3) struct PeerState {
    established: Arc<Established>,
    addresses: Mutex<Addresses>,
    /// The state of the connection that tasks share; empty if a handler serves the connection.
    shared: Weak<Shared>,
}

/// The addresses of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::http3) struct Addresses {
    pub(in crate::http3) remote: SocketAddr,
    pub(in crate::http3) local_ip: Option<IpAddr>,
}

impl Addresses {
    /// Returns the addresses of a connection's current path.
    pub(in crate::http3) fn of(connection: &Connection) -> Self {
        Self { remote: connection.remote_address(), local_ip: connection.local_ip() }
    }
}

impl Peer {
    /// Returns the client of a request.
    pub fn of<B>(request: &Request<B>) -> Option<&Self> {
        request.extensions().get()
    }

    fn new(established: Arc<Established>, addresses: Addresses, shared: Weak<Shared>) -> Self {
        Self(Arc::new(PeerState { established, addresses: Mutex::new(addresses), shared }))
    }

    /// Creates the peer of a connection that a handler serves.
    pub(in crate::http3) fn of_handler(connection: &Connection) -> Self {
        let established = Arc::new(Established::new(connection));
        Self::new(established, Addresses::of(connection), Weak::new())
    }

    /// Returns the client's current address, or its last one if the connection has ended.
    pub fn remote_address(&self) -> SocketAddr {
        self.addresses().remote
    }

    /// Returns the server's IP address on the connection's path, if the system reports it. The port
    /// is that of the [server](crate::http3::Server::local_address).
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.addresses().local_ip
    }

    /// Returns the client's verified certificate chain, starting with its own certificate.
    ///
    /// Returns `None` unless the server requests certificates
    /// ([`ServerConfig::client_certificates`](crate::ServerConfig::client_certificates)) and the
    /// client has one.
    pub fn identity(&self) -> Option<&[CertificateDer<'static>]> {
        self.0.established.peer_certificates.as_deref()
    }

    /// Returns the server name that the client requested (SNI).
    pub fn server_name(&self) -> Option<&str> {
        self.0.established.server_name.as_deref()
    }

    /// Returns the negotiated application protocol (ALPN).
    pub fn application_protocol(&self) -> Option<&[u8]> {
        self.0.established.application_protocol.as_deref()
    }

    /// Returns the IANA name of the negotiated key exchange group, such as "X25519MLKEM768".
    pub fn key_exchange_group(&self) -> Option<&'static str> {
        self.0.established.key_exchange_group
    }

    /// Returns the handle to the client's connection; `None` if a [`Handler`](crate::http3::Handler)
    /// serves it, which has [`RequestStream`](crate::http3::RequestStream) instead.
    pub fn connection(&self) -> Option<ConnectionHandle> {
        let shared = self.0.shared.clone();
        let is_of_tasks = !shared.ptr_eq(&Weak::new());
        is_of_tasks.then(|| ConnectionHandle::new(self.clone(), shared))
    }

    #[cfg(test)]
    pub(in crate::http3) fn downgrade(&self) -> Weak<PeerState> {
        Arc::downgrade(&self.0)
    }

    /// Records that the connection has another path.
    pub(in crate::http3) fn set_addresses(&self, addresses: Addresses) {
        *self.addresses() = addresses;
    }

    /// Returns whether no request and no handle refers to this peer.
    pub(in crate::http3) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        self.0.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the peer of a server's connection; `None` before requests can be received.
    pub(in crate::http3) fn peer(&mut self, shared: &Arc<Shared>) -> Option<Peer> {
        if let Some(peer) = &self.app.peer {
            return Some(peer.clone());
        }
        let addresses = Addresses { remote: self.remote_address?, local_ip: self.app.local_ip };
        let peer = Peer::new(self.known()?.clone(), addresses, Arc::downgrade(shared));
        if self.established.is_some() {
            self.app.peer = Some(peer.clone());
        }
        Some(peer)
    }

    /// Records the path of a server's connection.
    pub(in crate::http3) fn note_path(&mut self, connection: &Connection) {
        let addresses = Addresses::of(connection);
        self.app.local_ip = addresses.local_ip;
        if let Some(peer) = &self.app.peer {
            peer.set_addresses(addresses);
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Peer");
        fields.field("remote_address", &self.remote_address());
        fields.field("server_name", &self.server_name()).finish_non_exhaustive()
    }
}

/// One connection of a [`Server`](crate::http3::Server), for its statistics and its end.
///
/// The handle does not keep the connection open, and has no effect once it has ended.
#[derive(Clone)]
pub struct ConnectionHandle {
    peer: Peer,
    shared: Weak<Shared>,
}

impl ConnectionHandle {
    fn new(peer: Peer, shared: Weak<Shared>) -> Self {
        Self { peer, shared }
    }

    /// Returns a number that identifies the connection while there is a handle to it.
    pub fn stable_id(&self) -> usize {
        self.shared.as_ptr().addr()
    }

    /// Returns the client.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns how long ago the handshake was completed; zero if it is not complete, or the
    /// connection has ended and its state was discarded.
    pub fn age(&self) -> Duration {
        let connected_at = self.shared.upgrade().and_then(|it| it.lock().app.connected_at);
        connected_at.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Returns the current statistics of the QUIC connection, or its final statistics if it has
    /// ended; `None` if its state was already discarded.
    pub async fn statistics(&self) -> Option<Statistics> {
        let shared = self.shared.upgrade()?;
        let mut has_asked = false;
        let wanted = shared.wait_acting(Signal::Connection, |state, effects| {
            let is_new = state.is_gone || (has_asked && !state.app.wants_statistics);
            let statistics = state.statistics.as_deref().copied().filter(|_| is_new);
            if state.is_gone || statistics.is_some() {
                return Some(statistics);
            }
            // The shard discards the statistics of an idle connection, possibly before this task
            // has seen them.
            if !core::mem::replace(&mut state.app.wants_statistics, true) {
                effects.wake_shard();
            }
            has_asked = true;
            None
        });
        wanted.await
    }

    /// Closes the connection immediately with this error code. Exchanges in progress fail;
    /// datagrams that were queued before are sent first, unless the path permits no more.
    pub fn close(&self, code: Code) {
        self.act(|shared| {
            shared.close(VarInt::saturating(code.get()), Bytes::new(), Error::Closed);
        });
    }

    /// Shuts the connection down gracefully (RFC 9114 §5.2): asks the client to send no more
    /// requests, responds to those that it has sent, and closes the connection.
    ///
    /// The client can send other requests on another connection, also to this server.
    pub fn drain(&self) {
        self.act(|shared| {
            shared.act(|state, effects| {
                state.app.is_finishing = true;
                effects.wake_shard();
            });
        });
    }

    /// Sets the time after the handshake at which the connection is [drained](Self::drain); `None`
    /// for no limit. This replaces the value of
    /// [`Server::max_connection_age`](crate::http3::Server::max_connection_age).
    pub fn set_max_age(&self, age: Option<Duration>) {
        self.act(|shared| {
            shared.act(|state, effects| {
                state.app.max_age = age;
                effects.wake_shard();
            });
        });
    }

    /// Waits until the connection has ended, and returns the reason; `None` if its state was
    /// already discarded.
    pub async fn closed(&self) -> Option<Error> {
        let shared = self.shared.upgrade()?;
        Some(shared.wait(Signal::Connection, |state| state.error.clone()).await)
    }

    /// Runs `task` on the thread of the connection's shard; see
    /// [`Connection::spawn`](crate::Connection::spawn).
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.act(|shared| shared.spawn_here(task));
    }

    fn act(&self, act: impl FnOnce(Arc<Shared>)) {
        if let Some(shared) = self.shared.upgrade() {
            act(shared);
        }
    }
}

impl fmt::Debug for ConnectionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionHandle").field("peer", &self.peer).finish_non_exhaustive()
    }
}
