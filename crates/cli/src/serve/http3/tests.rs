use std::fs;

use clearway::http3::{Client, Error, PROTOCOL};
use clearway::{ClientConfig, Endpoint};
use http::StatusCode;

use super::super::store::Store;
use super::*;
use crate::certificate::Identity;

/// Sends a request with content to a server that answers without it: how the content and the answer went.
async fn post(folder: &str, megabytes: usize) -> (Result<(), Error>, StatusCode) {
    let folder = std::env::temp_dir().join(format!("clearway-{folder}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let files = Files::new(&folder, false, Store::new(10, 1 << 20)).unwrap();
    let identity = Identity::development().unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let second = std::time::Duration::from_secs(100);
    let timeouts = Timeouts { request: second, send: second };
    let config = ServerConfig::new(identity.chain, identity.key);
    let server = Http3::bind(any, config, timeouts).unwrap();
    let address = server.local_address();
    tokio::spawn(async move {
        while let Some((request, responder)) = server.0.accept().await {
            let log = AccessLog { is_quiet: true };
            tokio::spawn(respond(files.clone(), log, request, responder));
        }
    });
    let config = ClientConfig::dangerous_without_certificate_verification();
    let config = config.application_protocols([PROTOCOL]);
    let endpoint = Endpoint::client(any).unwrap();
    let client = Client::connect(&endpoint, &config, address, "localhost").await.unwrap();
    let request = Request::post("https://localhost/").body(()).unwrap();
    let (mut send, response) = client.open(request).unwrap();
    let sending = async {
        for _ in 0..megabytes {
            send.write_chunk(vec![0; 1_000_000]).await?;
        }
        send.finish().await
    };
    let (sent, response) = tokio::join!(sending, response.response());
    fs::remove_dir_all(&folder).unwrap();
    (sent, response.unwrap().status())
}

#[tokio::test]
async fn the_content_of_a_request_that_is_refused_is_taken() {
    let (sent, status) = post("taken", 1).await;
    assert!(sent.is_ok(), "{sent:?}");
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn who_sends_too_much_is_told_to_stop_and_has_the_answer() {
    let (sent, status) = post("stopped", 40).await;
    assert!(matches!(sent, Err(Error::Stopped(Code::NO_ERROR))), "{sent:?}");
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}
