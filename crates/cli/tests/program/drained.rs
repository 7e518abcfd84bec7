//! Tests how an interrupted server reports its end.

use std::process::Stdio;

use clearway::http3::{Body, Client};
use clearway::{ClientConfig, Endpoint};
use http::Request;
use rustix::process::Signal;

use crate::support::{Running, Scratch, clearway};

/// Number of connections; when the last one ends, draining and serving end at the same time.
const CONNECTIONS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_says_each_time_that_it_has_drained() {
    let scratch = Scratch::new("drained");
    scratch.fill("root/file", 100);
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let config = ClientConfig::dangerous_without_certificate_verification();
    let config = config.application_protocols(["h3"]);
    for run in 0..8 {
        let mut command = clearway(&["serve", &scratch.path("root"), "--listen", "127.0.0.1:0"]);
        command.args(["--quiet", "--shards", "1"]).stderr(Stdio::piped());
        let mut server = tokio::task::block_in_place(|| Running::listening(command));
        let address = server.address.parse().unwrap();
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = Client::connect(&endpoint, &config, address, "localhost").await.unwrap();
            let request = Request::get("https://localhost/file").body(Body::empty()).unwrap();
            let answer = client.send(request).await.unwrap().body_mut().bytes(1000).await;
            assert_eq!(answer.unwrap().len(), 100);
            clients.push(client);
        }
        server.signal(Signal::TERM);
        let mut lines = Vec::new();
        loop {
            match tokio::task::block_in_place(|| server.error_line()) {
                line if line.is_empty() => break,
                line => lines.push(line),
            }
        }
        let said =
            lines.iter().any(|line| line.starts_with("drained: all responses were complete"));
        assert!(said, "run {run}: {lines:?}");
    }
}
