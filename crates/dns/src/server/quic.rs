//! DNS over QUIC (RFC 9250).

use core::sync::atomic::{AtomicBool, Ordering};

use clearway::{Connecting, Connection, Endpoint, RecvStream, SendStream};
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hickory_proto::op::{Message, MessageType, ResponseCode};
use tokio::time::timeout;

use super::{Outcome, Server};
use crate::code::ErrorCode;
use crate::extended_error::{ErrorInfo, ExtendedError};
use crate::framing::FramingError;
use crate::handler::{Handler, Request};
use crate::limits::UnsafeEarlyQuery;
use crate::protocol::Protocol;
use crate::reply::Asked;
use crate::stream::{ReadFailure, read_message};
use crate::violation::Violation;
use crate::wire::{check_doq, decode, is_replay_safe};

/// The reason why a server closes a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fatal {
    Violation(Violation),
    /// A query is longer than the server's limit.
    QueryTooLong,
    TooManyCancellations,
}

impl Fatal {
    const fn code(self) -> ErrorCode {
        match self {
            Self::Violation(_) => ErrorCode::ProtocolError,
            Self::QueryTooLong | Self::TooManyCancellations => ErrorCode::ExcessiveLoad,
        }
    }

    const fn reason(self) -> &'static str {
        match self {
            Self::Violation(violation) => violation.reason(),
            Self::QueryTooLong => "a query is too long",
            Self::TooManyCancellations => "too many queries were canceled",
        }
    }
}

/// How a query ended, if the connection can continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    Completed,
    /// The client canceled the query.
    Cancelled,
    /// The connection has ended.
    Lost,
}

impl<H: Handler> Server<H> {
    /// Responds to the DoQ queries that `endpoint` receives, until the endpoint is closed.
    ///
    /// The endpoint's [application protocol](clearway::ServerConfig::application_protocols) must be
    /// [`PROTOCOL`](crate::PROTOCOL), and its transport settings should be those of
    /// [`transport_config`](Self::transport_config).
    pub async fn serve_quic(&self, endpoint: &Endpoint) {
        while let Some(connecting) = endpoint.accept().await {
            let server = self.clone();
            endpoint.spawn(async move {
                if let Some(session) = Session::establish(server, connecting).await {
                    let connection = session.connection.clone();
                    connection.spawn(session.run());
                }
            });
        }
    }
}

/// A client's connection.
struct Session<H> {
    server: Server<H>,
    connection: Connection,
    /// Whether the handshake may still be in progress.
    is_early: AtomicBool,
}

impl<H: Handler> Session<H> {
    /// Waits until queries can be received: in early data, or after the handshake.
    async fn establish(server: Server<H>, connecting: Connecting) -> Option<Self> {
        let (connection, is_early) = match connecting.into_0rtt().await {
            Ok((connection, _)) => (connection, true),
            Err(connecting) => (connecting.await.ok()?, false),
        };
        Some(Self { server, connection, is_early: AtomicBool::new(is_early) })
    }

    async fn run(self) {
        let fatal = self.queries().await;
        let Some(fatal) = fatal else { return };
        if let Fatal::Violation(violation) = fatal {
            self.server.shared.counters.violations.add();
            let client = self.connection.remote_address();
            tracing::debug!("closing the connection of {client}: {violation}");
        }
        self.connection.close(fatal.code().code(), fatal.reason().as_bytes());
    }

    /// Processes queries until the connection ends, or must be closed for the returned reason.
    async fn queries(&self) -> Option<Fatal> {
        let limits = &self.server.shared.limits;
        let mut queries = FuturesUnordered::new();
        let (mut completed, mut cancelled) = (0_u64, 0_u64);
        loop {
            let has_room = queries.len() < limits.queries_per_connection.max(1);
            tokio::select! {
                accepted = self.connection.accept_bi(), if has_room => {
                    let Ok((send, recv)) = accepted else { return None };
                    queries.push(self.query(send, recv));
                }
                Some(ended) = queries.next() => match ended {
                    Ok(Ended::Completed) => completed = completed.saturating_add(1),
                    Ok(Ended::Cancelled) => {
                        self.server.shared.counters.cancellations.add();
                        cancelled = cancelled.saturating_add(1);
                        if cancelled > limits.cancellations.saturating_add(completed) {
                            return Some(Fatal::TooManyCancellations);
                        }
                    }
                    Ok(Ended::Lost) => return None,
                    Err(fatal) => return Some(fatal),
                },
                accepted = self.connection.accept_uni() => {
                    accepted.ok()?;
                    return Some(Fatal::Violation(Violation::UnidirectionalStream));
                }
            }
        }
    }

