use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use boring::ssl::{SslContextBuilder, SslMethod};
use bytes::Bytes;
use futures::SinkExt;
use peer_common::{ClientOptions, PARALLEL, Sink, Summary};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_quiche::http3::driver::{
    ClientH3Event, H3Event, InboundFrame, IncomingH3Headers, NewClientRequest, OutboundFrame,
    OutboundFrameSender,
};
use tokio_quiche::quic::{
    ConnectionHook, ConnectionShutdownBehaviour, QuicCommand, connect_with_config,
};
use tokio_quiche::quiche::h3::{Header, NameValue};
use tokio_quiche::settings::{CertificateKind, Hooks, QuicSettings, TlsCertificatePaths};
use tokio_quiche::socket::Socket;
use tokio_quiche::{ApplicationOverQuic, ClientH3Controller, ClientH3Driver, ConnectionParams};

use crate::{bind, http3_settings, server, settings, text};

/// The error code H3_NO_ERROR (RFC 9114 section 8.1).
const NO_ERROR: u64 = 0x100;

/// A hook that trusts only the certificates in one file.
pub struct Trust {
    pub file: PathBuf,
    /// Whether to omit post-quantum key exchange, so that the ClientHello fits into one packet. If
    /// the ClientHello needs two packets, tokio-quiche 0.20.1 initially sends only the second one
    /// (quic/router/connector.rs: two tasks wait for the socket, one is woken).
    pub has_short_hello: bool,
}

impl ConnectionHook for Trust {
    fn create_custom_ssl_context_builder(
        &self,
        _settings: TlsCertificatePaths<'_>,
    ) -> Option<SslContextBuilder> {
        let mut builder = SslContextBuilder::new(SslMethod::tls()).ok()?;
        builder.set_ca_file(&self.file).ok()?;
        if self.has_short_hello {
            builder.set_curves_list("X25519").ok()?;
        }
        Some(builder)
    }
}

/// Makes the requests given in the options, on all connections concurrently, and prints the
/// summary.
pub async fn download(options: ClientOptions, mtu: Option<u16>) -> Result<()> {
    let options = Arc::new(options);
    let mut controllers = Vec::new();
    for _ in 0..options.connections {
        let (driver, controller) = ClientH3Driver::new(http3_settings());
        let settings = settings(options.qlog.as_ref(), mtu)?;
        connect(options.address(), options.host()?, options.trusted(), settings, driver).await?;
        controllers.push(controller);
    }
    let begin = Instant::now();
    let mut running = JoinSet::new();
    for (number, controller) in (0..).zip(controllers) {
        running.spawn(request_all(Arc::clone(&options), controller, number));
    }
    let (mut controllers, mut responses) = (Vec::new(), Vec::new());
    while let Some(done) = running.join_next().await {
        let (controller, answered) = done??;
        controllers.push(controller);
        responses.extend(answered);
    }
    let summary = Summary::new(begin, &responses);
    futures::future::join_all(controllers.into_iter().map(close)).await;
    summary.print(&options)
}

/// Starts an application on a new connection to `host` at `address`, and completes the handshake.
/// The certificate is not checked if `trusted` is `None`. Each connection has its own socket.
pub async fn connect<A: ApplicationOverQuic>(
    address: SocketAddr,
    host: &str,
    trusted: Option<&Path>,
    mut settings: QuicSettings,
    application: A,
) -> Result<()> {
    let socket = bind(SocketAddr::from(([0, 0, 0, 0], 0))).await?;
    socket.connect(address).await?;
    let mut socket = Socket::try_from(socket)?;
    socket.apply_max_capabilities();

    settings.verify_peer = trusted.is_some();
    settings.handshake_timeout = Some(Duration::from_secs(5));
    // The hook is called only if a certificate is configured, although the hook ignores that
    // certificate.
    let unused = trusted.map(text).transpose()?.map(|path| TlsCertificatePaths {
        cert: path,
        private_key: path,
        kind: CertificateKind::X509,
    });
    let mut hooks = Hooks::default();
    if let Some(path) = trusted {
        ensure!(path.is_file(), "{} is not a file", path.display());
        let trust = Trust { file: path.to_owned(), has_short_hello: false };
        hooks.connection_hook = Some(Arc::new(trust));
    }
    let parameters = ConnectionParams::new_client(settings, unused, hooks);
    connect_with_config(socket, Some(host), &parameters, application)
        .await
        .map_err(|error| anyhow!("connecting: {error}"))?;
    Ok(())
}

