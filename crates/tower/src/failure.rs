//! Reports of responses that fail because of the server.

use core::fmt;
use core::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use clearway::http3::Error;
use http::Version;

use crate::BoxError;

/// A response that failed because of the service; see [`Serve::on_error`](crate::Serve::on_error).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// The part that failed.
    pub reason: FailureReason,
    /// The error that it returned.
    pub error: &'a (dyn core::error::Error + Send + Sync + 'static),
    /// The client's address.
    pub remote_address: SocketAddr,
    /// The HTTP version of the request.
    pub version: Version,
}

/// The part that failed, and consequently what the client gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FailureReason {
    /// `Service::poll_ready` returned an error. The client gets 500 (Internal Server Error).
    NotReady,
    /// The future of `Service::call` returned an error. The client gets 500.
    Service,
    /// The body of the response returned an error. The stream is reset, with H3_INTERNAL_ERROR in
    /// HTTP/3; an HTTP/1.1 connection is closed.
    Body,
    /// The response cannot be sent over HTTP/3, for example because its content is longer than its
    /// content-length field states. The stream is reset with H3_INTERNAL_ERROR.
    Response,
    /// The service or the body of its response panicked. The client gets the same as for
    /// [`Body`](Self::Body).
    Panic,
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReady => "the service is not ready",
            Self::Service => "the service failed",
            Self::Body => "the body of the response failed",
            Self::Response => "the response cannot be sent",
            Self::Panic => "the service panicked",
        })
    }
}

/// The hook of [`Serve::on_error`](crate::Serve::on_error).
pub(crate) type Hook = Arc<dyn Fn(&Failure<'_>) + Send + Sync>;

/// Reports the failures of the responses to one client.
#[derive(Clone)]
pub(crate) struct Reporter {
    pub(crate) hook: Option<Hook>,
    pub(crate) remote_address: SocketAddr,
    pub(crate) version: Version,
}

impl Reporter {
    /// Logs a failure, and passes it to the hook.
    pub(crate) fn report(
        &self,
        reason: FailureReason,
        error: &(dyn core::error::Error + Send + Sync + 'static),
    ) {
        let Self { remote_address, version, .. } = *self;
        if !self.is_logged_elsewhere(reason) {
            tracing::warn!(%remote_address, ?version, %error, "response failed: {reason}");
        }
        let Some(hook) = &self.hook else { return };
        let failure = Failure { reason, error, remote_address, version };
        // The failure may be a panic, and a second one would abort the process.
        if catch_unwind(AssertUnwindSafe(|| hook(&failure))).is_err() {
            tracing::error!("hook for failed responses panicked");
        }
    }

    /// Reports the error of a response's body, and returns it.
    pub(crate) fn report_body(&self, error: BoxError) -> BoxError {
        self.report(FailureReason::Body, &*error);
        error
    }

    /// Returns a guard that reports a panic during its life.
    pub(crate) fn watch(&self) -> PanicWatch<'_> {
        PanicWatch(self)
    }

    /// Returns whether Clearway's HTTP/3 logs the failure, with the ID of the stream.
    fn is_logged_elsewhere(&self, reason: FailureReason) -> bool {
        use FailureReason::{Body, Panic, Response};
        self.version == Version::HTTP_3 && matches!(reason, Body | Response | Panic)
    }
}

/// Reports a panic that unwinds through the scope of this value.
pub(crate) struct PanicWatch<'a>(&'a Reporter);

impl Drop for PanicWatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.report(FailureReason::Panic, &Error::Panicked);
        }
    }
}
