//! The same service on HTTP/1.1 and HTTP/2, over TLS on TCP.

use core::convert::Infallible;
use core::future::Future;
use core::net::SocketAddr;
use core::pin::{Pin, pin};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use clearway::rustls::ServerConfig;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower_service::Service;

use self::stream::{Share, Stream};
use crate::body::{RequestBody, ResponseBody};
use crate::exchange::{Settings, answer, readiness};
use crate::stop::is_set;
use crate::{AltSvcLayer, BoxError};

mod stream;
#[cfg(test)]
mod tests;

/// Limit on the time that a client takes for the TLS handshake, and then for the HTTP/2 preface.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Limit on the time between two HTTP/1.1 requests, and for receiving a header section.
const IDLE: Duration = Duration::from_secs(30);

/// Interval at which HTTP/2 checks whether an idle client is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Delay before another attempt to accept a client when the process has no file descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// Default maximum number of connections.
const MAX_CONNECTIONS: usize = 10_000;

/// Time for which clients may remember that there is HTTP/3.
const MAX_AGE: Duration = Duration::from_secs(86_400);

/// The options of a server on TCP.
pub(crate) struct Options {
    pub(crate) listener: Option<(TcpListener, Arc<ServerConfig>)>,
    pub(crate) alt_svc: Option<AltSvcLayer>,
    pub(crate) max_connections: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { listener: None, alt_svc: None, max_connections: MAX_CONNECTIONS }
    }
}

impl Options {
    /// Serves clients until `stopped` is set, and waits until their requests in progress are
    /// complete and upgraded connections are closed. `port` is that of the HTTP/3 server.
    /// Connections are closed if the future is dropped.
    pub(crate) async fn run<S, B>(
        self,
        service: S,
        settings: Arc<Settings>,
        port: u16,
        mut stopped: watch::Receiver<bool>,
    ) where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let Some((listener, tls)) = self.listener else { return };
        let tls = TlsAcceptor::from(tls);
        let alt_svc = self.alt_svc.unwrap_or_else(|| AltSvcLayer::new(port, MAX_AGE));
        let mut connections = JoinSet::new();
        let permits = Arc::new(Semaphore::new(self.max_connections.min(Semaphore::MAX_PERMITS)));
        let (alive, mut last_gone) = mpsc::channel(1);
        // Dropped with the future of this function.
        let (_abandon, abandoned) = watch::channel(false);
        loop {
            // The semaphore is never closed.
            let next = async {
                let permit = permits.clone().acquire_owned().await.ok()?;
                Some((permit, accept(&listener).await))
            };
            tokio::select! {
                biased;
                () = is_set(&mut stopped) => break,
                Some(_) = connections.join_next() => {}
                Some((permit, (stream, remote_address))) = next => {
                    let (alive, abandoned) = (alive.clone(), abandoned.clone());
                    let share = Share { permit, alive, abandoned };
                    let exchanges = Exchanges {
                        service: service.clone(),
                        settings: settings.clone(),
                        alt_svc: alt_svc.clone(),
                        remote_address,
                    };
                    connections.spawn(exchanges.run(stream, share, tls.clone(), stopped.clone()));
                }
            }
        }
        drop((listener, alive));
        while connections.join_next().await.is_some() {}
        // Upgraded connections have no task here, but delay the end as all others do.
        let _ = last_gone.recv().await;
    }
}

/// Accepts the next client.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The client is gone already.
            Err(error)
                if matches!(
                    error.kind(),
                    ConnectionAborted | ConnectionRefused | ConnectionReset
                ) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a TCP connection; retrying");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Completes the TLS handshake. Returns `None` if it fails.
async fn handshake(
    tls: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
) -> Option<TlsStream<TcpStream>> {
    // Without the option, small responses may be delayed, which is not a failure.
    let _ = stream.set_nodelay(true);
    let error = match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => error,
        Err(elapsed) => elapsed.into(),
    };
    tracing::debug!(remote_address = %address, %error, "TLS handshake over TCP failed");
    None
}

/// The requests of one connection.
struct Exchanges<S> {
    service: S,
    settings: Arc<Settings>,
    alt_svc: AltSvcLayer,
    remote_address: SocketAddr,
}

impl<S, B> Exchanges<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    /// Serves the connection. If `stopped` is set during the TLS handshake, closes it.
    async fn run(
        self,
        stream: TcpStream,
        share: Share,
        tls: TlsAcceptor,
        mut stopped: watch::Receiver<bool>,
    ) {
        let stream = tokio::select! {
            biased;
            stream = handshake(tls, stream, self.remote_address) => stream,
            () = is_set(&mut stopped) => None,
        };
        if let Some(stream) = stream {
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            self.serve(stream, is_http2, share, stopped).await;
        }
    }

    /// Serves the connection with the HTTP version that TLS has negotiated.
    async fn serve<I>(self, stream: I, is_http2: bool, share: Share, stopped: watch::Receiver<bool>)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let remote_address = self.remote_address;
        let stream = Stream::new(stream, share);
        let service = service_fn(move |request| {
            let response = self.respond(request);
            async move { Ok::<_, Infallible>(response.await) }
        });
        let outcome = if is_http2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).keep_alive_interval(KEEP_ALIVE);
            builder.enable_connect_protocol();
            let stream = stream.require_preface(HANDSHAKE, stopped.clone());
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            until_stopped(connection, http2::Connection::graceful_shutdown, stopped).await
        } else {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(IDLE);
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            let connection = connection.with_upgrades();
            until_stopped(connection, http1::UpgradeableConnection::graceful_shutdown, stopped)
                .await
        };
        if let Err(error) = outcome {
            tracing::debug!(%remote_address, %error, "connection over TCP ended with an error");
        }
    }

    fn respond(
        &self,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Response<ResponseBody<B>>> + Send + use<S, B> {
        let reporter = self.settings.prepare(&mut request, self.remote_address);
        let (service, alt_svc) = (self.service.clone(), self.alt_svc.clone());
        async move {
            let service = readiness(service).await;
            let mut response = answer(service, request.map(RequestBody::over_tcp), reporter).await;
            alt_svc.add_to(response.headers_mut());
            response
        }
    }
}

/// Drives a connection, which is shut down gracefully once `stopped` is set.
async fn until_stopped<C: Future>(
    connection: C,
    shut_down: impl FnOnce(Pin<&mut C>),
    mut stopped: watch::Receiver<bool>,
) -> C::Output {
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        outcome = connection.as_mut() => return outcome,
        () = is_set(&mut stopped) => {}
    }
    shut_down(connection.as_mut());
    connection.await
}
