//! Tunnels for servers whose services return responses instead of sending them.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use super::{Body, Error, RecvBody, Responder, SendBody};

/// A tunnel that a CONNECT request has opened (RFC 9114 §4.4, RFC 9220).
#[derive(Debug)]
#[non_exhaustive]
pub struct Tunnel {
    /// The bytes from the client.
    pub receive: RecvBody,
    /// The bytes to the client. Dropping this without [`SendBody::finish`] resets the stream.
    pub send: SendBody,
}

/// A request extension that resolves to the request's [`Tunnel`] when the service has returned a
/// 2xx response to a CONNECT request.
///
/// A server of services adds it with [`TunnelRequest::of`], and a service gets it with
/// [`OnTunnel::of`]. The service starts a task that awaits it, and returns the response: the tunnel
/// exists only after that. One of the clones gets the tunnel.
#[derive(Clone)]
pub struct OnTunnel(Arc<Mutex<oneshot::Receiver<Tunnel>>>);

impl OnTunnel {
    /// Returns the extension of a request, if it has one.
    pub fn of<B>(request: &Request<B>) -> Option<Self> {
        request.extensions().get().cloned()
    }
}

impl Future for OnTunnel {
    type Output = Result<Tunnel, TunnelRefused>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut receiver = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if receiver.is_terminated() {
            return Poll::Ready(Err(TunnelRefused));
        }
        Pin::new(&mut *receiver).poll(context).map_err(|_| TunnelRefused)
    }
}

impl fmt::Debug for OnTunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnTunnel").finish_non_exhaustive()
    }
}

/// The tunnel does not exist: the service did not return a 2xx response, the client has canceled
/// its request, or another clone of [`OnTunnel`] has taken the tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TunnelRefused;

impl fmt::Display for TunnelRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no tunnel: the CONNECT request was refused or canceled")
    }
}

impl core::error::Error for TunnelRefused {}

/// A CONNECT request whose tunnel is opened by its response, for servers of services.
#[derive(Debug)]
pub struct TunnelRequest {
    opened: oneshot::Sender<Tunnel>,
    receive: RecvBody,
}

impl TunnelRequest {
    /// Adds an [`OnTunnel`] extension to a CONNECT request, and leaves an
    /// [empty](RecvBody::empty) body in it. Returns `None` for other methods.
    pub fn of(request: &mut Request<RecvBody>) -> Option<Self> {
        if request.method() != Method::CONNECT {
            return None;
        }
        let (opened, receiver) = oneshot::channel();
        request.extensions_mut().insert(OnTunnel(Arc::new(Mutex::new(receiver))));
        Some(Self { opened, receive: core::mem::take(request.body_mut()) })
    }

    /// Sends the response. If it is successful (2xx), its body is discarded and the tunnel is
    /// passed to the task that awaits [`OnTunnel`]; if no task does, the stream is reset.
    ///
    /// # Errors
    /// Returns the same errors as [`Responder::respond`].
    pub async fn respond<B: Into<Body>>(
        self,
        responder: Responder,
        response: Response<B>,
    ) -> Result<(), Error> {
        let Self { opened, receive } = self;
        if !response.status().is_success() {
            drop(opened);
            return responder.respond(response).await;
        }
        let send = responder.start(response.map(|_| ()));
        // Dropping the tunnel resets the stream.
        let _ = opened.send(Tunnel { receive, send });
        Ok(())
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.receive).poll_read(context, buffer)
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.send).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_flush(context)
    }

    /// Ends the bytes to the client, as [`SendBody::finish`] does.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_shutdown(context)
    }
}
