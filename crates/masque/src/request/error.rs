use core::fmt;

use http::StatusCode;

use crate::proxy_status::ProxyError;
use crate::target::TargetError;

/// The reason why a request does not open a tunnel on this proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RequestError {
    /// The method is not CONNECT.
    NotConnect,
    /// No tunnel has this upgrade token in `:protocol` (RFC 9220 §3).
    UnknownProtocol,
    /// No template matches the path and the query.
    NoTemplate,
    /// The scheme is not `https`.
    UnsupportedScheme,
    /// The request has a field that the Capsule Protocol forbids (RFC 9297 §3.2).
    ForbiddenField(&'static str),
    /// The target or scope is invalid.
    Target(TargetError),
}

impl RequestError {
    /// Returns the status of the response.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::NotConnect => StatusCode::METHOD_NOT_ALLOWED,
            Self::UnknownProtocol => StatusCode::NOT_IMPLEMENTED,
            Self::NoTemplate => StatusCode::NOT_FOUND,
            Self::UnsupportedScheme | Self::ForbiddenField(_) | Self::Target(_) => {
                StatusCode::BAD_REQUEST
            }
        }
    }

    /// Returns the error type for the Proxy-Status field.
    pub const fn proxy_error(&self) -> ProxyError {
        ProxyError::HttpRequestError
    }

    /// Returns whether the request is malformed, in which case its stream may be reset with
    /// H3_MESSAGE_ERROR instead of sending a response (RFC 9298 §3.4, RFC 9114 §4.1.2).
    pub const fn is_malformed(&self) -> bool {
        matches!(self, Self::ForbiddenField(_) | Self::Target(_))
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnect => f.write_str("the request's method is not CONNECT"),
            Self::UnknownProtocol => f.write_str(
                "the request's :protocol is not supported; use connect-udp, connect-ip or \
                 connect-tcp",
            ),
            Self::NoTemplate => f.write_str(
                "the request's path matches no URI template of the proxy; check the client's \
                 template",
            ),
            Self::UnsupportedScheme => f.write_str("the request's scheme is not https"),
            Self::ForbiddenField(name) => {
                write!(f, "the request has the field {name}, which the Capsule Protocol forbids")
            }
            Self::Target(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RequestError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Target(error) => Some(error),
            _ => None,
        }
    }
}

impl From<TargetError> for RequestError {
    fn from(error: TargetError) -> Self {
        Self::Target(error)
    }
}
