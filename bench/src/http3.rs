//! Downloads over HTTP/3: the server runs inside its shard or as tasks, the client as a task.

use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use clearway::http3::{
    Body, BodySource, Client, Code, Config, Handler, RecvBody, RequestStream, Server,
    serve_in_shard,
};
use clearway::{Endpoint, ServerConfig};
use http::{Request, Response, StatusCode};

use crate::pattern::{Sink, Source};
use crate::{ClientOptions, Mtu, Outcome, attached, tls};

const ALPN: &str = "h3";

#[derive(Args)]
pub(crate) struct ServerOptions {
    #[command(flatten)]
    server: crate::ServerOptions,
    /// Where requests are handled.
    #[arg(long, value_enum, default_value_t = Face::Shard)]
    face: Face,
    /// How many connections there may be at the same time; by default as many as the library's default.
    #[arg(long)]
    max_connections: Option<usize>,
    /// After how many seconds of silence a connection is lost.
    #[arg(long, default_value_t = 30)]
    idle_timeout: u64,
    /// End when standard input ends.
    #[arg(long)]
    attached: bool,
}

/// The ways to write a server.
#[derive(Clone, Copy, ValueEnum)]
enum Face {
    /// On the shard's thread, by a `Handler`.
    Shard,
    /// In tasks on the shard's thread.
    Async,
    /// In tasks of a runtime, on another thread.
    Runtime,
}

pub(crate) fn serve(options: &ServerOptions, mtu: Mtu) -> Outcome {
    let server = &options.server;
    let idle_timeout = Duration::from_secs(options.idle_timeout);
    let mut config = tls::server(&server.cert, &server.key, ALPN, mtu, idle_timeout)?;
    if let Some(max) = options.max_connections {
        config = config.max_connections(max);
    }
    if options.attached {
        attached::end_with_input();
    }
    match options.face {
        Face::Shard => {
            let endpoint = serve_in_shard(server.listen, config, Config::default(), |_| Zeros)?;
            println!("listening {}", endpoint.local_address());
            loop {
                std::thread::park();
            }
        }
        Face::Async | Face::Runtime => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
            runtime.block_on(serve_in_tasks(options.face, server.listen, config))
        }
    }
}

async fn serve_in_tasks(face: Face, listen: std::net::SocketAddr, config: ServerConfig) -> Outcome {
    let server = Server::bind(listen, config)?;
    println!("listening {}", server.local_address());
    match face {
        Face::Runtime => server.serve(answer).await,
        _ => server.serve_on_shards(answer).await,
    }
    Ok(())
}

async fn answer(request: Request<RecvBody>) -> Response<Body> {
    let size = request.uri().path().strip_prefix("/zero/").and_then(|size| size.parse().ok());
    let Some(size) = size else {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let mut source = Source::new(size);
    let first = source.peek();
    source.advance(first.len());
    if first.len() as u64 == size {
        return Response::new(Body::full(first));
    }
    let (sender, body) = Body::channel();
    tokio::spawn(async move {
        let mut next = first;
        while !next.is_empty() {
            if sender.send(next).await.is_err() {
                return;
            }
            next = source.peek();
            source.advance(next.len());
        }
        // This fails if the client wants no more of it.
        let _ = sender.finish().await;
    });
    let mut response = Response::new(body);
    response.headers_mut().insert("content-length", size.into());
    response
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
