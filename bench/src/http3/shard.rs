//! The HTTP/3 server that runs inside its shard.

use std::collections::BTreeMap;

use bytes::Bytes;
use clearway::http3::{BodySource, Code, Handler, RequestStream};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Request, Response, StatusCode};

use super::{SINK, size_of};
use crate::pattern::{Sink, Source};

/// Responds to `/zero/N` with `N` bytes, and checks uploads to `/sink`.
#[derive(Default)]
pub(crate) struct Generator {
    /// The uploads in progress, by stream ID.
    sinks: BTreeMap<u64, Sink>,
}

impl Handler for Generator {
    fn request(&mut self, stream: &mut RequestStream<'_>, request: Request<()>) {
        let path = request.uri().path();
        match size_of(path) {
            Some(size) => {
                let mut response = Response::new(());
                response.headers_mut().insert(CONTENT_LENGTH, size.into());
                respond(stream, &response, Some(Box::new(Source::new(size))));
            }
            None if path == SINK && request.method() == Method::POST => {
                self.sinks.insert(stream.id(), Sink::new());
            }
            None => respond_with(stream, StatusCode::NOT_FOUND),
        }
    }

    fn data(&mut self, stream: &mut RequestStream<'_>, content: Bytes) {
        let id = stream.id();
        if self.sinks.get_mut(&id).is_some_and(|sink| !sink.accept(&content)) {
            self.sinks.remove(&id);
            respond_with(stream, StatusCode::BAD_REQUEST);
            stream.stop(Code::NO_ERROR);
        }
    }

    fn finished(&mut self, stream: &mut RequestStream<'_>, _trailers: Option<HeaderMap>) {
        if self.sinks.remove(&stream.id()).is_some() {
            respond_with(stream, StatusCode::OK);
        }
    }

    fn failed(&mut self, stream: u64, _code: Code) {
        self.sinks.remove(&stream);
    }
}

fn respond_with(stream: &mut RequestStream<'_>, status: StatusCode) {
    let mut response = Response::new(());
    *response.status_mut() = status;
    respond(stream, &response, None);
}

fn respond(
    stream: &mut RequestStream<'_>,
    response: &Response<()>,
    body: Option<Box<dyn BodySource>>,
) {
    if stream.respond(response, body).is_err() {
        stream.reset(Code::INTERNAL_ERROR);
    }
}

impl BodySource for Source {
    fn next(&mut self, wanted: usize) -> Option<Bytes> {
        self.take(wanted)
    }
}
