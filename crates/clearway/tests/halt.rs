//! A program that ends while connections are being made.

use clearway::{ClientConfig, ConnectError, Endpoint};

#[tokio::test(flavor = "multi_thread")]
async fn no_shard_outlives_a_halt() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = nobody.local_addr().unwrap();
    let config = ClientConfig::dangerous_without_certificate_verification()
        .application_protocols(["hq-interop"]);
    let endpoints: Vec<_> =
        (0..3).map(|_| Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap()).collect();
    let connect =
        |endpoint: &Endpoint| endpoint.connect_with(&config, remote, "localhost").unwrap();
    let attempts: Vec<_> = endpoints.iter().map(connect).collect();
    clearway::halt();
    for attempt in attempts {
        assert!(attempt.await.is_err(), "connecting fails when the shard has ended");
    }
    for endpoint in &endpoints {
        let refused = connect(endpoint).await.unwrap_err();
        assert!(
            matches!(refused, ConnectError::NotStarted(_)),
            "no new connection is started: {refused}"
        );
    }
    // There is nothing left to halt.
    clearway::halt();
}
