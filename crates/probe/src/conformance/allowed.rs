//! The results that the RFCs allow.

use crate::script::Condition;

/// Returns the condition that the transport closed the connection with one of these error codes, or
/// with a generic one (RFC 9000 §11).
pub(super) fn transport(codes: &[&str]) -> Vec<Condition> {
    let mut all = codes.to_vec();
    for generic in ["PROTOCOL_VIOLATION", "INTERNAL_ERROR"] {
        if !all.contains(&generic) {
            all.push(generic);
        }
    }
    vec![Condition::transport_close(&all)]
}

/// Returns the condition that the transport closed the connection with one of these TLS alerts, or
/// with a generic error code (RFC 9001 §4.8).
pub(super) fn alert(names: &[&str]) -> Vec<Condition> {
    let mut all = names.to_vec();
    all.push("handshake_failure");
    transport(&all)
}

/// Returns the condition that HTTP/3 closed the connection with one of these error codes, or with
/// the generic one (RFC 9114 §8.1).
pub(super) fn http3(codes: &[&str]) -> Vec<Condition> {
    let mut all = codes.to_vec();
    all.push("H3_GENERAL_PROTOCOL_ERROR");
    vec![Condition::application_close(&all)]
}

/// Returns the conditions for a stream error on stream 0: a reset with one of these error codes, or
/// the end of the connection (RFC 9114 §8: an endpoint may treat any stream error as a connection
/// error).
pub(super) fn stream_error(codes: &[&str]) -> Vec<Condition> {
    let mut all = codes.to_vec();
    all.push("H3_GENERAL_PROTOCOL_ERROR");
    vec![Condition::reset(0, &all), Condition::application_close(&all)]
}

/// Returns the conditions for a malformed request on stream 0 (RFC 9114 §4.1.2): a stream error, or
/// a response with a 4xx status.
pub(super) fn malformed() -> Vec<Condition> {
    let mut all = stream_error(&["H3_MESSAGE_ERROR"]);
    all.push(Condition::response(0, &[4]));
    all
}

/// Returns `conditions` and the condition that the connection continues, for rules that are
/// optional.
pub(super) fn or_alive(mut conditions: Vec<Condition>) -> Vec<Condition> {
    conditions.push(Condition::Alive {});
    conditions
}

/// Returns the condition that the connection continues.
pub(super) fn alive() -> Vec<Condition> {
    vec![Condition::Alive {}]
}
