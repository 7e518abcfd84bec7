//! Tests of early data and HTTP/3 SETTINGS (RFC 9114 §7.2.4.2, RFC 9204 §3.2.3, RFC 9297 §2.1.1).

use std::sync::Arc;

use clearway::http3::{
    Client, Code, Config, Early, EarlySettings, Error, PROTOCOL, ProtocolError, Server,
};
use clearway::transport::{EarlyDataContext, TlsServerConfig};
use clearway::{
    ClientConfig, Endpoint, SavedSession, ServerConfig, SessionStore, TicketKeys, TransportConfig,
    Version,
};
use http::Response;

use crate::early_support::{Gate, Site, Store, answer};
use crate::support::{get, loopback, run};

fn transport() -> TransportConfig {
    TransportConfig::builder().max_datagram_frame_size(Some(65_535)).build().unwrap()
}

/// Returns the settings at the time when a session is issued.
fn before() -> Config {
    Config {
        max_field_section_size: 10_000,
        extended_connect: true,
        datagrams: true,
        ..Config::default()
    }
}

/// Returns later settings, and whether early data is acceptable from a client that remembers the
/// settings of [`before`].
fn cases() -> Vec<(&'static str, Config, bool)> {
    let with = |change: fn(&mut Config)| {
        let mut config = before();
        change(&mut config);
        config
    };
    vec![
        ("the same", before(), true),
        ("another limit that is not a setting", with(|it| it.max_cancelled_requests = 1), true),
        ("MAX_FIELD_SECTION_SIZE lowered", with(|it| it.max_field_section_size = 9_999), false),
        ("MAX_FIELD_SECTION_SIZE raised", with(|it| it.max_field_section_size = 10_001), true),
        ("QPACK_BLOCKED_STREAMS lowered", with(|it| it.qpack_blocked_streams = 15), false),
        ("QPACK_BLOCKED_STREAMS left out", with(|it| it.qpack_blocked_streams = 0), false),
        ("QPACK_BLOCKED_STREAMS raised", with(|it| it.qpack_blocked_streams = 17), true),
        ("QPACK_MAX_TABLE_CAPACITY lowered", with(|it| it.qpack_max_table_capacity = 4095), false),
        ("QPACK_MAX_TABLE_CAPACITY left out", with(|it| it.qpack_max_table_capacity = 0), false),
        // The value must be unchanged, or have been 0 (RFC 9204 §3.2.3).
        ("QPACK_MAX_TABLE_CAPACITY raised", with(|it| it.qpack_max_table_capacity = 4097), false),
        ("ENABLE_CONNECT_PROTOCOL left out", with(|it| it.extended_connect = false), false),
        ("H3_DATAGRAM left out", with(|it| it.datagrams = false), false),
    ]
}

fn serve(config: ServerConfig, http3: Config) -> Arc<Server> {
    let server = Server::bind_with(loopback(), config.transport(transport()), http3).unwrap();
    let server = Arc::new(server);
    let serving = server.clone();
    tokio::spawn(async move {
        let answer = |request| async move {
            Response::new(if Early::is_in(&request) { "early" } else { "late" })
        };
        serving.serve(answer).await;
    });
    server
}

/// Returns TLS settings for servers that keep sessions in one table, without HTTP/3 settings bound
/// to them.
fn table(site: &Site) -> TlsServerConfig {
    let chain = vec![site.certificate.clone()];
    let tls = TlsServerConfig::with_certificate(chain, site.key.clone_key(), &[PROTOCOL]);
    tls.unwrap().early_data(true)
}

/// Returns a server whose sessions are in `table` and bound to the settings `http3`.
fn with_table(table: &TlsServerConfig, http3: &Config) -> ServerConfig {
    let settings = Arc::new(EarlySettings::new(http3));
    ServerConfig::with_sessions(Arc::new(table.clone().early_data_context(settings)))
}

async fn connect(config: &ClientConfig, endpoint: &Endpoint, server: &Server) -> Client {
    Client::connect(endpoint, config, server.local_address(), "localhost").await.unwrap()
}

/// Returns whether the second server accepts early data from a client that got a session from the
/// first one.
async fn accepts(config: &ClientConfig, servers: [&Server; 2]) -> bool {
    let endpoint = Endpoint::client(loopback()).unwrap();
    let [first, second] = servers;
    let client = connect(config, &endpoint, first).await;
    assert_eq!(answer(&client).await, "late");
    // The session arrives with the response at the latest.
    client.shutdown().await;
    let client = connect(config, &endpoint, second).await;
    let answer = answer(&client).await;
    let is_accepted = client.early_data_accepted().await;
    // Accepted requests may still arrive after the end of the handshake.
    assert!(is_accepted || answer == "late");
    is_accepted
}

fn memory_client(site: &Site) -> ClientConfig {
    ClientConfig::with_roots(site.roots())
        .application_protocols([PROTOCOL])
        .transport(transport())
        .early_data(true)
}

/// Servers that share encrypted tickets, such as a server before and after a restart with another
/// configuration.
#[test]
fn sealed_sessions_are_bound_to_the_settings() {
    run(async {
        let site = Site::new();
        let keys = TicketKeys::new(&[1; 32]);
        let first = serve(site.server(&keys), before());
        for (what, after, is_accepted) in cases() {
            let second = serve(site.server(&keys), after);
            let config = memory_client(&site);
            let outcome = accepts(&config, [&first, &second]).await;
            assert_eq!(outcome, is_accepted, "{what}");
        }
    });
}

