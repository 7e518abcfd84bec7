//! The application protocols, and how to make a request in each.

use clearway::http3::{Body, Client, Code, Priority};
use clearway::{Connection, RecvStream};
use http::header::USER_AGENT;
use http::{HeaderValue, Method, Request};

use super::target::Target;

/// The application protocol of a connection.
pub(super) enum Protocol {
    Http3(Client),
    Http09(Connection),
}

impl Protocol {
    /// Closes the connection.
    pub(super) fn close(&self) {
        match self {
            Self::Http3(client) => client.close(Code::NO_ERROR),
            Self::Http09(connection) => connection.close(clearway::VarInt::from_u32(0), b""),
        }
    }
}

/// Returns the request for `target`.
pub(super) fn request(target: &Target, priority: Option<Priority>) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = target.uri.clone();
    let agent = concat!("clearway/", env!("CARGO_PKG_VERSION"));
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(agent));
    if let Some(priority) = priority {
        request.extensions_mut().insert(priority);
    }
    request
}

/// The reason that an HTTP/0.9 request could not be made.
pub(super) type AskError = Box<dyn std::error::Error + Send + Sync>;

/// Requests a path on a new stream. Returns the stream of the response.
pub(super) async fn ask(connection: &Connection, path: &str) -> Result<RecvStream, AskError> {
    let (mut send, receive) = connection.open_bi().await?;
    send.finish_with(format!("GET {path}\r\n").into()).await?;
    Ok(receive)
}
