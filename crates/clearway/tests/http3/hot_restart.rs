//! Tests that one server replaces another.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clearway::http3::{Client, PROTOCOL, Server};
use clearway::{ClientConfig, Endpoint, EndpointError, HotRestart, HotRestartError};
use clearway::{ServerConfig, TransportConfig};
use http::Response;

use crate::support::{configs, get, loopback, run};

fn config(path: &Path, shards: usize) -> ServerConfig {
    let (server, _) = configs(TransportConfig::default());
    let hot_restart = HotRestart::at(path).unwrap();
    server.shards(NonZeroUsize::new(shards).unwrap()).hot_restart(hot_restart)
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("clearway-{name}-{}", std::process::id()))
}

#[test]
fn requests_in_progress_are_answered_by_the_server_that_was_replaced() {
    run(async {
        let path = path("replaces");
        let first = Arc::new(Server::bind(loopback(), config(&path, 2)).unwrap());
        let address = first.local_address();
        let endpoint = Endpoint::client(loopback()).unwrap();
        let clients = ClientConfig::dangerous_without_certificate_verification();
        let clients = clients.application_protocols([PROTOCOL]);
        let connect = || Client::connect(&endpoint, &clients, address, "localhost");
        let client = connect().await.unwrap();
        let pending = client.start(get("/")).unwrap();
        let (_request, responder) = first.accept().await.unwrap();

        let wrong = Server::bind(address, config(&path, 3)).unwrap_err();
        let EndpointError::Io(error) = &wrong else { panic!("{wrong}") };
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
        let is_named = matches!(cause, Some(HotRestartError::ShardCount { running: 2, asked: 3 }));
        assert!(is_named, "{wrong}");

        let second = Arc::new(Server::bind(loopback(), config(&path, 2)).unwrap());
        assert_eq!(second.local_address(), address);
        first.endpoint().replaced().await;
        let ending = first.clone();
        let ended = tokio::spawn(async move { ending.shutdown().await });
        let later = connect().await.unwrap();
        let answer = later.start(get("/")).unwrap();
        let (_request, by_second) = second.accept().await.unwrap();
        by_second.respond(Response::new("second")).await.unwrap();
        let mut answer = answer.response().await.unwrap();
        assert_eq!(answer.body_mut().bytes(100).await.unwrap(), "second");
        responder.respond(Response::new("first")).await.unwrap();
        let mut answer = pending.response().await.unwrap();
        assert_eq!(answer.body_mut().bytes(100).await.unwrap(), "first");
        ended.await.unwrap();
        assert!(first.accept().await.is_none());
        assert!(second.endpoint().statistics().forwarded > 0);
    });
}

#[test]
fn nobody_is_accepted_by_an_endpoint_that_was_replaced() {
    run(async {
        let path = path("endpoint");
        let first = Endpoint::server(loopback(), config(&path, 1)).unwrap();
        let waiting = first.clone();
        let waiting = tokio::spawn(async move { waiting.accept().await.is_none() });
        let second = Endpoint::server(first.local_address(), config(&path, 1)).unwrap();
        assert!(waiting.await.unwrap());
        first.replaced().await;
        first.wait_idle().await;
        drop((first, second));
        assert!(!path.exists());
    });
}
