use http::{HeaderMap, Request, Response};

use crate::{Code, ConnectionError, Settings, StreamError};

/// An event on a connection.
///
/// The order on each stream is: one `Request`, or any number of `Informational` and one `Response`;
/// then any number of `Data`; then at most one `Trailers`; then `Finished`. At any point, `Reset`
/// or `Failed` can replace the remaining events.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The peer's SETTINGS arrived.
    Settings(Settings),
    /// A complete and valid header section of a request arrived (server).
    Request {
        /// The request stream.
        stream: u64,
        /// The request. Its URI has a scheme and an authority, which is taken from `:authority` or
        /// `host`. Its extensions contain the client's [`Priority`](crate::Priority), if it sent
        /// one, and the [`Protocol`](crate::Protocol) of an extended CONNECT.
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
    /// Content can be read with `read_body`. Not reported again until `read_body` has returned
    /// `None`.
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
    /// The peer's message is complete, and its length matches its content-length field.
    Finished {
        /// The request stream.
        stream: u64,
    },
    /// The stream is writable: `send_body` previously took only part of its data, or none, and can
    /// now take more.
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
    /// The peer sent STOP_SENDING for the local message. A response can still arrive.
    Stopped {
        /// The request stream.
        stream: u64,
        /// The peer's error code.
        code: Code,
    },
    /// This endpoint aborted both directions of the stream because of an error by the peer.
    Failed {
        /// The request stream.
        stream: u64,
        /// The stream error.
        error: StreamError,
    },
    /// The client changed the priority of its request (server);
    /// [`Connection::priority`](crate::Connection::priority) returns it. Not reported again until
    /// this event has been taken.
    Priority {
        /// The request stream.
        stream: u64,
    },
    /// The peer is shutting down (RFC 9114 §5.2). A client can send no new requests; its requests
    /// on streams with IDs of at least `id` were not processed and have failed with
    /// H3_REQUEST_REJECTED.
    GoAway {
        /// The identifier in GOAWAY: a stream ID from a server, or a push ID from a client.
        id: u64,
    },
    /// This endpoint closed the connection because of an error by the peer. This is the last event.
    Closed(ConnectionError),
}
