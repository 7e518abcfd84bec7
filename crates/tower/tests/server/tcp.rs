//! The same service on HTTP/1.1 and HTTP/2.

use core::convert::Infallible;
use core::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clearway::rustls::pki_types::ServerName;
use clearway::{ClientCertificates, rustls};
use clearway_tower::{AltSvcLayer, FailureReason, RequestBody, Serve};
use http::header::ALT_SVC;
use http::{Request, Response, StatusCode, Version};
use http_body::Frame;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::service_fn;

use crate::support::{Error, Frames, Site, fetch, provider, within};

const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

/// Creates a server, and a listener on the same port.
async fn site() -> (Site, TcpListener) {
    loop {
        let site = Site::new();
        // The port may be in use for TCP.
        if let Ok(listener) = TcpListener::bind(site.server.local_address()).await {
            return (site, listener);
        }
    }
}

/// A client of HTTP/1.1 or HTTP/2.
enum Client {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

/// Completes the TLS handshake.
async fn secure(site: &Site, protocol: &str) -> Result<TlsStream<TcpStream>, std::io::Error> {
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(site.roots.clone())
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.into()];
    let stream = TcpStream::connect(site.server.local_address()).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

impl Client {
    async fn connect(site: &Site, version: Version) -> Self {
        if version == Version::HTTP_2 {
            let stream = TokioIo::new(within(secure(site, "h2")).await.unwrap());
            let (send, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            tokio::spawn(connection);
            return Self::Http2(send);
        }
        let stream = TokioIo::new(within(secure(site, "http/1.1")).await.unwrap());
        let (send, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self::Http1(send)
    }

    async fn get(&mut self, path: &str) -> Result<Response<Incoming>, hyper::Error> {
        let request = Request::get(format!("https://localhost{path}")).header("host", "localhost");
        let request = request.body(Empty::new()).unwrap();
        within(async {
            match self {
                Self::Http1(send) => send.send_request(request).await,
                Self::Http2(send) => send.send_request(request).await,
            }
        })
        .await
    }
}

async fn content(response: Response<Incoming>) -> Result<Bytes, hyper::Error> {
    Ok(within(response.into_body().collect()).await?.to_bytes())
}

#[tokio::test]
async fn all_versions_have_the_same_service() {
    #[derive(Clone)]
    struct ConnectInfo(SocketAddr);
    let (site, listener) = site().await;
    let tls = site.config.tls_over_tcp(["h2", "http/1.1"]).unwrap();
    let service = service_fn(async |request: Request<RequestBody>| {
        let ConnectInfo(address) = request.extensions().get().unwrap();
        assert!(address.ip().is_loopback() && address.port() != 0);
        Ok::<_, Infallible>(Response::new(format!("{:?}", request.version())))
    });
    site.run(Serve::new(service).connect_info(ConnectInfo).tcp(listener, tls));
    for version in VERSIONS {
        let mut client = Client::connect(&site, version).await;
        for _ in 0..2 {
            let response = client.get("/").await.unwrap();
            assert_eq!(response.version(), version);
            let advertised = format!("h3=\":{}\"; ma=86400", site.server.local_address().port());
            assert_eq!(response.headers()[ALT_SVC], advertised.as_str());
            assert_eq!(content(response).await.unwrap(), format!("{version:?}"));
        }
    }
    let client = site.client().await;
    assert_eq!(fetch(&client, "/").await.unwrap().1, "HTTP/3.0");
}

#[tokio::test]
async fn shutting_down_completes_the_responses_of_all_versions() {
    let (site, listener) = site().await;
    let tls = site.config.tls_over_tcp(["h2", "http/1.1"]).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let release = Arc::new(tokio::sync::Semaphore::new(0));
    let released = release.clone();
    let service = service_fn(move |_: Request<RequestBody>| {
        let (begun, released) = (begun.clone(), released.clone());
        async move {
            begun.send(()).unwrap();
            let _permit = released.acquire().await;
            Ok::<_, Infallible>(Response::new("complete".to_owned()))
        }
    });
    let serve = Serve::new(service).tcp(listener, tls).graceful_shutdown(async {
        let _ = stopped.await;
    });
    let serving = site.run(serve);
    let mut requests = tokio::task::JoinSet::new();
    for version in VERSIONS {
        let mut client = Client::connect(&site, version).await;
        requests.spawn(async move { content(client.get("/").await.unwrap()).await.unwrap() });
        within(begins.recv()).await.unwrap();
    }
    stop.send(()).unwrap();
    // New clients are refused once the listener is closed.
    let address = site.server.local_address();
    within(async { while TcpStream::connect(address).await.is_ok() {} }).await;
    assert!(!serving.is_finished());
    release.add_permits(VERSIONS.len());
    assert!(within(requests.join_all()).await.iter().all(|content| content == "complete"));
    within(serving).await.unwrap();
}

/// The server may also be shut down by other parts of the program.
#[tokio::test]
async fn a_server_that_shuts_down_refuses_clients_of_all_versions_immediately() {
    let (site, listener) = site().await;
    let tls = site.config.tls_over_tcp(["http/1.1"]).unwrap();
    let release = Arc::new(tokio::sync::Semaphore::new(0));
    let released = release.clone();
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let service = service_fn(move |_: Request<RequestBody>| {
        let (begun, released) = (begun.clone(), released.clone());
        async move {
            begun.send(()).unwrap();
            let _permit = released.acquire().await;
            Ok::<_, Infallible>(Response::new("complete".to_owned()))
        }
    });
    let serving = site.run(Serve::new(service).tcp(listener, tls));
    let client = site.client().await;
    let request = tokio::spawn(async move { fetch(&client, "/").await.unwrap().1 });
    within(begins.recv()).await.unwrap();
    let server = site.server.clone();
    let shutdown = tokio::spawn(async move { server.shutdown().await });
    let address = site.server.local_address();
    within(async { while TcpStream::connect(address).await.is_ok() {} }).await;
    assert!(!serving.is_finished());
    release.add_permits(1);
    assert_eq!(within(request).await.unwrap(), "complete");
    within(shutdown).await.unwrap();
    within(serving).await.unwrap();
}

#[tokio::test]
async fn failures_are_reported_for_all_versions() {
    let (site, listener) = site().await;
    let tls = site.config.tls_over_tcp(["h2", "http/1.1"]).unwrap();
    let failures = Arc::new(Mutex::new(Vec::new()));
    let seen = failures.clone();
    let service = service_fn(async |request: Request<RequestBody>| match request.uri().path() {
        "/service" => Err(Error::from("service")),
        "/panic" => panic!("in call"),
        _ => Ok(Response::new(Frames(vec![
            Ok(Frame::data(Bytes::from("part"))),
            Err("body".into()),
        ]))),
    });
    let serve = Serve::new(service).tcp(listener, tls).on_error(move |failure| {
        assert!(failure.remote_address.ip().is_loopback());
        seen.lock().unwrap().push((failure.reason, failure.version));
    });
    site.run(serve);
    for version in VERSIONS {
        let mut client = Client::connect(&site, version).await;
        let response = client.get("/service").await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(content(response).await.unwrap(), "");
        // The connection may end with the failure, possibly before the response arrives.
        let failed = match client.get("/body").await {
            Ok(response) => content(response).await.is_err(),
            Err(_) => true,
        };
        assert!(failed);
        let mut client = Client::connect(&site, version).await;
        assert!(client.get("/panic").await.is_err());
        let expected = [FailureReason::Service, FailureReason::Body, FailureReason::Panic]
            .map(|it| (it, version));
        assert_eq!(core::mem::take(&mut *failures.lock().unwrap()), expected);
    }
}

#[tokio::test]
async fn the_number_of_clients_is_limited() {
    let (site, listener) = site().await;
    let tls = site.config.tls_over_tcp(["http/1.1"]).unwrap();
    let service = service_fn(async |_: Request<RequestBody>| {
        Ok::<_, Infallible>(Response::new("served".to_owned()))
    });
    let serve = Serve::new(service).tcp(listener, tls).max_tcp_connections(1);
    site.run(serve.alt_svc(AltSvcLayer::clear()));
    let mut first = Client::connect(&site, Version::HTTP_11).await;
    let mut second = core::pin::pin!(Client::connect(&site, Version::HTTP_11));
    for _ in 0..3 {
        tokio::select! {
            biased;
            _ = second.as_mut() => panic!("two clients at a time"),
            response = first.get("/") => assert_eq!(response.unwrap().headers()[ALT_SVC], "clear"),
        }
    }
    drop(first);
    assert_eq!(content(second.await.get("/").await.unwrap()).await.unwrap(), "served");
}

#[tokio::test]
async fn clients_need_the_same_certificates_as_over_quic() {
    let (site, listener) = site().await;
    let required = ClientCertificates::Required;
    let config = site.config.clone().client_certificates(required, (*site.roots).clone());
    let tls = config.tls_over_tcp(["http/1.1"]).unwrap();
    let service = service_fn(async |_: Request<RequestBody>| {
        Ok::<_, Infallible>(Response::new("served".to_owned()))
    });
    site.run(Serve::new(service).tcp(listener, tls));
    // In TLS 1.3, a client learns only afterward that it was rejected.
    let outcome = async { secure(&site, "http/1.1").await?.read_u8().await };
    let error = within(outcome).await.unwrap_err();
    assert!(error.to_string().contains("CertificateRequired"), "{error}");
}
