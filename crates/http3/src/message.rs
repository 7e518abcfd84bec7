//! Conversion and validation of sent and received HTTP messages and field sections (RFC 9114 §4).

mod content;
mod fields;
mod incoming;
mod outgoing;

use crate::Protocol;
pub(crate) use content::{Content, ContentRule};
pub(crate) use incoming::{FieldSection, SectionKind};
pub(crate) use outgoing::{content_length, encode_request, encode_response, encode_trailers};

/// The effect of the request method on the messages of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exchange {
    /// CONNECT: once it has succeeded, the content is the data of a tunnel (§4.4).
    Connect,
    /// Extended CONNECT (RFC 9220): the content is also tunnel data, and the tunnel can carry HTTP
    /// datagrams (RFC 9297 §2).
    ExtendedConnect,
    /// HEAD: the response has no content.
    Head,
    /// Any other method.
    Other,
}

impl Exchange {
    pub(crate) fn new(request: &http::Request<()>) -> Self {
        match *request.method() {
            http::Method::CONNECT if request.extensions().get::<Protocol>().is_some() => {
                Self::ExtendedConnect
            }
            http::Method::CONNECT => Self::Connect,
            http::Method::HEAD => Self::Head,
            _ => Self::Other,
        }
    }

    /// Returns whether the content is tunnel data.
    pub(crate) fn is_tunnel(self) -> bool {
        matches!(self, Self::Connect | Self::ExtendedConnect)
    }

    /// Returns the rule for the content of a final response, given its status and content-length.
    pub(crate) fn response_rule(
        self,
        status: http::StatusCode,
        announced: Option<u64>,
    ) -> ContentRule {
        match (self, status.as_u16()) {
            (_, 200..=299) if self.is_tunnel() => ContentRule::Tunnel,
            (Self::Head, _) | (_, 204 | 304) => ContentRule::None,
            _ => ContentRule::Length(announced),
        }
    }

    /// Returns the rule for the content of a request.
    pub(crate) fn request_rule(self, announced: Option<u64>) -> ContentRule {
        match self {
            _ if self.is_tunnel() => ContentRule::Tunnel,
            _ => ContentRule::Length(announced),
        }
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
