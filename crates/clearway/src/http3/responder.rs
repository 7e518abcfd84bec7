use core::future::poll_fn;
use core::net::SocketAddr;
use std::sync::Arc;

use clearway_http3::{Code, Priority};
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};
use rustls::pki_types::CertificateDer;

use super::body::Pump;
use super::exchanges::Shared;
use super::{Body, Datagrams, Error, Peer, SendBody};

/// Sends the response to one request.
///
/// Dropping the responder without a response resets the stream with H3_REQUEST_CANCELLED, or with
/// H3_INTERNAL_ERROR if the task that drops it panics.
///
/// Connection-specific fields are removed from responses (RFC 9114 §4.2): Connection and the fields
/// listed in its value, Keep-Alive, Proxy-Connection, TE, Transfer-Encoding and Upgrade.
#[derive(Debug)]
pub struct Responder {
    send: SendBody,
    method: Method,
    peer: Option<Peer>,
}

impl Responder {
    pub(super) fn new(send: SendBody, method: Method, peer: Option<Peer>) -> Self {
        Self { send, method, peer }
    }

    /// Returns the client, which the request also has as an extension. Always `Some` for a request
    /// of a [`Server`](super::Server).
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// Returns the client's current address.
    pub fn remote_address(&self) -> Option<SocketAddr> {
        self.peer.as_ref().map(Peer::remote_address)
    }

    /// Returns the client's verified certificate chain, starting with its own certificate.
    ///
    /// Returns `None` unless the server requests certificates
    /// ([`ServerConfig::client_certificates`](crate::ServerConfig::client_certificates)) and the
    /// client has one.
    pub fn peer_identity(&self) -> Option<&[CertificateDer<'static>]> {
        self.peer.as_ref()?.identity()
    }

    /// Returns the server name that the client requested (SNI).
    pub fn server_name(&self) -> Option<&str> {
        self.peer.as_ref()?.server_name()
    }

    /// Returns the priority that the client has requested (RFC 9218), with the request or later;
    /// the default if it has not requested any.
    pub fn priority(&self) -> Priority {
        self.send.priority()
    }

    /// Sets the priority of the response, overriding the client's request. A `priority` field of
    /// the response, or a [`Priority`] among its extensions, has the same effect and also reports
    /// it to the client.
    pub fn set_priority(&self, priority: Priority) {
        self.send.set_priority(priority);
    }

    /// Returns the datagrams of the exchange, if it is an extended CONNECT (RFC 9297).
    pub fn datagrams(&self) -> Datagrams {
        self.send.datagrams()
    }

    /// Sends an interim response (1xx, but not 101; RFC 9110 §15.2).
    ///
    /// # Errors
    /// Fails if the client has canceled the request.
    pub fn inform(&mut self, response: Response<()>) -> Result<(), Error> {
        self.send.inform(response)
    }

    /// Sends the response, and waits until the transport has accepted all of it.
    ///
    /// Content is omitted from responses that must not have any (responses to HEAD, 204 and 304).
    ///
    /// # Errors
    /// Returns [`Error::Stopped`] if the client has canceled the request, [`Error::Send`] if the
    /// response would be malformed, [`Error::Body`] if its body fails, or the error that ended the
    /// connection.
    ///
    /// # Cancel safety
    /// Dropping the future before the body has ended cancels the response.
    pub async fn respond<B: Into<Body>>(self, response: Response<B>) -> Result<(), Error> {
        match self.begin(response) {
            (mut send, None) => poll_fn(|context| send.poll_over(context)).await,
            // Boxed so that the future of a response that is available immediately need not reserve
            // space for a stream.
            (send, Some(pump)) => Box::pin(pump.run(send)).await,
        }
    }

    /// Sends the part of the response that is available immediately, and returns the pump for the
    /// rest. Without a pump, the entire response is sent, even if the returned sending half is
    /// dropped.
    pub(super) fn begin<B: Into<Body>>(self, response: Response<B>) -> (SendBody, Option<Pump>) {
        let (mut parts, body) = response.into_parts();
        let body = body.into();
        if self.announces_length(parts.status, &body) {
            announce_length(&mut parts.headers, &body);
        }
        let response = Response::from_parts(parts, ());
        let mut send = self.prepare(response.status());
        let pump = body.begin(&mut send, Some(response));
        (send, pump)
    }

    /// Sends the response's header section; the content is then sent with the returned
    /// [`SendBody`].
    pub fn start(self, response: Response<()>) -> SendBody {
        let mut send = self.prepare(response.status());
        send.start(response);
        send.wake_shard();
        send
    }

    /// Waits until the client has canceled the request or the connection is lost, and returns the
    /// reason. Await this concurrently with producing the response.
    pub async fn cancelled(&mut self) -> Error {
        poll_fn(|context| self.send.poll_failed(context)).await
    }

    /// Rejects the request without having processed it (H3_REQUEST_REJECTED): the client may send
    /// it again.
    pub fn reject(self) {
        self.send.reset(Code::REQUEST_REJECTED);
    }

    /// Returns the connection, for starting tasks on its shard.
    pub(super) fn spawner(&self) -> Arc<Shared> {
        self.send.shared()
    }

    /// Returns the sending half for a response with this status.
    fn prepare(mut self, status: StatusCode) -> SendBody {
        let is_bodiless = self.method == Method::HEAD
            || status == StatusCode::NO_CONTENT
            || status == StatusCode::NOT_MODIFIED;
        // A successful response to CONNECT opens a tunnel, whatever its status.
        let opens_tunnel = self.method == Method::CONNECT && status.is_success();
        self.send.set_bodiless(is_bodiless && !opens_tunnel);
        self.send
    }

    fn announces_length(&self, status: StatusCode, body: &Body) -> bool {
        // An empty body for HEAD does not imply that the response to GET would be empty.
        let is_known = self.method != Method::HEAD || body.length() > Some(0);
        is_known
            && self.method != Method::CONNECT
            && status != StatusCode::NO_CONTENT
            && status != StatusCode::NOT_MODIFIED
    }
}

/// Adds a content-length field if there is none and the length is known (RFC 9110 §8.6).
pub(super) fn announce_length(headers: &mut HeaderMap, body: &Body) {
    if let Some(length) = body.length()
        && !headers.contains_key(CONTENT_LENGTH)
    {
        headers.insert(CONTENT_LENGTH, number(length));
    }
}

/// Formats a number as a field value, without any allocation except for the value.
fn number(value: u64) -> HeaderValue {
    // Any u64 has at most 20 digits.
    let mut digits = [b'0'; 20];
    let (mut first, mut rest) = (digits.len(), value);
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    HeaderValue::from_bytes(&digits[first..]).unwrap_or_else(|_| HeaderValue::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_as_by_the_library() {
        for value in [0, 9, 10, 1024, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(number(value), HeaderValue::from(value));
        }
    }
}
