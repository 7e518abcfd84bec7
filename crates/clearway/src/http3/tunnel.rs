//! Tunnels for servers whose services return responses instead of sending them.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

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
/// exists only after that. Any number of tasks may await clones: one of them gets the tunnel, and the
/// others get [`TunnelRefused`].
#[derive(Clone)]
pub struct OnTunnel(Arc<Mutex<Slot>>);

impl OnTunnel {
    /// Returns the extension of a request, if it has one.
    pub fn of<B>(request: &Request<B>) -> Option<Self> {
        request.extensions().get().cloned()
    }
}

impl Future for OnTunnel {
    type Output = Result<Tunnel, TunnelRefused>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Slot { tunnel, is_decided, wakers } = &mut *lock(&self.0);
        if *is_decided {
            return Poll::Ready(tunnel.take().ok_or(TunnelRefused));
        }
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// The state that all clones of an [`OnTunnel`] share.
#[derive(Default)]
struct Slot {
    /// The tunnel, from the response until one of the clones takes it.
    tunnel: Option<Tunnel>,
    is_decided: bool,
    wakers: Vec<Waker>,
}

fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes a tunnel to the clones of an [`OnTunnel`]. Dropping it refuses the tunnel.
struct Opening(Arc<Mutex<Slot>>);

impl Opening {
    fn open(self, tunnel: Tunnel) {
        // If no clone is left, the tunnel is dropped together with the slot.
        lock(&self.0).tunnel = Some(tunnel);
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let wakers = {
            let mut slot = lock(&self.0);
            slot.is_decided = true;
            core::mem::take(&mut slot.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening").finish_non_exhaustive()
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
    opening: Opening,
    receive: RecvBody,
}

impl TunnelRequest {
    /// Adds an [`OnTunnel`] extension to a CONNECT request, and leaves an
    /// [empty](RecvBody::empty) body in it. Returns `None` for other methods.
    pub fn of(request: &mut Request<RecvBody>) -> Option<Self> {
        if request.method() != Method::CONNECT {
            return None;
        }
        let slot = Arc::<Mutex<Slot>>::default();
        request.extensions_mut().insert(OnTunnel(slot.clone()));
        Some(Self { opening: Opening(slot), receive: core::mem::take(request.body_mut()) })
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
        let Self { opening, receive } = self;
        if !response.status().is_success() {
            drop(opening);
            return responder.respond(response).await;
        }
        let send = responder.start(response.map(|_| ()));
        opening.open(Tunnel { receive, send });
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