/// Makes the requests of one connection, at most 32 at a time. Returns the status of each request,
/// and the number of bytes downloaded or uploaded.
async fn request_all(
    options: Arc<ClientOptions>,
    mut controller: ClientH3Controller,
    number: u64,
) -> Result<(ClientH3Controller, Vec<(u16, u64)>)> {
    let requests = controller.request_sender();
    let mut downloads = JoinSet::new();
    let mut responses = Vec::new();
    let (mut asked, mut kept) = (0, None);
    while (responses.len() as u64) < options.count {
        while asked < options.count && asked - (responses.len() as u64) < PARALLEL as u64 {
            let body_writer = options.upload.map(upload);
            let headers = headers(&options.url, options.upload);
            let request = NewClientRequest { request_id: asked, headers, body_writer };
            requests.send(request).map_err(|_| anyhow!("the connection is closed"))?;
            asked += 1;
        }
        tokio::select! {
            event = controller.event_receiver_mut().recv() => match event {
                Some(ClientH3Event::NewOutboundRequest { request_id: 0, stream_id }) => {
                    kept = Some(stream_id);
                }
                Some(ClientH3Event::Core(H3Event::IncomingHeaders(response))) => {
                    let index = number + u64::from(kept != Some(response.stream_id));
                    downloads.spawn(receive(Sink::new(&options, index)?, response));
                }
                Some(ClientH3Event::Core(H3Event::ResetStream { stream_id })) => {
                    bail!("stream {stream_id} was reset")
                }
                Some(ClientH3Event::Core(H3Event::ConnectionError(error))) => return Err(error.into()),
                Some(ClientH3Event::Core(H3Event::ConnectionShutdown(error))) => {
                    bail!("the connection ended: {error:?}")
                }
                Some(_) => {}
                None => bail!("the connection ended"),
            },
            Some(response) = downloads.join_next() => {
                let (status, received) = response??;
                responses.push((status, options.upload.unwrap_or(received)));
            }
        }
    }
    Ok((controller, responses))
}

/// Uploads generated bytes once tokio-quiche has provided the channel for the data.
fn upload(length: u64) -> oneshot::Sender<OutboundFrameSender> {
    let (writer, receiver) = oneshot::channel();
    tokio::spawn(async move {
        let Ok::<OutboundFrameSender, _>(mut send) = receiver.await else { return };
        let sent = match length {
            0 => send.send(OutboundFrame::Body(Bytes::new(), true)).await.map_err(Into::into),
            _ => server::send_generated(&mut send, length).await,
        };
        if let Err(error) = sent {
            eprintln!("uploading: {error:#}");
        }
    });
    writer
}

/// Returns the headers of a request, which uploads this many bytes if `upload` is set.
pub fn headers(url: &http::Uri, upload: Option<u64>) -> Vec<Header> {
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let method = if upload.is_some() { "POST" } else { "GET" };
    let mut headers =
        [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path)]
            .map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()))
            .to_vec();
    if let Some(length) = upload {
        headers.push(Header::new(b"content-length", length.to_string().as_bytes()));
    }
    headers
}

async fn receive(mut sink: Sink, mut response: IncomingH3Headers) -> Result<(u16, u64)> {
    let value = |name: &[u8]| {
        let header = response.headers.iter().find(|header| header.name() == name)?;
        std::str::from_utf8(header.value()).ok()
    };
    let status = value(b":status").and_then(|value| value.parse().ok()).unwrap_or(0);
    sink.start(status, value(b"content-length").and_then(|value| value.parse().ok()))?;
    let mut complete = response.read_fin;
    while !complete {
        match response.recv.recv().await {
            Some(InboundFrame::Body(bytes, last)) => {
                sink.take(&bytes)?;
                complete = last;
            }
            Some(InboundFrame::Datagram(_)) => {}
            None => bail!("the stream ended early"),
        }
    }
    Ok((status, sink.finish()?))
}

/// Closes the connection, and waits until CONNECTION_CLOSE has been sent.
pub async fn close(mut controller: ClientH3Controller) {
    let shutdown = ConnectionShutdownBehaviour {
        send_application_close: true,
        error_code: NO_ERROR,
        reason: Vec::new(),
    };
    let _ = controller.cmd_sender().send(QuicCommand::ConnectionClose(shutdown));
    let gone = async { while controller.event_receiver_mut().recv().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(1), gone).await;
}
