//! An HTTP/3 server and client for interoperability tests; `cargo xtask peers-debian` runs them.
//!
//!     peer server ADDRESS CHAIN KEY FOLDER [retry] [v2] [key-update]
//!     peer client ADDRESS CA exchange METHOD PATH BYTES
//!     peer client ADDRESS CA fetch PATH
//!     peer client ADDRESS CA many PREFIX COUNT
//!     peer client ADDRESS CA resume PATH
//!     peer client ADDRESS CA migrate PATH
//!
//! Byte `i` of any content is `i % 251`, so that the receiver can verify it.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{Body, Client, Early, PROTOCOL, RecvBody, Responder, Server};
use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::pem::PemObject;
use clearway::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use clearway::{ClientConfig, Endpoint, ServerConfig, TransportConfig, Version};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};

type Failure = Box<dyn Error + Send + Sync>;

/// The number of bytes in a chunk of generated content, a multiple of the pattern's period.
const CHUNK: usize = 251 * 64;
/// How long the client waits for the server's session ticket.
const TICKET: Duration = Duration::from_millis(300);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["server", address, chain, key, folder, options @ ..] => {
            serve(address.parse()?, chain, key, folder, options).await
        }
        ["client", address, ca, rest @ ..] => {
            let peer = Peer::new(address.parse()?, ca)?;
            let outcome = match rest {
                ["exchange", method, path, bytes] => {
                    peer.exchange(method, path, bytes.parse()?).await
                }
                ["fetch", path] => peer.fetch(path).await,
                ["many", prefix, count] => peer.many(prefix, count.parse()?).await,
                ["resume", path] => peer.resume(path).await,
                ["migrate", path] => peer.migrate(path).await,
                _ => Err("unknown command".into()),
            };
            peer.endpoint.wait_idle().await;
            outcome
        }
        _ => Err("the first argument must be server or client".into()),
    }
}

/// Returns `length` bytes of the pattern as a body that is sent in chunks.
fn pattern(length: usize) -> Body {
    let (sender, body) = Body::channel();
    tokio::spawn(async move {
        let chunk: Bytes = (0..CHUNK).map(|index| (index % 251) as u8).collect();
        for start in (0..length).step_by(CHUNK) {
            let part = chunk.slice(..CHUNK.min(length - start));
            if sender.send(part).await.is_err() {
                return;
            }
        }
        // An error means that the peer does not need the remaining content.
        let _ = sender.finish().await;
    });
    body
}

/// Reads a body to its end, and returns its length and whether it matches the pattern.
async fn verify(body: &mut RecvBody) -> Result<(usize, &'static str), Failure> {
    let (mut length, mut is_good) = (0, true);
    while let Some(chunk) = body.chunk().await {
        for byte in chunk? {
            is_good &= usize::from(byte) == length % 251;
            length += 1;
        }
    }
    Ok((length, if is_good { "good" } else { "bad" }))
}

async fn serve(
    address: SocketAddr,
    chain: &str,
    key: &str,
    folder: &str,
    options: &[&str],
) -> Result<(), Failure> {
    let chain = CertificateDer::pem_file_iter(chain)?.collect::<Result<Vec<_>, _>>()?;
    let mut config = ServerConfig::new(chain, PrivateKeyDer::from_pem_file(key)?).early_data(true);
    if options.contains(&"retry") {
        config = config.retry_above(0);
    }
    if options.contains(&"v2") {
        let versions = [Version::V2, Version::V1];
        config = config.transport(TransportConfig::builder().versions(versions).build()?);
    }
    if options.contains(&"key-update") {
        config = config.transport(TransportConfig::builder().key_update_after(Some(200)).build()?);
    }
    let server = Server::bind(address, config)?;
    println!("listening {}", server.local_address());
    while let Some((request, responder)) = server.accept().await {
        println!("{} {}", request.method(), request.uri());
        let folder = folder.to_owned();
        tokio::spawn(async move {
            if let Err(error) = answer(request, responder, &folder).await {
                println!("failed {error}");
            }
        });
    }
    Ok(())
}

async fn answer(
    request: Request<RecvBody>,
    mut responder: Responder,
    folder: &str,
) -> Result<(), Failure> {
    let path = request.uri().path().to_owned();
    let mut response = Response::new(Body::empty());
    if Early::is_in(&request) {
        response.headers_mut().insert("x-early", HeaderValue::from_static("1"));
    }
    match path.as_str() {
        "/sink" => {
            let (length, verdict) = verify(&mut request.into_body()).await?;
            *response.body_mut() = Body::from(format!("{length} {verdict}\n"));
        }
        "/echo" => *response.body_mut() = Body::from(request.into_body()),
        "/early" => *response.status_mut() = StatusCode::UNAUTHORIZED,
        "/hints" => {
            let hint = Response::builder().status(103).header("link", "</style.css>; rel=preload");
            responder.inform(hint.body(())?)?;
            *response.body_mut() = Body::from("after the hint\n");
        }
        "/trailers" => {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", HeaderValue::from_static("42"));
            *response.body_mut() = Body::from("with trailers\n").with_trailers(trailers);
        }
        _ => match std::fs::read(Path::new(folder).join(path.trim_start_matches('/'))) {
            Ok(content) => {
                if path.ends_with(".html") {
                    let html = HeaderValue::from_static("text/html");
                    response.headers_mut().insert("content-type", html);
                }
                *response.body_mut() = Body::from(content);
            }
            Err(_) => *response.status_mut() = StatusCode::NOT_FOUND,
        },
    }
    Ok(responder.respond(response).await?)
}

