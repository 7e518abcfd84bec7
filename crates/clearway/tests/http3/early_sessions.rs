//! Tests of session tickets: how often and by which servers they are accepted, and sessions that
//! cannot be used.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clearway::http3::{Client, Error, PROTOCOL};
use clearway::rustls;
use clearway::rustls::crypto::aws_lc_rs;
use clearway::rustls::server::ProducesTickets;
use clearway::transport::TlsServerConfig;
use clearway::wire::TransportErrorCode;
use clearway::{
    ClientConfig, ConnectionError, Endpoint, SavedSession, SavedSessionError, ServerConfig,
    ShardStatistics,
};

use crate::early_support::{Gate, Known, Site, Store, answer, serve, session_of};
use crate::support::{get, loopback, run};

/// A replayed ClientHello gets a full handshake (RFC 8446 §8.1), which is invisible to the user.
#[test]
fn a_ticket_is_accepted_once() {
    run(async {
        let known = Known::new().await;
        let server = serve(known.site.server(&known.keys));
        let mut outcomes = Vec::new();
        for _ in 0..3 {
            let gate = Gate::before(server.local_address()).await;
            let client = known.connect(gate.address()).await;
            let pending = client.start(get("/")).unwrap();
            gate.open();
            assert_eq!(pending.response().await.unwrap().status(), 200);
            outcomes.push(client.early_data_accepted().await);
        }
        assert_eq!(outcomes, [true, false, false]);
    });
}

/// Clients with other ports reach other shards.
#[test]
fn a_ticket_is_accepted_once_by_all_shards_together() {
    run(async {
        let mut known = Known::new().await;
        let config = known.site.server(&known.keys).shards(NonZeroUsize::new(3).unwrap());
        let server = serve(config);
        let mut accepted = 0;
        let is_idle = |shard: &ShardStatistics| shard.datagrams_sent == 0;
        while server.endpoint().shard_statistics().iter().any(is_idle) {
            known.endpoint = Endpoint::client(loopback()).unwrap();
            let client = known.connect(server.local_address()).await;
            assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
            accepted += u32::from(client.early_data_accepted().await);
        }
        assert_eq!(accepted, 1);
    });
}

/// Servers with the same keys accept each other's tickets, even after one key rotation.
#[test]
fn servers_with_the_same_keys_accept_each_others_tickets() {
    run(async {
        let known = Known::new().await;
        let issue = || session_of(&known.site, known.site.server(&known.keys));
        let server = serve(known.site.server(&known.keys));
        let accepts = async |session| {
            let client = known.connect_with(session, server.local_address()).await;
            assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
            client.early_data_accepted().await
        };
        assert!(accepts(&known.session).await);
        assert!(!accepts(&known.session).await, "only one of the two servers accepts a ticket");

        let (old, older) = (issue().await, issue().await);
        known.keys.rotate(&[2; 32]);
        let new = issue().await;
        assert!(accepts(&old).await, "a ticket of the previous key");
        assert!(accepts(&new).await);
        known.keys.rotate(&[3; 32]);
        assert!(!accepts(&older).await, "a ticket of the key before the previous one");
        assert!(accepts(&issue().await).await);
    });
}

/// A stored session whose bytes a test can change.
struct Stored {
    bytes: Vec<u8>,
    /// Byte ranges of the application protocol, secret, ticket, parameters, settings, trust and
    /// first certificate.
    parts: [Range<usize>; 7],
}

/// The fixed part has the format, early data flag, version, cipher suite, issue time, lifetime and
/// age_add; this is the offset of the cipher suite.
const SUITE: usize = 6;
const ISSUED: Range<usize> = 8..16;
const FIXED: usize = 24;

impl Stored {
    fn new(session: &SavedSession) -> Self {
        let bytes = session.encode();
        let mut end = FIXED;
        let parts = [(); 7].map(|()| {
            let start = end + 2;
            end = start + usize::from(u16::from_be_bytes([bytes[end], bytes[end + 1]]));
            start..end
        });
        Self { bytes, parts }
    }

    /// Returns the session with the last byte of each of these ranges changed.
    fn changed(&self, places: Range<usize>) -> SavedSession {
        let mut bytes = self.bytes.clone();
        bytes[places.end - 1] ^= 1;
        SavedSession::decode(&bytes).unwrap()
    }
}

/// Damaged stored data leads to a full handshake.
#[test]
fn damaged_sessions_are_not_used() {
    run(async {
        let known = Known::new().await;
        let server = serve(known.site.server(&known.keys));
        let stored = Stored::new(&known.session);
        let [protocol, _, ticket, parameters, _, _, certificate] = stored.parts.clone();
        let damaged = [
            ("the suite", SUITE..SUITE + 2),
            ("the protocol", protocol),
            ("the ticket", ticket),
            ("the certificate", certificate),
        ];
        for (what, place) in damaged {
            let session = stored.changed(place);
            let client = known.connect_with(&session, server.local_address()).await;
            assert_eq!(client.send(get("/")).await.unwrap().status(), 200, "{what}");
            assert!(!client.early_data_accepted().await, "{what}");
        }
        let mut bytes = stored.bytes.clone();
        bytes[ISSUED].fill(0);
        let session = SavedSession::decode(&bytes).unwrap();
        let client = known.connect_with(&session, server.local_address()).await;
        assert_eq!(answer(&client).await, "late", "issued in 1970");
        assert!(!client.early_data_accepted().await, "issued in 1970");
        // If the parameters cannot be decoded, the session is resumed, and nothing is sent early.
        let mut bytes = stored.bytes.clone();
        bytes[parameters].fill(0xff);
        let session = SavedSession::decode(&bytes).unwrap();
        let client = known.connect_with(&session, server.local_address()).await;
        assert_eq!(answer(&client).await, "late");
        for end in 0..stored.bytes.len() {
            let error = SavedSession::decode(&stored.bytes[..end]).unwrap_err();
            assert_eq!(error, SavedSessionError::Malformed, "cut at {end}");
        }
    });
}

