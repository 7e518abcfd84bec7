//! CONNECT requests with the extensions of hyper.

use core::convert::Infallible;

use bytes::Bytes;
use clearway::http3::{Body, Code, Error, PendingResponse, Protocol, SendBody};
use clearway_tower::{RequestBody, Serve};
use http::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tower::service_fn;

use crate::support::{Site, within};

/// Responds to CONNECT requests with the status in their path. The outcome of the tunnel's task is
/// sent to `outcomes`.
async fn connect(
    outcomes: mpsc::UnboundedSender<std::io::Result<Vec<u8>>>,
    mut request: Request<RequestBody>,
) -> Result<Response<Body>, Infallible> {
    let protocol = request.extensions().get::<hyper::ext::Protocol>();
    assert_eq!(protocol.map(|protocol| protocol.as_str()), Some("example"));
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        // hyper's own servers upgrade after the response, too.
        let mut stream = TokioIo::new(upgrade.await.unwrap());
        let mut seen = Vec::new();
        let outcome = async {
            stream.write_all(b"welcome").await?;
            stream.flush().await?;
            stream.read_to_end(&mut seen).await?;
            stream.write_all(&seen).await
        };
        let outcome = outcome.await.map(|()| seen.clone());
        // The stream ends when it is dropped, as with TCP.
        drop(stream);
        outcomes.send(outcome).unwrap();
    });
    let status = request.uri().path().trim_start_matches('/').parse::<u16>().unwrap();
    Ok(Response::builder().status(status).body(Body::empty()).unwrap())
}

struct Tunnels {
    _site: Site,
    client: clearway::http3::Client,
    outcomes: mpsc::UnboundedReceiver<std::io::Result<Vec<u8>>>,
}

impl Tunnels {
    async fn new(on_shards: bool) -> Self {
        let site = Site::new();
        let (sender, outcomes) = mpsc::unbounded_channel();
        let serve = Serve::new(service_fn(move |request| connect(sender.clone(), request)));
        site.run(if on_shards { serve.on_shards() } else { serve });
        let client = site.client().await;
        Self { _site: site, client, outcomes }
    }

    fn open(&self, status: u16) -> (SendBody, PendingResponse) {
        let request = Request::builder().method(Method::CONNECT);
        let request = request.uri(format!("https://localhost/{status}"));
        let request = request.extension(Protocol::new("example").unwrap());
        self.client.open(request.body(()).unwrap()).unwrap()
    }

    async fn outcome(&mut self) -> std::io::Result<Vec<u8>> {
        within(self.outcomes.recv()).await.unwrap()
    }
}

#[tokio::test]
async fn an_upgrade_is_a_tunnel_that_ends_in_order() {
    for on_shards in [false, true] {
        let mut tunnels = Tunnels::new(on_shards).await;
        let (mut send, pending) = tunnels.open(200);
        let mut response = within(pending.response()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.headers().get("upgrade").is_none());
        let mut welcome = [0; 7];
        within(response.body_mut().read_exact(&mut welcome)).await.unwrap();
        assert_eq!(&welcome, b"welcome");
        let content = Bytes::from(vec![b'\n'; 1 << 20]);
        let sending = async {
            send.write_chunk(content.clone()).await?;
            send.finish().await
        };
        let receiving = response.body_mut().bytes(2 << 20);
        let (sent, received) = within(async { tokio::join!(sending, receiving) }).await;
        sent.unwrap();
        assert_eq!(received.unwrap(), content, "to the end");
        assert_eq!(tunnels.outcome().await.unwrap(), content);
    }
}

#[tokio::test]
async fn an_upgrade_that_is_refused_fails() {
    let mut tunnels = Tunnels::new(false).await;
    let (_send, pending) = tunnels.open(403);
    let response = within(pending.response()).await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    let error = tunnels.outcome().await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotConnected);
}

#[tokio::test]
async fn a_tunnel_that_the_client_resets_fails() {
    let mut tunnels = Tunnels::new(false).await;
    let (send, pending) = tunnels.open(200);
    let mut response = within(pending.response()).await.unwrap();
    within(response.body_mut().chunk()).await.unwrap().unwrap();
    send.reset(Code::REQUEST_CANCELLED);
    let error = tunnels.outcome().await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let inner = error.into_inner().unwrap();
    assert!(matches!(inner.downcast_ref(), Some(Error::Reset(Code::REQUEST_CANCELLED))));
}
