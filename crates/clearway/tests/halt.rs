//! Tests a program that exits while connections are being established.

use clearway::rustls::pki_types::PrivatePkcs8KeyDer;
use clearway::{ClientConfig, ConnectError, Endpoint, HotRestart, ServerConfig};

/// Returns a server that another process can replace.
fn replaceable(path: &std::path::Path) -> Endpoint {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let config = ServerConfig::new(vec![certified.cert.into()], key.into())
        .application_protocols(["hq-interop"])
        .hot_restart(HotRestart::at(path).unwrap());
    Endpoint::server("127.0.0.1:0".parse().unwrap(), config).unwrap()
}

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
    let path = std::env::temp_dir().join(format!("clearway-halt-{}", std::process::id()));
    let server = replaceable(&path);
    assert!(path.exists());
    clearway::halt();
    // Tasks that a runtime has not dropped may still own the endpoint.
    assert!(!path.exists(), "no process can replace this one");
    drop(server);
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
