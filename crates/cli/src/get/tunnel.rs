//! A tunnel (extended CONNECT, RFC 9220) between standard input and output.

use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{Client, Datagrams, Error, Protocol, SendBody};
use http::{Method, Request};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use super::explain::Server;
use super::outcome::{Outcome, check_status};
use super::progress::Progress;
use super::sink::Sink;
use super::target::Target;
use crate::failure::Failure;
use crate::foreign::Foreign;

/// Maximum number of bytes of standard input to send at a time.
const CHUNK: usize = 64 << 10;

/// Maximum time to wait for a datagram after the last one was sent or received.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The local end of a tunnel.
pub(super) struct End<'a> {
    pub(super) client: &'a Client,
    pub(super) server: &'a Server,
    pub(super) target: &'a Target,
}

impl End<'_> {
    /// Opens the tunnel, and uses it until both directions have ended.
    pub(super) async fn run(
        self,
        protocol: &Protocol,
        uses_datagrams: bool,
        mut sink: Sink,
        progress: &mut Progress,
    ) -> Result<Outcome, Failure> {
        let url = Foreign(&self.target.uri).to_string();
        let mut request = Request::new(());
        *request.method_mut() = Method::CONNECT;
        *request.uri_mut() = self.target.uri.clone();
        request.extensions_mut().insert(protocol.clone());
        let failed = |error: Error| self.server.cut_off(&url, "no response", &error);
        let (send, pending) = self.client.open(request).map_err(failed)?;
        let datagrams = pending.datagrams();
        let response = pending.response().await.map_err(failed)?;
        let status = response.status();
        check_status(&url, status, &response)?;
        let mut body = response.into_body();
        if uses_datagrams {
            self.exchange(datagrams, &mut sink, progress).await?;
            self.sent(send.finish().await, progress)?;
        } else {
            let mut sending = std::pin::pin!(send_input(send));
            let mut is_sent = false;
            loop {
                tokio::select! {
                    sent = &mut sending, if !is_sent => {
                        is_sent = true;
                        self.sent(sent?, progress)?;
                    }
                    chunk = body.chunk() => {
                        let Some(chunk) = chunk else { break };
                        let chunk = self.sent(chunk, progress)?;
                        sink.write(&chunk).await?;
                        progress.add(chunk.len());
                    }
                }
            }
        }
        sink.finish().await?;
        let statistics = self.client.statistics().await;
        let key_exchange_group = self.client.key_exchange_group();
        Ok(Outcome { status: Some(status.as_u16()), statistics, key_exchange_group })
    }

    /// Sends lines as datagrams, and writes received datagrams as lines.
    async fn exchange(
        &self,
        mut datagrams: Datagrams,
        sink: &mut Sink,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let (mut waits, mut has_ended) = (0u64, false);
        while !has_ended || waits > 0 {
            tokio::select! {
                line = lines.next_line(), if !has_ended => {
                    match line.map_err(|error| unread(&error))? {
                        Some(line) => {
                            self.sent(datagrams.send(line), progress)?;
                            waits = waits.saturating_add(1);
                        }
                        None => has_ended = true,
                    }
                }
                received = datagrams.receive() => {
                    let Some(received) = received else { return Ok(()) };
                    let received = self.sent(received, progress)?;
                    waits = waits.saturating_sub(1);
                    sink.write(&received).await?;
                    sink.write(b"\n").await?;
                    progress.add(received.len());
                }
                () = tokio::time::sleep(TIMEOUT), if has_ended => return Ok(()),
            }
        }
        Ok(())
    }

    /// Converts an error that ended the tunnel into a failure with an explanation.
    fn sent<T>(&self, outcome: Result<T, Error>, progress: &Progress) -> Result<T, Failure> {
        let url = Foreign(&self.target.uri).to_string();
        outcome.map_err(|error| self.server.cut_off(&url, &progress.text(), &error))
    }
}

/// Sends standard input until EOF.
async fn send_input(mut send: SendBody) -> Result<Result<(), Error>, Failure> {
    let mut input = tokio::io::stdin();
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = input.read(&mut buffer).await.map_err(|error| unread(&error))?;
        if length == 0 {
            return Ok(send.finish().await);
        }
        let chunk = Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default());
        if let Err(error) = send.write_chunk(chunk).await {
            return Ok(Err(error));
        }
    }
}

fn unread(error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot read standard input: {error}"))
}
