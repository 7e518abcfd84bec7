use std::future::poll_fn;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, Result};
use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3::quic::{Connection, OpenStreams, RecvStream, SendStream};
use http::Request;
use http::header::CONTENT_LENGTH;
use peer_common::{ClientOptions, PARALLEL, Sink, Source, Summary};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_local};

/// One client connection. Requests are made on clones of this value.
pub struct Client<O: OpenStreams<Bytes>>(pub(crate) SendRequest<O, Bytes>);

impl<O: OpenStreams<Bytes> + Clone + 'static> Client<O> {
    /// Starts HTTP/3 on a connection whose handshake is complete. Must be called and used in a
    /// `LocalSet`.
    pub async fn new<C>(connection: C) -> Result<Self>
    where
        C: Connection<Bytes, OpenStreams = O> + 'static,
    {
        let (mut http, requests) = h3::client::new(connection).await?;
        spawn_local(async move { poll_fn(|context| http.poll_close(context)).await });
        Ok(Self(requests))
    }
}

impl<O: OpenStreams<Bytes> + Clone> Clone for Client<O> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Makes the requests given in the options, on all connections concurrently.
pub async fn download<O>(options: &ClientOptions, clients: &[Client<O>]) -> Result<Summary>
where
    O: OpenStreams<Bytes> + Clone + 'static,
{
    let options = Rc::new(options.clone());
    let begin = Instant::now();
    let mut running = JoinSet::new();
    for (client, first) in clients.iter().zip((0..).step_by(usize::try_from(options.count)?)) {
        let permits = Rc::new(Semaphore::new(PARALLEL));
        for index in first..first + options.count {
            let (options, permits) = (Rc::clone(&options), Rc::clone(&permits));
            let client = client.clone();
            running.spawn_local(async move {
                let _permit = permits.acquire().await?;
                exchange(&options, client, index).await
            });
        }
    }
    let mut responses = Vec::new();
    while let Some(response) = running.join_next().await {
        responses.push(response??);
    }
    Ok(Summary::new(begin, &responses))
}

/// Makes one request. Returns the status, and the number of bytes downloaded or uploaded.
async fn exchange<O>(
    options: &ClientOptions,
    mut client: Client<O>,
    index: u64,
) -> Result<(u16, u64)>
where
    O: OpenStreams<Bytes>,
    O::BidiStream: SendStream<Bytes> + RecvStream,
{
    let mut sink = Sink::new(options, index)?;
    let request = match options.upload {
        Some(bytes) => Request::post(&options.url).header(CONTENT_LENGTH, bytes),
        None => Request::get(&options.url),
    };
    let mut stream = client.0.send_request(request.body(())?).await?;
    for piece in Source::new(options.upload.unwrap_or(0)) {
        stream.send_data(piece).await.context("uploading")?;
    }
    stream.finish().await?;
    let response = stream.recv_response().await.context("waiting for the response")?;
    let status = response.status().as_u16();
    let announced = response.headers().get(CONTENT_LENGTH);
    sink.start(status, announced.and_then(|value| value.to_str().ok()?.parse().ok()))?;
    while let Some(mut data) = stream.recv_data().await? {
        while data.has_remaining() {
            let length = data.chunk().len();
            sink.take(data.chunk())?;
            data.advance(length);
        }
    }
    let received = sink.finish()?;
    Ok((status, options.upload.unwrap_or(received)))
}
