//! Requests and responses.

use core::convert::Infallible;
use core::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clearway::http3::{Body, Early, Error, OnTunnel, Peer, Protocol};
use clearway_tower::{RequestBody, Serve, serve};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tower::service_fn;

use crate::support::{Site, fetch, get, text, until, within};

/// Returns the content of a request as it arrives.
async fn echo(request: Request<RequestBody>) -> Result<Response<RequestBody>, Infallible> {
    assert_eq!(request.version(), Version::HTTP_3);
    Ok(Response::new(request.into_body()))
}

#[tokio::test]
async fn content_and_trailers_stream_in_both_directions() {
    let site = Site::new();
    let server = site.server.clone();
    tokio::spawn(async move { serve(&server, service_fn(echo)).await });
    let client = site.client().await;
    let request = Request::post("https://localhost/").body(()).unwrap();
    let (mut send, response) = client.open(request).unwrap();
    let mut body = None;
    let mut pending = Some(response);
    for part in ["first", "second"] {
        within(send.write_chunk(part)).await.unwrap();
        if let Some(pending) = pending.take() {
            body = Some(within(pending.response()).await.unwrap().into_body());
        }
        let chunk = within(body.as_mut().unwrap().chunk()).await;
        assert_eq!(chunk.unwrap().unwrap(), part, "before the end of the request");
    }
    let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from(11))]);
    within(send.finish_with_trailers(trailers.clone())).await.unwrap();
    assert_eq!(within(body.unwrap().trailers()).await.unwrap(), Some(trailers));
}

#[tokio::test]
async fn a_request_without_content_has_an_empty_body_from_the_start() {
    let site = Site::new();
    site.run(Serve::new(service_fn(async |request: Request<RequestBody>| {
        let body = request.into_body();
        text(format!("{:?}", http_body::Body::size_hint(&body).exact()))
    })));
    let client = site.client().await;
    assert_eq!(fetch(&client, "/").await.unwrap().1, "Some(0)");
    let mut response =
        client.send(Request::post("https://localhost/").body("four").unwrap()).await.unwrap();
    assert_eq!(within(response.body_mut().bytes(100)).await.unwrap(), "Some(4)");
}

#[tokio::test]
async fn requests_have_the_address_of_the_client() {
    #[derive(Clone)]
    struct ConnectInfo(SocketAddr);
    for on_shards in [false, true] {
        let site = Site::new();
        let service = service_fn(async |request: Request<RequestBody>| {
            let peer = Peer::of(&request).unwrap();
            let ConnectInfo(address) = request.extensions().get().unwrap();
            assert_eq!(peer.remote_address(), *address);
            text(address.to_string())
        });
        let serve = Serve::new(service).connect_info(ConnectInfo);
        site.run(if on_shards { serve.on_shards() } else { serve });
        let client = site.client().await;
        let (status, content) = fetch(&client, "/").await.unwrap();
        assert_eq!(status, StatusCode::OK);
        let address: SocketAddr = std::str::from_utf8(&content).unwrap().parse().unwrap();
        assert!(address.ip().is_loopback() && address.port() != 0, "{address}");
    }
}

#[tokio::test]
async fn fields_of_a_connection_are_removed_from_responses() {
    let site = Site::new();
    site.run(Serve::new(service_fn(async |_: Request<RequestBody>| {
        Response::builder()
            .header("connection", "keep-alive, x-hop")
            .header("keep-alive", "timeout=5")
            .header("transfer-encoding", "chunked")
            .header("x-hop", "1")
            .header("x-end", "2")
            .body(Body::empty())
    })));
    let client = site.client().await;
    let response = within(client.send(get("/"))).await.unwrap();
    let mut names: Vec<_> = response.headers().keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "date", "x-end"]);
}

#[tokio::test]
async fn a_client_that_expects_100_gets_it_when_the_service_reads() {
    let site = Site::new();
    site.run(Serve::new(service_fn(async |request: Request<RequestBody>| {
        let content = request.into_body().collect().await.unwrap().to_bytes();
        text(content)
    })));
    let client = site.client().await;
    let request = Request::post("https://localhost/").header("expect", "100-continue");
    let (mut send, mut pending) = client.open(request.body(()).unwrap()).unwrap();
    let interim = within(pending.informational()).await.unwrap().unwrap();
    assert_eq!(interim.status(), StatusCode::CONTINUE);
    within(send.write_chunk("content")).await.unwrap();
    within(send.finish()).await.unwrap();
    let mut response = within(pending.response()).await.unwrap();
    assert_eq!(within(response.body_mut().bytes(100)).await.unwrap(), "content");
}

#[tokio::test]
async fn requests_in_early_data_are_marked() {
    let site = Site::new();
    site.run(Serve::new(service_fn(async |request: Request<RequestBody>| {
        text(if Early::is_in(&request) { "early" } else { "late" })
    })));
    let config = site.client_config.clone().early_data(true);
    let client = site.client_with(&config).await;
    assert_eq!(fetch(&client, "/").await.unwrap().1, "late");
    within(client.shutdown()).await;
    let endpoint = site.endpoint();
    let (connecting, (done, begun)) = (site.connect(endpoint.clone(), config), oneshot::channel());
    // On the thread of the shard, the request is certainly part of the first flight.
    endpoint.spawn(async move {
        let client = connecting.await;
        let pending = client.start(get("/")).unwrap();
        assert!(done.send((client, pending)).is_ok());
    });
    let (client, pending) = within(begun).await.unwrap();
    let mut response = within(pending.response()).await.unwrap();
    assert!(within(client.early_data_accepted()).await);
    assert_eq!(within(response.body_mut().bytes(100)).await.unwrap(), "early");
}

