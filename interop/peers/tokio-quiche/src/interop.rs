//! The public interop runner's tests, over HTTP/0.9 or HTTP/3.

use std::collections::BTreeMap;
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use futures::StreamExt;
use peer_common::{HQ, Interop, InteropClient, InteropServer, Resource, ServerOptions, hq_path};
use tokio::net::UdpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_quiche::http3::driver::{ClientH3Event, H3Event, InboundFrame, NewClientRequest};
use tokio_quiche::http3::settings::Http3Settings;
use tokio_quiche::metrics::{DefaultMetrics, Metrics};
use tokio_quiche::quic::{HandshakeInfo, QuicheConnection, connect_with_config};
use tokio_quiche::quiche::{Error, Shutdown};
use tokio_quiche::settings::{CertificateKind, Hooks, QuicSettings, TlsCertificatePaths};
use tokio_quiche::socket::{QuicListener, Socket};
use tokio_quiche::{ApplicationOverQuic, ClientH3Driver, ConnectionParams, QuicResult};

use crate::client::{self, Trust};
use crate::{server, text};

/// The tests that quiche's own programs for the public runner support (tools/qns/run_endpoint.sh in
/// its repository), by their names in each role. tokio-quiche supports 0-RTT only for servers
/// (QuicSettings::enable_early_data).
const CLIENT: [&str; 6] = ["handshake", "transfer", "retry", "resumption", "multiconnect", "http3"];
const SERVER: [&str; 8] = [
    "handshake",
    "transfer",
    "retry",
    "resumption",
    "zerortt",
    "multiconnect",
    "http3",
    "chacha20",
];

/// Handshake timeout, which is long enough for the tests with heavy loss.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Number of bytes to read from a stream per call.
const CHUNK: usize = 1 << 16;

/// Runs the task described by the environment variables. Returns `false` if the test is not
/// supported.
pub async fn run() -> Result<bool> {
    match Interop::from_environment(&CLIENT, &SERVER)? {
        Some(Interop::Server(server)) => serve(server).await?,
        Some(Interop::Client(client)) => download(client).await?,
        None => return Ok(false),
    }
    Ok(true)
}

/// Returns the settings for both roles.
fn settings(qlog: Option<&PathBuf>) -> Result<QuicSettings> {
    let mut settings = QuicSettings::default();
    settings.alpn = vec![HQ.to_vec()];
    settings.max_idle_timeout = Some(HANDSHAKE);
    settings.handshake_timeout = Some(HANDSHAKE);
    settings.qlog_dir = qlog.map(|path| text(path).map(str::to_owned)).transpose()?;
    Ok(settings)
}

async fn serve(interop: InteropServer) -> Result<()> {
    if interop.testcase == "http3" {
        let InteropServer { listen, root, cert, key, qlog, .. } = interop;
        let options = ServerOptions { listen, root, cert, key, qlog, retry: false };
        return server::serve(&options, None, false).await;
    }
    let mut settings = settings(interop.qlog.as_ref())?;
    settings.disable_client_ip_validation = interop.testcase != "retry";
    settings.enable_early_data = interop.testcase == "zerortt";
    let certificate = TlsCertificatePaths {
        cert: text(&interop.cert)?,
        private_key: text(&interop.key)?,
        kind: CertificateKind::X509,
    };
    let parameters = ConnectionParams::new_server(settings, certificate, Hooks::default());
    // Not apply_max_capabilities(): the network's devices do not support GSO, and datagrams that
    // tokio-quiche sends with GSO are lost.
    let listener = QuicListener::try_from(UdpSocket::bind(interop.listen).await?)?;
    let address = listener.socket.local_addr()?;
    let mut listeners =
        tokio_quiche::listen_with_capabilities([listener], parameters, DefaultMetrics)?;
    println!("listening {address}");
    let mut terminate = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            connection = listeners[0].next() => match connection {
                Some(Ok(connection)) => drop(connection.start(Serving::new(interop.root.clone()))),
                Some(Err(error)) => eprintln!("connection not accepted: {error}"),
                None => bail!("the listener ended"),
            },
            _ = terminate.recv() => return Ok(()),
        }
    }
}

/// A server's connection.
struct Serving {
    root: PathBuf,
    requests: BTreeMap<u64, Vec<u8>>,
    /// Response contents by stream, and the number of bytes that quiche has accepted.
    answers: BTreeMap<u64, (Vec<u8>, usize)>,
}

