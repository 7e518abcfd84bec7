//! One download on a connection.

use std::future::Future;
use std::time::Duration;

use clearway::http3::{Client, Error};
use clearway::{Connection, ConnectionError};
use http::header::CONTENT_LENGTH;

use super::GetCommand;
use super::connect::Session;
use super::outcome::{Outcome, check_status};
use super::progress::Progress;
use super::protocol::{Protocol, ask, request};
use super::sink::Sink;
use super::target::Target;
use super::tunnel;
use crate::failure::Failure;
use crate::foreign::Foreign;

/// Maximum number of bytes to read from a stream at a time.
const CHUNK: usize = 256 << 10;

/// Downloads `target` into `sink`, and completes the sink.
pub(super) async fn download(
    command: &GetCommand,
    session: &Session,
    target: &Target,
    sink: Sink,
    progress: &mut Progress,
) -> Result<Outcome, Failure> {
    match &session.protocol {
        Protocol::Http3(client) => match &command.tunnel {
            None => http3(command, client, session, target, sink, progress).await,
            Some(protocol) => {
                let end = tunnel::End { client, server: &session.server, target };
                end.run(protocol, command.datagrams, sink, progress).await
            }
        },
        Protocol::Http09(connection) => {
            http09(command, connection, session, target, sink, progress).await
        }
    }
}

async fn http3(
    command: &GetCommand,
    client: &Client,
    session: &Session,
    target: &Target,
    mut sink: Sink,
    progress: &mut Progress,
) -> Result<Outcome, Failure> {
    let url = Foreign(&target.uri).to_string();
    let server = &session.server;
    let answering = async {
        match session.early_http3.take(target) {
            Some(answer) => answer.await.unwrap_or(Err(Error::Closed)),
            None => client.send(request(target, command.priority)).await,
        }
    };
    let stall = Stall { limit: command.stall_timeout, url: &url };
    let response = stall.within(progress, answering).await?;
    let response = response.map_err(|error| server.unanswered(&url, &error))?;
    let status = response.status();
    check_status(&url, status, &response)?;
    let length = response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    progress.expect(length.and_then(|length| length.parse().ok()));
    let mut body = response.into_body();
    while let Some(chunk) = stall.within(progress, body.chunk()).await? {
        let chunk = chunk.map_err(|error| server.cut_off(&url, &progress.text(), &error))?;
        sink.write(&chunk).await?;
        progress.add(chunk.len());
    }
    sink.finish().await?;
    let statistics = client.statistics().await;
    let key_exchange_group = client.key_exchange_group();
    Ok(Outcome { status: Some(status.as_u16()), statistics, key_exchange_group })
}

/// The timeout after which a stalled download fails.
struct Stall<'a> {
    /// The timeout; zero if there is none.
    limit: Duration,
    url: &'a str,
}

impl Stall<'_> {
    /// Waits for the next part of a response, until the timeout.
    async fn within<T>(
        &self,
        progress: &Progress,
        next: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        if self.limit.is_zero() {
            return Ok(next.await);
        }
        tokio::time::timeout(self.limit, next).await.map_err(|_| {
            let received = match progress.received() {
                0 => "no part of the response was received".to_owned(),
                _ => format!("{} were received", progress.text()),
            };
            let Self { limit, url } = self;
            Failure::new(format!(
                "{url}: the server is reachable, but has sent no part of the response for {limit:?}; {received}"
            ))
            .advise("try again, or raise --stall-timeout")
        })
    }
}

async fn http09(
    command: &GetCommand,
    connection: &Connection,
    session: &Session,
    target: &Target,
    mut sink: Sink,
    progress: &mut Progress,
) -> Result<Outcome, Failure> {
    let url = Foreign(&target.uri).to_string();
    let server = &session.server;
    let answering = async {
        match session.early_http09.take(target) {
            Some(answer) => answer.await.unwrap_or(Err(Box::new(ConnectionError::LocallyClosed))),
            None => ask(connection, target.path()).await,
        }
    };
    let stall = Stall { limit: command.stall_timeout, url: &url };
    let stream = stall.within(progress, answering).await?;
    let mut stream = stream.map_err(|error| server.unanswered(&url, &*error))?;
    loop {
        let chunk = stall.within(progress, stream.read_chunk(CHUNK)).await?;
        let chunk = chunk.map_err(|error| match progress.received() {
            0 => server.unanswered(&url, &error),
            _ => server.cut_off(&url, &progress.text(), &error),
        })?;
        let Some(chunk) = chunk else { break };
        sink.write(&chunk).await?;
        progress.add(chunk.len());
    }
    sink.finish().await?;
    let (statistics, key_exchange_group) =
        (connection.statistics(), connection.key_exchange_group());
    Ok(Outcome { status: None, statistics, key_exchange_group })
}

#[cfg(test)]
#[path = "download_tests.rs"]
mod tests;
