//! Tests of services that are not always ready, as those of the crate `tower`.

use std::future::{Future, poll_fn};
use std::mem::replace;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use clearway::TransportConfig;
use clearway::http3::{Body, RecvBody, Responder};
use http::{Request, Response};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

use crate::support::{Pair, get, run};

const REQUESTS: usize = 40;
/// The number of streams that the server allows.
const STREAMS: usize = 4;

type Acquired = Result<OwnedSemaphorePermit, AcquireError>;

/// A service that is ready while it has a permit.
struct Limited {
    permits: Arc<Semaphore>,
    acquiring: Option<Pin<Box<dyn Future<Output = Acquired> + Send>>>,
    permit: Option<OwnedSemaphorePermit>,
    called: Arc<AtomicUsize>,
}

impl Limited {
    fn new(permits: usize) -> Self {
        let permits = Arc::new(Semaphore::new(permits));
        Self { permits, acquiring: None, permit: None, called: Arc::default() }
    }
}

impl Clone for Limited {
    fn clone(&self) -> Self {
        let (permits, called) = (self.permits.clone(), self.called.clone());
        Self { permits, acquiring: None, permit: None, called }
    }
}

impl Service<Request<RecvBody>> for Limited {
    type Response = Response<Body>;
    type Error = AcquireError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, AcquireError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), AcquireError>> {
        if self.permit.is_none() {
            let permits = self.permits.clone();
            let acquiring = self.acquiring.get_or_insert_with(|| Box::pin(permits.acquire_owned()));
            let permit = ready!(acquiring.as_mut().poll(context));
            self.acquiring = None;
            self.permit = Some(permit?);
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<RecvBody>) -> Self::Future {
        let permit = self.permit.take().expect("the service is ready");
        self.called.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            tokio::task::yield_now().await;
            drop(permit);
            Ok(Response::new(Body::full("content")))
        })
    }
}

async fn respond(mut service: Limited, request: Request<RecvBody>, responder: Responder) {
    let response = service.call(request).await.unwrap();
    responder.respond(response).await.unwrap();
}

/// Starts a server that allows few streams.
fn pair() -> Pair {
    let transport = TransportConfig::builder()
        .max_concurrent_bidirectional_streams(STREAMS as u64)
        .build()
        .unwrap();
    Pair::with(transport)
}

/// Makes requests to a service that is not ready until all of them have been made.
async fn requests_wait(pair: &Pair, service: &Limited) {
    let client = pair.client().await;
    let pending: Vec<_> = (0..REQUESTS).map(|_| client.start(get("/")).unwrap()).collect();
    while client.waiting() > REQUESTS - STREAMS {
        tokio::task::yield_now().await;
    }
    assert!(!client.is_ready());
    assert_eq!(service.called.load(Ordering::SeqCst), 0, "the service is not ready");
    service.permits.add_permits(1);
    for pending in pending {
        let mut response = pending.response().await.unwrap();
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "content");
    }
    assert_eq!(service.called.load(Ordering::SeqCst), REQUESTS);
    client.ready().await.unwrap();
}

/// The server accepts a request only when the service is ready for it.
#[test]
fn a_service_is_called_when_it_is_ready() {
    run(async {
        let pair = pair();
        let service = Limited::new(0);
        let (server, mut next) = (pair.server.clone(), service.clone());
        tokio::spawn(async move {
            loop {
                poll_fn(|context| next.poll_ready(context)).await.unwrap();
                let Some((request, responder)) = server.accept().await else { return };
                let clone = next.clone();
                tokio::spawn(respond(replace(&mut next, clone), request, responder));
            }
        });
        requests_wait(&pair, &service).await;
    });
}

/// On a shard, each request waits for the service in its own task.
#[test]
fn requests_on_a_shard_wait_for_their_service() {
    run(async {
        let pair = pair();
        let service = Limited::new(0);
        // As usual for services, it can be sent to another thread, but not shared.
        let (server, template) = (pair.server.clone(), Mutex::new(service.clone()));
        tokio::spawn(async move {
            let respond = move |request, responder| {
                let mut service = template.lock().unwrap().clone();
                async move {
                    let name = std::thread::current().name().map(str::to_owned);
                    assert_eq!(name.as_deref(), Some("clearway-shard"));
                    poll_fn(|context| service.poll_ready(context)).await.unwrap();
                    respond(service, request, responder).await;
                }
            };
            server.respond_on_shards(respond).await;
        });
        requests_wait(&pair, &service).await;
    });
}
