//! The HTTP/3 client, which runs in tasks on its shard's thread or in an async runtime.

use std::time::Instant;

use clearway::http3::Client;
use http::header::CONTENT_LENGTH;
use http::{Request, StatusCode};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::ALPN;
use crate::options::{ClientFace, ClientOptions, Mtu};
use crate::pattern::{Sink, Source};
use crate::{Outcome, clients, tls, transfer};

pub(crate) fn run(options: &ClientOptions, mtu: Mtu) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(LocalSet::new().run_until(transfer_all(options, mtu)))
}

async fn transfer_all(options: &ClientOptions, mtu: Mtu) -> Outcome {
    let config = tls::client(&options.ca, ALPN, mtu)?;
    let clients = clients::connect(config, options.connect, options.connections.get()).await?;
    let (sender, mut ended) = mpsc::unbounded_channel();
    let began = Instant::now();
    for client in &clients {
        let (asking, url, upload) = (client.clone(), options.url.clone(), options.upload);
        let sender = sender.clone();
        let task = async move {
            let outcome = transfer_one(&asking, &url, upload).await;
            // The receiver is gone only if another transfer has failed.
            let _ = sender.send(outcome.map_err(|error| error.to_string()));
        };
        match options.face {
            ClientFace::Async => client.spawn(task),
            ClientFace::Runtime => drop(tokio::task::spawn_local(task)),
        }
    }
    drop(sender);
    let (mut bytes, mut complete) = (0, 0);
    while let Some(outcome) = ended.recv().await {
        bytes += outcome?;
        complete += 1;
    }
    let elapsed = began.elapsed();
    // A task might not run if its connection has ended.
    if complete < clients.len() {
        return Err(format!("{} connections were lost", clients.len() - complete).into());
    }
    clients::shut_down(clients).await?;
    transfer::print(bytes, elapsed);
    Ok(())
}

/// Makes one request. Returns the number of bytes in the content of the request or the response.
async fn transfer_one(client: &Client, url: &str, upload: Option<u64>) -> Outcome<u64> {
    let response = match upload {
        Some(size) => {
            let request = Request::post(url).header(CONTENT_LENGTH, size).body(())?;
            let (mut content, response) = client.open(request)?;
            let mut source = Source::new(size);
            while let Some(chunk) = source.take(usize::MAX) {
                content.write_chunk(chunk).await?;
            }
            content.finish().await?;
            response.response().await?
        }
        None => client.send(Request::get(url).body(())?).await?,
    };
    if response.status() != StatusCode::OK {
        return Err(format!("the server responded with status {}", response.status()).into());
    }
    let mut body = response.into_body();
    let mut sink = Sink::new();
    while let Some(chunk) = body.chunk().await {
        if !sink.accept(&chunk?) {
            return Err(format!("wrong bytes after {}", sink.received).into());
        }
    }
    Ok(upload.unwrap_or(sink.received))
}
