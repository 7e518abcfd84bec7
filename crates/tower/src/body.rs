//! The bodies of requests and responses.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use clearway::http3::RecvBody;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::BoxError;
use crate::failure::Reporter;

/// The content of a request, of any HTTP version.
///
/// Content is received only as fast as the service reads it, except for what flow control allows.
/// See [`RecvBody`] for HTTP/3.
#[derive(Debug)]
pub struct RequestBody(Content);

enum Content {
    Http3(RecvBody),
    #[cfg(feature = "tcp")]
    Tcp(hyper::body::Incoming),
}

impl From<RecvBody> for RequestBody {
    fn from(body: RecvBody) -> Self {
        Self(Content::Http3(body))
    }
}

#[cfg(feature = "tcp")]
impl RequestBody {
    /// Creates the body of a request over TCP.
    pub(crate) fn over_tcp(body: hyper::body::Incoming) -> Self {
        Self(Content::Tcp(body))
    }
}

impl Default for RequestBody {
    /// Creates an empty body.
    fn default() -> Self {
        RecvBody::empty().into()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Content::Http3(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            #[cfg(feature = "tcp")]
            Content::Tcp(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Http3(body) => body.is_end_stream(),
            #[cfg(feature = "tcp")]
            Content::Tcp(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Http3(body) => body.size_hint(),
            #[cfg(feature = "tcp")]
            Content::Tcp(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http3(body) => body.fmt(f),
            #[cfg(feature = "tcp")]
            Self::Tcp(body) => body.fmt(f),
        }
    }
}

pin_project! {
    /// The body of a service's response, whose failure is reported. Empty if the service failed.
    pub(crate) struct ResponseBody<B> {
        #[pin]
        inner: Option<B>,
        reporter: Reporter,
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn new(inner: Option<B>, reporter: Reporter) -> Self {
        Self { inner, reporter }
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.project();
        let Some(inner) = this.inner.as_pin_mut() else { return Poll::Ready(None) };
        let _watch = this.reporter.watch();
        Poll::Ready(match ready!(inner.poll_frame(context)) {
            Some(Err(error)) => Some(Err(this.reporter.report_body(error.into()))),
            Some(Ok(frame)) => Some(Ok(frame)),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}
