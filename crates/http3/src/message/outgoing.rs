use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};

use super::{Exchange, fields};
use crate::qpack::FieldLines;
use crate::{Priority, Protocol, SendError};

const fn malformed(reason: &'static str) -> SendError {
    SendError::Malformed { reason }
}

/// Returns the number in the content-length field, if there is one.
pub(crate) fn content_length(headers: &HeaderMap) -> Result<Option<u64>, SendError> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (fields::parse_content_length(value.as_bytes().trim_ascii()), values.next()) {
        (Some(length), None) => Ok(Some(length)),
        _ => Err(malformed("content-length is not a single number")),
    }
}

/// Encodes a request's header section (RFC 9114 §4.3.1).
///
/// `:authority` is taken from the URI, otherwise from `host`; `host` itself is not sent (§4.3.1
/// prefers `:authority`). The scheme is https unless the URI has another scheme.
pub(crate) fn encode_request(
    lines: &mut FieldLines,
    request: &Request<()>,
) -> Result<(), SendError> {
    lines.clear();
    let method = request.method();
    let uri = request.uri();
    let host = request.headers().get(HOST).map(HeaderValue::as_bytes);
    let authority = uri.authority().map(|authority| authority.as_str().as_bytes());
    if let (Some(host), Some(authority)) = (host, authority)
        && host != authority
    {
        return Err(malformed("host differs from the URI's authority"));
    }
    let authority = authority
        .or(host)
        .filter(|authority| !authority.is_empty() && !authority.contains(&b'@'))
        .ok_or(malformed("a request must have an authority without user information"))?;
    lines.field(b":method", method.as_str().as_bytes(), false);
    let protocol = request.extensions().get::<Protocol>();
    if let Some(protocol) = protocol {
        if method != Method::CONNECT {
            return Err(malformed("only CONNECT requests can have a protocol"));
        }
        check_capsule_protocol(request.headers())?;
        lines.field(b":protocol", protocol.as_str().as_bytes(), false);
    }
    if method == Method::CONNECT && protocol.is_none() {
        if uri.port_u16().is_none() || uri.scheme().is_some() || uri.path_and_query().is_some() {
            return Err(malformed("the target of CONNECT must consist of only a host and a port"));
        }
        lines.field(b":authority", authority, false);
    } else {
        let path = match uri.path_and_query().map(|path| path.as_str()) {
            None | Some("") => "/",
            Some(path) => path,
        };
        if !fields::is_valid_path(path.as_bytes()) {
            return Err(malformed("the path contains non-ASCII characters"));
        }
        lines.field(b":scheme", uri.scheme_str().unwrap_or("https").as_bytes(), false);
        lines.field(b":authority", authority, false);
        // A target with only a query, "?q", still needs a path that begins with a slash.
        if path.starts_with('?') {
            lines.field(b":path", format!("/{path}").as_bytes(), false);
        } else {
            lines.field(b":path", path.as_bytes(), false);
        }
    }
    let is_te_valid = |value: &HeaderValue| fields::is_trailers(value.as_bytes());
    if !request.headers().get_all(TE).iter().all(is_te_valid) {
        return Err(malformed("te may only be \"trailers\""));
    }
    encode_priority(lines, request.extensions(), request.headers());
    encode_fields(lines, request.headers(), Kind::Request)
}

/// Encodes a response's header section (RFC 9114 §4.3.2). Connection-specific fields are omitted
/// (§4.2), since responses are often copied from HTTP/1.1. So is a content-length field in responses
/// that must not have one: those with status 1xx or 204 (RFC 9110 §8.6), and those that open a
/// tunnel (RFC 9110 §9.3.6).
pub(crate) fn encode_response(
    lines: &mut FieldLines,
    exchange: Exchange,
    response: &Response<()>,
) -> Result<(), SendError> {
    let status = response.status();
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(malformed("status 101 is not allowed in HTTP/3"));
    }
    let opens_tunnel = exchange.is_tunnel() && status.is_success();
    let has_length =
        !opens_tunnel && !status.is_informational() && status != StatusCode::NO_CONTENT;
    lines.clear();
    lines.field(b":status", status.as_str().as_bytes(), false);
    encode_priority(lines, response.extensions(), response.headers());
    encode_fields(lines, response.headers(), Kind::Response { has_length })
}

/// Encodes the priority among the extensions of a message (RFC 9218 §5), unless it already has the
/// field.
fn encode_priority(lines: &mut FieldLines, extensions: &http::Extensions, headers: &HeaderMap) {
    if let Some(priority) = extensions.get::<Priority>()
        && !headers.contains_key("priority")
    {
        lines.field(b"priority", priority.to_string().as_bytes(), false);
    }
}

/// Encodes a trailer section. Connection-specific fields are omitted, as in responses.
pub(crate) fn encode_trailers(
    lines: &mut FieldLines,
    trailers: &HeaderMap,
) -> Result<(), SendError> {
    lines.clear();
    encode_fields(lines, trailers, Kind::Trailers)
}

/// Checks for fields that a message with capsules must not have (RFC 9297 §3.2).
fn check_capsule_protocol(headers: &HeaderMap) -> Result<(), SendError> {
    if fields::uses_capsules(headers) && fields::describes_content(headers) {
        return Err(malformed(
            "a message with capsules must not have content-length or content-type",
        ));
    }
    Ok(())
}

/// The kind of a field section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Request,
    Response {
        /// Whether a content-length field is sent.
        has_length: bool,
    },
    Trailers,
}

/// Encodes fields. Invalid ones are errors in requests, and corrected in other sections, which are
/// often copied from HTTP/1.1.
fn encode_fields(lines: &mut FieldLines, headers: &HeaderMap, kind: Kind) -> Result<(), SendError> {
    let is_request = kind == Kind::Request;
    let names_others = !is_request && headers.contains_key(CONNECTION);
    for (name, value) in headers {
        if fields::is_connection_specific(name.as_str().as_bytes()) || name == TE && !is_request {
            if !is_request {
                continue;
            }
            return Err(malformed("a connection-specific field is not allowed in HTTP/3"));
        }
        if names_others && is_named_by_connection(headers, name) {
            continue;
        }
        if kind == (Kind::Response { has_length: false }) && name == CONTENT_LENGTH {
            continue;
        }
        let bytes = if is_request { value.as_bytes() } else { value.as_bytes().trim_ascii() };
        if !fields::is_valid_value(bytes) {
            return Err(malformed("a field value begins or ends with white space"));
        }
        if is_request && name == HOST {
            continue;
        }
        lines.field(name.as_str().as_bytes(), bytes, value.is_sensitive());
    }
    Ok(())
}

/// Returns whether the Connection field lists `name` (RFC 9110 §7.6.1).
fn is_named_by_connection(headers: &HeaderMap, name: &HeaderName) -> bool {
    let values = headers.get_all(CONNECTION).iter();
    let mut names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    names.any(|named| named.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
}
