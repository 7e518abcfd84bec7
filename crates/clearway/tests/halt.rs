//! A program that ends while connections are being made.

use clearway::{ClientConfig, Endpoint};

/// How many shards this process runs.
fn shards() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|thread| {
        // It may have ended meanwhile.
        std::fs::read_to_string(thread.unwrap().path().join("comm")).ok()
    });
    names.filter(|name| name.trim_end() == "clearway-shard").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_shard_outlives_a_halt() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let config = ClientConfig::dangerous_without_certificate_verification()
        .application_protocols(["hq-interop"]);
    let endpoints: Vec<_> =
        (0..3).map(|_| Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap()).collect();
    assert_eq!(shards(), 3);
    let connecting: Vec<_> = endpoints
        .iter()
        .map(|endpoint| endpoint.connect_with(&config, nobody.local_addr().unwrap(), "localhost"))
        .collect();
    clearway::halt();
    assert_eq!(shards(), 0);
    for attempt in connecting {
        assert!(attempt.unwrap().await.is_err(), "nobody waits for a shard that is gone");
    }
    clearway::halt();
}
