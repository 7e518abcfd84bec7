//! An HTTP/3 client: a streamed upload, interim responses, trailers, and canceling a request.
//!
//!     cargo run --example http3_client

use std::error::Error;

use clearway::http3::{Body, Client, PROTOCOL, Responder, Server};
use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::PrivatePkcs8KeyDer;
use clearway::{ClientConfig, Endpoint, ServerConfig};
use http::{HeaderMap, Request, Response};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A server for this example, with a certificate for this run.
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone())?;
    let config = ServerConfig::new(vec![certified.cert.into()], key.into());
    let server = Server::bind("127.0.0.1:0".parse()?, config)?;
    let address = server.local_address();
    tokio::spawn(async move {
        while let Some((request, responder)) = server.accept().await {
            tokio::spawn(async move {
                // An error is harmless: the client may have canceled the request.
                if let Err(error) = count(request.into_body(), responder).await {
                    println!("server: {error}");
                }
            });
        }
    });

    // `ClientConfig::with_native_roots` trusts the platform's root certificates.
    let config = ClientConfig::with_roots(roots).application_protocols([PROTOCOL]);
    let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    let client = Client::connect(&endpoint, &config, address, "localhost").await?;

    // The content is sent in pieces, and the response may arrive at the same time.
    let (sender, body) = Body::channel();
    let mut pending = client.start(Request::post("https://localhost/count").body(body)?)?;
    for _ in 0..64 {
        sender.send(vec![b'.'; 64 << 10]).await?;
    }
    sender.finish().await?;
    while let Some(interim) = pending.informational().await? {
        println!("client: {}", interim.status());
    }
    let mut response = pending.response().await?;
    let content = response.body_mut().bytes(1 << 20).await?;
    println!("client: {}: {}", response.status(), String::from_utf8_lossy(&content));
    let trailers = response.body_mut().trailers().await?;
    println!("client: trailers {trailers:?}");

    // Dropping the pending response cancels the request, also on the server.
    let (sender, body) = Body::channel();
    let pending = client.start(Request::post("https://localhost/count").body(body)?)?;
    sender.send("some").await?;
    drop(pending);
    println!("client: canceled the second upload");

    let statistics = client.statistics().await;
    println!("client: {} packets sent", statistics.packets_sent);
    client.shutdown().await;
    endpoint.wait_idle().await;
    Ok(())
}

/// Counts the bytes of an upload.
async fn count(
    mut upload: clearway::http3::RecvBody,
    mut responder: Responder,
) -> Result<(), clearway::http3::Error> {
    responder.inform(interim())?;
    let mut length = 0;
    while let Some(chunk) = upload.chunk().await {
        length += chunk?.len();
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("x-length", length.into());
    let body = Body::from(format!("{length} bytes")).with_trailers(trailers);
    responder.respond(Response::new(body)).await
}

fn interim() -> Response<()> {
    let mut interim = Response::new(());
    *interim.status_mut() = http::StatusCode::EARLY_HINTS;
    interim
}
