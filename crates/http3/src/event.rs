use http::{HeaderMap, Request, Response};

use crate::{Code, ConnectionError, Settings, StreamError};

/// What happened on a connection. The order on each stream is: one `Request`, or any number of
/// `Informational` and one `Response`; then `Data` any number of times; then at most one
/// `Trailers`; then `Finished`. At any point `Reset` or `Failed` can replace the remaining events.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The peer's SETTINGS arrived.
    Settings(Settings),
    /// A complete and valid header section of a request arrived (server).
    Request {
        /// The request stream.
        stream: u64,
        /// The request. Its URI has scheme and authority, the latter from `:authority` or `host`. Its extensions have
        /// the [`Priority`](crate::Priority) that the client stated, and the [`Protocol`](crate::Protocol) of an
        /// extended CONNECT.
        request: Request<()>,
    },
    /// An interim response arrived (client).
    Informational {
        /// The request stream.
        stream: u64,
        /// The response; its status is 1xx.
        response: Response<()>,
    },
    /// The header section of the final response arrived (client).
    Response {
        /// The request stream.
        stream: u64,
        /// The response.
        response: Response<()>,
    },
    /// Content can be read with `read_body`. Not reported again until `read_body` has returned `None`.
    Data {
        /// The request stream.
        stream: u64,
    },
    /// The trailer section arrived.
    Trailers {
        /// The request stream.
        stream: u64,
        /// The fields of the trailer section.
        fields: HeaderMap,
    },
    /// The peer's message is complete, and its content is as long as its content-length says.
    Finished {
        /// The request stream.
        stream: u64,
    },
    /// `send_body` took only part of its data, or none, and can now take more.
    Writable {
        /// The request stream.
        stream: u64,
    },
    /// The peer reset the stream of its message. The part that arrived must not be used
    /// (RFC 9114 §4.1.1).
    Reset {
        /// The request stream.
        stream: u64,
        /// The peer's error code.
        code: Code,
    },
    /// The peer asked us to stop sending our message. A response can still arrive.
    Stopped {
        /// The request stream.
        stream: u64,
        /// The peer's error code.
        code: Code,
    },
    /// This endpoint aborted both directions of the stream because of the peer's error.
    Failed {
        /// The request stream.
        stream: u64,
        /// The stream error.
        error: StreamError,
    },
    /// The client changed the priority of its request (server); [`Connection::priority`](crate::Connection::priority) has
    /// it. Not reported again before this event was taken.
    Priority {
        /// The request stream.
        stream: u64,
    },
    /// The peer is shutting down (RFC 9114 §5.2). A client can send no new requests; its requests on
    /// streams from `id` on were not processed and have failed with H3_REQUEST_REJECTED.
    GoAway {
        /// A stream ID from a server, a push ID from a client.
        id: u64,
    },
    /// We closed the connection because of the peer's error. This is the last event.
    Closed(ConnectionError),
}
