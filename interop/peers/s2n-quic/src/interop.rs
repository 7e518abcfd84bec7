//! The public interop runner's tests, over HTTP/0.9.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result};
use peer_common::{HQ, Interop, InteropClient, InteropServer, Resource, hq_path};
use s2n_quic::client::Connect;
use s2n_quic::provider::endpoint_limits;
use s2n_quic::provider::tls::default as tls;
use s2n_quic::stream::BidirectionalStream;
use s2n_quic::{Client, Connection, Server};
use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::endpoint::other;

/// The tests that s2n-quic's own program for the public runner supports (quic/s2n-quic-qns in its
/// repository), by their names in each role, except http3.
const CLIENT: [&str; 5] = ["handshake", "transfer", "retry", "multiconnect", "ecn"];
const SERVER: [&str; 8] = [
    "handshake",
    "transfer",
    "chacha20",
    "retry",
    "resumption",
    "multiconnect",
    "ecn",
    "connectionmigration",
];

/// Maximum length of a request line.
const LONGEST_REQUEST: usize = 8 << 10;
/// Maximum length of a certificate chain. s2n-tls counts the root as well.
const LONGEST_CHAIN: u16 = 11;

/// Runs the task described by the environment variables. Returns `false` if the test is not
/// supported.
pub async fn run() -> Result<bool> {
    match Interop::from_environment(&CLIENT, &SERVER)? {
        Some(Interop::Server(server)) => serve(&server).await?,
        Some(Interop::Client(client)) => download(&client).await?,
        None => return Ok(false),
    }
    Ok(true)
}

async fn serve(server: &InteropServer) -> Result<()> {
    let mut builder = tls::Server::builder()
        .with_certificate(server.cert.as_path(), server.key.as_path())
        .map_err(other)?
        .with_application_protocols([HQ])
        .map_err(other)?
        .with_key_logging()
        .map_err(other)?;
    if server.testcase == "resumption" {
        let config = builder.config_mut();
        config.enable_session_tickets(true).map_err(other)?;
        config
            .add_session_ticket_key(b"interop", &[7; 32], SystemTime::UNIX_EPOCH)
            .map_err(other)?;
    }
    // With a limit of zero handshakes in flight, every client is answered with a Retry packet.
    let handshakes = if server.testcase == "retry" { 0 } else { 1000 };
    let limits = endpoint_limits::Default::builder()
        .with_inflight_handshake_limit(handshakes)
        .map_err(other)?
        .build()
        .map_err(other)?;
    let mut listening = Server::builder()
        .with_tls(builder.build().map_err(other)?)
        .map_err(other)?
        .with_endpoint_limits(limits)
        .map_err(other)?
        .with_io(server.listen)?
        .start()
        .map_err(other)?;
    println!("listening {}", listening.local_addr()?);
    let root: Arc<Path> = server.root.clone().into();
    let mut terminate = signal(SignalKind::terminate())?;
    loop {
        let connection = tokio::select! {
            connection = listening.accept() => connection.context("the server stopped accepting \
                connections")?,
            _ = terminate.recv() => return Ok(()),
        };
        tokio::spawn(serve_connection(connection, root.clone()));
    }
}

async fn serve_connection(mut connection: Connection, root: Arc<Path>) {
    while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
        let root = root.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(stream, &root).await {
                eprintln!("request: {error:#}");
            }
        });
    }
}

async fn answer(stream: BidirectionalStream, root: &Path) -> Result<()> {
    let (mut receive, mut send) = stream.split();
    let mut request = Vec::new();
    while let Some(chunk) = receive.receive().await? {
        request.extend_from_slice(&chunk);
        anyhow::ensure!(request.len() <= LONGEST_REQUEST, "the request is too long");
    }
    let found = hq_path(&request).and_then(|path| Resource::find(root, path));
    let Some(Resource::File(file, _)) = found else {
        send.reset(0x404_u32.into())?;
        return Ok(());
    };
    let content = tokio::fs::read(&file).await?;
    send.write_all(&content).await?;
    send.close().await?;
    Ok(())
}

async fn download(client: &InteropClient) -> Result<()> {
    let tls = tls::Client::builder()
        .with_certificate(client.ca.as_path())
        .map_err(other)?
        .with_max_cert_chain_depth(LONGEST_CHAIN)
        .map_err(other)?
        .with_application_protocols([HQ])
        .map_err(other)?
        .with_key_logging()
        .map_err(other)?
        .build()
        .map_err(other)?;
    let local = if client.connect.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let mut endpoint =
        Client::builder().with_tls(tls).map_err(other)?.with_io(local)?.start().map_err(other)?;
    for requests in client.connections() {
        let connect = Connect::new(client.connect).with_server_name(client.host());
        let connection = endpoint.connect(connect).await?;
        let mut downloads: JoinSet<Result<()>> = JoinSet::new();
        for request in requests {
            let mut handle = connection.handle();
            let (file, line) = (client.file(request), format!("GET {}\r\n", request.path()));
            downloads.spawn(async move {
                let stream = handle.open_bidirectional_stream().await?;
                let (mut receive, mut send) = stream.split();
                send.write_all(line.as_bytes()).await?;
                send.finish()?;
                let mut file = tokio::fs::File::create(file).await?;
                while let Some(chunk) = receive.receive().await? {
                    file.write_all(&chunk).await?;
                }
                Ok(file.flush().await?)
            });
        }
        while let Some(result) = downloads.join_next().await {
            result??;
        }
        connection.close(0_u32.into());
    }
    endpoint.wait_idle().await?;
    Ok(())
}
