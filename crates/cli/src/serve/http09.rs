//! Serving files over HTTP/0.9 as in QUIC's interoperability tests: a request is a stream with `GET` and a
//! path, and the response is just the content of the file.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clearway::http3::Timeouts;
use clearway::{Connection, Endpoint, RecvStream, SendStream, ServerConfig, VarInt, WriteError};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::answering::{AllAnswered, Answering};
use super::files::{Files, Found};
use super::restart::{Cause, Ending};
use super::store::{PIECE, Reader};
use super::{AccessLog, cannot_serve};
use crate::failure::Failure;
use crate::http09::{NOT_FOUND, PROTOCOL};

/// The maximum length of a request line, in bytes.
const MAX_REQUEST: usize = 8 << 10;

/// The reason to log when a response was reset in favor of other responses.
const SHORT: &str = "reset because memory is low and the client accepts no data";

/// The served files, and the settings for serving them.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) files: Files,
    pub(super) log: AccessLog,
    pub(super) timeouts: Timeouts,
    pub(super) _answering: Answering,
}

/// A listening HTTP/0.9 server.
pub(super) struct Http09(Endpoint);

impl Http09 {
    pub(super) fn bind(listen: SocketAddr, config: ServerConfig) -> Result<Self, Failure> {
        let config = config.application_protocols([PROTOCOL]);
        let endpoint = Endpoint::server(listen, config);
        endpoint.map(Self).map_err(|error| cannot_serve(listen, error))
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.0
    }

    /// Serves until the program is interrupted, or until it was replaced and its clients have
    /// closed their connections.
    pub(super) async fn run(self, site: Site, mut ending: Ending, mut all_answered: AllAnswered) {
        let serving = accept(self.0.clone(), site);
        let cause = tokio::select! {
            cause = ending.begin(&self.0) => cause,
            // The endpoint accepts no more clients.
            () = serving => match self.0.failure() {
                Some(_) => return,
                None => Cause::Replaced,
            },
        };
        if cause == Cause::Interrupted {
            self.0.close(VarInt::from_u32(0), b"the server is shutting down");
        }
        let shutdown = async {
            self.0.wait_idle().await;
            all_answered.wait().await;
        };
        ending.complete(cause, shutdown).await;
    }
}

/// Serves connections while clients can connect.
pub(super) async fn accept(endpoint: Endpoint, site: Site) {
    while let Some(connecting) = endpoint.accept().await {
        let site = site.clone();
        tokio::spawn(async move {
            // Requests in early data are answered immediately: a replayed read of a file is
            // harmless.
            let connection = match connecting.into_0rtt().await {
                Ok((connection, _)) => Ok(connection),
                Err(connecting) => connecting.await,
            };
            // A client whose handshake fails has made no request.
            if let Ok(connection) = connection {
                serve(connection, site).await;
            }
        });
    }
}

async fn serve(connection: Connection, site: Site) {
    let client = connection.remote_address();
    while let Ok((send, receive)) = connection.accept_bi().await {
        let site = site.clone();
        let connection = connection.clone();
        tokio::spawn(async move { answer(&connection, client, send, receive, &site).await });
    }
}

async fn answer(
    connection: &Connection,
    client: SocketAddr,
    mut send: SendStream,
    mut receive: RecvStream,
    site: &Site,
) {
    let Site { files, log, timeouts, .. } = site;
    let (log, start) = (*log, Instant::now());
    let request = read(&mut receive, timeouts.request).await.unwrap_or_default();
    let request = String::from_utf8_lossy(&request);
    let path = request.trim_end().strip_prefix("GET ").unwrap_or_default();
    let (status, outcome) = match files.find(client, path).await {
        Found::File(file) => {
            let length = file.identity.length;
            let reader = file.read(client, &files.store, 0, length);
            let sent = send_file(connection, reader, &mut send, timeouts.send).await;
            if let Err(problem) = &sent {
                if problem == SHORT {
                    log.problem(path, problem);
                }
                // A partial file must not look complete. Resetting fails only if the stream is
                // already closed.
                let _ = send.reset(VarInt::from_u32(NOT_FOUND));
            }
            (200, sent.map(|()| length))
        }
        found => {
            // Resetting fails only if the stream is already closed.
            let _ = send.reset(VarInt::from_u32(NOT_FOUND));
            match found {
                Found::Forbidden(error) => refused(log, path, 403, &error),
                Found::Busy(error) => refused(log, path, 503, &error),
                Found::Failed(error) => refused(log, path, 500, &error),
                _ => (404, Ok(0)),
            }
        }
    };
    log.line(Some(client), "GET", path, status, outcome, start.elapsed());
}

/// Logs an error with a status code, which HTTP/0.9 responses do not have.
fn refused(
    log: AccessLog,
    path: &str,
    status: u16,
    error: &std::io::Error,
) -> (u16, Result<u64, String>) {
    log.problem(path, &error.to_string());
    (status, Ok(0))
}

/// Reads a request. Returns `None` if it is too long, or if no data arrives within `limit`.
async fn read(receive: &mut RecvStream, limit: Duration) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    while let Some(chunk) = timeout(limit, receive.read_chunk(MAX_REQUEST)).await.ok()?.ok()? {
        if chunk.len() > MAX_REQUEST - request.len() {
            return None;
        }
        request.extend_from_slice(&chunk);
    }
    Some(request)
}

/// Sends a file. Gives up if the client accepts no data within `limit`, or accepts none while
/// memory is low.
async fn send_file(
    connection: &Connection,
    reader: Reader,
    send: &mut SendStream,
    limit: Duration,
) -> Result<(), String> {
    let short = Arc::new(Notify::new());
    let told = short.clone();
    reader.on_shortage(move || told.notify_one());
    tokio::select! {
        sent = copy(connection, reader, send, limit) => sent,
        () = short.notified() => {
            Err(SHORT.to_owned())
        }
    }
}

/// Copies a file to a stream.
async fn copy(
    connection: &Connection,
    mut reader: Reader,
    send: &mut SendStream,
    limit: Duration,
) -> Result<(), String> {
    while !reader.is_at_end() {
        let credit = within(limit, send.credit(PIECE)).await?;
        let piece = reader.next(credit).await.map_err(|error| error.to_string())?;
        // The last piece and the end of the stream are sent together.
        match reader.is_at_end() {
            true => within(limit, send.finish_with(piece)).await?,
            false => within(limit, send.write_chunk(piece)).await?,
        }
    }
    // An empty file has no last piece.
    let _ = send.finish();
    // The data would be delivered even without waiting, but the outcome is known only after it was
    // acknowledged.
    delivered(connection, send, limit).await
}

/// Waits until the client has acknowledged everything. Gives up if it acknowledges nothing for
/// `limit`. The stream is not blocked by flow control: there was credit for all data.
async fn delivered(
    connection: &Connection,
    send: &mut SendStream,
    limit: Duration,
) -> Result<(), String> {
    loop {
        let before = connection.statistics().bytes_acknowledged;
        match within(limit, send.stopped()).await {
            Err(_) if connection.statistics().bytes_acknowledged > before => {}
            Ok(Some(code)) => return Err(WriteError::Stopped(code).to_string()),
            outcome => return outcome.map(|_| ()),
        }
    }
}

/// Waits for an operation that depends on the client, up to a time limit.
async fn within<T, E: std::fmt::Display>(
    limit: Duration,
    waiting: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(limit, waiting).await {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(_) => Err(format!("reset because the client has accepted no data for {limit:?}")),
    }
}

#[cfg(test)]
#[path = "http09_tests.rs"]
mod tests;
