//! Notifications from connections to their server.

use core::net::SocketAddr;
use std::sync::Arc;

use super::exchanges::Shared;
use super::{Error, Timeouts};

/// Receives notifications about a connection's requests and its end.
pub(super) trait Listener: Send {
    /// Returns whether responses are produced while the connection is processed, in which case it
    /// has to be processed again.
    fn answers_here(&self) -> bool;

    /// Returns the limits on how long clients may go without making progress.
    fn timeouts(&self) -> Option<Timeouts>;

    /// Called when requests are waiting in `shared`.
    fn on_requests(&mut self, shared: &Arc<Shared>);

    /// Called when a response has failed because of this endpoint.
    fn on_failure(&self, failure: &ResponseFailure);

    /// Called when the connection is gone.
    fn on_gone(&mut self);
}

/// A response that failed because of this endpoint; see
/// [`Server::on_error`](super::Server::on_error).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResponseFailure {
    /// The reason for the failure.
    pub error: Error,
    /// The client's address.
    pub remote_address: SocketAddr,
    /// The ID of the request's stream.
    pub stream: u64,
}
