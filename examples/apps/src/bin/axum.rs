//! Serves an axum router over HTTP/3, and requests two of its pages.
//!
//!     cargo run -p clearway-examples --bin axum

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::routing::{get, post};
use clearway::http3::{Body, Client, PROTOCOL, RecvBody, Server};
use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use clearway::{ClientConfig, Endpoint, ServerConfig};
use http::{Request, Response};
use tower_service::Service;

fn router() -> Router {
    Router::new()
        .route(
            "/hello/{name}",
            get(|Path(name): Path<String>| async move { format!("Hello {name}") }),
        )
        .route("/echo", post(|content: String| async move { content }))
}

/// Calls the router, which is always ready.
async fn answer(mut router: Router, request: Request<RecvBody>) -> Response<Body> {
    match router.call(request.map(axum::body::Body::new)).await {
        Ok(response) => response.map(Body::wrap),
        Err(impossible) => match impossible {},
    }
}

/// Requests a page, and returns its content.
async fn fetch(client: &Client, request: Request<&'static str>) -> Result<String, Box<dyn Error>> {
    let mut response = client.send(request).await?;
    let content = response.body_mut().bytes(1 << 20).await?;
    Ok(format!("{} {}", response.status().as_u16(), String::from_utf8(content.to_vec())?))
}

async fn client(
    address: SocketAddr,
    root: CertificateDer<'static>,
) -> Result<Client, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    roots.add(root)?;
    let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_roots(roots).application_protocols([PROTOCOL]);
    Ok(Client::connect(&endpoint, &config, address, "localhost").await?)
}

/// Serves the router to a client of its own, and returns the responses.
async fn run() -> Result<Vec<String>, Box<dyn Error>> {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let root = certified.cert.der().clone();
    let config = ServerConfig::new(vec![root.clone()], key.into());
    let server = Arc::new(Server::bind("127.0.0.1:0".parse()?, config)?);
    let serving = {
        let (server, router) = (server.clone(), router());
        tokio::spawn(async move { server.serve(move |it| answer(router.clone(), it)).await })
    };
    let client = client(server.local_address(), root).await?;
    let hello = Request::get("https://localhost/hello/axum").body("")?;
    let echo = Request::post("https://localhost/echo").body("echo")?;
    let pages = vec![fetch(&client, hello).await?, fetch(&client, echo).await?];
    server.shutdown().await;
    serving.await?;
    Ok(pages)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    for page in run().await? {
        println!("{page}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn the_router_responds_over_http3() {
        assert_eq!(super::run().await.unwrap(), ["200 Hello axum", "200 echo"]);
    }
}