impl Serving {
    fn new(root: PathBuf) -> Self {
        Self { root, requests: BTreeMap::new(), answers: BTreeMap::new() }
    }

    fn answer(&mut self, connection: &mut QuicheConnection, stream: u64, request: &[u8]) {
        let found = hq_path(request).and_then(|path| Resource::find(&self.root, path));
        let content = match found {
            Some(Resource::File(file, _)) => std::fs::read(file).ok(),
            _ => None,
        };
        match content {
            Some(content) => drop(self.answers.insert(stream, (content, 0))),
            None => drop(connection.stream_shutdown(stream, Shutdown::Write, 0x404)),
        }
    }
}

impl ApplicationOverQuic for Serving {
    fn on_conn_established(
        &mut self,
        _connection: &mut QuicheConnection,
        _handshake: &HandshakeInfo,
    ) -> QuicResult<()> {
        Ok(())
    }

    fn should_act(&self) -> bool {
        true
    }

    async fn wait_for_data(&mut self, _connection: &mut QuicheConnection) -> QuicResult<()> {
        pending().await
    }

    fn process_reads(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        let mut buffer = [0; CHUNK];
        for stream in connection.readable() {
            while let Ok((length, end)) = connection.stream_recv(stream, &mut buffer) {
                self.requests.entry(stream).or_default().extend_from_slice(&buffer[..length]);
                if end {
                    let request = self.requests.remove(&stream).unwrap_or_default();
                    self.answer(connection, stream, &request);
                }
            }
        }
        Ok(())
    }

    fn process_writes(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        self.answers.retain(|stream, (content, sent)| {
            match connection.stream_send(*stream, &content[*sent..], true) {
                Ok(length) => {
                    *sent += length;
                    *sent < content.len()
                }
                Err(error) => error == Error::Done,
            }
        });
        Ok(())
    }
}

async fn download(interop: InteropClient) -> Result<()> {
    let mut session = None;
    for requests in interop.connections() {
        let path = text(&interop.ca)?;
        let mut settings = settings(interop.qlog.as_ref())?;
        settings.verify_peer = true;
        // The hook is called only if a certificate is configured, although the hook ignores that
        // certificate.
        let kind = CertificateKind::X509;
        let unused = TlsCertificatePaths { cert: path, private_key: path, kind };
        let trust = Trust { file: interop.ca.clone(), has_short_hello: true };
        let hooks = Hooks { connection_hook: Some(Arc::new(trust)) };
        if interop.testcase == "http3" {
            settings.alpn = vec![b"h3".to_vec()];
            let parameters = ConnectionParams::new_client(settings, Some(unused), hooks);
            return download_http3(&interop, &parameters).await;
        }
        let mut parameters = ConnectionParams::new_client(settings, Some(unused), hooks);
        parameters.session = session.take();
        let (report, result) = oneshot::channel();
        let waiting = requests.iter().map(|request| {
            let line = format!("GET {}\r\n", request.path());
            (line.into_bytes(), interop.file(request))
        });
        let downloading = Downloading {
            waiting: waiting.rev().collect(),
            next: 0,
            open: BTreeMap::new(),
            wants_session: interop.testcase == "resumption",
            session: None,
            report: Some(report),
        };
        let socket = socket(&interop).await?;
        connect_with_config(socket, Some(interop.host()), &parameters, downloading)
            .await
            .map_err(|error| anyhow!("connecting: {error}"))?;
        session = result.await?.map_err(|error| anyhow!(error))?;
    }
    Ok(())
}

async fn socket(interop: &InteropClient) -> Result<Socket<Arc<UdpSocket>, Arc<UdpSocket>>> {
    let local = if interop.connect.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(local).await?;
    socket.connect(interop.connect).await?;
    Ok(Socket::try_from(socket)?)
}

