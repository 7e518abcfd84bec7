//! Both raw-stream endpoints, running in tasks on the threads of their shards.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clearway::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig, VarInt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{OPENING, REQUEST_LEN, Transfer};
use crate::pattern::{Sink, Source};
use crate::{Outcome, transfer};

pub(super) fn serve(listen: SocketAddr, config: ServerConfig) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let endpoint = Endpoint::server(listen, config)?;
        println!("listening {}", endpoint.local_address());
        while let Some(connecting) = endpoint.accept().await {
            tokio::spawn(async move {
                // Clients that do not complete the handshake are not part of the benchmark.
                if let Ok(connection) = connecting.await {
                    connection.clone().spawn(accept(connection));
                }
            });
        }
        Ok(())
    })
}

async fn accept(connection: Connection) {
    while let Ok((send, receive)) = connection.accept_bi().await {
        connection.spawn(async move {
            // If a client has gone, its streams need no response and can simply be dropped.
            let _ = answer(send, receive).await;
        });
    }
}

async fn answer(mut send: SendStream, mut receive: RecvStream) -> Outcome {
    let mut asked = Vec::new();
    let mut sink = Sink::new();
    while let Some(mut chunk) = receive.read_chunk(usize::MAX).await? {
        let missing = REQUEST_LEN - asked.len();
        asked.extend_from_slice(&chunk.split_to(missing.min(chunk.len())));
        if !sink.accept(&chunk) {
            receive.stop(VarInt::from_u32(1))?;
            send.reset(VarInt::from_u32(1))?;
            return Ok(());
        }
    }
    let Ok(length) = asked.as_slice().try_into() else {
        send.reset(VarInt::from_u32(1))?;
        return Ok(());
    };
    write(&mut send, Source::new(u64::from_be_bytes(length))).await
}

/// Writes all data, and ends the stream.
async fn write(send: &mut SendStream, mut source: Source) -> Outcome {
    while let Some(chunk) = source.take(usize::MAX) {
        send.write_chunk(chunk).await?;
    }
    send.finish()?;
    Ok(())
}

/// Opens all connections, and then runs the transfers on them. Returns the duration of the
/// transfers.
pub(super) fn run(
    config: &ClientConfig,
    remote: SocketAddr,
    count: usize,
    transfer: Transfer,
) -> Outcome<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(transfer_all(config, remote, count, transfer))
}

async fn transfer_all(
    config: &ClientConfig,
    remote: SocketAddr,
    count: usize,
    transfer: Transfer,
) -> Outcome<Duration> {
    let endpoint = Endpoint::client(transfer::local_address(remote))?;
    let connections = connect(&endpoint, config, remote, count).await?;
    let (sender, mut ended) = mpsc::unbounded_channel();
    let began = Instant::now();
    for connection in &connections {
        let (opening, sender) = (connection.clone(), sender.clone());
        connection.spawn(async move {
            let outcome = transfer_one(&opening, transfer).await;
            // The receiver is gone only if another transfer has failed.
            let _ = sender.send(outcome.map_err(|error| error.to_string()));
        });
    }
    drop(sender);
    let mut left = count;
    while let Some(outcome) = ended.recv().await {
        outcome?;
        left -= 1;
    }
    let elapsed = began.elapsed();
    // A task might not run if its connection has ended.
    if left > 0 {
        return Err(format!("{left} connections were lost").into());
    }
    for connection in &connections {
        connection.close(VarInt::ZERO, b"");
    }
    endpoint.wait_idle().await;
    Ok(elapsed)
}

async fn connect(
    endpoint: &Endpoint,
    config: &ClientConfig,
    remote: SocketAddr,
    count: usize,
) -> Outcome<Vec<Connection>> {
    let mut opening = JoinSet::new();
    let mut open = Vec::new();
    for begun in 0..count {
        if begun >= open.len() + OPENING
            && let Some(connection) = opening.join_next().await
        {
            open.push(connection??);
        }
        let connecting = endpoint.connect_with(config, remote, "localhost")?;
        opening.spawn(connecting);
    }
    while let Some(connection) = opening.join_next().await {
        open.push(connection??);
    }
    Ok(open)
}

async fn transfer_one(connection: &Connection, transfer: Transfer) -> Outcome {
    let (mut send, mut receive) = connection.open_bi().await?;
    let asked: [u8; REQUEST_LEN] = transfer.asked.to_be_bytes();
    send.write_chunk(Bytes::copy_from_slice(&asked)).await?;
    write(&mut send, Source::new(transfer.uploaded)).await?;
    let mut sink = Sink::new();
    while let Some(chunk) = receive.read_chunk(usize::MAX).await? {
        if !sink.accept(&chunk) {
            return Err(format!("wrong bytes after {}", sink.received).into());
        }
    }
    match sink.received == transfer.asked {
        true => Ok(()),
        false => Err(format!("{} of {} bytes were received", sink.received, transfer.asked).into()),
    }
}