    /// Processes the query of a stream.
    async fn query(&self, mut send: SendStream, mut recv: RecvStream) -> Result<Ended, Fatal> {
        let limits = &self.server.shared.limits;
        let reading = read_message(&mut recv, limits.query_size.into());
        let octets = match timeout(limits.receive_time, reading).await {
            Ok(Ok(octets)) => octets,
            Ok(Err(ReadFailure::Lost)) => return Ok(Ended::Lost),
            Ok(Err(ReadFailure::Reset(_))) => {
                // RFC 9250 §4.3.1: the server resets its side, too.
                reset(&mut send, ErrorCode::RequestCancelled);
                return Ok(Ended::Cancelled);
            }
            Ok(Err(ReadFailure::Framing(FramingError::TooLong))) => {
                return Err(Fatal::QueryTooLong);
            }
            Ok(Err(ReadFailure::Framing(FramingError::Violation(violation)))) => {
                return Err(Fatal::Violation(violation));
            }
            Err(_) => return Err(Fatal::Violation(Violation::MissingFin)),
        };
        let query = check(&octets).map_err(Fatal::Violation)?;
        let response = self.respond(query);
        tokio::select! {
            outcome = response => self.finish(&mut send, outcome).await,
            // STOP_SENDING: the transport resets the stream (RFC 9000 §3.5).
            _ = send.stopped() => Ok(Ended::Cancelled),
        }
    }

    async fn finish(&self, send: &mut SendStream, outcome: Outcome) -> Result<Ended, Fatal> {
        match outcome {
            Outcome::Reply(encoded) => match send.finish_with(encoded.octets.into()).await {
                Ok(()) => {}
                Err(clearway::WriteError::Stopped(_)) => return Ok(Ended::Cancelled),
                Err(_) => return Ok(Ended::Lost),
            },
            Outcome::Abandoned => reset(send, ErrorCode::InternalError),
            Outcome::Overload => reset(send, ErrorCode::ExcessiveLoad),
        }
        Ok(Ended::Completed)
    }

    async fn respond(&self, query: Message) -> Outcome {
        if !is_replay_safe(&query) && self.is_handshaking() {
            match self.server.shared.unsafe_early {
                UnsafeEarlyQuery::Refuse => return self.refuse_early(query),
                UnsafeEarlyQuery::Wait => {
                    self.connection.early_data_accepted().await;
                }
            }
        }
        let client = self.connection.remote_address();
        self.server.process(query, Some(client), Protocol::Quic).await
    }

    fn refuse_early(&self, query: Message) -> Outcome {
        self.server.shared.counters.too_early.add();
        let asked = Asked::by(&query);
        let layout = asked.layout(Protocol::Quic, self.server.shared.limits.udp_payload);
        let request = Request::new(query, None, Protocol::Quic);
        let reason = ExtendedError::new(ErrorInfo::TooEarly, "");
        let answer = request.failure(ResponseCode::Refused, &reason);
        match asked.encode(answer.into(), layout) {
            Ok(Some(encoded)) => Outcome::Reply(encoded),
            Ok(None) | Err(_) => Outcome::Abandoned,
        }
    }

    /// Returns whether the handshake is still in progress, in which case a query may be a replay.
    fn is_handshaking(&self) -> bool {
        if !self.is_early.load(Ordering::Relaxed) {
            return false;
        }
        let is_over = self.connection.early_data_accepted().now_or_never().is_some();
        if is_over {
            self.is_early.store(false, Ordering::Relaxed);
        }
        !is_over
    }
}

/// Decodes a query, and checks the rules of RFC 9250 for it.
fn check(octets: &[u8]) -> Result<Message, Violation> {
    let query = decode(octets)?;
    check_doq(&query)?;
    match query.metadata.message_type {
        MessageType::Query => Ok(query),
        MessageType::Response => Err(Violation::WrongDirection),
    }
}

/// Resets a stream, unless it has already ended.
fn reset(send: &mut SendStream, code: ErrorCode) {
    let _ = send.reset(code.code());
}
