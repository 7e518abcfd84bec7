//! Serves an axum router over HTTP/3, and over HTTP/2 and HTTP/1.1 on the same port.
//!
//!     cargo run -p clearway-examples --bin axum [ADDRESS]
//!     curl --http3-only --insecure https://localhost:4433/hello/axum
//!
//! For HTTP/3 alone, three lines are enough:
//!
//!     let app = Router::new().route("/", get(|| async { "hello" }));
//!     let server = clearway::http3::Server::bind("[::]:4433".parse()?, config)?;
//!     clearway_tower::serve(&server, app).await;

mod router;

#[cfg(test)]
mod main_tests;

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::ConnectInfo;
use clearway::http3::{Config, Server};
use clearway::{Identity, ServerConfig};
use clearway_tower::Serve;
use tokio::net::TcpListener;

/// The address without an argument.
const ADDRESS: &str = "[::]:4433";

/// Limit on the time until a response begins.
const TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let address = std::env::args().nth(1).unwrap_or_else(|| ADDRESS.to_owned());
    let config = ServerConfig::with_identity(self_signed()?);
    let tls = config.tls_over_tcp(["h2", "http/1.1"])?;

    let server = Server::bind_with(address.parse()?, config, http3())?;
    let listener = TcpListener::bind(server.local_address()).await?;
    println!("serving https://localhost:{}/", server.local_address().port());
    Serve::new(router::router(TIMEOUT))
        .connect_info(ConnectInfo::<SocketAddr>)
        .tcp(listener, tls)
        .graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .run(&server)
        .await;
    Ok(())
}

/// Returns the settings with which clients may open WebSockets (RFC 9220).
fn http3() -> Config {
    Config { extended_connect: true, ..Config::default() }
}

/// Creates a certificate for `localhost`, which no client trusts.
fn self_signed() -> Result<Identity, Box<dyn Error>> {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let (chain, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    Ok(Identity::from_pem(chain.as_bytes(), key.as_bytes())?)
}