/// The server that a client connects to.
struct Peer {
    endpoint: Endpoint,
    config: ClientConfig,
    address: SocketAddr,
}

impl Peer {
    fn new(address: SocketAddr, ca: &str) -> Result<Self, Failure> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca)? {
            roots.add(certificate?)?;
        }
        let config =
            ClientConfig::with_roots(roots).application_protocols([PROTOCOL]).early_data(true);
        Ok(Self { endpoint: Endpoint::client("127.0.0.1:0".parse()?)?, config, address })
    }

    async fn connect(&self) -> Result<Client, Failure> {
        Ok(Client::connect(&self.endpoint, &self.config, self.address, "localhost").await?)
    }

    fn request(&self, method: &str, path: &str, body: Body) -> Result<Request<Body>, Failure> {
        let uri = format!("https://localhost:{}{path}", self.address.port());
        Ok(Request::builder().method(method).uri(uri).header("te", "trailers").body(body)?)
    }

    /// Sends a request with `bytes` bytes of content, and prints all parts of the response.
    async fn exchange(&self, method: &str, path: &str, bytes: usize) -> Result<(), Failure> {
        let client = self.connect().await?;
        let body = if bytes == 0 { Body::empty() } else { pattern(bytes) };
        let mut pending = client.start(self.request(method, path, body)?)?;
        while let Some(interim) = pending.informational().await? {
            let link = interim.headers().contains_key("link");
            println!("interim {} link={link}", interim.status().as_u16());
        }
        let mut response = pending.response().await?;
        println!("status {}", response.status().as_u16());
        let content = response.body_mut().bytes(1 << 26).await?;
        println!("content {}", String::from_utf8_lossy(&content[..content.len().min(200)]).trim());
        if let Some(trailers) = response.body_mut().trailers().await? {
            for (name, value) in &trailers {
                println!("trailer {name}: {}", value.to_str()?);
            }
        }
        client.shutdown().await;
        Ok(())
    }

    /// Downloads and verifies content of any length.
    async fn fetch(&self, path: &str) -> Result<(), Failure> {
        let client = self.connect().await?;
        let mut response = client.send(self.request("GET", path, Body::empty())?).await?;
        let (length, verdict) = verify(response.body_mut()).await?;
        println!("status {} length {length} {verdict}", response.status().as_u16());
        client.shutdown().await;
        Ok(())
    }

    /// Sends `count` concurrent requests for `PREFIX1`, `PREFIX2` and so on.
    async fn many(&self, prefix: &str, count: usize) -> Result<(), Failure> {
        let client = self.connect().await?;
        let request = |number| self.request("GET", &format!("{prefix}{number}"), Body::empty());
        let pending = (1..=count).map(|number| Ok(client.start(request(number)?)?));
        let mut good = 0;
        for pending in pending.collect::<Result<Vec<_>, Failure>>()? {
            let mut response = pending.response().await?;
            let (length, verdict) = verify(response.body_mut()).await?;
            let is_good = response.status() == StatusCode::OK && length > 0 && verdict == "good";
            good += usize::from(is_good);
        }
        println!("good {good}");
        client.shutdown().await;
        Ok(())
    }

    /// Connects twice. Prints whether early data was accepted and the status of the second
    /// response.
    async fn resume(&self, path: &str) -> Result<(), Failure> {
        for number in 1..=2 {
            let client = self.connect().await?;
            let mut response = client.send(self.request("GET", path, Body::empty())?).await?;
            let (length, verdict) = verify(response.body_mut()).await?;
            let (early, status) = (client.early_data_accepted().await, response.status().as_u16());
            println!(
                "connection {number}: status {status} length {length} {verdict} early data {early}"
            );
            tokio::time::sleep(TICKET).await;
            client.shutdown().await;
        }
        Ok(())
    }

    /// Migrates the connection to another local port in the middle of a download.
    async fn migrate(&self, path: &str) -> Result<(), Failure> {
        let client = self.connect().await?;
        let mut response = client.send(self.request("GET", path, Body::empty())?).await?;
        let moving = client.migrate("127.0.0.1:0".parse()?);
        let (moved, verified) = tokio::join!(moving, verify(response.body_mut()));
        let (length, verdict) = verified?;
        match moved {
            Ok(_) => println!("migrated; length {length} {verdict}"),
            Err(error) => println!("did not migrate: {error}; length {length} {verdict}"),
        }
        client.shutdown().await;
        Ok(())
    }
}
