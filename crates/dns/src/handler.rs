use core::net::SocketAddr;

use hickory_proto::op::{Message, Metadata, ResponseCode};

use crate::extended_error::ExtendedError;
use crate::protocol::Protocol;
use crate::reply::Answer;
use crate::wire::default_edns;

/// A query that a server has received.
#[derive(Clone, Debug)]
pub struct Request {
    message: Message,
    client: Option<SocketAddr>,
    protocol: Protocol,
}

impl Request {
    pub(crate) const fn new(
        message: Message,
        client: Option<SocketAddr>,
        protocol: Protocol,
    ) -> Self {
        Self { message, client, protocol }
    }

    /// Returns the query.
    pub const fn message(&self) -> &Message {
        &self.message
    }

    /// Returns the query, consuming the request.
    pub fn into_message(self) -> Message {
        self.message
    }

    /// Returns the client's address, if the protocol provides it: HTTP does not.
    pub const fn client(&self) -> Option<SocketAddr> {
        self.client
    }

    /// Returns the protocol by which the query arrived.
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns an empty response with this code, to which records can be added.
    pub fn response(&self, code: ResponseCode) -> Message {
        let metadata = Metadata::response_from_request(&self.message.metadata);
        let mut response = Message::response(metadata.id, metadata.op_code);
        response.metadata = metadata;
        response.metadata.response_code = code;
        response.add_queries(self.message.queries.iter().cloned());
        response
    }

    /// Returns an empty response with this code and the reason for it.
    pub fn failure(&self, code: ResponseCode, reason: &ExtendedError) -> Message {
        let mut response = self.response(code);
        let mut edns = default_edns();
        edns.options_mut().insert(reason.option());
        response.set_edns(edns);
        response
    }
}

/// A handler, which responds to the queries that a [`Server`](crate::Server) receives.
///
/// Functions that take a [`Request`] and return a future of an [`Answer`] are handlers, too.
pub trait Handler: Send + Sync + 'static {
    /// Responds to a query.
    ///
    /// The future runs on the thread of a shard, with the tokio runtime of the caller of the
    /// server, so it must not block. It is dropped when the client cancels its query. If it panics,
    /// only this query fails, as with [`Answer::abandon`].
    fn respond(&self, request: Request) -> impl Future<Output = Answer> + Send;
}

impl<F, R, A> Handler for F
where
    F: Fn(Request) -> R + Send + Sync + 'static,
    R: Future<Output = A> + Send,
    A: Into<Answer>,
{
    async fn respond(&self, request: Request) -> Answer {
        self(request).await.into()
    }
}