#[test]
fn sessions_in_the_table_are_bound_to_the_settings() {
    run(async {
        let site = Site::new();
        for (what, after, is_accepted) in cases() {
            let table = table(&site);
            let first = serve(with_table(&table, &before()), before());
            let second = serve(with_table(&table, &after), after);
            let outcome = accepts(&memory_client(&site), [&first, &second]).await;
            assert_eq!(outcome, is_accepted, "{what}");
        }
    });
}

/// If a session or the server has no settings, the server cannot determine whether the settings
/// that the client remembers are still allowed.
#[test]
fn a_session_whose_settings_are_unknown_leads_to_no_early_data() {
    run(async {
        let site = Site::new();
        let table = table(&site);
        let without = || serve(ServerConfig::with_sessions(Arc::new(table.clone())), before());
        let with = || serve(with_table(&table, &before()), before());
        for (servers, is_accepted) in [
            ([with(), with()], true),
            ([without(), without()], true),
            ([with(), without()], false),
            ([without(), with()], false),
        ] {
            let [first, second] = &servers;
            let outcome = accepts(&memory_client(&site), [first, second]).await;
            assert_eq!(outcome, is_accepted);
        }
    });
}

#[derive(Debug)]
struct Panicking;

impl EarlyDataContext for Panicking {
    fn current(&self) -> Vec<u8> {
        vec![1]
    }

    fn permits(&self, _: &[u8]) -> bool {
        panic!("a test panics");
    }
}

#[test]
fn a_context_that_panics_permits_nothing() {
    run(async {
        let site = Site::new();
        let tls = table(&site).early_data_context(Arc::new(Panicking));
        let server = || serve(ServerConfig::with_sessions(Arc::new(tls.clone())), before());
        let (first, second) = (server(), server());
        let outcome = accepts(&memory_client(&site), [&first, &second]).await;
        assert!(!outcome);
    });
}

/// If servers do not bind settings to their sessions, the client remembers the settings itself, and
/// closes the connection if they were lowered. It remembers the settings in memory, in a store, and
/// in a store's encoded form.
#[test]
fn a_client_closes_the_connection_if_settings_were_lowered_after_early_data() {
    run(async {
        let site = Site::new();
        for (what, after, is_accepted) in cases() {
            let code = match is_accepted {
                true => None,
                false if what.starts_with("QPACK_MAX") => Some(Code::QPACK_DECODER_STREAM_ERROR),
                false => Some(Code::SETTINGS_ERROR),
            };
            let table = table(&site);
            let server = |http3| serve(ServerConfig::with_sessions(Arc::new(table.clone())), http3);
            let (first, second) = (server(before()), server(after));
            for is_stored in [false, true] {
                let store = Arc::new(Store::default());
                let mut config = memory_client(&site);
                if is_stored {
                    config = config.session_store(store.clone());
                }
                let endpoint = Endpoint::client(loopback()).unwrap();
                let client = connect(&config, &endpoint, &first).await;
                assert_eq!(answer(&client).await, "late");
                client.shutdown().await;
                if is_stored {
                    let session = store.take_session("localhost", Version::V1).unwrap();
                    let decoded = SavedSession::decode(&session.encode()).unwrap();
                    assert_eq!(decoded, session);
                    store.put_session("localhost", decoded);
                }
                let error = error_of(&config, &endpoint, &second).await;
                assert_eq!(error.map(|error| error.code), code, "{what}");
            }
        }
    });
}

/// Returns the error with which a client closes its second connection, whose early data the server
/// accepts; `None` if a request succeeds.
async fn error_of(
    config: &ClientConfig,
    endpoint: &Endpoint,
    server: &Server,
) -> Option<ProtocolError> {
    let connected = Client::connect(endpoint, config, server.local_address(), "localhost").await;
    let error = match connected {
        // The settings may arrive before the task runs.
        Err(error) => error,
        Ok(client) => {
            let outcome = client.send(get("/")).await;
            assert!(client.early_data_accepted().await);
            if outcome.is_ok_and(|response| response.status() == 200) && client.is_open() {
                return None;
            }
            client.closed().await
        }
    };
    match error {
        Error::Protocol(error) => Some(error),
        other => panic!("{other:?}"),
    }
}

/// The server's previous limits apply to early data; larger requests wait for the new settings.
#[test]
fn a_request_larger_than_the_remembered_limit_waits_for_the_new_settings() {
    run(async {
        let site = Site::new();
        let keys = TicketKeys::new(&[1; 32]);
        let limited = |size| Config { max_field_section_size: size, ..before() };
        let first = serve(site.server(&keys), limited(1_000));
        let second = site.server(&keys).transport(transport());
        let second = Server::bind_with(loopback(), second, limited(20_000)).unwrap();
        let config = memory_client(&site);
        let endpoint = Endpoint::client(loopback()).unwrap();
        let client = connect(&config, &endpoint, &first).await;
        assert_eq!(answer(&client).await, "late");
        client.shutdown().await;

        let gate = Gate::before(second.local_address()).await;
        let client = Client::connect(&endpoint, &config, gate.address(), "localhost").await;
        let client = client.unwrap();
        let mut large = get("/large");
        large.headers_mut().insert("x", "x".repeat(3_000).parse().unwrap());
        let pending = [get("/small"), large].map(|request| client.start(request).unwrap());
        for (path, is_early) in [("/small", true), ("/large", false)] {
            let (request, responder) = second.accept().await.unwrap();
            assert_eq!((request.uri().path(), Early::is_in(&request)), (path, is_early));
            gate.open();
            responder.respond(Response::new("")).await.unwrap();
        }
        for pending in pending {
            assert_eq!(pending.response().await.unwrap().status(), 200);
        }
        assert!(client.early_data_accepted().await);
    });
}
