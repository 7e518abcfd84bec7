use http::{HeaderMap, Request, Response};

use crate::{Code, ConnectionError, Settings, StreamError};

/// What happened on a connection. Per stream the order is: one `Request`, or any `Informational`
/// and one `Response`; then `Data` any number of times; then at most one `Trailers`; then
/// `Finished`. `Reset` or `Failed` can take the place of whatever is missing.
#[derive(Debug)]
pub enum Event {
    /// The peer's SETTINGS arrived.
    Settings(Settings),
    /// A complete and valid request header section (server).
    Request {
        /// The request stream.
        stream: u64,
        /// The request. Its URI has scheme and authority, the latter from `:authority` or `host`.
        request: Request<()>,
    },
    /// An interim response (client).
    Informational {
        /// The request stream.
        stream: u64,
        /// The response; its status is 1xx.
        response: Response<()>,
    },
    /// The final response's header section (client).
    Response {
        /// The request stream.
        stream: u64,
        /// The response.
        response: Response<()>,
    },
    /// Content can be read with `read_body`. Told once until `read_body` has returned `None`.
    Data {
        /// The request stream.
        stream: u64,
    },
    /// The trailer section.
    Trailers {
        /// The request stream.
        stream: u64,
        /// Its fields.
        fields: HeaderMap,
    },
    /// The peer's message is complete, and has the announced length.
    Finished {
        /// The request stream.
        stream: u64,
    },
    /// `send_body` took less than it was given, and can now take more.
    Writable {
        /// The request stream.
        stream: u64,
    },
    /// The peer abandoned its message. What was sent of it must not be used (RFC 9114 §4.1.1).
    Reset {
        /// The request stream.
        stream: u64,
        /// The peer's reason.
        code: Code,
    },
    /// The peer stops reading our message. A response can still arrive.
    Stopped {
        /// The request stream.
        stream: u64,
        /// The peer's reason.
        code: Code,
    },
    /// This end aborted both directions of the stream because of an error of the peer.
    Failed {
        /// The request stream.
        stream: u64,
        /// The error of the stream.
        error: StreamError,
    },
    /// The peer is shutting down (RFC 9114 §5.2). For a client: no new requests; requests on
    /// streams from `id` on were not processed and have failed with H3_REQUEST_REJECTED.
    GoAway {
        /// A stream ID from a server, a push ID from a client.
        id: u64,
    },
    /// We closed the connection because of what the peer did. Nothing follows.
    Closed(ConnectionError),
}
