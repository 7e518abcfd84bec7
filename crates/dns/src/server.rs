mod https;
mod quic;
mod statistics;
mod tcp;
mod udp;

use core::net::SocketAddr;
use core::panic::AssertUnwindSafe;
use std::sync::Arc;

use clearway::{Endpoint, TransportConfig};
use futures_util::FutureExt;
use hickory_proto::op::{Header, Message, MessageType, ResponseCode};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};
use tokio::sync::Semaphore;

use crate::handler::{Handler, Request};
use crate::limits::{Limits, UnsafeEarlyQuery};
use crate::protocol::Protocol;
use crate::reply::{Answer, Asked, Encoded};
#[cfg(fuzzing)]
pub(crate) use https::parameter;
use statistics::Counters;
pub use statistics::ServerStatistics;

/// The receive window of a stream, which holds a query of the default size.
const MIN_WINDOW: u64 = 8 << 10;

/// A DNS server for DoQ, DoH over HTTP/3, UDP and TCP.
///
/// Clones share the handler, the limits and the statistics, so one server can listen by several
/// protocols.
#[derive(Debug)]
pub struct Server<H> {
    shared: Arc<Shared<H>>,
}

#[derive(Debug)]
struct Shared<H> {
    handler: H,
    limits: Limits,
    unsafe_early: UnsafeEarlyQuery,
    /// Permits for outstanding queries: one for each additional query that may be accepted.
    room: Semaphore,
    counters: Counters,
}

impl<H> Clone for Server<H> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

/// Responds to the DoQ queries that `endpoint` receives, with the default [`Limits`], until the
/// endpoint is closed.
///
/// The endpoint's [application protocol](clearway::ServerConfig::application_protocols) must be
/// [`PROTOCOL`](crate::PROTOCOL).
pub async fn serve<H: Handler>(endpoint: Endpoint, handler: H) {
    Server::new(handler).serve_quic(&endpoint).await;
}

/// The outcome of processing a query.
enum Outcome {
    Reply(Encoded),
    /// The handler gave no response, or its response cannot be encoded.
    Abandoned,
    /// Too many queries are outstanding.
    Overload,
}

impl<H: Handler> Server<H> {
    /// Creates a server with the default [`Limits`].
    pub fn new(handler: H) -> Self {
        Self::with_limits(handler, Limits::default(), UnsafeEarlyQuery::default())
    }

    /// Creates a server.
    pub fn with_limits(handler: H, limits: Limits, unsafe_early: UnsafeEarlyQuery) -> Self {
        let room = Semaphore::new(limits.queries.min(Semaphore::MAX_PERMITS));
        let counters = Counters::default();
        Self { shared: Arc::new(Shared { handler, limits, unsafe_early, room, counters }) }
    }

    /// Returns transport settings for an endpoint of DoQ servers: a stream limit that matches the
    /// query limit, small windows, no datagrams, and an idle timeout of 30 s.
    pub fn transport_config(&self) -> TransportConfig {
        let limits = &self.shared.limits;
        let streams = u64::try_from(limits.queries_per_connection).unwrap_or(u64::MAX).max(1);
        let window = u64::from(limits.query_size).saturating_mul(2).max(MIN_WINDOW);
        let connection = window.saturating_mul(streams.min(64));
        TransportConfig::builder()
            .max_concurrent_bidirectional_streams(streams.min(1 << 20))
            // One, so that the violation of RFC 9250 §4.3.3 can be reported.
            .max_concurrent_unidirectional_streams(1)
            .initial_stream_receive_window(window)
            .max_stream_receive_window(window)
            .initial_connection_receive_window(connection)
            .max_connection_receive_window(connection)
            .build()
            .unwrap_or_default()
    }

    /// Returns the current statistics.
    pub fn statistics(&self) -> ServerStatistics {
        self.shared.counters.read()
    }

    /// Rejects new queries from now on, and waits until all outstanding queries are answered.
    pub async fn drain(&self) {
        let all = self.shared.limits.queries.min(Semaphore::MAX_PERMITS);
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        if let Ok(permits) = self.shared.room.acquire_many(all).await {
            permits.forget();
        }
    }

    /// Passes a query to the handler, and encodes the response.
    async fn process(
        &self,
        query: Message,
        client: Option<SocketAddr>,
        protocol: Protocol,
    ) -> Outcome {
        let shared = &*self.shared;
        shared.counters.query(protocol);
        let Ok(_permit) = shared.room.try_acquire() else {
            shared.counters.overloads.add();
            return Outcome::Overload;
        };
        let asked = Asked::by(&query);
        let layout = asked.layout(protocol, shared.limits.udp_payload);
        let request = Request::new(query, client, protocol);
        let answer = match unanswerable(&request) {
            Some(response) => response.into(),
            None => self.respond(request).await,
        };
        match asked.encode(answer, layout) {
            Ok(Some(encoded)) => {
                shared.counters.responses.add();
                Outcome::Reply(encoded)
            }
            Ok(None) => Outcome::Abandoned,
            Err(error) => {
                tracing::warn!("cannot encode a response: {error}");
                Outcome::Abandoned
            }
        }
    }

    async fn respond(&self, request: Request) -> Answer {
        let shared = &*self.shared;
        // Also catches a panic before the first await.
        let response = async { shared.handler.respond(request).await };
        let response = AssertUnwindSafe(response).catch_unwind();
        match tokio::time::timeout(shared.limits.answer_time, response).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                tracing::error!("the handler of a DNS query panicked; the query is abandoned");
                shared.counters.panics.add();
                Answer::abandon()
            }
            Err(_) => {
                shared.counters.timeouts.add();
                Answer::abandon()
            }
        }
    }
}

/// Returns the response to a query that no handler can answer: one with an unknown EDNS version (RFC
/// 6891 §6.1.3).
fn unanswerable(request: &Request) -> Option<Message> {
    let version = request.message().edns.as_ref()?.version();
    (version != 0).then(|| request.response(ResponseCode::BADVERS))
}

/// Returns the FORMERR response to a malformed query, if its header can be read.
pub(crate) fn format_error(octets: &[u8]) -> Option<Vec<u8>> {
    let header = Header::read(&mut BinDecoder::new(octets)).ok()?;
    if header.metadata.message_type == MessageType::Response {
        return None;
    }
    let (id, op_code) = (header.metadata.id, header.metadata.op_code);
    Message::error_msg(id, op_code, ResponseCode::FormErr).to_vec().ok()
}
