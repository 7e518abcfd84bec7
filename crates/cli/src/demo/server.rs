//! The demo server, which responds from memory on the shard's thread.

use std::net::SocketAddr;

use bytes::Bytes;
use clearway::http3::{BodySource, Config, Handler, RequestStream, serve_in_shard};
use clearway::{Endpoint, ServerConfig, Statistics};
use http::header::CONTENT_LENGTH;
use http::{Request, Response};

use super::watch::Watch;
use crate::failure::Failure;
use crate::listening::Listening;

/// Period of the content in bytes: a prime, so that content at a wrong offset is detected.
const PERIOD: u8 = 251;
/// Size of the buffer from which content is sliced. A slice has at most this many bytes and begins
/// anywhere in the period.
const STOCK: usize = 1 << 16;

/// Returns the content byte at an offset.
pub(super) fn byte_at(offset: u64) -> u8 {
    // The remainder is less than the period and fits into a byte.
    (offset % u64::from(PERIOD)) as u8
}

/// Starts a server that responds to every request with `size` bytes.
pub(super) fn start(
    listen: SocketAddr,
    config: ServerConfig,
    size: u64,
    watch: Watch,
) -> Result<Endpoint, Failure> {
    let stock: Bytes = (0..).map(byte_at).take(STOCK + usize::from(PERIOD)).collect();
    let handler = move |_: &_| Answers { stock: stock.clone(), size, watch: watch.clone() };
    serve_in_shard(listen, config, Config::default(), handler).map_err(|error| match error {
        clearway::EndpointError::Io(error) => Listening::UDP.failed(listen, &error),
        error => Failure::new(format!("cannot serve at {listen}: {error}")),
    })
}

struct Answers {
    stock: Bytes,
    size: u64,
    watch: Watch,
}

impl Handler for Answers {
    fn request(&mut self, stream: &mut RequestStream<'_>, _request: Request<()>) {
        let mut response = Response::new(());
        response.headers_mut().insert(CONTENT_LENGTH, self.size.into());
        let content = Content { stock: self.stock.clone(), sent: 0, size: self.size };
        // This fails only if the client has canceled the request, and then no response is needed.
        let _ = stream.respond(&response, Some(Box::new(content)));
    }

    fn closed(&mut self, statistics: &Statistics) {
        self.watch.on_gone(statistics);
    }
}

/// Response content of a given size, sent without copying.
struct Content {
    stock: Bytes,
    sent: u64,
    size: u64,
}

impl BodySource for Content {
    fn next(&mut self, wanted: usize) -> Option<Bytes> {
        let left = usize::try_from(self.size - self.sent).unwrap_or(usize::MAX);
        let length = wanted.min(left).min(STOCK);
        if length == 0 {
            return None;
        }
        let start = usize::from(byte_at(self.sent));
        self.sent += length as u64;
        Some(self.stock.slice(start..start + length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_does_not_depend_on_the_size_of_the_chunks() {
        let stock: Bytes = (0..).map(byte_at).take(STOCK + usize::from(PERIOD)).collect();
        for wanted in [1000, 65_536, 1 << 20] {
            let mut content = Content { stock: stock.clone(), sent: 0, size: 200_000 };
            let mut all = Vec::new();
            while let Some(chunk) = content.next(wanted) {
                assert!(chunk.len() <= wanted);
                all.extend_from_slice(&chunk);
            }
            assert!(all.iter().copied().eq((0..200_000).map(byte_at)), "{wanted}");
        }
    }
}
