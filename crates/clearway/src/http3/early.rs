//! Requests in early data (RFC 8470).

use clearway_transport::{Connection, EarlyData};
use http::Request;

use super::exchanges::{Exchange, Head};

/// Request extension that marks a request received in early data by a server (RFC 8470): an on-path
/// attacker may have replayed it.
///
/// Only requests with safe methods (RFC 9110 §9.2.1) have this extension: all others are rejected
/// with 425 (Too Early). A handler that must not process a replayed request should also respond
/// with 425; the client then repeats the request after the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Early;

impl Early {
    /// Returns whether a request may be a replay.
    pub fn is_in<B>(request: &Request<B>) -> bool {
        request.extensions().get::<Self>().is_some()
    }
}

/// Returns whether early data can be exchanged on a connection whose handshake is not complete.
pub(super) fn is_in_progress(connection: &Connection) -> bool {
    connection.is_handshaking()
        && matches!(connection.early_data(), EarlyData::Offered | EarlyData::Accepted)
}

/// Returns whether a client may send this request before the handshake is complete: it must be safe
/// to replay and have no content (RFC 8470 §4).
pub(super) fn may_be_sent(exchange: &Exchange) -> bool {
    match &exchange.head {
        Some(Head::Request(request)) => request.method().is_safe() && exchange.send.is_head_only(),
        _ => false,
    }
}
