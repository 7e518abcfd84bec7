//! Tests, in virtual time, of the memory that the driver frees when its connection is idle.

use std::sync::Arc;
use std::time::Duration;

use clearway_transport::{
    Arrival, ClientConfig, ConnectionHandle, EcnCodepoint, Endpoint, EndpointConfig, RandomIds,
    Received, ResetKey, ServerConfig, ServerTrust, SocketIndex, TlsClientConfig, TlsClientSettings,
    TlsServerConfig, TransportConfig,
};
use clearway_units::Random;
use rustls::pki_types::PrivatePkcs8KeyDer;

use super::*;

const ALPN: &[u8] = b"test";

fn endpoint(number: u64, server: Option<Arc<ServerConfig>>) -> Endpoint {
    let config = EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[1; 32]),
        max_connections: 10,
    };
    Endpoint::new(config, server, Timestamp::ORIGIN, Random::from_number(number))
}

fn server_config() -> Arc<ServerConfig> {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let chain = vec![certified.cert.into()];
    let tls = TlsServerConfig::with_certificate(chain, key.into(), &[ALPN]).unwrap();
    Arc::new(ServerConfig {
        sessions: Arc::new(tls),
        transport: Arc::new(TransportConfig::default()),
        retry_token_lifetime: Duration::from_secs(10),
        new_token_lifetime: Duration::from_secs(10),
        shared_tokens: None,
        preferred_addresses: Default::default(),
    })
}

fn client_config() -> ClientConfig {
    let settings = TlsClientSettings::new(ServerTrust::DangerousAnyone, &[ALPN]);
    let sessions = Arc::new(TlsClientConfig::from_settings(settings).unwrap());
    ClientConfig { sessions, transport: Arc::new(TransportConfig::default()), token: Vec::new() }
}

/// Passes the output of one endpoint to the other. Returns the connection that the other endpoint
/// accepted.
fn pass(
    now: Timestamp,
    from: &mut Endpoint,
    handle: ConnectionHandle,
    to: &mut Endpoint,
) -> Option<ConnectionHandle> {
    let (mut buffer, mut accepted) = (vec![0; 2000], None);
    while let Some(transmit) = from.transmit(handle, now, &mut buffer, 1) {
        from.transmitted(handle, now);
        let remote = "127.0.0.1:443".parse().unwrap();
        let socket = SocketIndex::default();
        let arrival = Arrival { remote, socket, local_ip: None, ecn: EcnCodepoint::NotEct };
        if let Received::Incoming(incoming) = to.receive(now, arrival, &mut buffer[..transmit.size])
        {
            accepted = to.accept(now, incoming, None).ok();
        }
    }
    accepted
}

#[test]
fn a_connection_that_rests_gives_back_what_it_shares_with_tasks() {
    let (mut client, mut server) = (endpoint(1, None), endpoint(2, Some(server_config())));
    let mut now = Timestamp::ORIGIN;
    let remote = "127.0.0.1:443".parse().unwrap();
    let handle = client.connect(now, &client_config(), remote, "localhost", None).unwrap();
    let shared = Shared::new(None);
    let mut driver = Driver::new(shared.clone());
    shared.lock().app.exports.reserve(100);
    let mut accepted = None;
    for _ in 0..100 {
        now += Duration::from_millis(10);
        accepted = pass(now, &mut client, handle, &mut server).or(accepted);
        if let Some(accepted) = accepted {
            pass(now, &mut server, accepted, &mut client);
            server.on_deadline(accepted, now, now);
        }
        client.on_deadline(handle, now, now);
        let connection = client.connection_mut(handle).unwrap();
        let is_compacted = connection.is_compacted();
        driver.process(now, connection);
        assert_eq!(shared.lock().app.exports.capacity() == 0, is_compacted);
        if is_compacted {
            return;
        }
    }
    panic!("the connection does not become idle");
}
