use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use clearway::{
    ClientConfig, Connection, ConnectionError, Endpoint, RecvStream, SendStream, WriteError,
};
use hickory_proto::op::{Message, MessageType, Query};
use hickory_proto::rr::RecordType;
use tokio::time::timeout;

use crate::PROTOCOL;
use crate::code::ErrorCode;
use crate::framing::FramingError;
use crate::query_error::{ConnectError, QueryError};
use crate::stream::{ReadFailure, read_message};
use crate::violation::Violation;
use crate::wire::{
    Layout, MAX_MESSAGE, QUERY_BLOCK, check_doq, decode, encode_query, is_replay_safe,
};

/// The default time limit of a query.
const QUERY_TIME: Duration = Duration::from_secs(5);

/// How queries are laid out on a stream (RFC 9250 §4.2 and §5.4).
const LAYOUT: Layout = Layout { is_prefixed: true, block: Some(QUERY_BLOCK), limit: MAX_MESSAGE };

/// A DoQ client's connection.
///
/// Clones share the connection, which carries any number of queries at the same time. When the last
/// clone is dropped, the connection is closed with DOQ_NO_ERROR.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    query_time: Duration,
}

struct Shared {
    connection: Connection,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.connection.close(ErrorCode::NoError.code(), b"");
    }
}

impl Client {
    /// Connects to the DoQ server at `address`, whose certificate must be valid for `name`.
    ///
    /// The application protocols of `config` are replaced by [`PROTOCOL`]. If `config` allows
    /// [early data](ClientConfig::early_data) and a session can be resumed, this returns before
    /// the server has responded. Queries with the opcodes QUERY and NOTIFY are then sent
    /// immediately, others after the handshake (RFC 9250 §4.5). An on-path attacker can replay
    /// early data, and sessions allow the server to link connections.
    ///
    /// # Errors
    /// Fails if the configuration is invalid, or the connection cannot be established.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(
        endpoint: &Endpoint,
        config: &ClientConfig,
        address: SocketAddr,
        name: &str,
    ) -> Result<Self, ConnectError> {
        let config = config.clone().application_protocols([PROTOCOL]);
        let connecting = endpoint.connect_with(&config, address, name);
        let connecting = connecting.map_err(ConnectError::Config)?;
        let connection = match connecting.into_0rtt().await {
            Ok((connection, _)) => connection,
            Err(connecting) => connecting.await.map_err(ConnectError::Connect)?,
        };
        Ok(Self::new(connection))
    }

    /// Creates a client on a connection with the application protocol [`PROTOCOL`], which must not
    /// be used for anything else.
    pub fn new(connection: Connection) -> Self {
        connection.spawn(reject_streams(connection.clone()));
        Self { shared: Arc::new(Shared { connection }), query_time: QUERY_TIME }
    }

    /// Sets the time limit of each query, which is 5 s by default.
    #[must_use]
    pub fn with_query_time(self, query_time: Duration) -> Self {
        Self { query_time, ..self }
    }

    /// Sends a query, and returns the response.
    ///
    /// The message ID is set to 0, and so is that of the response. The query is padded to a
    /// multiple of 128 octets (RFC 8467), and gets an OPT record if it has none.
    ///
    /// # Errors
    /// Fails if the query cannot be sent, or the server does not respond correctly or in time. A
    /// response with a code such as SERVFAIL is not an error.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the query: STOP_SENDING with DOQ_REQUEST_CANCELLED.
    ///
    /// # Panics
    /// Panics if called outside a tokio runtime.
    pub async fn query(&self, message: Message) -> Result<Message, QueryError> {
        let question = message.queries.first().cloned();
        let transfers = [RecordType::AXFR, RecordType::IXFR];
        if question.as_ref().is_some_and(|it| transfers.contains(&it.query_type())) {
            return Err(QueryError::ZoneTransfer);
        }
        let is_safe = is_replay_safe(&message);
        let octets = encode_query(message, 0, LAYOUT).map_err(QueryError::Encode)?;
        let exchange = self.exchange(octets.into(), is_safe);
        let outcome = match timeout(self.query_time, exchange).await {
            Ok(Ok(octets)) => check(&octets, question.as_ref()).map_err(QueryError::Violation),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(QueryError::TimedOut(self.query_time)),
        };
        if let Err(QueryError::Violation(violation)) = outcome {
            self.violated(violation);
        }
        outcome
    }

    /// Sends the octets of a query on a new stream, and returns those of the response. A query that
    /// is not safe to replay waits for the handshake.
    async fn exchange(&self, octets: Bytes, is_safe: bool) -> Result<Bytes, QueryError> {
        let connection = &self.shared.connection;
        if !is_safe {
            connection.early_data_accepted().await;
        }
        let (send, recv) = connection.open_bi().await.map_err(QueryError::ConnectionLost)?;
        let mut exchange = Exchange { send, recv, is_over: false };
        let outcome = exchange.run(octets).await;
        exchange.is_over = true;
        match outcome {
            Err(Failure::Lost) => Err(QueryError::ConnectionLost(self.closed().await)),
            Err(Failure::Query(error)) => Err(error),
            Ok(octets) => Ok(octets),
        }
    }

    /// Closes the connection because the server violated the protocol.
    fn violated(&self, violation: Violation) {
        let code = ErrorCode::ProtocolError.code();
        self.shared.connection.close(code, violation.reason().as_bytes());
    }

    /// Returns whether queries can be sent.
    pub fn is_open(&self) -> bool {
        self.shared.connection.close_reason().is_none()
    }

    /// Closes the connection with DOQ_NO_ERROR. Outstanding queries fail.
    pub fn close(&self) {
        self.shared.connection.close(ErrorCode::NoError.code(), b"");
    }

    /// Waits until the connection has ended, and returns the reason.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub async fn closed(&self) -> ConnectionError {
        self.shared.connection.closed().await
    }

    /// Returns the connection, for its statistics.
    pub fn connection(&self) -> &Connection {
        &self.shared.connection
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remote = self.shared.connection.remote_address();
        f.debug_struct("Client").field("remote", &remote).finish_non_exhaustive()
    }
}

