use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use clearway::http3::{Client, PROTOCOL};
use clearway::{ClientConfig, Endpoint};
use clearway_probe::conformance::{Suite, check_client};
use clearway_probe::quic::Identity;
use clearway_probe::run::Listener;

/// Makes one request. Its result depends on the check.
async fn request(address: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::dangerous_without_certificate_verification()
        .application_protocols([PROTOCOL]);
    let client = Client::connect(&endpoint, &config, address, "localhost").await?;
    let response = client.send(http::Request::get("https://localhost/").body(())?).await;
    if let Ok(response) = response {
        drop(response.into_body().bytes(1 << 20).await);
    }
    // A client that waits for the end of its connection, so that it processes what the probe sends.
    tokio::time::timeout(Duration::from_secs(3), client.closed()).await?;
    Ok(())
}

#[test]
fn clearway_passes_every_check_for_clients() {
    let identity = Identity::self_signed(&["localhost"]).unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), identity).unwrap();
    let address = listener.local_address();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (send, _receive) = mpsc::channel();
    let start = |_: &_| {
        let send = send.clone();
        runtime.spawn(async move {
            // The checks judge what the client sends, not how its request ends.
            let outcome = request(address).await.map_err(|error| error.to_string());
            drop(send.send(outcome));
        });
    };
    let summary = check_client(&listener, &Suite::default(), start, |_| {});
    runtime.shutdown_background();
    assert_eq!(summary.failed, 0, "{summary}");
    assert!(summary.passed > 100, "{summary}");
}
