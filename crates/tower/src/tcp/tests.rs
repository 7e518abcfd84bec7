use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::service_fn;

use super::*;

/// One connection without a socket, in a server that has no others.
struct Connection {
    client: DuplexStream,
    serving: JoinHandle<()>,
    permits: Arc<Semaphore>,
    last_gone: mpsc::Receiver<Infallible>,
    abandon: watch::Sender<bool>,
    stop: watch::Sender<bool>,
    /// The upgrades of the requests.
    upgrades: UnboundedReceiver<hyper::upgrade::OnUpgrade>,
}

impl Connection {
    fn new(is_http2: bool) -> Self {
        let (sender, upgrades) = mpsc::unbounded_channel();
        let service = service_fn(move |mut request: Request<RequestBody>| {
            sender.send(hyper::upgrade::on(&mut request)).unwrap();
            let mut response = Response::builder();
            if request.headers().contains_key("upgrade") {
                response = response.status(101).header("upgrade", "example");
                response = response.header("connection", "upgrade");
            }
            core::future::ready(Ok::<_, Infallible>(response.body(String::new()).unwrap()))
        });
        let exchanges = Exchanges {
            service,
            settings: Arc::default(),
            alt_svc: AltSvcLayer::clear(),
            remote_address: "127.0.0.1:1".parse().unwrap(),
        };
        let permits = Arc::new(Semaphore::new(1));
        let (alive, last_gone) = mpsc::channel(1);
        let (abandon, abandoned) = watch::channel(false);
        let (stop, stopped) = watch::channel(false);
        let permit = permits.clone().try_acquire_owned().unwrap();
        let share = Share { permit, alive, abandoned };
        let (client, stream) = tokio::io::duplex(1 << 16);
        let serving = tokio::spawn(exchanges.serve(stream, is_http2, share, stopped));
        Self { client, serving, permits, last_gone, abandon, stop, upgrades }
    }

    /// Upgrades the connection. Returns the ends of the client and the server.
    async fn upgrade(&mut self) -> (DuplexStream, TokioIo<hyper::upgrade::Upgraded>) {
        let client = core::mem::replace(&mut self.client, tokio::io::duplex(1).0);
        let (mut send, connection) = conn::http1::handshake(TokioIo::new(client)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        let request = Request::get("/").header("host", "localhost").header("upgrade", "example");
        let request = request.header("connection", "upgrade").body(Empty::<Bytes>::new()).unwrap();
        let response = send.send_request(request).await.unwrap();
        let upgraded = hyper::upgrade::on(response).await.unwrap();
        let client = upgraded.downcast::<TokioIo<DuplexStream>>().unwrap().io.into_inner();
        let server = self.upgrades.recv().await.unwrap().await.unwrap();
        (client, TokioIo::new(server))
    }
}

#[tokio::test(start_paused = true)]
async fn silent_http2_clients_are_disconnected() {
    for sent in [0, 23] {
        let mut connection = Connection::new(true);
        let begun = Instant::now();
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        connection.client.write_all(&preface[..sent]).await.unwrap();
        tokio::time::timeout(HANDSHAKE * 10, connection.serving).await.unwrap().unwrap();
        assert!(begun.elapsed() >= HANDSHAKE && begun.elapsed() < HANDSHAKE * 2);
        assert_eq!(connection.permits.available_permits(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn stopping_disconnects_silent_http2_clients_immediately() {
    let connection = Connection::new(true);
    let begun = Instant::now();
    connection.stop.send_replace(true);
    tokio::time::timeout(HANDSHAKE * 10, connection.serving).await.unwrap().unwrap();
    assert!(begun.elapsed() < HANDSHAKE);
}

#[tokio::test(start_paused = true)]
async fn idle_http2_clients_stay_connected() {
    let connection = Connection::new(true);
    let stream = TokioIo::new(connection.client);
    let handshake = conn::http2::handshake(TokioExecutor::new(), stream);
    let (mut send, driver) = handshake.await.unwrap();
    tokio::spawn(driver);
    for _ in 0..2 {
        send.ready().await.unwrap();
        let request = Request::get("https://localhost/").body(Empty::<Bytes>::new()).unwrap();
        assert_eq!(send.send_request(request).await.unwrap().status(), 200);
        tokio::time::sleep(HANDSHAKE * 2).await;
    }
    assert!(!connection.serving.is_finished());
    // With a preface, the end is graceful.
    connection.stop.send_replace(true);
    connection.serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn upgraded_connections_count_until_they_are_dropped() {
    let mut connection = Connection::new(false);
    let (_client, upgraded) = connection.upgrade().await;
    (&mut connection.serving).await.unwrap();
    assert_eq!(connection.permits.available_permits(), 0);
    assert!(connection.last_gone.try_recv() == Err(mpsc::error::TryRecvError::Empty));
    drop(upgraded);
    assert_eq!(connection.permits.available_permits(), 1);
    assert!(connection.last_gone.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn upgraded_connections_fail_without_their_server() {
    let mut connection = Connection::new(false);
    let (mut client, mut upgraded) = connection.upgrade().await;
    client.write_all(b"a").await.unwrap();
    assert_eq!(upgraded.read_u8().await.unwrap(), b'a');
    let reading = tokio::spawn(async move {
        let error = upgraded.read_u8().await.unwrap_err();
        (upgraded, error)
    });
    tokio::task::yield_now().await;
    drop(connection.abandon);
    let limited = tokio::time::timeout(HANDSHAKE, reading);
    let (mut upgraded, error) = limited.await.unwrap().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    // The stream can be used again, without success.
    assert!(upgraded.read_u8().await.is_err());
    assert!(upgraded.write_all(b"b").await.is_err());
}
