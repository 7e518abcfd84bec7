//! Tests of requests that are handled by tasks on the shard's thread.

use std::future::{pending, ready};
use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use clearway::http3::{Body, Code, Error, Responder};
use http::Response;

use crate::support::{Pair, get, pattern, post, run};

/// Returns the name of the current thread.
fn thread_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

impl Pair {
    /// Makes the server respond with `service`, in tasks on its shard's thread.
    fn serve_on_shards<S, F, B>(&self, service: S)
    where
        S: Fn(http::Request<clearway::http3::RecvBody>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Into<Body> + Send + 'static,
    {
        let server = self.server.clone();
        tokio::spawn(async move { server.serve_on_shards(service).await });
    }
}

#[test]
fn services_run_on_the_shards_thread_and_use_the_runtime() {
    run(async {
        let pair = Pair::new();
        pair.serve_on_shards(|request| async move {
            let content = request.into_body().bytes(1 << 20).await.unwrap();
            let here = thread_name();
            tokio::time::sleep(Duration::from_millis(1)).await;
            let there = tokio::spawn(async { thread_name() }).await.unwrap();
            assert_eq!(here, thread_name());
            let mut response = Response::new(content);
            response.headers_mut().insert("x-here", here.parse().unwrap());
            response.headers_mut().insert("x-there", there.parse().unwrap());
            response
        });
        let client = pair.client().await;
        let content = pattern(300_000);
        let mut response = client.send(post("/", content.clone())).await.unwrap();
        assert_eq!(response.headers()["x-here"], "clearway-shard");
        assert_ne!(response.headers()["x-there"], "clearway-shard");
        assert!(response.body_mut().bytes(1 << 20).await.unwrap() == content);
    });
}

#[test]
fn requests_that_came_before_are_answered() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let first = client.start(get("/")).unwrap();
        // This request was accepted before, so it has certainly arrived; it gets a response in the
        // usual way.
        let (_, responder) = pair.accept().await;
        let second = client.start(get("/")).unwrap();
        responder.respond(Response::new("accepted")).await.unwrap();
        let mut response = first.response().await.unwrap();
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "accepted");
        pair.serve_on_shards(|_| async { Response::new("served") });
        let mut response = second.response().await.unwrap();
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "served");
    });
}

#[test]
fn a_cancelled_request_drops_its_task() {
    run(async {
        let pair = Pair::new();
        let (started, running) = mpsc::channel::<mpsc::Sender<()>>();
        pair.serve_on_shards(move |_| {
            let started = started.clone();
            async move {
                let (held, dropped) = mpsc::channel::<()>();
                // The test holds the receiving half, so it notices when this task is dropped.
                started.send(held).unwrap();
                let _dropped = dropped;
                pending::<Response<Body>>().await
            }
        });
        let client = pair.client().await;
        let request = client.start(get("/")).unwrap();
        let (sender, _) =
            tokio::task::spawn_blocking(move || (running.recv().unwrap(), running)).await.unwrap();
        assert_eq!(sender.send(()), Ok(()));
        drop(request);
        while sender.send(()).is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_service_that_panics_fails_its_request_alone() {
    run(async {
        let pair = Pair::new();
        pair.serve_on_shards(|request| async move {
            assert_eq!(request.uri().path(), "/", "a panic that the test wants");
            Response::new("well")
        });
        let client = pair.client().await;
        let error = client.send(get("/panic")).await.unwrap_err();
        assert!(matches!(error, Error::Reset(Code::INTERNAL_ERROR)), "{error}");
        let mut response = client.send(get("/")).await.unwrap();
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "well");
        assert_eq!(pair.server.endpoint().statistics().panics, 1);
    });
}

#[test]
fn a_shutdown_waits_for_the_tasks() {
    run(async {
        let pair = Pair::new();
        let server = pair.server.clone();
        let serving = tokio::spawn({
            let server = server.clone();
            async move {
                server
                    .serve_on_shards(|_| async {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        Response::new("late")
                    })
                    .await;
            }
        });
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        let mut response = {
            let (response, ()) = tokio::join!(pending.response(), async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                server.shutdown().await;
            });
            response.unwrap()
        };
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "late");
        serving.await.unwrap();
    });
}

#[test]
fn a_client_s_task_runs_on_the_shards_thread() {
    run(async {
        let pair = Pair::new();
        pair.serve(|_| async { Response::new("hello") });
        let client = pair.client().await;
        let (sender, result) = tokio::sync::oneshot::channel();
        client.spawn({
            let client = client.clone();
            async move {
                let mut response = client.send(get("/")).await.unwrap();
                let content = response.body_mut().bytes(100).await.unwrap();
                sender.send((thread_name(), content)).unwrap();
            }
        });
        let (name, content) = result.await.unwrap();
        assert_eq!(name, "clearway-shard");
        assert_eq!(content, "hello");
    });
}

#[test]
fn each_call_replaces_the_service() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        for name in ["first", "second"] {
            let mut serving =
                pin!(pair.server.serve_on_shards(move |_| ready(Response::new(name))));
            assert!(poll_once(serving.as_mut()).is_pending());
            let mut response = client.send(get("/")).await.unwrap();
            assert_eq!(response.body_mut().bytes(100).await.unwrap(), name);
        }
    });
}

#[test]
fn requests_are_queued_after_the_responding_future_is_dropped() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let respond = |name: &'static str| {
            let server = &pair.server;
            let respond = move |_, responder: Responder| async move {
                responder.respond(Response::new(name)).await.unwrap();
            };
            async move { server.respond_on_shards(respond).await }
        };
        let mut first = Box::pin(respond("first"));
        assert!(poll_once(first.as_mut()).is_pending());
        let mut response = client.send(get("/")).await.unwrap();
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "first");
        // Dropping the replaced future has no effect.
        let mut second = Box::pin(respond("second"));
        assert!(poll_once(second.as_mut()).is_pending());
        drop(first);
        let mut response = client.send(get("/")).await.unwrap();
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "second");
        drop(second);
        let pending = client.start(get("/")).unwrap();
        let (_, responder) = pair.accept().await;
        responder.respond(Response::new("accepted")).await.unwrap();
        let mut response = pending.response().await.unwrap();
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "accepted");
    });
}