/// A server aborts a handshake with a ticket whose secret the client does not have (RFC 8446
/// §4.2.11). The session has been removed from the store, so the next connection succeeds.
#[test]
fn a_session_with_another_secret_is_used_in_vain_once() {
    run(async {
        let known = Known::new().await;
        let server = serve(known.site.server(&known.keys));
        let stored = Stored::new(&known.session);
        let store = Store::with(&stored.changed(stored.parts[1].clone()));
        let config = known.site.client(&store);
        let connect = async || {
            let to = server.local_address();
            let client = Client::connect(&known.endpoint, &config, to, "localhost").await?;
            client.send(get("/")).await
        };
        let error = connect().await.unwrap_err().to_string();
        assert!(error.contains("TLS alert 51"), "decrypt_error: {error}");
        assert_eq!(connect().await.unwrap().status(), 200);
    });
}

/// A server that accepts early data must not lower the limits that the client remembers (RFC 9000
/// §7.4.1).
#[test]
fn a_server_that_lowers_a_limit_is_left() {
    run(async {
        let known = Known::new().await;
        let server = serve(known.site.server(&known.keys));
        let stored = Stored::new(&known.session);
        let mut bytes = stored.bytes.clone();
        let parameters = &mut bytes[stored.parts[3].clone()];
        // The parameter initial_max_data, with a value of four bytes.
        let place = parameters.windows(3).position(|it| it[..2] == [4, 4] && it[2] >> 6 == 2);
        parameters[place.unwrap() + 2] |= 0x3f;
        let session = SavedSession::decode(&bytes).unwrap();
        let gate = Gate::before(server.local_address()).await;
        let client = known.connect_with(&session, gate.address()).await;
        let pending = client.start(get("/")).unwrap();
        gate.open();
        let error = pending.response().await.map(|_| ()).unwrap_err();
        let Error::Connection(ConnectionError::TransportError(error)) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
        assert!(error.to_string().contains("lowered a limit"), "{error}");
    });
}

/// Neither a session for another application protocol nor a session with a server of another name
/// is used.
#[test]
fn sessions_of_others_are_not_used() {
    run(async {
        let known = Known::new().await;
        let keys = known.keys.clone();
        let server = serve(known.site.server(&keys));
        let store = Arc::new(Store::default());
        let with_other = known.site.server(&keys).application_protocols(["other"]);
        let other = Endpoint::server(loopback(), with_other).unwrap();
        let config = known.site.client(&store).application_protocols(["other"]);
        let connecting = known.endpoint.connect_with(&config, other.local_address(), "localhost");
        let accepting = async { other.accept().await.unwrap().await.unwrap() };
        let (_connection, _accepted) = tokio::join!(connecting.unwrap(), accepting);
        let of_other_protocol = store.next().await;

        let elsewhere = Site::named("other.example");
        let of_other_name = session_of(&elsewhere, elsewhere.server(&keys)).await;
        let mut roots = known.site.roots();
        roots.add(elsewhere.certificate.clone()).unwrap();
        for session in [of_other_protocol, of_other_name] {
            let config = ClientConfig::with_roots(roots.clone())
                .application_protocols([PROTOCOL])
                .early_data(true)
                .session_store(Store::with(&session));
            let to = server.local_address();
            let client = Client::connect(&known.endpoint, &config, to, "localhost").await.unwrap();
            assert_eq!(answer(&client).await, "late");
            assert!(!client.early_data_accepted().await);
        }
    });
}

/// The first ticket has 64,000 bytes, the next one a hundred. Neither can be decrypted.
#[derive(Debug)]
struct Long(AtomicBool);

impl ProducesTickets for Long {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        3600
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        let was_long = self.0.fetch_xor(true, Ordering::Relaxed);
        Some(vec![7; if was_long { 100 } else { 64_000 }])
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// A ticket is sent back in the ClientHello, so a client does not keep a ticket that would make the
/// ClientHello long.
#[test]
fn a_ticket_of_64_kilobytes_is_not_kept() {
    run(async {
        let site = Site::new();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![site.certificate.clone()], site.key.clone_key())
            .unwrap();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.ticketer = Arc::new(Long(AtomicBool::new(false)));
        config.send_tls13_tickets = 2;
        let sessions = TlsServerConfig::new(Arc::new(config)).unwrap();
        let server = serve(ServerConfig::with_sessions(Arc::new(sessions)));
        let store = Arc::new(Store::default());
        let endpoint = Endpoint::client(loopback()).unwrap();
        for config in [
            site.client(&store),
            ClientConfig::with_roots(site.roots()).application_protocols([PROTOCOL]),
        ] {
            for _ in 0..2 {
                let to = server.local_address();
                let client = Client::connect(&endpoint, &config, to, "localhost").await.unwrap();
                assert_eq!(answer(&client).await, "late");
            }
        }
        // The short ticket arrived after the long one.
        assert!(store.next().await.encode().len() < 10_000);
        let kept = store.sessions.lock().unwrap();
        assert!(kept.iter().all(|(_, session)| session.encode().len() < 10_000));
    });
}
