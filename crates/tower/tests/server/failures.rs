//! Services that fail.

use core::net::SocketAddr;
use core::task::{Context, Poll};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clearway::http3::{Client, Code, Error as Http3Error};
use clearway_tower::{FailureReason, RequestBody, Serve};
use http::{Request, Response, StatusCode, Version};
use http_body::Frame;
use tower::Service;

use crate::support::{Error, Frames, Site, fetch, get, within};

/// Fails in the way that the path of the request names; its readiness fails once after each request
/// for `/next-not-ready` or `/next-panics`.
#[derive(Clone, Default)]
struct Failing {
    next: Arc<Mutex<Option<&'static str>>>,
}

type Responding = Pin<Box<dyn Future<Output = Result<Response<Frames>, Error>> + Send>>;

impl Service<Request<RequestBody>> for Failing {
    type Response = Response<Frames>;
    type Error = Error;
    type Future = Responding;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let next = self.next.lock().unwrap().take();
        match next {
            Some("panic") => panic!("in poll_ready"),
            Some(error) => Poll::Ready(Err(error.into())),
            None => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<RequestBody>) -> Responding {
        let next = self.next.clone();
        Box::pin(async move {
            let data = |text: &'static str| Ok(Frame::data(Bytes::from(text)));
            let body = |frames| Ok(Response::new(Frames(frames)));
            match request.uri().path() {
                "/service" => Err("service".into()),
                "/panic" => panic!("in call"),
                "/body" => body(vec![data("part"), Err("body".into())]),
                "/longer" => Response::builder()
                    .header("content-length", "2")
                    .body(Frames(vec![data("longer")]))
                    .map_err(Into::into),
                "/next-not-ready" => {
                    *next.lock().unwrap() = Some("readiness");
                    body(vec![])
                }
                "/next-panics" => {
                    *next.lock().unwrap() = Some("panic");
                    body(vec![])
                }
                _ => body(vec![data("fine")]),
            }
        })
    }
}

type Failures = Arc<Mutex<Vec<(FailureReason, String, Version, SocketAddr)>>>;

async fn failing(on_shards: bool) -> (Site, Client, Failures) {
    let (site, failures) = (Site::new(), Failures::default());
    let seen = failures.clone();
    let serve = Serve::new(Failing::default()).on_error(move |failure| {
        let clearway_tower::Failure { reason, error, remote_address, version, .. } = failure;
        seen.lock().unwrap().push((*reason, error.to_string(), *version, *remote_address));
        panic!("a hook that panics does no harm");
    });
    site.run(if on_shards { serve.on_shards() } else { serve });
    let client = site.client().await;
    (site, client, failures)
}

/// Waits until a failure was reported, and returns the reason and the error.
async fn reported(failures: &Failures) -> (FailureReason, String) {
    let first = async {
        loop {
            if let Some(failure) = failures.lock().unwrap().pop() {
                return failure;
            }
            tokio::task::yield_now().await;
        }
    };
    let (reason, error, version, address) = within(first).await;
    assert_eq!(version, Version::HTTP_3);
    assert!(address.ip().is_loopback());
    assert!(failures.lock().unwrap().is_empty(), "reported once");
    (reason, error)
}

#[tokio::test]
async fn errors_of_a_service_are_reported_and_become_500() {
    for on_shards in [false, true] {
        let (_site, client, failures) = failing(on_shards).await;
        let (status, content) = fetch(&client, "/service").await.unwrap();
        assert_eq!((status, content.len()), (StatusCode::INTERNAL_SERVER_ERROR, 0));
        let expected = (FailureReason::Service, "service".to_owned());
        assert_eq!(reported(&failures).await, expected);

        fetch(&client, "/next-not-ready").await.unwrap();
        let (status, _) = fetch(&client, "/").await.unwrap();
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        let expected = (FailureReason::NotReady, "readiness".to_owned());
        assert_eq!(reported(&failures).await, expected);
        assert_eq!(fetch(&client, "/").await.unwrap().1, "fine");
    }
}

#[tokio::test]
async fn panics_are_reported_and_reset_the_stream() {
    for on_shards in [false, true] {
        let (_site, client, failures) = failing(on_shards).await;
        for path in ["/panic", "/"] {
            if path == "/" {
                fetch(&client, "/next-panics").await.unwrap();
            }
            let outcome = within(client.send(get(path))).await;
            assert!(is_internal_error(&outcome.unwrap_err()), "{path}");
            assert_eq!(reported(&failures).await.0, FailureReason::Panic);
        }
        assert_eq!(fetch(&client, "/").await.unwrap().1, "fine");
    }
}

#[tokio::test]
async fn responses_that_cannot_be_completed_are_reported_and_reset() {
    for on_shards in [false, true] {
        let (_site, client, failures) = failing(on_shards).await;
        assert!(is_internal_error(&fetch(&client, "/body").await.unwrap_err()));
        assert_eq!(reported(&failures).await, (FailureReason::Body, "body".to_owned()));
        assert!(is_internal_error(&fetch(&client, "/longer").await.unwrap_err()));
        assert_eq!(reported(&failures).await.0, FailureReason::Response);
    }
}

#[tokio::test]
async fn failures_of_the_client_are_not_reported() {
    let (site, client, failures) = failing(false).await;
    drop(client.start(get("/")).unwrap());
    client.close(Code::NO_ERROR);
    let client = site.client().await;
    assert_eq!(fetch(&client, "/").await.unwrap().1, "fine");
    assert!(failures.lock().unwrap().is_empty());
}

fn is_internal_error(error: &Http3Error) -> bool {
    matches!(error, Http3Error::Reset(code) if *code == Code::INTERNAL_ERROR)
}
