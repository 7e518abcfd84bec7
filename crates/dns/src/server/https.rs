//! DNS over HTTPS (RFC 8484), over HTTP/3.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use clearway::http3::{self, Body, Early, RecvBody};
use hickory_proto::op::MessageType;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};

use super::{Outcome, Server};
use crate::handler::Handler;
use crate::protocol::Protocol;
use crate::reply::Encoded;
use crate::wire::{decode, is_replay_safe};

/// The path of DoH queries.
pub(crate) const PATH: &str = "/dns-query";
/// The media type of DNS messages.
pub(crate) const MEDIA_TYPE: &str = "application/dns-message";

impl<H: Handler> Server<H> {
    /// Responds to DoH queries to `/dns-query` of `server`, until it is shut down.
    ///
    /// In early data, only GET requests with the opcodes QUERY and NOTIFY are processed, whatever
    /// the [`UnsafeEarlyQuery`](crate::UnsafeEarlyQuery) of the server is. Others get status 425
    /// (Too Early, RFC 8470), after which clients repeat them.
    pub async fn serve_https(&self, server: &http3::Server) {
        let dns = self.clone();
        let service = move |request| {
            let dns = dns.clone();
            async move { dns.request(request).await }
        };
        server.serve_on_shards(service).await;
    }

    async fn request(&self, request: Request<RecvBody>) -> Response<Body> {
        let is_early = Early::is_in(&request);
        let octets = match self.query(request).await {
            Ok(octets) => octets,
            Err(status) => return refusal(status),
        };
        let query = match decode(&octets) {
            Ok(query) if query.metadata.message_type == MessageType::Query => query,
            Ok(_) | Err(_) => {
                self.shared.counters.malformed.add();
                return refusal(StatusCode::BAD_REQUEST);
            }
        };
        if is_early && !is_replay_safe(&query) {
            self.shared.counters.too_early.add();
            return refusal(StatusCode::TOO_EARLY);
        }
        match self.process(query, None, Protocol::Https).await {
            Outcome::Reply(encoded) => response(encoded),
            Outcome::Abandoned => refusal(StatusCode::INTERNAL_SERVER_ERROR),
            Outcome::Overload => refusal(StatusCode::SERVICE_UNAVAILABLE),
        }
    }

    /// Returns the message of a request, or the status that rejects it.
    async fn query(&self, request: Request<RecvBody>) -> Result<Bytes, StatusCode> {
        if request.uri().path() != PATH {
            return Err(StatusCode::NOT_FOUND);
        }
        let limit = usize::from(self.shared.limits.query_size);
        if request.method() == Method::GET {
            return parameter(request.uri().query().unwrap_or_default(), limit);
        }
        if request.method() != Method::POST {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        if request.headers().get(CONTENT_TYPE).is_none_or(|it| it != MEDIA_TYPE) {
            return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        match request.into_body().bytes(limit).await {
            Ok(octets) => Ok(octets),
            Err(http3::Error::TooLarge { .. }) => Err(StatusCode::PAYLOAD_TOO_LARGE),
            Err(_) => Err(StatusCode::BAD_REQUEST),
        }
    }
}

/// Decodes the message in the parameter `dns` of a GET request (RFC 8484 §4.1).
pub(crate) fn parameter(query: &str, limit: usize) -> Result<Bytes, StatusCode> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("dns="));
    let value = value.ok_or(StatusCode::BAD_REQUEST)?;
    // Four characters for three octets.
    if value.len() > limit.saturating_mul(2) {
        return Err(StatusCode::URI_TOO_LONG);
    }
    let octets = URL_SAFE_NO_PAD.decode(value).map_err(|_| StatusCode::BAD_REQUEST)?;
    match octets.len() > limit {
        true => Err(StatusCode::URI_TOO_LONG),
        false => Ok(octets.into()),
    }
}

fn response(encoded: Encoded) -> Response<Body> {
    let mut response = Response::new(Body::full(encoded.octets));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    // RFC 8484 §5.1: no longer than the smallest TTL.
    let age = match encoded.ttl {
        Some(ttl) => HeaderValue::try_from(format!("max-age={ttl}")).ok(),
        None => None,
    };
    let age = age.unwrap_or_else(|| HeaderValue::from_static("no-cache"));
    headers.insert(CACHE_CONTROL, age);
    response
}

fn refusal(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_is_base64url_without_padding() {
        // The example of RFC 8484 §4.1.1 ends in a 1 for the class IN.
        let query = "dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";
        let octets = parameter(query, 4096).unwrap();
        assert_eq!((octets.len(), octets.last()), (33, Some(&1)));
        assert_eq!(parameter(&format!("a=b&{query}&c"), 4096), Ok(octets));
        for (wrong, status) in [
            ("", StatusCode::BAD_REQUEST),
            ("name=example.com", StatusCode::BAD_REQUEST),
            ("dns=AA==", StatusCode::BAD_REQUEST),
            ("dns=+/+/", StatusCode::BAD_REQUEST),
        ] {
            assert_eq!(parameter(wrong, 4096), Err(status), "{wrong}");
        }
        assert_eq!(parameter(query, 32), Err(StatusCode::URI_TOO_LONG));
        assert_eq!(parameter(query, 8), Err(StatusCode::URI_TOO_LONG));
    }
}
