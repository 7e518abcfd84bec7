//! Requests for tunnels, and the responses (RFC 9298 §3, RFC 9484 §4, draft-ietf-httpbis-connect-tcp
//! §3, RFC 9114 §4.4, RFC 9220).

mod client;
mod error;
mod server;

use http::{HeaderMap, HeaderName, HeaderValue};

pub use client::{ResponseError, check_response, classic_connect, extended_connect};
pub use error::RequestError;
pub use server::{Form, TunnelRequest, accept, challenge, refuse};

/// The field that announces the Capsule Protocol (RFC 9297 §3.4).
pub const CAPSULE_PROTOCOL: HeaderName = HeaderName::from_static("capsule-protocol");

/// The field in which a proxy reports errors (RFC 9209).
pub const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// The value of [`CAPSULE_PROTOCOL`]: the boolean true.
const TRUE: HeaderValue = HeaderValue::from_static("?1");

/// Returns the first field that a message with the Capsule Protocol must not have, if any (RFC 9297
/// §3.2).
fn forbidden_field(headers: &HeaderMap) -> Option<&'static str> {
    ["content-length", "content-type", "transfer-encoding"]
        .into_iter()
        .find(|name| headers.contains_key(*name))
}

/// Returns whether the fields announce the Capsule Protocol. Parameters are ignored, and so is a
/// field that is not a boolean or appears several times (RFC 9297 §3.4).
pub fn has_capsule_protocol(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CAPSULE_PROTOCOL).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let value = value.as_bytes().trim_ascii();
    match value.strip_prefix(b"?1") {
        Some(rest) => rest.is_empty() || rest.starts_with(b";"),
        None => false,
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