async fn download_http3(interop: &InteropClient, parameters: &ConnectionParams<'_>) -> Result<()> {
    let (driver, mut controller) = ClientH3Driver::new(Http3Settings::default());
    let socket = socket(interop).await?;
    let _connection = connect_with_config(socket, Some(interop.host()), parameters, driver)
        .await
        .map_err(|error| anyhow!("connecting: {error}"))?;
    let requests = controller.request_sender();
    for (request_id, request) in (0..).zip(&interop.requests) {
        let headers = client::headers(request, None);
        let request = NewClientRequest { request_id, headers, body_writer: None };
        requests.send(request).map_err(|_| anyhow!("the connection is closed"))?;
    }
    let mut files = BTreeMap::new();
    let mut downloads: JoinSet<Result<()>> = JoinSet::new();
    while downloads.len() < interop.requests.len() {
        match controller.event_receiver_mut().recv().await {
            Some(ClientH3Event::NewOutboundRequest { request_id, stream_id }) => {
                let request = &interop.requests[usize::try_from(request_id)?];
                files.insert(stream_id, interop.file(request));
            }
            Some(ClientH3Event::Core(H3Event::IncomingHeaders(mut response))) => {
                let file = files.remove(&response.stream_id);
                let file = file.ok_or_else(|| anyhow!("a response without a request"))?;
                downloads.spawn(async move {
                    let (mut content, mut is_complete) = (Vec::new(), response.read_fin);
                    while !is_complete {
                        match response.recv.recv().await {
                            Some(InboundFrame::Body(bytes, last)) => {
                                content.extend_from_slice(&bytes);
                                is_complete = last;
                            }
                            Some(InboundFrame::Datagram(_)) => {}
                            None => bail!("the stream ended early"),
                        }
                    }
                    Ok(std::fs::write(file, content)?)
                });
            }
            Some(ClientH3Event::Core(H3Event::ConnectionError(error))) => return Err(error.into()),
            Some(_) => {}
            None => bail!("the connection ended"),
        }
    }
    while let Some(result) = downloads.join_next().await {
        result??;
    }
    client::close(controller).await;
    Ok(())
}

/// A client's connection.
struct Downloading {
    /// Pending requests in reverse order, with the files for their responses.
    waiting: Vec<(Vec<u8>, PathBuf)>,
    /// The ID of the next stream to open.
    next: u64,
    open: BTreeMap<u64, (PathBuf, Vec<u8>)>,
    /// Whether to store a session for the next connection.
    wants_session: bool,
    session: Option<Vec<u8>>,
    report: Option<oneshot::Sender<Result<Option<Vec<u8>>, String>>>,
}

impl Downloading {
    fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.open.is_empty()
    }
}

impl ApplicationOverQuic for Downloading {
    fn on_conn_established(
        &mut self,
        _connection: &mut QuicheConnection,
        _handshake: &HandshakeInfo,
    ) -> QuicResult<()> {
        Ok(())
    }

    fn should_act(&self) -> bool {
        true
    }

    async fn wait_for_data(&mut self, _connection: &mut QuicheConnection) -> QuicResult<()> {
        pending().await
    }

    fn process_reads(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        let mut buffer = [0; CHUNK];
        for stream in connection.readable() {
            while let Ok((length, _)) = connection.stream_recv(stream, &mut buffer) {
                let Some((_, content)) = self.open.get_mut(&stream) else { break };
                content.extend_from_slice(&buffer[..length]);
            }
        }
        // quiche 0.30.0 does not report a stream as readable if the end of the stream arrives
        // together with bytes that were already read.
        let finished = self.open.extract_if(.., |stream, _| connection.stream_finished(*stream));
        for (_, (file, content)) in finished {
            std::fs::write(file, content)?;
        }
        Ok(())
    }

    fn process_writes(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        while let Some((line, _)) = self.waiting.last_mut() {
            match connection.stream_send(self.next, line, true) {
                // The congestion window may be too small for the whole request; the rest is sent
                // later.
                Ok(sent) if sent < line.len() => drop(line.drain(..sent)),
                Ok(_) => {
                    let (_, file) = self.waiting.pop().unwrap_or_default();
                    self.open.insert(self.next, (file, Vec::new()));
                    self.next += 4;
                }
                Err(Error::Done | Error::StreamLimit) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.session = connection.session().map(<[u8]>::to_vec).or(self.session.take());
        if self.is_done() && (self.session.is_some() || !self.wants_session) {
            let _ = connection.close(true, 0, b"");
        }
        Ok(())
    }

    fn on_conn_close<M: Metrics>(
        &mut self,
        connection: &mut QuicheConnection,
        _metrics: &M,
        result: &QuicResult<()>,
    ) {
        let outcome = match self.is_done() {
            true => Ok(self.session.take()),
            false => Err(format!("{result:?}, peer: {:?}", connection.peer_error())),
        };
        if let Some(report) = self.report.take() {
            let _ = report.send(outcome);
        }
    }
}
