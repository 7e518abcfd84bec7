//! Downloads and uploads on streams without HTTP (ALPN `perf`).

use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use peer_common::{PERF, RawClientOptions, RawRequest, RawServerOptions, Sink, Source, Summary};
use s2n_quic::connection::Handle;
use s2n_quic::stream::{BidirectionalStream, ReceiveStream, SendStream};
use s2n_quic::{Connection, connection};
use tokio::task::JoinSet;

use crate::endpoint;

/// The error codes with which the client closes a connection, and with which the server resets a
/// stream with a wrong upload.
const NO_ERROR: u32 = 0;
const WRONG_BYTES: u32 = 1;
/// Number of chunks to read from a stream per call.
const PIECES: usize = 64;

/// Serves until SIGTERM or SIGINT.
pub async fn serve(options: &RawServerOptions, mtu: Option<u16>) -> Result<()> {
    endpoint::no_qlog(options.qlog.as_deref())?;
    let tls = endpoint::server_tls(&options.cert, &options.key, PERF)?;
    endpoint::serve(options.listen, mtu, false, tls, serve_connection).await
}

pub async fn serve_connection(mut connection: Connection) -> Result<()> {
    loop {
        match connection.accept_bidirectional_stream().await {
            Ok(Some(stream)) => {
                tokio::spawn(async move {
                    if let Err(error) = answer(stream).await {
                        eprintln!("stream: {error:#}");
                    }
                });
            }
            Ok(None)
            | Err(connection::Error::Application { .. } | connection::Error::Closed { .. }) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn answer(stream: BidirectionalStream) -> Result<()> {
    let (mut receive, mut send) = stream.split();
    let mut request = RawRequest::new();
    if let Err(error) = take(&mut receive, |bytes| request.take(bytes)).await {
        send.reset(WRONG_BYTES.into())?;
        return Err(error);
    }
    send_generated(&mut send, request.finish()?).await
}

/// Runs the transfers given in the options, and prints the summary.
pub async fn transfer(options: &RawClientOptions, mtu: Option<u16>) -> Result<()> {
    endpoint::no_qlog(options.qlog.as_deref())?;
    let tls = endpoint::client_tls(options.trusted(), PERF)?;
    let client = endpoint::client(options.address, mtu, tls)?;
    let count = usize::try_from(options.connections)?;
    let connections = endpoint::connect_all(&client, options.address, "localhost", count).await?;
    let begin = Instant::now();
    let mut running = JoinSet::new();
    for connection in &connections {
        for _ in 0..options.count {
            let (asked, uploaded) = (options.asked(), options.uploaded());
            running.spawn(transfer_one(connection.handle(), asked, uploaded));
        }
    }
    let mut responses = Vec::new();
    while let Some(bytes) = running.join_next().await {
        responses.push((200, bytes??));
    }
    let summary = Summary::new(begin, &responses);
    for connection in connections {
        connection.close(NO_ERROR.into());
    }
    endpoint::close(client).await;
    println!("{summary}");
    Ok(())
}

/// Transfers data on one stream, and returns the number of bytes downloaded or uploaded.
async fn transfer_one(mut connection: Handle, asked: u64, uploaded: u64) -> Result<u64> {
    let (mut receive, mut send) = connection.open_bidirectional_stream().await?.split();
    send.send(Bytes::copy_from_slice(&asked.to_be_bytes())).await?;
    send_generated(&mut send, Source::new(uploaded)).await?;
    let mut sink = Sink::of_generated(asked);
    take(&mut receive, |bytes| sink.take(bytes)).await?;
    Ok(uploaded + sink.finish()?)
}

async fn send_generated(send: &mut SendStream, source: Source) -> Result<()> {
    for piece in source {
        send.send(piece).await?;
    }
    Ok(send.finish()?)
}

/// Reads a stream to its end.
async fn take(
    receive: &mut ReceiveStream,
    mut taken: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut pieces = [const { Bytes::new() }; PIECES];
    loop {
        let (count, is_open) = receive.receive_vectored(&mut pieces).await?;
        for piece in &mut pieces[..count] {
            taken(&std::mem::take(piece))?;
        }
        if !is_open {
            return Ok(());
        }
    }
}
