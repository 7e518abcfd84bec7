//! Tests of servers whose configuration is replaced while they run.

use std::num::NonZeroUsize;
use std::time::Duration;

use clearway::rustls::RootCertStore;
use clearway::{
    ClientConfig, ConfigError, ConnectError, Connection, ConnectionError, Endpoint, ServerConfig,
    TicketKeys, TransportConfig,
};

use crate::support::{Identity, PROTOCOL, Pair, identity, loopback, run};

fn server_with(identity: &Identity, protocol: &str) -> ServerConfig {
    ServerConfig::new(vec![identity.certificate.clone()], identity.key.clone_key())
        .application_protocols([protocol])
}

fn client_of(identity: &Identity, protocol: &str) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    let transport = TransportConfig::builder().handshake_timeout(Duration::from_millis(300));
    ClientConfig::with_roots(roots)
        .application_protocols([protocol])
        .transport(transport.build().unwrap())
}

async fn connect(server: &Endpoint, config: &ClientConfig) -> Result<Connection, ConnectError> {
    let client = Endpoint::client(loopback()).unwrap();
    client.connect_with(config, server.local_address(), "localhost").unwrap().await
}

/// Connects again and again until several connections in a row were established, so that all shards
/// have the configuration that this takes.
async fn connect_to_all(server: &Endpoint, config: &ClientConfig) -> Connection {
    let mut connected = Vec::new();
    while connected.len() < 10 {
        match connect(server, config).await {
            Ok(connection) => connected.push(connection),
            Err(_) => connected.clear(),
        }
    }
    connected.remove(0)
}

async fn exchange(client: &Connection, server: &Connection) {
    let mut sending = client.open_uni().await.unwrap();
    sending.finish_with((&b"data"[..]).into()).await.unwrap();
    let data = server.accept_uni().await.unwrap().read_to_end(9).await.unwrap();
    assert_eq!(data, b"data");
}

#[test]
fn new_clients_get_the_new_configuration() {
    run(async {
        for shards in [1, 2] {
            let (first, second) = (identity(), identity());
            let config = server_with(&first, PROTOCOL).shards(NonZeroUsize::new(shards).unwrap());
            let server = Endpoint::server(loopback(), config.clone()).unwrap();
            let (of_first, of_second) = (client_of(&first, PROTOCOL), client_of(&second, "other"));
            let client = connect(&server, &of_first).await.unwrap();
            let accepted = server.accept().await.unwrap().await.unwrap();
            assert!(connect(&server, &of_second).await.is_err());

            server.set_server_config(Some(server_with(&second, "other"))).unwrap();
            exchange(&client, &accepted).await;
            let other = connect_to_all(&server, &of_second).await;
            assert_eq!(other.application_protocol(), Some(&b"other"[..]));
            assert!(connect(&server, &of_first).await.is_err());

            server.set_server_config(None).unwrap();
            let ignored = loop {
                match connect(&server, &of_second).await {
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            let ConnectError::Lost(ConnectionError::HandshakeTimedOut(_)) = ignored else {
                panic!("there is an answer: {ignored:?}");
            };
            server.set_server_config(Some(config)).unwrap();
            connect_to_all(&server, &of_first).await;
            exchange(&client, &accepted).await;
        }
    });
}

/// The server keeps its ticket keys if the new configuration has none.
#[test]
fn sessions_are_resumed_with_the_new_configuration() {
    run(async {
        let (keys, mut without_keys) = (TicketKeys::new(&[1; 32]), None);
        let pair = Pair::with(TransportConfig::default(), |server| {
            let server = server.early_data(true);
            without_keys = Some(server.clone());
            server.ticket_keys(keys)
        });
        let config = pair.config.clone().early_data(true);
        let pair = Pair { config, ..pair };
        let (client, server) = pair.connect().await;
        // The ticket arrives before data that is sent later.
        server.open_uni().await.unwrap().finish().unwrap();
        client.accept_uni().await.unwrap();
        pair.server.set_server_config(without_keys).unwrap();
        let (client, _server) = pair.connect().await;
        assert!(client.early_data_accepted().await);
    });
}

#[test]
fn what_cannot_be_replaced_is_an_error() {
    run(async {
        let pair = Pair::new();
        let config = server_with(&identity(), PROTOCOL);
        let error = pair.client.set_server_config(Some(config)).unwrap_err();
        assert!(matches!(error, ConfigError::NotAServer), "{error:?}");
        let without_protocol = ServerConfig::new(Vec::new(), identity().key);
        let error = pair.server.set_server_config(Some(without_protocol)).unwrap_err();
        assert!(matches!(error, ConfigError::Identity(_)), "{error:?}");
        pair.connect().await;
    });
}
