//! Downloads over HTTP/3: the server runs inside its shard, the client as a task.

use std::time::Instant;

use bytes::Bytes;
use clearway::Endpoint;
use clearway::http3::{BodySource, Client, Code, Config, Handler, RequestStream, serve_in_shard};
use http::{Request, Response, StatusCode};

use crate::pattern::{Sink, Source};
use crate::{ClientOptions, Mtu, Outcome, ServerOptions, tls};

const ALPN: &str = "h3";

pub(crate) fn serve(options: &ServerOptions, mtu: Mtu) -> Outcome {
    let config = tls::server(&options.cert, &options.key, ALPN, mtu)?;
    let endpoint = serve_in_shard(options.listen, config, Config::default(), |_| Zeros)?;
    println!("listening {}", endpoint.local_address());
    loop {
        std::thread::park();
    }
}

/// Responds to `/zero/N` with `N` bytes.
pub(crate) struct Zeros;

impl Handler for Zeros {
    fn request(&mut self, stream: &mut RequestStream<'_>, request: Request<()>) {
        let size = request.uri().path().strip_prefix("/zero/").and_then(|size| size.parse().ok());
        let mut response = Response::new(());
        let body = match size {
            Some(size) => {
                response.headers_mut().insert("content-length", u64::into(size));
                Some(Box::new(Source::new(size)) as Box<dyn BodySource>)
            }
            None => {
                *response.status_mut() = StatusCode::NOT_FOUND;
                None
            }
        };
        if stream.respond(&response, body).is_err() {
            stream.reset(Code::INTERNAL_ERROR);
        }
    }
}

impl BodySource for Source {
    fn next(&mut self, wanted: usize) -> Option<Bytes> {
        let mut next = self.peek();
        next.truncate(wanted);
        self.advance(next.len());
        (!next.is_empty()).then_some(next)
    }
}

pub(crate) fn download(options: &ClientOptions, mtu: Mtu) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(run(options, mtu))
}

async fn run(options: &ClientOptions, mtu: Mtu) -> Outcome {
    let config = tls::client(&options.ca, ALPN, mtu)?;
    let local = if options.connect.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let endpoint = Endpoint::client(local.parse()?)?;
    let client = Client::connect(&endpoint, &config, options.connect, "localhost").await?;
    let began = Instant::now();
    let request = Request::get(&options.url).body(())?;
    let response = client.send(request).await?;
    let status = response.status();
    let mut body = response.into_body();
    let mut sink = Sink::new();
    while let Some(chunk) = body.chunk().await {
        if !sink.accept(&chunk?) {
            return Err(format!("wrong bytes after {}", sink.received).into());
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(r#"{{"bytes":{},"seconds":{seconds},"status":{}}}"#, sink.received, status.as_u16());
    client.shutdown().await;
    if status == StatusCode::OK {
        Ok(())
    } else {
        Err(format!("the server responded with status {status}").into())
    }
}
