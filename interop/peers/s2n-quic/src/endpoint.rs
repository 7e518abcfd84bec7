use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use s2n_quic::client::Connect;
use s2n_quic::provider::endpoint_limits;
use s2n_quic::provider::io;
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::default as tls;
use s2n_quic::{Client, Connection, Server};
use tokio::signal::unix::{SignalKind, signal};

/// Socket buffer size to request from the kernel in each direction; the kernel may grant less.
const SOCKET_BUFFER: usize = 8 << 20;
// The same flow control windows as the other peers use.
const STREAM_WINDOW: u64 = 16 << 20;
const CONNECTION_WINDOW: u64 = 64 << 20;
const SEND_BUFFER: u32 = 16 << 20;
const STREAMS: u64 = 256;
/// Length of the IPv4 and UDP headers, which s2n-quic counts as part of the path's MTU.
const HEADERS_LEN: u16 = 28;
/// Maximum number of concurrent handshakes of a client.
const OPENING: usize = 32;
/// Duration for which a client waits until its connections are closed.
const CLOSING: Duration = Duration::from_secs(1);

/// Converts an error of one of s2n-quic's builders, not all of which implement the standard
/// library's `Error`.
pub fn other(error: impl std::fmt::Debug) -> anyhow::Error {
    anyhow!("{error:?}")
}

/// Returns an error if a directory for qlog files was given.
pub fn no_qlog(directory: Option<&Path>) -> Result<()> {
    ensure!(directory.is_none(), "s2n-quic does not write qlog files; omit --qlog");
    Ok(())
}

fn limits() -> Result<Limits> {
    Limits::new()
        .with_data_window(CONNECTION_WINDOW)
        .and_then(|limits| limits.with_bidirectional_local_data_window(STREAM_WINDOW))
        .and_then(|limits| limits.with_bidirectional_remote_data_window(STREAM_WINDOW))
        .and_then(|limits| limits.with_max_send_buffer_size(SEND_BUFFER))
        .and_then(|limits| limits.with_max_open_local_bidirectional_streams(STREAMS))
        .and_then(|limits| limits.with_max_open_remote_bidirectional_streams(STREAMS))
        .map_err(other)
}

/// Returns the sockets of an endpoint at `address`, where `mtu` is the size of full-size datagrams
/// in bytes.
fn sockets(address: SocketAddr, mtu: Option<u16>) -> Result<io::Default> {
    let mut builder = io::Default::builder()
        .with_receive_address(address)?
        .with_recv_buffer_size(SOCKET_BUFFER)?
        .with_send_buffer_size(SOCKET_BUFFER)?;
    if let Some(mtu) = mtu {
        let packet = mtu + HEADERS_LEN;
        builder = builder.with_max_mtu(packet)?.with_initial_mtu(packet)?.with_base_mtu(packet)?;
    }
    builder.build().with_context(|| format!("binding {address}"))
}

/// Returns a server's TLS configuration for one ALPN protocol.
pub fn server_tls(cert: &Path, key: &Path, alpn: &[u8]) -> Result<tls::server::Builder> {
    tls::Server::builder()
        .with_certificate(cert, key)
        .map_err(other)
        .with_context(|| format!("reading {} and {}", cert.display(), key.display()))?
        .with_application_protocols([alpn])
        .map_err(other)
}

/// Returns the TLS configuration of a client that trusts the certificates in `ca`.
pub fn client_tls(ca: Option<&Path>, alpn: &[u8]) -> Result<tls::client::Builder> {
    let ca = ca.context("s2n-quic always checks the certificate; use --ca")?;
    tls::Client::builder()
        .with_certificate(ca)
        .map_err(other)
        .with_context(|| format!("reading {}", ca.display()))?
        .with_application_protocols([alpn])
        .map_err(other)
}

/// Serves until SIGTERM or SIGINT; `each` handles one connection.
pub async fn serve<F, Fut>(
    listen: SocketAddr,
    mtu: Option<u16>,
    retry: bool,
    tls: tls::server::Builder,
    each: F,
) -> Result<()>
where
    F: Fn(Connection) -> Fut,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    let mut handshakes = endpoint_limits::Default::builder();
    if retry {
        // With a limit of zero handshakes in flight, every client is answered with a Retry packet.
        handshakes = handshakes.with_inflight_handshake_limit(0).map_err(other)?;
    }
    let mut server = Server::builder()
        .with_tls(tls.build().map_err(other)?)
        .map_err(other)?
        .with_endpoint_limits(handshakes.build().map_err(other)?)
        .map_err(other)?
        .with_limits(limits()?)
        .map_err(other)?
        .with_io(sockets(listen, mtu)?)
        .map_err(other)?
        .start()
        .map_err(other)?;
    println!("listening {}", server.local_addr()?);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    loop {
        let connection = tokio::select! {
            connection = server.accept() => connection.context("the server stopped accepting \
                connections")?,
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        };
        let served = each(connection);
        tokio::spawn(async move {
            if let Err(error) = served.await {
                eprintln!("connection: {error:#}");
            }
        });
    }
}

/// Returns an endpoint for a client of the server at `address`.
pub fn client(address: SocketAddr, mtu: Option<u16>, tls: tls::client::Builder) -> Result<Client> {
    let local: SocketAddr =
        if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0; 16], 0).into() };
    Client::builder()
        .with_tls(tls.build().map_err(other)?)
        .map_err(other)?
        .with_limits(limits()?)
        .map_err(other)?
        .with_io(sockets(local, mtu)?)
        .map_err(other)?
        .start()
        .map_err(other)
}

/// Opens `count` connections to `name` at `address`, and completes their handshakes.
pub async fn connect_all(
    client: &Client,
    address: SocketAddr,
    name: &str,
    count: usize,
) -> Result<Vec<Connection>> {
    let mut connections = Vec::new();
    while connections.len() < count {
        let mut opening = Vec::new();
        for _ in connections.len()..count.min(connections.len() + OPENING) {
            let connecting = client.connect(Connect::new(address).with_server_name(name));
            opening.push(tokio::spawn(connecting));
        }
        for connection in opening {
            connections.push(connection.await?.context("connecting")?);
        }
    }
    Ok(connections)
}

/// Waits until a client's connections are closed, but no longer than [`CLOSING`].
pub async fn close(mut client: Client) {
    let _ = tokio::time::timeout(CLOSING, client.wait_idle()).await;
}
