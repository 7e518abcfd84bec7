//! Serving files over HTTP/0.9, as QUIC's interoperability tests use it: a stream brings `GET` and a
//! path, and the answer is the file and nothing else.

use std::net::SocketAddr;
use std::time::Instant;

use clearway::{Connection, Endpoint, RecvStream, SendStream, ServerConfig, VarInt};
use tokio::io::AsyncReadExt;

use super::files::{Files, Found};
use super::{AccessLog, cannot_serve};
use crate::failure::Failure;
use crate::http09::{NOT_FOUND, PROTOCOL};
use crate::interrupt::Interrupt;

/// The longest request line that is read, in bytes.
const MAX_REQUEST: usize = 8 << 10;
/// How much of a file is read at once, in bytes.
const CHUNK: usize = 256 << 10;

/// A server that listens.
pub(super) struct Http09(Endpoint);

impl Http09 {
    pub(super) fn bind(listen: SocketAddr, config: ServerConfig) -> Result<Self, Failure> {
        let config = config.application_protocols([PROTOCOL]);
        let endpoint = Endpoint::server(listen, config);
        endpoint.map(Self).map_err(|error| cannot_serve(listen, error))
    }

    pub(super) fn local_address(&self) -> SocketAddr {
        self.0.local_address()
    }

    /// Serves until the program is interrupted.
    pub(super) async fn run(self, files: Files, log: AccessLog, mut interrupt: Interrupt) {
        let serving = async {
            while let Some(connecting) = self.0.accept().await {
                let files = files.clone();
                tokio::spawn(async move {
                    // A client whose handshake fails has nothing to be answered.
                    if let Ok(connection) = connecting.await {
                        serve(connection, files, log).await;
                    }
                });
            }
        };
        tokio::select! {
            _ = interrupt.heard() => {}
            () = serving => {}
        }
        self.0.close(VarInt::from_u32(0), b"the server is being stopped");
        tokio::select! {
            () = self.0.wait_idle() => {}
            // Whoever asks twice does not want to wait.
            _ = interrupt.heard() => {}
        }
    }
}

async fn serve(connection: Connection, files: Files, log: AccessLog) {
    let client = connection.remote_address();
    while let Ok((send, receive)) = connection.accept_bi().await {
        let files = files.clone();
        tokio::spawn(async move { answer(client, send, receive, &files, log).await });
    }
}

async fn answer(
    client: SocketAddr,
    mut send: SendStream,
    mut receive: RecvStream,
    files: &Files,
    log: AccessLog,
) {
    let start = Instant::now();
    let request = receive.read_to_end(MAX_REQUEST).await.unwrap_or_default();
    let request = String::from_utf8_lossy(&request);
    let path = request.trim_end().strip_prefix("GET ").unwrap_or_default();
    let (status, outcome) = match files.find(path).await {
        Found::File { file, length, .. } => (200, copy(file, length, &mut send).await),
        Found::Folder | Found::Nothing => {
            // It may be over already.
            let _ = send.reset(VarInt::from_u32(NOT_FOUND));
            (404, Ok(0))
        }
    };
    log.line(Some(client), "GET", path, status, outcome, start.elapsed());
}

/// Sends `length` bytes of a file.
async fn copy(file: tokio::fs::File, length: u64, send: &mut SendStream) -> Result<u64, String> {
    let mut file = file.take(length);
    let mut sent = 0;
    loop {
        let mut chunk = bytes::BytesMut::with_capacity(CHUNK);
        let count = file.read_buf(&mut chunk).await.map_err(|error| error.to_string());
        match count {
            Ok(0) if sent == length => break,
            Ok(0) => return give_up(send, "the file has become shorter".to_owned()),
            Ok(count) => sent += count as u64,
            Err(error) => return give_up(send, error),
        }
        send.write_chunk(chunk.freeze()).await.map_err(|error| error.to_string())?;
    }
    send.finish().map_err(|error| error.to_string())?;
    // Dropping the stream would not take the data back, but only now it is known to have arrived.
    send.stopped().await.map_err(|error| error.to_string())?;
    Ok(sent)
}

/// What was cut off must not look complete.
fn give_up(send: &mut SendStream, why: String) -> Result<u64, String> {
    let _ = send.reset(VarInt::from_u32(NOT_FOUND));
    Err(why)
}
