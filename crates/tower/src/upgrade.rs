//! The extensions from which frameworks for hyper open WebSockets and other tunnels.
//!
//! Only hyper can create an `OnUpgrade`. So its HTTP/1.1 server upgrades a connection that exists
//! only in memory: hyper receives a constant request, its response is discarded, and from then on
//! the connection is the tunnel.

use core::convert::Infallible;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker, ready};
use std::io;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use clearway::http3::{OnTunnel, Protocol, Tunnel};
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The request that hyper receives.
const REQUEST: &[u8] =
    b"GET / HTTP/1.1\r\nhost: tunnel\r\nconnection: upgrade\r\nupgrade: tunnel\r\n\r\n";

/// The end of the response that hyper sends.
const END: &[u8] = b"\r\n\r\n";

/// Adds hyper's extensions to a CONNECT request that has an [`OnTunnel`].
pub(crate) fn add_extensions<B>(request: &mut Request<B>) {
    let Some(tunnel) = OnTunnel::of(request) else { return };
    let extensions = request.extensions_mut();
    if let Some(protocol) = extensions.get::<Protocol>() {
        let protocol = hyper::ext::Protocol::from(protocol.as_str());
        extensions.insert(protocol);
    }
    if let Some(on_upgrade) = on_upgrade(tunnel) {
        extensions.insert(on_upgrade);
    }
}

/// Returns the extension that resolves to the tunnel.
fn on_upgrade(tunnel: OnTunnel) -> Option<OnUpgrade> {
    let upgrade = Mutex::new(None);
    let service = service_fn(|request: Request<Incoming>| {
        let on_upgrade = hyper::upgrade::on(request);
        *upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some(on_upgrade);
        core::future::ready(switching_protocols())
    });
    let connection = Connection { request: REQUEST, matched: 0, state: State::Waiting(tunnel) };
    let connection = http1::Builder::new().serve_connection(TokioIo::new(connection), service);
    let mut connection = pin!(connection.with_upgrades());
    // Neither the connection nor the service has to wait, so one call completes the upgrade.
    let polled = connection.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    if !matches!(polled, Poll::Ready(Ok(()))) {
        tracing::error!("hyper cannot upgrade a CONNECT request; it has no OnUpgrade extension");
        return None;
    }
    upgrade.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Returns the response of the HTTP/1.1 server.
fn switching_protocols() -> Result<Response<Nothing>, Infallible> {
    let mut response = Response::new(Nothing);
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("tunnel"));
    Ok(response)
}

/// An empty body.
struct Nothing;

impl Body for Nothing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}

/// A connection over which hyper first receives [`REQUEST`] and sends a response, and which then is
/// the tunnel.
struct Connection {
    /// The rest of the request.
    request: &'static [u8],
    /// Number of bytes of [`END`] that the response ends with; all of them after its end.
    matched: usize,
    state: State,
}

enum State {
    /// The response to the CONNECT request has not been sent.
    Waiting(OnTunnel),
    Open(Tunnel),
    Refused,
}

impl Connection {
    fn poll_tunnel(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Pin<&mut Tunnel>>> {
        if let State::Waiting(tunnel) = &mut self.state {
            self.state = match ready!(Pin::new(tunnel).poll(context)) {
                Ok(tunnel) => State::Open(tunnel),
                Err(_) => State::Refused,
            };
        }
        Poll::Ready(match &mut self.state {
            State::Open(tunnel) => Ok(Pin::new(tunnel)),
            _ => Err(io::Error::new(
                io::ErrorKind::NotConnected,
                "the CONNECT request was refused or canceled",
            )),
        })
    }

    /// Discards what belongs to hyper's response, and returns its length.
    fn discard(&mut self, data: &[u8]) -> usize {
        let mut discarded = 0;
        for byte in data {
            match END.get(self.matched) {
                None => break,
                Some(expected) if expected == byte => self.matched += 1,
                Some(_) => self.matched = usize::from(END.first() == Some(byte)),
            }
            discarded += 1;
        }
        discarded
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.request.is_empty() {
            let (part, rest) = self.request.split_at(self.request.len().min(buffer.remaining()));
            buffer.put_slice(part);
            self.request = rest;
            return Poll::Ready(Ok(()));
        }
        if self.matched < END.len() {
            // hyper receives only one request.
            return Poll::Pending;
        }
        ready!(self.poll_tunnel(context))?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.discard(data) {
            0 => ready!(self.poll_tunnel(context))?.poll_write(context, data),
            discarded => Poll::Ready(Ok(discarded)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Open(tunnel) => Pin::new(tunnel).poll_flush(context),
            // Nothing was written to the tunnel.
            State::Waiting(_) | State::Refused => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_tunnel(context))?.poll_shutdown(context)
    }
}

impl Drop for Connection {
    /// Ends the stream, as dropping a TCP connection does.
    fn drop(&mut self) {
        if let State::Open(tunnel) = &mut self.state
            && !std::thread::panicking()
        {
            // All bytes and the end are sent even if this has to wait.
            let _ = Pin::new(tunnel).poll_shutdown(&mut Context::from_waker(Waker::noop()));
        }
    }
}
