//! Tests misbehaving peers: servers that stop in the middle of a response, and clients that send
//! requests for other servers' hosts.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clearway::http3::{Body, Client, PROTOCOL, Server};
use clearway::{Certificates, ClientConfig, Endpoint, Identity, ServerConfig};
use http::{Request, Response, StatusCode};

use crate::support::{Running, Scratch, clearway};

/// Starts a server that sends a header with `length`, ten bytes of content, and then nothing more;
/// to requests for `/silent` it sends nothing at all. Its QUIC stack still acknowledges its
/// clients' PING frames. Returns the URL.
fn stalling(scratch: &Scratch, length: Option<&'static str>) -> String {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    fs::write(scratch.path("cert.pem"), made.cert.pem()).unwrap();
    let key = made.signing_key.serialize_pem();
    let identity = Identity::from_pem(made.cert.pem().as_bytes(), key.as_bytes()).unwrap();
    let config = ServerConfig::with_resolver(Arc::new(Certificates::new([identity]).unwrap()));
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), config).unwrap();
    let port = server.endpoint().local_address().port();
    tokio::spawn(async move {
        while let Some((request, responder)) = server.accept().await {
            tokio::spawn(async move {
                if request.uri().path() != "/silent" {
                    let mut response = Response::builder();
                    if let Some(length) = length {
                        response = response.header("content-length", length);
                    }
                    let mut send = responder.start(response.body(()).unwrap());
                    send.write_chunk(vec![b'x'; 10]).await.unwrap();
                    std::future::pending::<()>().await;
                    drop(send);
                } else {
                    std::future::pending::<()>().await;
                    drop(responder);
                }
            });
        }
    });
    format!("https://localhost:{port}/")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_stands_still_fails_and_says_what_was_received() {
    let scratch = Scratch::new("stalled-response");
    let certificate = scratch.path("cert.pem");
    for (length, path, expected) in [
        (Some("2000000"), "file", "10 B of 2.0 MB were received"),
        (None, "file", "10 B were received"),
        (None, "silent", "no part of the response was received"),
    ] {
        let url = stalling(&scratch, length) + path;
        let arguments = ["get", "--ca", &certificate, "--stall-timeout", "300ms", &url];
        // PING frames do not count as progress.
        let arguments = [&arguments[..], &["--keep-alive", "50ms"]].concat();
        let begun = Instant::now();
        let mut command = clearway(&arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
        let output = tokio::time::timeout(Duration::from_secs(20), output).await;
        let output = output.expect("the command never ends").unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("has sent no part of the response for 300ms"), "{errors}");
        assert!(errors.contains(expected), "{errors}");
        assert!(begun.elapsed() >= Duration::from_millis(300));
    }
}

/// Requests for other servers' hosts are misdirected (RFC 9110 §15.5.20).
#[tokio::test(flavor = "multi_thread")]
async fn requests_for_the_hosts_of_others_are_misdirected() {
    let scratch = Scratch::new("misdirected");
    scratch.fill("root/file", 1000);
    let server = Running::serve(&scratch, "root", &["--echo"]);
    let proxied = Running::serve(&scratch, "root", &["--host-name", "proxied.example"]);
    let any = Running::serve(&scratch, "root", &["--host-name", "*"]);
    let config = ClientConfig::dangerous_without_certificate_verification();
    let config = config.application_protocols([PROTOCOL]);
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    for (server, name, authority, expected) in [
        (&server, "localhost", "localhost:4433", StatusCode::OK),
        (&server, "localhost", "127.0.0.1:4433", StatusCode::OK),
        (&server, "localhost", "evil.example", StatusCode::MISDIRECTED_REQUEST),
        (&server, "localhost", "proxied.example", StatusCode::MISDIRECTED_REQUEST),
        // As with `get --insecure --connect`, the client has accepted the certificate for this
        // name.
        (&server, "www.example", "www.example", StatusCode::OK),
        (&server, "127.0.0.1", "127.0.0.1", StatusCode::OK),
        (&proxied, "localhost", "proxied.example", StatusCode::OK),
        (&proxied, "localhost", "evil.example", StatusCode::MISDIRECTED_REQUEST),
        (&any, "localhost", "evil.example", StatusCode::OK),
    ] {
        let address = server.address.parse().unwrap();
        let client = Client::connect(&endpoint, &config, address, name).await.unwrap();
        let uri = format!("https://{authority}/file");
        let request = Request::get(uri).body(Body::empty()).unwrap();
        let response = client.send(request).await.unwrap();
        assert_eq!(response.status(), expected, "{name} {authority}");
    }
    let log = server.interrupt();
    assert_eq!(log.matches(" 421 ").count(), 2, "{log}");
}
