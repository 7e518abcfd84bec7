use http::header::{CONTENT_LENGTH, HOST, TE};
use http::{HeaderMap, HeaderValue, Method, Request, Response};

use super::fields;
use crate::SendError;
use crate::qpack::Encoder;

const fn malformed(reason: &'static str) -> SendError {
    SendError::Malformed { reason }
}

/// The number in the content-length field, if there is one.
pub(crate) fn content_length(headers: &HeaderMap) -> Result<Option<u64>, SendError> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (fields::parse_content_length(value.as_bytes()), values.next()) {
        (Some(length), None) => Ok(Some(length)),
        _ => Err(malformed("content-length is not a single number")),
    }
}

/// Encodes a request's header section (RFC 9114 §4.3.1).
///
/// `:authority` is taken from the URI, otherwise from `host`; `host` itself is not sent
/// (§4.3.1 prefers `:authority`). The scheme is https unless the URI says otherwise.
pub(crate) fn encode_request(request: &Request<()>) -> Result<Encoder, SendError> {
    let mut encoder = Encoder::new();
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
        .ok_or(malformed("a request needs an authority, without user information"))?;
    encoder.field(b":method", method.as_str().as_bytes(), false);
    if method == Method::CONNECT {
        if uri.port_u16().is_none() || uri.scheme().is_some() || uri.path_and_query().is_some() {
            return Err(malformed(
                "the target of CONNECT must be a host and a port and nothing else",
            ));
        }
        encoder.field(b":authority", authority, false);
    } else {
        let path = match uri.path_and_query().map(|path| path.as_str()) {
            None | Some("") => "/",
            Some(path) => path,
        };
        if !fields::is_valid_path(path.as_bytes()) {
            return Err(malformed("the path is not plain ASCII"));
        }
        encoder.field(b":scheme", uri.scheme_str().unwrap_or("https").as_bytes(), false);
        encoder.field(b":authority", authority, false);
        // A target that has only a query, "?q", still needs a path that begins with a slash.
        if path.starts_with('?') {
            encoder.field(b":path", format!("/{path}").as_bytes(), false);
        } else {
            encoder.field(b":path", path.as_bytes(), false);
        }
    }
    let is_te_valid = |value: &HeaderValue| fields::is_trailers(value.as_bytes());
    if !request.headers().get_all(TE).iter().all(is_te_valid) {
        return Err(malformed("te may only be \"trailers\""));
    }
    encode_fields(&mut encoder, request.headers(), true)?;
    Ok(encoder)
}

/// Encodes a response's header section (RFC 9114 §4.3.2).
pub(crate) fn encode_response(response: &Response<()>) -> Result<Encoder, SendError> {
    if response.status() == http::StatusCode::SWITCHING_PROTOCOLS {
        return Err(malformed("101 does not exist in HTTP/3"));
    }
    let mut encoder = Encoder::new();
    encoder.field(b":status", response.status().as_str().as_bytes(), false);
    encode_fields(&mut encoder, response.headers(), false)?;
    Ok(encoder)
}

/// Encodes a trailer section.
pub(crate) fn encode_trailers(trailers: &HeaderMap) -> Result<Encoder, SendError> {
    let mut encoder = Encoder::new();
    encode_fields(&mut encoder, trailers, false)?;
    Ok(encoder)
}

fn encode_fields(
    encoder: &mut Encoder,
    headers: &HeaderMap,
    is_request: bool,
) -> Result<(), SendError> {
    for (name, value) in headers {
        if fields::is_connection_specific(name.as_str().as_bytes()) || name == TE && !is_request {
            return Err(malformed("a field is specific to HTTP/1.1 connections"));
        }
        if !fields::is_valid_value(value.as_bytes()) {
            return Err(malformed("a field value begins or ends with white space"));
        }
        if is_request && name == HOST {
            continue;
        }
        encoder.field(name.as_str().as_bytes(), value.as_bytes(), value.is_sensitive());
    }
    Ok(())
}
