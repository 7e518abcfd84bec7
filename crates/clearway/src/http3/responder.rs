use core::future::poll_fn;
use core::net::SocketAddr;

use clearway_http3::Code;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};

use super::{Body, Error, SendBody};

/// Answers one request.
///
/// Dropping it without an answer tells the client H3_REQUEST_CANCELLED.
#[derive(Debug)]
pub struct Responder {
    send: SendBody,
    method: Method,
    remote_address: Option<SocketAddr>,
}

impl Responder {
    pub(super) fn new(send: SendBody, method: Method, remote_address: Option<SocketAddr>) -> Self {
        Self { send, method, remote_address }
    }

    /// Where the client was when the connection began.
    pub fn remote_address(&self) -> Option<SocketAddr> {
        self.remote_address
    }

    /// Sends an interim response (1xx, but not 101; RFC 9110 §15.2).
    ///
    /// # Errors
    /// If the client does not want an answer any more.
    pub fn inform(&mut self, response: Response<()>) -> Result<(), Error> {
        self.send.inform(response)
    }

    /// Sends the response, and waits until the transport has all of it.
    ///
    /// Content for HEAD, 204 and 304, which have none, is left out. Cancelling this before the body has
    /// given its end gives the response up.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the client does not want it any more, [`Error::Send`] if it would be
    /// malformed, [`Error::Body`] if its body fails, and whatever ended the connection.
    pub async fn respond<B: Into<Body>>(self, response: Response<B>) -> Result<(), Error> {
        let (mut parts, body) = response.into_parts();
        let body = body.into();
        if self.announces_length(parts.status, &body) {
            announce_length(&mut parts.headers, &body);
        }
        let mut send = self.begin(Response::from_parts(parts, ()));
        match body.begin(&mut send) {
            Some(pump) => pump.run(send).await,
            None => poll_fn(|context| send.poll_over(context)).await,
        }
    }

    /// Sends the response's header section; the content is to follow.
    pub fn start(self, response: Response<()>) -> SendBody {
        let send = self.begin(response);
        send.wake_shard();
        send
    }

    /// Waits until the client has given the request up, or the connection is lost, and says why. To be
    /// raced against the work of answering.
    pub async fn cancelled(&mut self) -> Error {
        poll_fn(|context| self.send.poll_failed(context)).await
    }

    /// Refuses the request, of which nothing was processed: the client may send it again.
    pub fn reject(self) {
        self.send.reset(Code::REQUEST_REJECTED);
    }

    fn begin(mut self, response: Response<()>) -> SendBody {
        let status = response.status();
        let is_bodiless = self.method == Method::HEAD
            || status == StatusCode::NO_CONTENT
            || status == StatusCode::NOT_MODIFIED;
        self.send.set_bodiless(is_bodiless);
        self.send.start(response);
        self.send
    }

    fn announces_length(&self, status: StatusCode, body: &Body) -> bool {
        // An empty body for HEAD says nothing about what GET would give.
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
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}
