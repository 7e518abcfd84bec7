//! What a server learns of its connections.

use core::net::SocketAddr;
use std::sync::Arc;

use super::exchanges::Shared;
use super::{Error, Timeouts};

/// Is notified of a connection's requests and of its end.
pub(super) trait Listener: Send {
    /// Whether requests are answered while their connection is processed, so that it has to be processed again.
    fn answers_here(&self) -> bool;

    /// How long clients may make no progress.
    fn timeouts(&self) -> Option<Timeouts>;

    /// Requests wait in `shared`.
    fn on_requests(&mut self, shared: &Arc<Shared>);

    /// A response has failed because of this end.
    fn on_failure(&self, failure: &ResponseFailure);

    /// The connection is gone.
    fn on_gone(&mut self);
}

/// A response that has failed because of this end; see [`Server::on_error`](super::Server::on_error).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResponseFailure {
    /// Why it failed.
    pub error: Error,
    /// The client's address.
    pub remote_address: SocketAddr,
    /// The ID of the request's stream.
    pub stream: u64,
}
