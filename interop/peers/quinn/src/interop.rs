//! The public interop runner's tests, over HTTP/0.9 or HTTP/3.

use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Buf;
use http::{Request, Uri};
use peer_common::{HQ, Interop, InteropClient, InteropServer, Resource, hq_path};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, RecvStream, SendStream, ServerConfig, VarInt};
use rustls::crypto::aws_lc_rs::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::{KeyLogFile, RootCertStore};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use crate::endpoint::Settings;
use crate::{endpoint, http3, tls};

/// The tests that quinn's own programs for the public runner support
/// (github.com/quinn-rs/quinn-interop), by their names in each role. In addition, the server
/// supports a preferred address (quinn::ServerConfig::preferred_address_v4).
const CLIENT: [&str; 10] = [
    "handshake",
    "transfer",
    "chacha20",
    "retry",
    "resumption",
    "zerortt",
    "http3",
    "keyupdate",
    "ecn",
    "multiconnect",
];
const SERVER: [&str; 11] = [
    "handshake",
    "transfer",
    "chacha20",
    "retry",
    "resumption",
    "zerortt",
    "http3",
    "keyupdate",
    "ecn",
    "multiconnect",
    "connectionmigration",
];

/// Maximum length of a request line.
const LONGEST_REQUEST: usize = 8 << 10;
/// Duration for which a client waits for a session ticket, which arrives at the end of the
/// handshake.
const TICKET: Duration = Duration::from_millis(100);

/// The error for an unsupported test.
#[derive(Debug)]
pub struct Unsupported;

impl std::fmt::Display for Unsupported {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("unsupported test")
    }
}

impl std::error::Error for Unsupported {}

/// Runs the task described by the environment variables.
pub async fn run() -> Result<()> {
    match Interop::from_environment(&CLIENT, &SERVER)? {
        Some(Interop::Server(server)) => serve(&server).await,
        Some(Interop::Client(client)) => download(&client).await,
        None => Err(Unsupported.into()),
    }
}

fn protocol(testcase: &str) -> &'static [u8] {
    if testcase == "http3" { b"h3" } else { HQ }
}

fn provider(testcase: &str) -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    if testcase == "chacha20" {
        provider.cipher_suites = vec![TLS13_CHACHA20_POLY1305_SHA256];
    }
    Arc::new(provider)
}

fn initial_suite() -> Result<rustls::quic::Suite> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    suite.context("no cipher suite for Initial packets")
}

async fn serve(server: &InteropServer) -> Result<()> {
    let key = PrivateKeyDer::from_pem_file(&server.key)?;
    let mut tls = rustls::ServerConfig::builder_with_provider(provider(&server.testcase))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(tls::certificates(&server.cert)?, key)?;
    tls.alpn_protocols = vec![protocol(&server.testcase).to_vec()];
    tls.key_log = Arc::new(KeyLogFile::new());
    if server.testcase == "zerortt" {
        tls.max_early_data_size = u32::MAX;
    }
    let tls = QuicServerConfig::with_initial(Arc::new(tls), initial_suite()?)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    match server.preferred {
        Some(std::net::SocketAddr::V4(address)) => drop(config.preferred_address_v4(Some(address))),
        Some(std::net::SocketAddr::V6(address)) => drop(config.preferred_address_v6(Some(address))),
        None => {}
    }
    let settings = Settings { mtu: None, qlog: server.qlog.clone() };
    let root: Arc<Path> = server.root.clone().into();
    let retry = server.testcase == "retry";
    let is_http3 = server.testcase == "http3";
    endpoint::serve_with(&settings, server.listen, retry, config, move |connection| {
        let root = Arc::clone(&root);
        async move {
            match is_http3 {
                true => http3::serve_connection(connection, root).await,
                false => serve_hq(connection, root).await,
            }
        }
    })
    .await
}

async fn serve_hq(connection: Connection, root: Arc<Path>) -> Result<()> {
    while let Ok((send, receive)) = connection.accept_bi().await {
        let root = Arc::clone(&root);
        tokio::spawn(async move {
            if let Err(error) = answer(send, receive, &root).await {
                eprintln!("request: {error:#}");
            }
        });
    }
    Ok(())
}

