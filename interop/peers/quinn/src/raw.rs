//! Downloads and uploads on streams without HTTP (ALPN `perf`).

use std::time::Instant;

use anyhow::Result;
use peer_common::{PERF, RawClientOptions, RawRequest, RawServerOptions, Sink, Source, Summary};
use quinn::{Connection, ConnectionError, RecvStream, SendStream, VarInt};
use tokio::task::JoinSet;

use crate::endpoint::{self, Settings};
use crate::tls;

/// The error codes with which the client closes a connection, and with which the server resets a
/// stream with a wrong upload.
const NO_ERROR: VarInt = VarInt::from_u32(0);
const WRONG_BYTES: VarInt = VarInt::from_u32(1);

/// Serves until SIGTERM or SIGINT.
pub async fn serve(options: &RawServerOptions, mtu: Option<u16>) -> Result<()> {
    let settings = Settings { mtu, qlog: options.qlog.clone() };
    let tls = tls::server(&options.cert, &options.key, PERF)?;
    endpoint::serve(&settings, options.listen, false, tls, serve_connection).await
}

async fn serve_connection(connection: Connection) -> Result<()> {
    loop {
        let (send, receive) = match connection.accept_bi().await {
            Ok(stream) => stream,
            Err(ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        tokio::spawn(async move {
            if let Err(error) = answer(send, receive).await {
                eprintln!("stream: {error:#}");
            }
        });
    }
}

/// Answers one stream, or resets the stream if the upload is wrong.
async fn answer(mut send: SendStream, mut receive: RecvStream) -> Result<()> {
    let mut request = RawRequest::new();
    let taken = take(&mut receive, |position, bytes| request.take_at(position, bytes)).await;
    if let Err(error) = taken {
        send.reset(WRONG_BYTES)?;
        return Err(error);
    }
    send_generated(&mut send, request.finish()?).await
}

/// Runs the transfers given in the options, and prints the summary.
pub async fn transfer(options: &RawClientOptions, mtu: Option<u16>) -> Result<()> {
    let settings = Settings { mtu, qlog: options.qlog.clone() };
    let tls = tls::client(options.trusted(), PERF)?;
    let count = usize::try_from(options.connections)?;
    let (endpoint, connections) =
        endpoint::connect_all(&settings, options.address, "localhost", tls, count).await?;
    let begin = Instant::now();
    let mut running = JoinSet::new();
    for connection in &connections {
        for _ in 0..options.count {
            let (asked, uploaded) = (options.asked(), options.uploaded());
            running.spawn(transfer_one(connection.clone(), asked, uploaded));
        }
    }
    let mut responses = Vec::new();
    while let Some(bytes) = running.join_next().await {
        responses.push((200, bytes??));
    }
    let summary = Summary::new(begin, &responses);
    for connection in &connections {
        connection.close(NO_ERROR, b"");
    }
    endpoint.wait_idle().await;
    println!("{summary}");
    Ok(())
}

/// Transfers data on one stream, and returns the number of bytes downloaded or uploaded.
async fn transfer_one(connection: Connection, asked: u64, uploaded: u64) -> Result<u64> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&asked.to_be_bytes()).await?;
    send_generated(&mut send, Source::new(uploaded)).await?;
    let mut sink = Sink::of_generated(asked);
    take(&mut receive, |position, bytes| sink.take_at(position, bytes)).await?;
    Ok(uploaded + sink.finish()?)
}

async fn send_generated(send: &mut SendStream, source: Source) -> Result<()> {
    for piece in source {
        send.write_chunk(piece).await?;
    }
    Ok(send.finish()?)
}

/// Reads a stream to its end. All reads are unordered, because quinn is fastest that way, and
/// because quinn 0.11.12 delivers duplicate bytes twice if earlier bytes were read in order.
async fn take(
    receive: &mut RecvStream,
    mut taken: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    while let Some(chunk) = receive.read_chunk(usize::MAX, false).await? {
        taken(chunk.offset, &chunk.bytes)?;
    }
    Ok(())
}
