//! Requests in early data (RFC 8470).

use clearway_transport::{Connection, EarlyData};
use http::Request;

use super::exchanges::{Exchange, Head};

/// Among the extensions of a request that a server received in early data (RFC 8470): someone on the path may have sent
/// it again, after the client had sent it. Only requests with safe methods (RFC 9110 §9.2.1) have it: others are refused
/// with 425 (Too Early). A handler to which such a request may do harm answers with 425 too, and the client repeats it
/// after the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Early;

impl Early {
    /// Whether a request may be a repetition.
    pub fn is_in<B>(request: &Request<B>) -> bool {
        request.extensions().get::<Self>().is_some()
    }
}

/// Whether early data can be exchanged on a connection whose handshake is not complete.
pub(super) fn is_in_progress(connection: &Connection) -> bool {
    connection.is_handshaking()
        && matches!(connection.early_data(), EarlyData::Offered | EarlyData::Accepted)
}

/// Whether a client may send this request before the handshake is complete: repeating it must be harmless, and it has no
/// content (RFC 8470 §4).
pub(super) fn may_be_sent(exchange: &Exchange) -> bool {
    match &exchange.head {
        Some(Head::Request(request)) => request.method().is_safe() && exchange.send.is_head_only(),
        _ => false,
    }
}
