//! An HTTP/3 server: a greeting, a streamed echo, and a graceful shutdown.
//!
//!     cargo run --example http3_server

use std::error::Error;
use std::sync::Arc;

use clearway::http3::{Body, Client, PROTOCOL, RecvBody, Server};
use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::PrivatePkcs8KeyDer;
use clearway::{ClientConfig, Endpoint, ServerConfig};
use http::{Request, Response, StatusCode};

/// Responds to one request. The request body and the response body are both streamed.
async fn answer(request: Request<RecvBody>) -> Response<Body> {
    println!("server: {} {}", request.method(), request.uri().path());
    match request.uri().path() {
        "/" => Response::new(Body::from("Nobody may stop here.\n")),
        // Echoes content as it arrives; flow control slows down a client that does not read.
        "/echo" => Response::new(Body::from(request.into_body())),
        _ => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A certificate for this run. A real server reads its certificate and key from files.
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone())?;

    let config = ServerConfig::new(vec![certified.cert.into()], key.into());
    let server = Arc::new(Server::bind("127.0.0.1:0".parse()?, config)?);
    let address = server.local_address();
    println!("server: listening on https://{address}");
    let serving = {
        let server = server.clone();
        tokio::spawn(async move { server.serve(answer).await })
    };

    let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_roots(roots).application_protocols([PROTOCOL]);
    let client = Client::connect(&endpoint, &config, address, "localhost").await?;
    for (method, path, body) in
        [("GET", "/", ""), ("POST", "/echo", "echo\n"), ("GET", "/nowhere", "")]
    {
        let uri = format!("https://localhost{path}");
        let request = Request::builder().method(method).uri(uri).body(body)?;
        let mut response = client.send(request).await?;
        let content = response.body_mut().bytes(1 << 20).await?;
        let text = String::from_utf8_lossy(&content);
        println!("client: {method} {path}: {}: {:?}", response.status(), text);
    }

    // Rejects new requests, waits for requests in progress, and closes the connections.
    server.shutdown().await;
    serving.await?;
    println!("server: every client was served");
    Ok(())
}