#[tokio::test]
async fn a_canceled_request_ends_its_service() {
    let site = Site::new();
    let (begun, has_begun) = oneshot::channel();
    let (ended, has_ended) = oneshot::channel::<Infallible>();
    let ends = Arc::new(Mutex::new(Some((begun, ended))));
    site.run(Serve::new(service_fn(move |_: Request<RequestBody>| {
        let (begun, ended) = ends.lock().unwrap().take().unwrap();
        async move {
            begun.send(()).unwrap();
            core::future::pending::<()>().await;
            drop(ended);
            text("")
        }
    })));
    let client = site.client().await;
    let pending = client.start(get("/")).unwrap();
    within(has_begun).await.unwrap();
    drop(pending);
    assert!(within(has_ended).await.is_err(), "the future is dropped");
}

#[tokio::test]
async fn shutting_down_completes_responses() {
    let site = Site::new();
    let (stop, stopped) = oneshot::channel::<()>();
    let (release, released) = oneshot::channel::<()>();
    let released = Arc::new(Mutex::new(Some(released)));
    let (begun, has_begun) = oneshot::channel();
    let begun = Arc::new(Mutex::new(Some(begun)));
    let service = service_fn(move |_: Request<RequestBody>| {
        let released = released.lock().unwrap().take().unwrap();
        let begun = begun.lock().unwrap().take().unwrap();
        async move {
            begun.send(()).unwrap();
            released.await.unwrap();
            text("complete")
        }
    });
    let serving = site.run(Serve::new(service).graceful_shutdown(async {
        let _ = stopped.await;
    }));
    let client = site.client().await;
    let pending = client.start(get("/")).unwrap();
    within(has_begun).await.unwrap();
    stop.send(()).unwrap();
    // The client has received GOAWAY.
    until(|| !client.is_open()).await;
    assert!(!serving.is_finished());
    release.send(()).unwrap();
    let mut response = within(pending.response()).await.unwrap();
    assert_eq!(within(response.body_mut().bytes(100)).await.unwrap(), "complete");
    within(serving).await.unwrap();
    assert!(matches!(client.send(get("/")).await, Err(Error::GoingAway | Error::Connection(_))));
}

#[tokio::test]
async fn a_server_that_is_shut_down_elsewhere_ends() {
    let site = Site::new();
    let serving = site.run(Serve::new(service_fn(echo)));
    within(site.server.shutdown()).await;
    within(serving).await.unwrap();
}

#[tokio::test]
async fn connect_requests_open_tunnels() {
    let site = Site::new();
    site.run(Serve::new(service_fn(async |request: Request<RequestBody>| {
        let mut response = Response::new(Body::empty());
        if request.uri().path() != "/tunnel" {
            *response.status_mut() = StatusCode::NOT_FOUND;
            return Ok::<_, Infallible>(response);
        }
        let tunnel = OnTunnel::of(&request).unwrap();
        tokio::spawn(async move {
            let mut tunnel = tunnel.await.unwrap();
            let mut bytes = [0; 4];
            tunnel.read_exact(&mut bytes).await.unwrap();
            tunnel.write_all(&bytes).await.unwrap();
            tunnel.shutdown().await.unwrap();
        });
        Ok(response)
    })));
    let client = site.client().await;
    let connect = |path: &str| {
        let request = Request::builder().method(Method::CONNECT).uri(path);
        request.extension(Protocol::new("example").unwrap()).body(()).unwrap()
    };
    let (_send, pending) = client.open(connect("https://localhost/other")).unwrap();
    assert_eq!(within(pending.response()).await.unwrap().status(), StatusCode::NOT_FOUND);
    let (mut send, pending) = client.open(connect("https://localhost/tunnel")).unwrap();
    let mut response = within(pending.response()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    within(send.write_chunk(Bytes::from("four"))).await.unwrap();
    assert_eq!(within(response.body_mut().bytes(100)).await.unwrap(), "four");
}

#[tokio::test]
async fn another_service_can_follow() {
    let site = Site::new();
    let client = site.client().await;
    for (name, on_shards) in [("first", true), ("second", true), ("third", false)] {
        let serve =
            Serve::new(service_fn(move |_: Request<RequestBody>| async move { text(name) }));
        let serving = site.run(if on_shards { serve.on_shards() } else { serve });
        assert_eq!(fetch(&client, "/").await.unwrap().1, name);
        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
    }
}

/// Frameworks add the field to all responses whose body is empty.
#[tokio::test]
async fn a_response_with_status_204_has_no_content_length() {
    let site = Site::new();
    site.run(Serve::new(service_fn(async |_: Request<RequestBody>| {
        let response = Response::builder().status(StatusCode::NO_CONTENT);
        response.header("content-length", "0").header("x", " padded ").body(Body::empty())
    })));
    let response = within(site.client().await.send(get("/"))).await.unwrap();
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert!(!response.headers().contains_key("content-length"));
    assert_eq!(response.headers()["x"], "padded");
}

#[tokio::test]
async fn responses_have_a_date() {
    let site = Site::new();
    site.run(Serve::new(service_fn(async |request: Request<RequestBody>| {
        let response = Response::builder();
        match request.uri().path() {
            "/own" => response.header("date", "own"),
            _ => response,
        }
        .body(Body::empty())
    })));
    let client = site.client().await;
    let response = within(client.send(get("/"))).await.unwrap();
    assert!(response.headers()["date"].to_str().unwrap().ends_with(" GMT"));
    let response = within(client.send(get("/own"))).await.unwrap();
    assert_eq!(response.headers().get_all("date").iter().collect::<Vec<_>>(), ["own"]);
}
