//! Requests in early data (RFC 8470).

use clearway_http3::Code;
use clearway_transport::{Connection, EarlyData};
use http::{Method, Request, Response, StatusCode};

use super::driver::Turn;
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

/// Marks a request that came in early data. Returns whether it was refused, because its method is not safe.
pub(super) fn is_refused(turn: &mut Turn<'_>, stream: u64, request: &mut Request<()>) -> bool {
    if !turn.is_early(stream) {
        return false;
    }
    if request.method().is_safe() && request.method() != Method::CONNECT {
        request.extensions_mut().insert(Early);
        return false;
    }
    let mut too_early = Response::new(());
    *too_early.status_mut() = StatusCode::TOO_EARLY;
    // If the client has gone, there is nobody to answer.
    let _ = turn.respond(stream, &too_early, true);
    turn.stop(stream, Code::NO_ERROR);
    true
}
