//! Services that are not always ready.

use core::convert::Infallible;
use core::future::{Ready, ready};
use core::task::{Context, Poll};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use clearway::http3::Body;
use clearway_tower::{RequestBody, Serve};
use http::{Request, Response, StatusCode};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, service_fn};

use crate::support::{Site, fetch, get, text, until, within};

/// A service that is ready once it is opened, and counts its clones that wait.
#[derive(Clone)]
struct Gate {
    opened: watch::Receiver<bool>,
    waiting: Arc<Mutex<Vec<core::task::Waker>>>,
    polled: Arc<watch::Sender<usize>>,
    is_waiting: bool,
}

impl Service<Request<RequestBody>> for Gate {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if *self.opened.borrow() {
            return Poll::Ready(Ok(()));
        }
        self.waiting.lock().unwrap().push(context.waker().clone());
        if !core::mem::replace(&mut self.is_waiting, true) {
            self.polled.send_modify(|count| *count += 1);
        }
        Poll::Pending
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        assert!(*self.opened.borrow(), "called before it is ready");
        ready(text(request.uri().path().to_owned()))
    }
}

/// The other half of a [`Gate`].
struct Opener {
    open: watch::Sender<bool>,
    waiting: Arc<Mutex<Vec<core::task::Waker>>>,
    polled: watch::Receiver<usize>,
}

impl Opener {
    fn open(&self) {
        self.open.send_replace(true);
        self.waiting.lock().unwrap().drain(..).for_each(core::task::Waker::wake);
    }

    async fn waits_for(&mut self, count: usize) {
        within(self.polled.wait_for(|polled| *polled >= count)).await.unwrap();
    }
}

fn gate() -> (Gate, Opener) {
    let (open, opened) = watch::channel(false);
    let (polled, is_polled) = watch::channel(0);
    let waiting = Arc::default();
    let opener = Opener { open, waiting: Arc::clone(&waiting), polled: is_polled };
    (Gate { opened, waiting, polled: Arc::new(polled), is_waiting: false }, opener)
}

#[tokio::test]
async fn one_request_at_a_time_waits_for_readiness() {
    let site = Site::new();
    let (gate, mut opener) = gate();
    site.run(Serve::new(gate));
    let client = site.client().await;
    let pending: Vec<_> =
        (0..10).map(|number| client.start(get(&format!("/{number}"))).unwrap()).collect();
    opener.waits_for(1).await;
    until(|| client.waiting() == 0).await;
    assert_eq!(*opener.polled.borrow(), 1, "all others wait in the transport");
    opener.open();
    for (number, pending) in pending.into_iter().enumerate() {
        let mut response = within(pending.response()).await.unwrap();
        let content = within(response.body_mut().bytes(100)).await.unwrap();
        assert_eq!(content, format!("/{number}"));
    }
}

#[tokio::test]
async fn a_canceled_request_does_not_block_others() {
    let site = Site::new();
    let (gate, mut opener) = gate();
    site.run(Serve::new(gate));
    let client = site.client().await;
    let canceled = client.start(get("/canceled")).unwrap();
    opener.waits_for(1).await;
    drop(canceled);
    let other = client.start(get("/other")).unwrap();
    opener.waits_for(2).await;
    opener.open();
    let mut response = within(other.response()).await.unwrap();
    assert_eq!(within(response.body_mut().bytes(100)).await.unwrap(), "/other");
}

#[tokio::test]
async fn requests_on_shards_wait_by_themselves() {
    let site = Site::new();
    let (gate, mut opener) = gate();
    site.run(Serve::new(gate).on_shards());
    let client = site.client().await;
    let pending: Vec<_> = (0..10).map(|_| client.start(get("/")).unwrap()).collect();
    opener.waits_for(10).await;
    opener.open();
    for pending in pending {
        assert_eq!(within(pending.response()).await.unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn limits_of_tower_apply_and_no_request_is_lost() {
    const REQUESTS: usize = 100;
    for on_shards in [false, true] {
        let site = Site::new();
        let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = most.clone();
        let turns = Arc::new(Semaphore::new(1));
        let service = service_fn(move |_: Request<RequestBody>| {
            let (inside, most, turns) = (inside.clone(), most.clone(), turns.clone());
            async move {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                let _turn = turns.acquire().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                text("served")
            }
        });
        let serve = Serve::new(ConcurrencyLimitLayer::new(2).layer(service));
        site.run(if on_shards { serve.on_shards() } else { serve });
        let client = site.client().await;
        let mut requests = JoinSet::new();
        for _ in 0..REQUESTS {
            let client = client.clone();
            requests.spawn(async move { fetch(&client, "/").await.unwrap() });
        }
        let responses = within(requests.join_all()).await;
        assert_eq!(responses.len(), REQUESTS);
        assert!(
            responses.iter().all(|(status, content)| status.is_success() && content == "served")
        );
        assert!((1..=2).contains(&seen.load(Ordering::SeqCst)), "{seen:?}");
    }
}
