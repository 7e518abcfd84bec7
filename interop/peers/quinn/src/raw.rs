//! Downloads on streams without HTTP: the client opens a bidirectional stream and sends a length (8 bytes, big-endian),
//! the server responds with that many bytes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use peer_common::PATTERN;
use quinn::{Connection, ConnectionError, RecvStream, SendStream, VarInt};
use tokio::task::JoinSet;

use crate::endpoint::{self, Settings};
use crate::tls;

const ALPN: &[u8] = b"perf";
const NO_ERROR: VarInt = VarInt::from_u32(0);

/// Options of `raw-server`.
#[derive(clap::Args)]
pub struct ServerOptions {
    /// Address to listen on; port 0 takes any free port.
    #[arg(long)]
    listen: SocketAddr,
    /// Certificate chain, PEM.
    #[arg(long)]
    cert: PathBuf,
    /// Private key, PEM.
    #[arg(long)]
    key: PathBuf,
    /// Directory for qlog files, one per connection.
    #[arg(long)]
    qlog: Option<PathBuf>,
}

/// Options of `raw-client`.
#[derive(clap::Args)]
pub struct ClientOptions {
    /// Certificate to trust, PEM.
    #[arg(long, required_unless_present = "insecure")]
    ca: Option<PathBuf>,
    /// Trust any certificate.
    #[arg(long)]
    insecure: bool,
    /// Number of bytes to request on each stream.
    #[arg(long)]
    bytes: u64,
    /// Number of concurrent streams.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Directory for qlog files, one per connection.
    #[arg(long)]
    qlog: Option<PathBuf>,
    /// The address of the server, whose certificate must be for `localhost`.
    address: SocketAddr,
}

/// Serves until SIGTERM or SIGINT.
pub async fn serve(options: &ServerOptions, mtu: Option<u16>) -> Result<()> {
    let settings = Settings { mtu, qlog: options.qlog.clone() };
    let tls = tls::server(&options.cert, &options.key, ALPN)?;
    endpoint::serve(&settings, options.listen, false, tls, serve_connection).await
}

async fn serve_connection(connection: Connection) -> Result<()> {
    loop {
        let (send, receive) = match connection.accept_bi().await {
            Ok(stream) => stream,
            Err(ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        tokio::spawn(async move {
            if let Err(error) = answer(send, receive).await {
                eprintln!("stream: {error:#}");
            }
        });
    }
}

async fn answer(mut send: SendStream, mut receive: RecvStream) -> Result<()> {
    let mut length = [0; 8];
    receive.read_exact(&mut length).await?;
    let mut length = u64::from_be_bytes(length);
    while length > 0 {
        let chunk = Bytes::from_static(&PATTERN[..length.min(PATTERN.len() as u64) as usize]);
        length -= chunk.len() as u64;
        send.write_chunk(chunk).await?;
    }
    send.finish()?;
    Ok(())
}

/// Downloads and prints `{"bytes":…,"seconds":…}`.
pub async fn download(options: &ClientOptions, mtu: Option<u16>) -> Result<()> {
    let settings = Settings { mtu, qlog: options.qlog.clone() };
    let ca = options.ca.as_deref().filter(|_| !options.insecure);
    let tls = tls::client(ca, ALPN)?;
    let (endpoint, connection) =
        endpoint::connect(&settings, options.address, "localhost", tls).await?;
    let begin = Instant::now();
    let mut downloads = JoinSet::new();
    for _ in 0..options.count {
        downloads.spawn(download_one(connection.clone(), options.bytes));
    }
    let mut bytes = 0;
    while let Some(received) = downloads.join_next().await {
        bytes += received??;
    }
    let seconds = begin.elapsed().as_secs_f64();
    connection.close(NO_ERROR, b"");
    endpoint.wait_idle().await;
    println!(r#"{{"bytes":{bytes},"seconds":{seconds:.6}}}"#);
    Ok(())
}

async fn download_one(connection: Connection, bytes: u64) -> Result<u64> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&bytes.to_be_bytes()).await?;
    send.finish()?;
    let mut received = 0;
    // Unordered, because the order does not matter here, and this is how quinn is fastest.
    while let Some(chunk) = receive.read_chunk(usize::MAX, false).await? {
        received += chunk.bytes.len() as u64;
    }
    ensure!(received == bytes, "the stream ended after {received} of {bytes} bytes");
    Ok(received)
}
