//! TCP tunnels: classic CONNECT (RFC 9114 §4.4) and draft-ietf-httpbis-connect-tcp.

use core::fmt;
use std::io;

use bytes::Bytes;
use clearway_masque::request::{self, Form};
use clearway_masque::tcp::{TcpError, TcpReceived, TcpReceiver, data_header, final_data};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::http3::{Code, Error, RecvBody, Responder, SendBody};

/// Number of bytes to read from a TCP connection at once.
const READ: usize = 64 << 10;

/// The code with which a proxy resets tunnels that it cannot continue (RFC 9114 §4.4).
const BROKEN: Code = Code::CONNECT_ERROR;

/// The reason why a TCP tunnel ended before both directions were closed.
#[derive(Debug)]
#[non_exhaustive]
pub enum TcpRelayError {
    /// The TCP connection failed.
    Tcp(io::Error),
    /// The peer sent something invalid, or less than it announced.
    Protocol(TcpError),
    /// The HTTP/3 exchange failed.
    Http(Error),
}

impl fmt::Display for TcpRelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(error) => write!(f, "the TCP connection failed: {error}"),
            Self::Protocol(error) => error.fmt(f),
            Self::Http(error) => write!(f, "the exchange failed: {error}"),
        }
    }
}

impl core::error::Error for TcpRelayError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Tcp(error) => Some(error),
            Self::Protocol(error) => Some(error),
            Self::Http(error) => Some(error),
        }
    }
}

/// Accepts a TCP tunnel, and relays between it and `stream` until both directions are closed or one
/// of the ends fails. A TCP FIN becomes the end of the stream (or FINAL_DATA), and a TCP reset
/// becomes a reset with H3_CONNECT_ERROR; the same applies in the other direction.
///
/// Returns the number of bytes to the target and to the client.
///
/// # Cancel safety
/// If the future is dropped, both connections are reset.
pub async fn relay_tcp(
    body: RecvBody,
    responder: Responder,
    stream: TcpStream,
    form: Form,
) -> (u64, u64, Result<(), TcpRelayError>) {
    relay_tcp_observed(body, responder, stream, form, &|_, _| {}).await
}

/// The direction of relayed data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    ToTarget,
    ToClient,
}

/// Relays like [`relay_tcp`], and calls `observe` with the number of bytes of each piece.
pub(super) async fn relay_tcp_observed(
    body: RecvBody,
    responder: Responder,
    stream: TcpStream,
    form: Form,
    observe: &impl Fn(Direction, u64),
) -> (u64, u64, Result<(), TcpRelayError>) {
    // Small writes are as urgent as their sender wanted them to be.
    let _ = stream.set_nodelay(true);
    let send = responder.start(request::accept(form));
    let (read, write) = stream.into_split();
    let (mut to_target, mut to_client) = (0u64, 0u64);
    let count_up = |bytes| {
        to_target = to_target.saturating_add(bytes);
        observe(Direction::ToTarget, bytes);
    };
    let count_down = |bytes| {
        to_client = to_client.saturating_add(bytes);
        observe(Direction::ToClient, bytes);
    };
    let ended = tokio::try_join!(
        upload(body, write, form, count_up),
        download(read, send, form, count_down)
    );
    (to_target, to_client, ended.map(|_| ()))
}

/// Relays from the client to the target.
async fn upload(
    mut body: RecvBody,
    mut write: OwnedWriteHalf,
    form: Form,
    count: impl FnMut(u64),
) -> Result<(), TcpRelayError> {
    let relayed = copy_to_target(&mut body, &mut write, form, count).await;
    match &relayed {
        Ok(()) => {}
        Err(error) => {
            // A close with unread data, or with this option, sends RST: the target must not take
            // what it has for the whole.
            let _ = write.as_ref().set_zero_linger();
            // Dropping it would send FIN.
            write.forget();
            let code = match error {
                TcpRelayError::Protocol(error) => error.code(),
                _ => BROKEN,
            };
            body.stop(code);
        }
    }
    relayed
}

async fn copy_to_target(
    body: &mut RecvBody,
    write: &mut OwnedWriteHalf,
    form: Form,
    mut count: impl FnMut(u64),
) -> Result<(), TcpRelayError> {
    let mut receiver = TcpReceiver::default();
    while let Some(chunk) = body.chunk().await {
        let mut chunk = chunk.map_err(TcpRelayError::Http)?;
        if form == Form::Classic {
            pass(write, &chunk, &mut count).await?;
            continue;
        }
        while let Some(received) = receiver.receive(&mut chunk).map_err(TcpRelayError::Protocol)? {
            match received {
                TcpReceived::Data(data) => pass(write, &data, &mut count).await?,
                TcpReceived::Fin => write.shutdown().await.map_err(TcpRelayError::Tcp)?,
            }
        }
    }
    if form == Form::Extended {
        return receiver.finish().map_err(TcpRelayError::Protocol);
    }
    write.shutdown().await.map_err(TcpRelayError::Tcp)
}

async fn pass(
    write: &mut OwnedWriteHalf,
    data: &Bytes,
    count: &mut impl FnMut(u64),
) -> Result<(), TcpRelayError> {
    write.write_all(data).await.map_err(TcpRelayError::Tcp)?;
    count(data.len() as u64);
    Ok(())
}

/// Relays from the target to the client.
async fn download(
    mut read: OwnedReadHalf,
    mut send: SendBody,
    form: Form,
    count: impl FnMut(u64),
) -> Result<(), TcpRelayError> {
    let relayed = copy_to_client(&mut read, &mut send, form, count).await;
    match relayed {
        Ok(()) => {
            // The client has everything, or has gone.
            let _ = send.finish().await;
            Ok(())
        }
        Err(error) => {
            send.reset(BROKEN);
            Err(error)
        }
    }
}

async fn copy_to_client(
    read: &mut OwnedReadHalf,
    send: &mut SendBody,
    form: Form,
    mut count: impl FnMut(u64),
) -> Result<(), TcpRelayError> {
    loop {
        // An idle tunnel needs no buffer.
        read.readable().await.map_err(TcpRelayError::Tcp)?;
        let mut data = bytes::BytesMut::with_capacity(READ);
        match read.try_read_buf(&mut data) {
            Ok(0) => break,
            Ok(length) => count(length as u64),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(TcpRelayError::Tcp(error)),
        }
        if form == Form::Extended {
            send.write_chunk(data_header(data.len())).await.map_err(TcpRelayError::Http)?;
        }
        // A short piece must not keep the entire buffer.
        let data = match data.len() < READ / 4 {
            true => Bytes::copy_from_slice(&data),
            false => data.freeze(),
        };
        send.write_chunk(data).await.map_err(TcpRelayError::Http)?;
    }
    if form == Form::Extended {
        send.write_chunk(final_data()).await.map_err(TcpRelayError::Http)?;
    }
    Ok(())
}
