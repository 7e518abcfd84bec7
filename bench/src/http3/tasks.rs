//! The HTTP/3 server that runs in tasks, on its shard's thread or in an async runtime.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use clearway::ServerConfig;
use clearway::http3::{Body, RecvBody, Server};
use http::{Method, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};

use super::{SINK, size_of};
use crate::Outcome;
use crate::options::BusyPollOptions;
use crate::pattern::{Sink, Source};

pub(super) fn serve(
    listen: SocketAddr,
    config: ServerConfig,
    busy_poll: &BusyPollOptions,
    on_shards: bool,
) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let server = Server::bind(listen, config)?;
        busy_poll.apply(server.endpoint());
        println!("listening {}", server.local_address());
        match on_shards {
            true => server.serve_on_shards(answer).await,
            false => server.serve(answer).await,
        }
        Ok(())
    })
}

async fn answer(request: Request<RecvBody>) -> Response<Body> {
    let path = request.uri().path();
    match size_of(path) {
        Some(size) => Response::new(Body::wrap(Source::new(size))),
        None if path == SINK && request.method() == Method::POST => take(request).await,
        None => with_status(StatusCode::NOT_FOUND),
    }
}

/// Reads and checks the content of an upload.
async fn take(request: Request<RecvBody>) -> Response<Body> {
    let mut body = request.into_body();
    let mut sink = Sink::new();
    while let Some(chunk) = body.chunk().await {
        // If the upload was incomplete, nobody reads the response.
        if !chunk.is_ok_and(|chunk| sink.accept(&chunk)) {
            return with_status(StatusCode::BAD_REQUEST);
        }
    }
    with_status(StatusCode::OK)
}

fn with_status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

impl http_body::Body for Source {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.take(usize::MAX).map(|chunk| Ok(Frame::data(chunk))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}
