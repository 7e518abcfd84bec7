//! HTTP messages and field sections: what RFC 9114 §4 requires of them, sent or received.

mod content;
mod fields;
mod incoming;
mod outgoing;

pub(crate) use content::{Content, ContentRule};
pub(crate) use incoming::{FieldSection, SectionKind};
pub(crate) use outgoing::{content_length, encode_request, encode_response, encode_trailers};

/// What the request method means for the messages on its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exchange {
    /// CONNECT: once it has succeeded, the content is the data of a tunnel (§4.4).
    Connect,
    /// HEAD: the response has no content.
    Head,
    /// Any other method.
    Other,
}

impl Exchange {
    pub(crate) fn new(method: &http::Method) -> Self {
        match *method {
            http::Method::CONNECT => Self::Connect,
            http::Method::HEAD => Self::Head,
            _ => Self::Other,
        }
    }

    /// The rule for the content of a final response, given its status and content-length.
    pub(crate) fn response_rule(
        self,
        status: http::StatusCode,
        announced: Option<u64>,
    ) -> ContentRule {
        match (self, status.as_u16()) {
            (Self::Connect, 200..=299) => ContentRule::Tunnel,
            (Self::Head, _) | (_, 204 | 304) => ContentRule::None,
            _ => ContentRule::Length(announced),
        }
    }

    /// The rule for the content of a request.
    pub(crate) fn request_rule(self, announced: Option<u64>) -> ContentRule {
        match self {
            Self::Connect => ContentRule::Tunnel,
            _ => ContentRule::Length(announced),
        }
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
