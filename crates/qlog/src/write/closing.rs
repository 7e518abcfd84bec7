use clearway_transport::ConnectionError;
use clearway_wire::{TransportErrorCode, VarInt};

use super::json::Object;
use super::names;

/// Writes the data of `connection_closed` (quic-events §4.3).
pub(super) fn write(json: &mut Object<'_>, error: &ConnectionError) {
    let (initiator, trigger) = match error {
        ConnectionError::LocallyClosed => ("local", "application"),
        ConnectionError::ApplicationClosed { .. } => ("remote", "application"),
        ConnectionError::ConnectionClosed { .. } => ("remote", "error"),
        ConnectionError::TransportError(_) => ("local", "error"),
        ConnectionError::Reset => ("remote", "stateless_reset"),
        ConnectionError::TimedOut | ConnectionError::CannotSend(_) => ("local", "idle_timeout"),
        ConnectionError::VersionMismatch => ("local", "version_mismatch"),
        // The remaining errors are HandshakeTimedOut, Refused, Unreachable and EndpointFailed.
        _ => ("local", "aborted"),
    };
    json.text("initiator", initiator);
    match error {
        ConnectionError::ApplicationClosed { error_code, reason } => {
            json.text("application_error", "unknown");
            json.number("error_code", error_code.get());
            reason_text(json, reason);
        }
        ConnectionError::ConnectionClosed { error_code, reason, .. } => {
            transport_error(json, "connection_error", *error_code);
            reason_text(json, reason);
        }
        ConnectionError::TransportError(error) => {
            transport_error(json, "connection_error", error.code);
            json.text("reason", error.reason());
        }
        error => json.text("reason", &error.to_string()),
    }
    json.text("trigger", trigger);
}

/// Writes a transport error by its name, or as `unknown` with its number.
pub(super) fn transport_error(json: &mut Object<'_>, name: &str, code: TransportErrorCode) {
    match names::transport_error(code) {
        Some(error) => json.text(name, &error),
        None => unknown_error(json, name, code.0),
    }
}

/// Writes an error that is identified only by its number.
pub(super) fn unknown_error(json: &mut Object<'_>, name: &str, code: VarInt) {
    json.text(name, "unknown");
    json.number("error_code", code.get());
}

/// Writes the peer's reason phrase. It should be UTF-8, but may be arbitrary bytes.
fn reason_text(json: &mut Object<'_>, reason: &[u8]) {
    if !reason.is_empty() {
        json.text("reason", &String::from_utf8_lossy(reason));
    }
}