async fn answer(mut send: SendStream, mut receive: RecvStream, root: &Path) -> Result<()> {
    let request = receive.read_to_end(LONGEST_REQUEST).await?;
    let Some(Resource::File(file, _)) = hq_path(&request).and_then(|it| Resource::find(root, it))
    else {
        send.reset(VarInt::from_u32(0x404))?;
        bail!("not found: {}", String::from_utf8_lossy(&request));
    };
    let content = tokio::fs::read(&file).await?;
    send.write_all(&content).await?;
    send.finish()?;
    Ok(())
}

async fn download(client: &InteropClient) -> Result<()> {
    let mut roots = RootCertStore::empty();
    for certificate in tls::certificates(&client.ca)? {
        roots.add(certificate)?;
    }
    let mut tls = rustls::ClientConfig::builder_with_provider(provider(&client.testcase))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![protocol(&client.testcase).to_vec()];
    tls.key_log = Arc::new(KeyLogFile::new());
    tls.enable_early_data = client.testcase == "zerortt";
    if client.testcase == "multiconnect" {
        tls.resumption = rustls::client::Resumption::disabled();
    }
    let tls = QuicClientConfig::with_initial(Arc::new(tls), initial_suite()?)?;
    let config = ClientConfig::new(Arc::new(tls));
    // The 0-RTT test counts the bytes of all 1-RTT packets, including PMTU probes.
    let mtu = (client.testcase == "zerortt").then_some(1200);
    let settings = Settings { mtu, qlog: client.qlog.clone() };
    let endpoint = endpoint::client(&settings, client.connect)?;
    for (index, requests) in client.connections().into_iter().enumerate() {
        let mut config = config.clone();
        config.transport_config(settings.transport("client")?);
        let connecting = endpoint.connect_with(config, client.connect, client.host())?;
        let connection = match client.testcase == "zerortt" && index == 1 {
            true => match connecting.into_0rtt() {
                Ok((connection, _accepted)) => connection,
                Err(_) => bail!("0-RTT is not possible"),
            },
            false => connecting.await?,
        };
        if client.testcase == "keyupdate" {
            connection.force_key_update();
        }
        match client.testcase == "http3" {
            true => download_http3(client, &connection, requests).await?,
            false => download_hq(client, &connection, requests).await?,
        }
        tokio::time::sleep(TICKET).await;
        connection.close(VarInt::from_u32(0), b"");
    }
    endpoint.wait_idle().await;
    Ok(())
}

async fn download_hq(
    client: &InteropClient,
    connection: &Connection,
    requests: &[Uri],
) -> Result<()> {
    let mut downloads: JoinSet<Result<()>> = JoinSet::new();
    for request in requests {
        let (connection, file) = (connection.clone(), client.file(request));
        let line = format!("GET {}\r\n", request.path());
        downloads.spawn(async move {
            let (mut send, mut receive) = connection.open_bi().await?;
            send.write_all(line.as_bytes()).await?;
            send.finish()?;
            let mut file = tokio::fs::File::create(file).await?;
            while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
                file.write_all(&chunk.bytes).await?;
            }
            Ok(file.flush().await?)
        });
    }
    while let Some(result) = downloads.join_next().await {
        result??;
    }
    Ok(())
}

async fn download_http3(
    client: &InteropClient,
    connection: &Connection,
    requests: &[Uri],
) -> Result<()> {
    let (mut http, sender) = h3::client::new(h3_quinn::Connection::new(connection.clone())).await?;
    let driver = tokio::spawn(async move { poll_fn(|context| http.poll_close(context)).await });
    let mut downloads: JoinSet<Result<()>> = JoinSet::new();
    for request in requests {
        let (mut sender, file) = (sender.clone(), client.file(request));
        let request = Request::get(request).body(())?;
        downloads.spawn(async move {
            let mut stream = sender.send_request(request).await?;
            stream.finish().await?;
            let response = stream.recv_response().await?;
            anyhow::ensure!(response.status() == 200, "status {}", response.status());
            let mut file = tokio::fs::File::create(file).await?;
            while let Some(mut data) = stream.recv_data().await? {
                file.write_all(&data.copy_to_bytes(data.remaining())).await?;
            }
            Ok(file.flush().await?)
        });
    }
    while let Some(result) = downloads.join_next().await {
        result??;
    }
    driver.abort();
    Ok(())
}
