//! Makes HTTP/1.1 requests, for code that has no async runtime.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::Request;
use http::header::HOST;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The content of a response. Reading blocks until more data arrives.
pub(crate) struct Download {
    /// The runtime that drives the connection while the caller waits.
    runtime: Runtime,
    body: Incoming,
    piece: Bytes,
}

/// Requests `path`, which begins with a slash, from the server at `address`. Must not be called
/// from an async task.
///
/// # Errors
///
/// Returns an error if there is no connection, no response, or a response with an error status. The
/// error states the reason.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<Download, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let body = runtime.block_on(request(address, path))?;
    Ok(Download { runtime, body, piece: Bytes::new() })
}

async fn request(address: SocketAddr, path: &str) -> Result<Incoming, String> {
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let stream = stream.map_err(|_| format!("{address} did not respond"))?;
    let stream = stream.map_err(|error| format!("{address}: {error}"))?;
    let failed = |error: hyper::Error| format!("{address}: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // If this fails, the request or its body reports the error.
    tokio::spawn(connection);
    let request = Request::get(path).header(HOST, address.to_string()).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| format!("{path}: {error}"))?;
    let response = sender.send_request(request).await.map_err(failed)?;
    match response.status() {
        status if status.is_success() => Ok(response.into_body()),
        status => Err(format!("{address} responded with {status}")),
    }
}

impl Read for Download {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.runtime.block_on(self.body.frame()) {
                Some(Ok(frame)) => self.piece = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Err(io::Error::other(error)),
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}
