//! A client connection that makes requests over HTTP/3 or on raw streams.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::ValueEnum;
use clearway::http3::Client as Http3Client;
use clearway::{ClientConfig, Endpoint};
use http::{Request, StatusCode, Uri};
use tokio::sync::oneshot;

use super::messages::{Ended, Messages};
use crate::pattern::Sink;
use crate::{http3, raw};

/// Protocol of the connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Protocol {
    /// HTTP/3, in tasks on the threads of the shards.
    Http3,
    /// A stream for each request, in the shards themselves.
    Raw,
}

impl Protocol {
    pub(super) fn alpn(self) -> &'static str {
        match self {
            Self::Http3 => http3::ALPN,
            Self::Raw => raw::ALPN,
        }
    }
}

/// The response that a request asks for.
pub(super) struct Wanted {
    pub(super) url: Uri,
    /// The size of the response in bytes.
    pub(super) size: u64,
}

/// A connection that is open or has been open.
pub(super) enum Client {
    Http3(Http3Client),
    Raw(Messages),
}

impl Client {
    /// Opens a connection.
    pub(super) async fn connect(
        protocol: Protocol,
        endpoint: &Endpoint,
        config: &ClientConfig,
        remote: SocketAddr,
    ) -> Result<Self, String> {
        match protocol {
            Protocol::Http3 => {
                let client = Http3Client::connect(endpoint, config, remote, "localhost").await;
                client.map(Self::Http3).map_err(|error| error.to_string())
            }
            Protocol::Raw => Messages::connect(endpoint, config, remote).await.map(Self::Raw),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Http3(client) => client.is_open(),
            Self::Raw(messages) => messages.is_open(),
        }
    }

    /// Makes one request on the shard's thread and checks the response.
    pub(super) fn ask(&self, wanted: &Arc<Wanted>, ended: Ended) {
        match self {
            Self::Http3(client) => {
                let (asking, wanted) = (client.clone(), wanted.clone());
                client.spawn(async move { ended(over_http3(&asking, &wanted).await) });
            }
            Self::Raw(messages) => messages.ask(wanted.size, ended),
        }
    }

    /// Makes one request and waits until the response has been checked.
    pub(super) async fn ask_now(&self, wanted: &Arc<Wanted>) -> Result<(), String> {
        let (sender, ended) = oneshot::channel();
        // The receiver is gone if the caller has stopped waiting.
        self.ask(wanted, Box::new(|outcome| drop(sender.send(outcome))));
        ended.await.unwrap_or_else(|_| Err("the endpoint has ended".to_owned()))
    }
}

async fn over_http3(client: &Http3Client, wanted: &Wanted) -> Result<(), String> {
    let request = Request::get(wanted.url.clone()).body(()).map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    let status = response.status();
    let (mut body, mut sink) = (response.into_body(), Sink::new());
    while let Some(chunk) = body.chunk().await {
        let chunk = chunk.map_err(|error| error.to_string())?;
        if !sink.accept(&chunk) {
            return Err(format!("wrong bytes after {}", sink.received));
        }
    }
    if status != StatusCode::OK || sink.received != wanted.size {
        return Err(format!("status {status}, {} of {} bytes", sink.received, wanted.size));
    }
    Ok(())
}