/// Closes the connection if the server opens a stream (RFC 9250 §4.3.3). Runs until the connection
/// ends.
async fn reject_streams(connection: Connection) {
    let violation = tokio::select! {
        accepted = connection.accept_uni() => accepted.map(|_| Violation::UnidirectionalStream),
        accepted = connection.accept_bi() => accepted.map(|_| Violation::ServerStream),
    };
    if let Ok(violation) = violation {
        connection.close(ErrorCode::ProtocolError.code(), violation.reason().as_bytes());
    }
}

/// The reason why a stream gave no response.
enum Failure {
    /// The connection ended.
    Lost,
    Query(QueryError),
}

/// The stream of a query. Dropping it before the response has arrived cancels the query.
struct Exchange {
    send: SendStream,
    recv: RecvStream,
    is_over: bool,
}

impl Exchange {
    async fn run(&mut self, octets: Bytes) -> Result<Bytes, Failure> {
        let violation = |violation| Failure::Query(QueryError::Violation(violation));
        match self.send.finish_with(octets).await {
            Ok(()) => {}
            Err(WriteError::Stopped(_)) => return Err(violation(Violation::StopSending)),
            Err(_) => return Err(Failure::Lost),
        }
        let Self { send, recv, .. } = self;
        let mut reading = core::pin::pin!(read_message(recv, MAX_MESSAGE));
        let stopped = tokio::select! {
            biased;
            read = &mut reading => return read.map_err(Failure::from),
            stopped = send.stopped() => stopped,
        };
        match stopped {
            // The server has the whole query.
            Ok(None) => reading.await.map_err(Failure::from),
            Ok(Some(_)) => Err(violation(Violation::StopSending)),
            Err(_) => Err(Failure::Lost),
        }
    }
}

impl From<ReadFailure> for Failure {
    fn from(failure: ReadFailure) -> Self {
        let violation = |violation| Self::Query(QueryError::Violation(violation));
        match failure {
            ReadFailure::Framing(FramingError::Violation(it)) => violation(it),
            // No message is longer than the length field allows.
            ReadFailure::Framing(FramingError::TooLong) => violation(Violation::Malformed),
            ReadFailure::Reset(code) => Self::Query(QueryError::Reset(code)),
            ReadFailure::Lost => Self::Lost,
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_over {
            let code = ErrorCode::RequestCancelled.code();
            // Each fails if this direction has already ended.
            let _ = self.recv.stop(code);
            let _ = self.send.reset(code);
        }
    }
}

/// Decodes a response, and checks the rules of RFC 9250 for it.
fn check(octets: &[u8], question: Option<&Query>) -> Result<Message, Violation> {
    let response = decode(octets)?;
    check_doq(&response)?;
    if response.metadata.message_type != MessageType::Response {
        return Err(Violation::WrongDirection);
    }
    // A response to a query that the server could not read may have no question.
    match response.queries.first() {
        Some(answered) if Some(answered) != question => Err(Violation::WrongQuestion),
        _ => Ok(response),
    }
}
