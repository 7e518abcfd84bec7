//! The client side: requests, and checks of responses.

use core::fmt;

use clearway_http3::Protocol;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};

use super::{CAPSULE_PROTOCOL, Form, PROXY_STATUS, TRUE, forbidden_field};
use crate::proxy_status::ProxyStatus;
use crate::target::{Target, Values};
use crate::template::{ExpandError, UriTemplate};

/// Returns the extended CONNECT request for a tunnel (RFC 9298 §3.4, RFC 9484 §4.5,
/// draft-ietf-httpbis-connect-tcp §3.2). It may only be sent if the proxy's SETTINGS permit
/// extended CONNECT; for UDP and IP, both sides should support HTTP Datagrams.
///
/// # Errors
/// If the template cannot be expanded for `values`.
pub fn extended_connect(
    template: &UriTemplate,
    values: &Values,
) -> Result<Request<()>, ExpandError> {
    let mut request = Request::new(());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = template.expand(values)?;
    request.headers_mut().insert(CAPSULE_PROTOCOL, TRUE);
    // Each upgrade token is a token.
    if let Some(protocol) = Protocol::new(template.kind().upgrade_token()) {
        request.extensions_mut().insert(protocol);
    }
    Ok(request)
}

/// Returns the classic CONNECT request for a TCP tunnel (RFC 9114 §4.4). Its content is the byte
/// stream, without capsules.
///
/// # Errors
/// [`ExpandError::InvalidUri`] if the target is not an authority; names are always one.
pub fn classic_connect(target: &Target) -> Result<Request<()>, ExpandError> {
    let authority = Uri::builder().authority(target.to_string());
    let mut request = Request::new(());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = authority.build().map_err(|_| ExpandError::InvalidUri)?;
    Ok(request)
}

/// The reason why a response does not open a tunnel. The client must abort the request (RFC 9298
/// §3.5, RFC 9484 §4.5.1).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ResponseError {
    /// The proxy requires credentials, or rejected those in the request: status 401 or 407.
    Authentication {
        /// The status.
        status: StatusCode,
    },
    /// The status is not in the 2xx range.
    Refused {
        /// The status.
        status: StatusCode,
        /// The reports of the proxies on the path, beginning with the one closest to the target.
        proxies: Vec<ProxyStatus>,
    },
    /// The status is 204, 205 or 206, which the Capsule Protocol forbids (RFC 9297 §3.2).
    ForbiddenStatus {
        /// The status.
        status: StatusCode,
    },
    /// The response has a field that the Capsule Protocol forbids (RFC 9297 §3.2).
    ForbiddenField(&'static str),
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authentication { status } => write!(
                f,
                "the proxy requires authentication (status {}); check the name and password, or \
                 the token",
                status.as_u16()
            ),
            Self::Refused { status, proxies } => {
                write!(f, "the proxy refused the tunnel (status {})", status.as_u16())?;
                proxies.iter().try_for_each(|proxy| write!(f, ": {proxy}"))
            }
            Self::ForbiddenStatus { status } => write!(
                f,
                "the proxy's response has status {}, which cannot open a tunnel",
                status.as_u16()
            ),
            Self::ForbiddenField(name) => write!(
                f,
                "the proxy's response has the field {name}, which the Capsule Protocol forbids"
            ),
        }
    }
}

impl core::error::Error for ResponseError {}

/// Checks whether a final response opens the tunnel.
///
/// # Errors
/// The reason why it does not.
pub fn check_response(form: Form, response: &Response<()>) -> Result<(), ResponseError> {
    let (status, headers) = (response.status(), response.headers());
    match status.as_u16() {
        401 | 407 => return Err(ResponseError::Authentication { status }),
        200..=299 => {}
        _ => return Err(ResponseError::Refused { status, proxies: proxies(headers) }),
    }
    if form == Form::Classic {
        return Ok(());
    }
    if matches!(status.as_u16(), 204..=206) {
        return Err(ResponseError::ForbiddenStatus { status });
    }
    match forbidden_field(headers) {
        Some(name) => Err(ResponseError::ForbiddenField(name)),
        None => Ok(()),
    }
}

fn proxies(headers: &HeaderMap) -> Vec<ProxyStatus> {
    ProxyStatus::parse(headers.get_all(PROXY_STATUS))
}
