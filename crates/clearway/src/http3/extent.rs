//! How much of a message's content is left.

use std::collections::VecDeque;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, Response};

use super::exchanges::{Exchange, Receiving};

/// What is known about the rest of a message that is being received.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    /// Number of bytes of content that the task has not read, if it is known.
    pub(super) remaining: Option<u64>,
    /// Whether the whole message has arrived without an error.
    pub(super) is_complete: bool,
    /// Whether the message is complete and has a trailer section that the task has not taken.
    pub(super) has_trailers: bool,
}

impl Extent {
    /// The extent of a message without content that has ended.
    pub(super) const EMPTY: Self =
        Self { remaining: Some(0), is_complete: true, has_trailers: false };

    /// Records that the task has read `length` bytes of content.
    pub(super) fn subtract(&mut self, length: usize) {
        self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(length as u64));
    }

    /// Records that the task has not read the last `length` bytes of content after all.
    pub(super) fn add(&mut self, length: usize) {
        self.remaining = self.remaining.map(|remaining| remaining.saturating_add(length as u64));
    }
}

impl Exchange {
    /// Returns the extent of a request that no task has read (server).
    pub(super) fn extent_of_request(&self, request: &Request<()>) -> Extent {
        let remaining = if self.is_tunnel { None } else { content_length(request.headers()) };
        self.receive.extent(remaining)
    }

    /// Returns the extent of a final response that no task has read (client).
    pub(super) fn extent_of_response(&self, response: &Response<()>) -> Extent {
        let remaining = match response.status().as_u16() {
            200..=299 if self.is_tunnel => None,
            // There is no content, regardless of content-length (RFC 9110 §6.4.1).
            204 | 304 => Some(0),
            _ if self.is_head => Some(0),
            _ => content_length(response.headers()),
        };
        self.receive.extent(remaining)
    }
}

impl Receiving {
    /// Returns the extent of a message that no task has read, given the length of its content.
    fn extent(&self, remaining: Option<u64>) -> Extent {
        let mut extent = Extent { remaining, ..Extent::default() };
        if self.buffer.is_empty() {
            self.note_end(&mut extent, &VecDeque::new());
        }
        extent
    }

    /// Updates `extent` if the message is complete except for `chunks`, which the task has taken.
    pub(super) fn note_end(&self, extent: &mut Extent, chunks: &VecDeque<Bytes>) {
        if matches!(self.buffer.end(), Some(Ok(()))) && !self.buffer.has_more {
            *extent = Extent {
                remaining: Some(chunks.iter().map(|chunk| chunk.len() as u64).sum()),
                is_complete: true,
                has_trailers: self.trailers.is_some(),
            };
        }
    }
}

/// Returns the value of content-length, which HTTP/3 has checked.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::exchanges::Totals;
    use super::*;

    const LENGTH: (&str, u64) = ("content-length", 7);

    fn request(method: Method) -> Request<()> {
        let request = Request::builder().method(method).header(LENGTH.0, LENGTH.1);
        request.body(()).unwrap()
    }

    fn remaining(method: Method, status: u16) -> Option<u64> {
        let exchange = Exchange::request(request(method), &Totals::default());
        let response = Response::builder().status(status).header(LENGTH.0, LENGTH.1);
        let extent = exchange.extent_of_response(&response.body(()).unwrap());
        assert!(!extent.is_complete);
        extent.remaining
    }

    #[test]
    fn content_length_counts_only_where_there_is_content() {
        assert_eq!(remaining(Method::GET, 200), Some(7));
        assert_eq!(remaining(Method::GET, 304), Some(0));
        assert_eq!(remaining(Method::PUT, 204), Some(0));
        assert_eq!(remaining(Method::HEAD, 200), Some(0));
        assert_eq!(remaining(Method::CONNECT, 404), Some(7));
        assert_eq!(remaining(Method::CONNECT, 200), None, "a tunnel");
        for (method, expected) in [(Method::PUT, Some(7)), (Method::CONNECT, None)] {
            let exchange = Exchange::incoming(0, request(method.clone()), &Totals::default());
            assert_eq!(exchange.extent_of_request(&request(method)).remaining, expected);
        }
    }
}
