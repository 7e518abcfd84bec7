//! The contract tests' interface to a QUIC library, through which they run against this library and
//! others.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use clearway::{ConnectError, ConnectionError, DatagramWaitError, Endpoint, TransportConfig};

use crate::support::{Pair, code};

/// The reason why a connection ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The peer's application closed the connection, with this code and reason.
    ByPeer(u64, Vec<u8>),
    Other(String),
}

impl End {
    pub(crate) fn by_peer(code: u64, reason: &[u8]) -> Self {
        Self::ByPeer(code, reason.to_vec())
    }
}

/// A server and a client of one library on loopback.
pub(crate) trait Stack: Sized + Send + Sync + 'static {
    type Connecting: Send + 'static;
    type Connection: Clone + Send + Sync + 'static;
    type Sending: Send;
    type Receiving: Send;

    fn new(idle_timeout: Duration) -> Self;
    fn server_address(&self) -> SocketAddr;

    /// Starts a connection from the client.
    fn begin(&self, remote: SocketAddr) -> Self::Connecting;
    /// Waits for the server's next client, whose handshake may be in progress.
    fn accept(&self) -> impl Future<Output = Self::Connecting> + Send;
    fn establish(
        it: Self::Connecting,
    ) -> impl Future<Output = Result<Self::Connection, End>> + Send;
    /// Waits until the client has no connections left.
    fn client_is_idle(&self) -> impl Future<Output = ()> + Send;

    fn open(it: &Self::Connection) -> impl Future<Output = Self::Sending> + Send;
    /// Writes all of `data`, and the end of the stream.
    fn write(it: &mut Self::Sending, data: &[u8]) -> impl Future<Output = ()> + Send;
    /// Waits until the peer has acknowledged all data. Returns whether it has.
    fn is_delivered(it: &mut Self::Sending) -> impl Future<Output = bool> + Send;
    /// Waits for the next stream that the peer opens.
    fn next(it: &Self::Connection) -> impl Future<Output = Result<Self::Receiving, End>> + Send;
    /// Reads a stream to its end.
    fn read(it: &mut Self::Receiving) -> impl Future<Output = Result<Vec<u8>, String>> + Send;
    fn send_datagram(it: &Self::Connection, data: &'static [u8]);
    fn datagram(it: &Self::Connection) -> impl Future<Output = Result<Bytes, End>> + Send;
    fn close(it: &Self::Connection, code: u32, reason: &[u8]);
    fn closed(it: &Self::Connection) -> impl Future<Output = End> + Send;

    /// Returns both ends of a new connection: the client's and the server's.
    fn connect(&self) -> impl Future<Output = (Self::Connection, Self::Connection)> + Send {
        async {
            let connecting = self.begin(self.server_address());
            let accepting = async { Self::establish(self.accept().await).await };
            let (client, server) = tokio::join!(Self::establish(connecting), accepting);
            (client.unwrap(), server.unwrap())
        }
    }

    /// Waits until the server has processed everything that the client has sent so far, by
    /// establishing another connection, whose packets follow through the same sockets.
    fn catch_up(&self) -> impl Future<Output = ()> + Send {
        async {
            let (client, _server) = self.connect().await;
            Self::close(&client, 0, b"");
        }
    }
}

/// Sends a message on a new stream, and waits until it is acknowledged.
pub(crate) async fn deliver<S: Stack>(connection: &S::Connection, message: &[u8]) {
    let mut sending = S::open(connection).await;
    S::write(&mut sending, message).await;
    assert!(S::is_delivered(&mut sending).await);
}

/// Returns all messages that the peer has sent on separate streams, and how the connection ended.
pub(crate) async fn messages<S: Stack>(connection: &S::Connection) -> (Vec<Vec<u8>>, End) {
    let mut messages = Vec::new();
    loop {
        match S::next(connection).await {
            Ok(mut receiving) => messages.push(S::read(&mut receiving).await.unwrap()),
            Err(end) => return (messages, end),
        }
    }
}

/// This library's implementation of the interface.
pub(crate) struct Clearway(pub(crate) Pair);

impl From<ConnectionError> for End {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::ApplicationClosed { error_code, reason } => {
                Self::ByPeer(error_code.get(), reason.to_vec())
            }
            other => Self::Other(other.to_string()),
        }
    }
}

impl Clearway {
    pub(crate) fn client(&self) -> &Endpoint {
        &self.0.client
    }
}

impl Stack for Clearway {
    type Connecting = clearway::Connecting;
    type Connection = clearway::Connection;
    type Sending = clearway::SendStream;
    type Receiving = clearway::RecvStream;

    fn new(idle_timeout: Duration) -> Self {
        let transport = TransportConfig::builder()
            .max_idle_timeout(Some(idle_timeout))
            .max_datagram_frame_size(Some(65_535))
            .build();
        Self(Pair::with(transport.unwrap(), |server| server))
    }

    fn server_address(&self) -> SocketAddr {
        self.0.server.local_address()
    }

    fn begin(&self, remote: SocketAddr) -> Self::Connecting {
        self.0.client.connect_with(&self.0.config, remote, "localhost").unwrap()
    }

    async fn accept(&self) -> Self::Connecting {
        self.0.server.accept().await.unwrap()
    }

    async fn establish(it: Self::Connecting) -> Result<Self::Connection, End> {
        it.await.map_err(|error| match error {
            ConnectError::Lost(error) => error.into(),
            other => End::Other(other.to_string()),
        })
    }

    async fn client_is_idle(&self) {
        self.0.client.wait_idle().await;
    }

    async fn open(it: &Self::Connection) -> Self::Sending {
        it.open_uni().await.unwrap()
    }

    async fn write(it: &mut Self::Sending, data: &[u8]) {
        it.write_all(data).await.unwrap();
        it.finish().unwrap();
    }

    async fn is_delivered(it: &mut Self::Sending) -> bool {
        it.stopped().await == Ok(None)
    }

    async fn next(it: &Self::Connection) -> Result<Self::Receiving, End> {
        Ok(it.accept_uni().await?)
    }

    async fn read(it: &mut Self::Receiving) -> Result<Vec<u8>, String> {
        it.read_to_end(1 << 20).await.map_err(|error| error.to_string())
    }

    fn send_datagram(it: &Self::Connection, data: &'static [u8]) {
        it.send_datagram(Bytes::from_static(data)).unwrap();
    }

    async fn datagram(it: &Self::Connection) -> Result<Bytes, End> {
        it.read_datagram().await.map_err(|error| match error {
            DatagramWaitError::ConnectionLost(error) => error.into(),
            other => End::Other(other.to_string()),
        })
    }

    fn close(it: &Self::Connection, error_code: u32, reason: &[u8]) {
        it.close(code(error_code), reason);
    }

    async fn closed(it: &Self::Connection) -> End {
        it.closed().await.into()
    }
}

/// Runs each test with every library.
macro_rules! over_each_stack {
    ($($(#[$attribute:meta])* $test:ident)*) => {
        mod over_clearway {
            $($(#[$attribute])* #[test] fn $test() {
                crate::support::run(super::$test::<crate::stack::Clearway>());
            })*
        }
        mod over_quinn {
            $($(#[$attribute])* #[test] fn $test() {
                crate::support::run(super::$test::<crate::quinn::Quinn>());
            })*
        }
    };
}

pub(crate) use over_each_stack;
