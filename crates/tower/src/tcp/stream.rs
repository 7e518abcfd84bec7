//! The byte stream of one connection.

use core::convert::Infallible;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use crate::stop::is_set;

/// Length of the string with which a client of HTTP/2 begins (RFC 9113 §3.4).
const PREFACE_LEN: usize = 24;

/// A connection's share of its server's resources, which is held until the socket is closed.
pub(super) struct Share {
    /// Counts toward the limit on connections.
    pub(super) permit: OwnedSemaphorePermit,
    /// Delays the end of the server.
    pub(super) alive: mpsc::Sender<Infallible>,
    /// Is set, or can no longer be set, once the server no longer exists.
    pub(super) abandoned: watch::Receiver<bool>,
}

/// The byte stream of one connection.
///
/// An upgraded connection leaves hyper and is owned by a task of the service, so the stream itself
/// counts toward the limit on connections, and fails once the server no longer exists.
pub(super) struct Stream<I> {
    io: I,
    preface: Option<Preface>,
    /// Completes once the server no longer exists. Each direction has one, since each may be used
    /// by another task.
    reads_end: Signal,
    writes_end: Signal,
    /// Released after `io`, because fields are dropped in this order.
    _share: (OwnedSemaphorePermit, mpsc::Sender<Infallible>),
}

/// The preface of an HTTP/2 client that has not arrived completely.
struct Preface {
    missing: usize,
    /// Completes when waiting for the preface is pointless.
    end: Signal,
}

impl<I> Stream<I> {
    pub(super) fn new(io: I, share: Share) -> Self {
        let Share { permit, alive, abandoned } = share;
        let signal =
            |mut flag: watch::Receiver<bool>| Signal::new(async move { is_set(&mut flag).await });
        Self {
            io,
            preface: None,
            reads_end: signal(abandoned.clone()),
            writes_end: signal(abandoned),
            _share: (permit, alive),
        }
    }

    /// Fails reading if the client's HTTP/2 preface does not arrive within `limit`, or is incomplete
    /// when `stopped` is set.
    ///
    /// Before the preface, hyper neither checks whether the client is still there nor ends the
    /// connection gracefully.
    pub(super) fn require_preface(
        mut self,
        limit: Duration,
        mut stopped: watch::Receiver<bool>,
    ) -> Self {
        let end = Signal::new(async move {
            let _ = tokio::time::timeout(limit, is_set(&mut stopped)).await;
        });
        self.preface = Some(Preface { missing: PREFACE_LEN, end });
        self
    }
}

/// A future that can be polled again after it has completed.
struct Signal(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Signal {
    fn new(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some(Box::pin(future)))
    }

    fn is_set(&mut self, context: &mut Context<'_>) -> bool {
        self.0.take_if(|future| future.as_mut().poll(context).is_ready());
        self.0.is_none()
    }

    /// Fails with `kind` once the future has completed.
    fn check(&mut self, kind: io::ErrorKind, context: &mut Context<'_>) -> io::Result<()> {
        if self.is_set(context) { Err(kind.into()) } else { Ok(()) }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Stream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { io, preface, reads_end, .. } = &mut *self;
        reads_end.check(io::ErrorKind::ConnectionAborted, context)?;
        let before = buffer.filled().len();
        let outcome = Pin::new(io).poll_read(context, buffer);
        let length = buffer.filled().len().saturating_sub(before);
        if let Some(Preface { missing, end }) = preface {
            *missing = missing.saturating_sub(length);
            if *missing > 0 {
                end.check(io::ErrorKind::TimedOut, context)?;
            } else {
                *preface = None;
            }
        }
        outcome
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Stream<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writes_end.check(io::ErrorKind::ConnectionAborted, context)?;
        Pin::new(&mut self.io).poll_write(context, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writes_end.check(io::ErrorKind::ConnectionAborted, context)?;
        Pin::new(&mut self.io).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writes_end.check(io::ErrorKind::ConnectionAborted, context)?;
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writes_end.check(io::ErrorKind::ConnectionAborted, context)?;
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
