use std::fs::File;
use std::future::Future;
use std::io::BufWriter;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, QlogConfig, Runtime, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::signal::unix::{SignalKind, signal};

use crate::segments::Segments;

/// The error code with which both endpoints close the connection (RFC 9114 section 8.1, H3_NO_ERROR).
pub const NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// Socket buffer size to request from the kernel in each direction; the kernel may grant less.
const SOCKET_BUFFER: usize = 8 << 20;
const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
const SEND_WINDOW: u64 = 16 << 20;
/// Maximum number of concurrent handshakes of a client.
const OPENING: usize = 32;

/// Settings of an endpoint's connections.
#[derive(Clone)]
pub struct Settings {
    /// Size of full-size datagrams from the start; `None` enables path MTU discovery.
    pub mtu: Option<u16>,
    /// Directory for qlog files.
    pub qlog: Option<PathBuf>,
}

impl Settings {
    pub fn transport(&self, side: &str) -> Result<Arc<TransportConfig>> {
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(STREAM_WINDOW.into())
            .receive_window(CONNECTION_WINDOW.into())
            .send_window(SEND_WINDOW)
            .max_concurrent_bidi_streams(VarInt::from_u32(256));
        if let Some(mtu) = self.mtu {
            transport.initial_mtu(mtu).min_mtu(mtu).mtu_discovery_config(None);
        }
        if let Some(directory) = &self.qlog {
            transport.qlog_stream(qlog(directory, side)?.into_stream());
        }
        Ok(Arc::new(transport))
    }

    fn endpoint(&self, address: SocketAddr, server: Option<ServerConfig>) -> Result<Endpoint> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_recv_buffer_size(SOCKET_BUFFER)?;
        socket.set_send_buffer_size(SOCKET_BUFFER)?;
        socket.bind(&address.into()).with_context(|| format!("binding {address}"))?;
        let mut config = EndpointConfig::default();
        let largest = self.mtu.map_or(config.get_max_udp_payload_size(), u64::from);
        let largest = largest.max(config.get_max_udp_payload_size());
        config.max_udp_payload_size(u16::try_from(largest)?)?;
        let runtime = Arc::new(TokioRuntime);
        let mut socket = runtime.wrap_udp_socket(UdpSocket::from(socket))?;
        if let Some(mtu) = self.mtu {
            socket = Arc::new(Segments::new(socket, mtu));
        }
        Ok(Endpoint::new_with_abstract_socket(config, server, socket, runtime)?)
    }
}

/// Serves until SIGTERM or SIGINT; `each` handles one connection.
pub async fn serve<F, Fut>(
    settings: &Settings,
    address: SocketAddr,
    retry: bool,
    tls: Arc<QuicServerConfig>,
    each: F,
) -> Result<()>
where
    F: Fn(Connection) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    serve_with(settings, address, retry, ServerConfig::with_crypto(tls), each).await
}

/// Like [`serve`], with settings in addition to the TLS configuration.
pub async fn serve_with<F, Fut>(
    settings: &Settings,
    address: SocketAddr,
    retry: bool,
    config: ServerConfig,
    each: F,
) -> Result<()>
where
    F: Fn(Connection) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    let endpoint = settings.endpoint(address, Some(config.clone()))?;
    println!("listening {}", endpoint.local_addr()?);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        };
        let Some(incoming) = incoming else { break };
        if retry && !incoming.remote_address_validated() {
            incoming.retry()?;
            continue;
        }
        let mut config = config.clone();
        config.transport_config(settings.transport("server")?);
        let each = each.clone();
        let connecting = match incoming.accept_with(Arc::new(config)) {
            Ok(connecting) => connecting,
            Err(error) => {
                eprintln!("connection not accepted: {error}");
                continue;
            }
        };
        tokio::spawn(async move {
            let result = async move { each(connecting.await?).await };
            if let Err(error) = result.await {
                eprintln!("connection: {error:#}");
            }
        });
    }
    endpoint.close(NO_ERROR, b"");
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    Ok(())
}

/// Returns an endpoint for a client of the server at `address`.
pub fn client(settings: &Settings, address: SocketAddr) -> Result<Endpoint> {
    let local: SocketAddr =
        if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0; 16], 0).into() };
    settings.endpoint(local, None)
}

/// Opens `count` connections to `name` at `address` over a single socket, and completes their
/// handshakes.
pub async fn connect_all(
    settings: &Settings,
    address: SocketAddr,
    name: &str,
    tls: Arc<QuicClientConfig>,
    count: usize,
) -> Result<(Endpoint, Vec<Connection>)> {
    let endpoint = client(settings, address)?;
    let mut connections = Vec::new();
    while connections.len() < count {
        let mut opening = Vec::new();
        for _ in connections.len()..count.min(connections.len() + OPENING) {
            let mut config = ClientConfig::new(tls.clone());
            config.transport_config(settings.transport("client")?);
            let connecting = endpoint.connect_with(config, address, name)?;
            opening.push(tokio::spawn(connecting));
        }
        for connection in opening {
            connections.push(connection.await??);
        }
    }
    Ok((endpoint, connections))
}

fn qlog(directory: &Path, side: &str) -> Result<QlogConfig> {
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let path = directory.join(format!("quinn-{nanoseconds}-{side}.sqlog"));
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    let mut config = QlogConfig::default();
    config.writer(Box::new(BufWriter::new(file))).title(Some(format!("quinn {side}")));
    Ok(config)
}
