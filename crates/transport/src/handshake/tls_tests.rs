use std::sync::{Arc, Mutex};

use clearway_units::Random;
use clearway_wire::{VarInt, Version, frame};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;
use rustls::{PeerMisbehaved, RootCertStore};

use super::{ServerTrust, TlsClientConfig, TlsClientSettings, TlsServerConfig, TlsSession};
use crate::handshake::tests::{
    self, Wire, client, client_config, hex, identity, server, server_config, vectors,
};
use crate::handshake::{
    ClientSessions, ConnectionVersions, Handshake, NewKeys, ServerSessions, Session, SessionError,
};
use crate::{MemorySessionStore, SessionStore};
use crate::{Side, SpaceId, TransportError, TransportErrorCause};

fn failure(client: Handshake, server: Handshake) -> (Side, TransportError) {
    let mut wire = Wire::new((client, server));
    wire.client.start().unwrap();
    wire.run(1200, &mut Random::from_number(1)).unwrap_err()
}

#[test]
fn an_unknown_issuer_is_refused() {
    let identity = identity();
    let trusting_nobody = TlsClientConfig::with_roots(RootCertStore::empty(), &[b"h3"]).unwrap();
    let client = client(trusting_nobody, "localhost");
    let (side, error) = failure(client, server(server_config(&identity, &[b"h3"])));
    assert_eq!((side, error.frame_type), (Side::Client, Some(0x06)));
    assert_eq!(error.code.alert(), Some(48), "unknown_ca: {error}");
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let identity = identity();
    let client = client(client_config(&identity, &[b"h3"]), "example.org");
    let (side, error) = failure(client, server(server_config(&identity, &[b"h3"])));
    assert_eq!(side, Side::Client);
    assert_eq!(error.code.alert(), Some(42), "bad_certificate: {error}");
    assert_eq!(error.reason(), "the peer's certificate is for a different name");
}

#[test]
fn only_the_dangerous_client_accepts_any_certificate() {
    let identity = identity();
    let config = TlsClientConfig::dangerous_without_certificate_verification(&[b"h3"]).unwrap();
    let mut client = client(config, "example.org");
    client.start().unwrap();
    let mut wire = Wire::new((client, server(server_config(&identity, &[b"h3"]))));
    wire.run(1200, &mut Random::from_number(1)).unwrap();
    assert!(wire.client.is_complete());
}

#[test]
fn no_application_protocol_in_common_is_an_error() {
    let identity = identity();
    let client = client(client_config(&identity, &[b"h3"]), "localhost");
    let (side, error) = failure(client, server(server_config(&identity, &[b"hq-interop"])));
    assert_eq!((side, error.code.0.get()), (Side::Server, 0x178));
}

#[test]
fn a_client_without_application_protocol_is_refused() {
    let identity = identity();
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_protocol_versions(&[&rustls::version::TLS13])
    .unwrap()
    .with_root_certificates(roots)
    .with_no_client_auth();
    let silent = TlsClientConfig {
        config: Arc::new(config),
        tickets: None,
        encrypts_hello: false,
        tokens: None,
    };
    let silent = client(silent, "localhost");
    let (side, error) = failure(silent, server(server_config(&identity, &[b"h3"])));
    assert_eq!((side, error.code.0.get()), (Side::Server, 0x178));
}

/// The keys of Initial packets do not depend on the offered cipher suites (RFC 9001 §5.2).
#[test]
fn a_client_may_offer_only_chacha20() {
    let identity = identity();
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    let suites = vec![TLS13_CHACHA20_POLY1305_SHA256];
    let mut settings = TlsClientSettings::new(ServerTrust::Roots(roots.into()), &[b"h3"]);
    settings.cipher_suites = suites;
    let config = TlsClientConfig::from_settings(settings).unwrap();
    let client = client(config, "localhost");
    let mut wire = Wire::new((client, server(server_config(&identity, &[b"h3"]))));
    wire.client.start().unwrap();
    wire.run(1200, &mut Random::from_number(1)).unwrap();
    assert!(wire.client.is_complete());
    let suite = wire.client.session().cipher_suite();
    assert_eq!(suite, Some("TLS_CHACHA20_POLY1305_SHA256"));
}

#[test]
fn configurations_that_do_not_fit_quic_are_refused() {
    let none: &[&[u8]] = &[];
    let refused = TlsClientConfig::with_roots(RootCertStore::empty(), none).unwrap_err();
    assert_eq!(refused, SessionError::NoApplicationProtocol);
    let roots = RootCertStore::empty();
    let mut settings = TlsClientSettings::new(ServerTrust::Roots(roots.into()), &[b"h3"]);
    settings.cipher_suites = Vec::new();
    let refused = TlsClientConfig::from_settings(settings).unwrap_err();
    assert!(matches!(refused, SessionError::Tls(_)), "{refused}");
    let identity = identity();
    let config = Arc::new(client_config(&identity, &[b"h3"]));
    let refused = config.connect(Version::V1, &[], "not a name", Vec::new()).err();
    assert_eq!(refused, Some(SessionError::InvalidServerName));
    let chain = vec![identity.certificate.clone()];
    let other = tests::identity().key;
    assert!(TlsServerConfig::with_certificate(chain, other, &[b"h3"]).is_err());
}

/// Passes the ClientHello of RFC 9001 §A.2 to a server that supports its application protocol.
fn sample_client_hello(change: impl FnOnce(&mut Vec<u8>)) -> Result<(), TransportError> {
    let mut hello = hex(vectors::CLIENT_CRYPTO).split_off(4);
    change(&mut hello);
    let mut server = server(server_config(&identity(), &[b"alpn"]));
    let crypto = frame::Crypto { offset: VarInt::ZERO, data: &hello };
    server.receive_crypto(SpaceId::Initial, &crypto).map(|_| ())
}

#[test]
fn the_sample_client_hello_is_understood() {
    assert_eq!(sample_client_hello(|_| ()), Ok(()));
}

#[test]
fn missing_transport_parameters_are_a_missing_extension() {
    let error = sample_client_hello(|hello| {
        let extension = hello.windows(4).position(|bytes| bytes == [0, 0x39, 0, 0x32]).unwrap();
        hello[extension] = 0x7a;
    });
    assert_eq!(error.unwrap_err().code.0.get(), 0x16d);
}

/// Passes the sample ClientHello with `data` as the content of its server_name extension, or
/// without that extension.
fn hello_for_name(data: Option<&[u8]>) -> Result<(), TransportError> {
    sample_client_hello(|hello| {
        // The sample's extension type, its length, and the list of one name, example.com.
        let sample = b"\0\0\0\x10\0\x0e\0\0\x0bexample.com";
        let at = hello.windows(sample.len()).position(|bytes| bytes == sample).unwrap();
        let extension = data.map(|data| {
            let length = u16::try_from(data.len()).unwrap().to_be_bytes();
            [&[0, 0], &length[..], data].concat()
        });
        let extension = extension.unwrap_or_default();
        let (added, removed) = (extension.len(), sample.len());
        hello.splice(at..at + removed, extension);
        // Adjusts the lengths of the message and of its extensions, which follow 2 + 32 + 1 bytes,
        // the cipher suites, and 2 more bytes.
        let suites = usize::from(u16::from_be_bytes([hello[39], hello[40]]));
        for place in [2, 39 + 2 + suites + 2] {
            let length = u16::from_be_bytes([hello[place], hello[place + 1]]);
            let length = usize::from(length) + added - removed;
            let length = u16::try_from(length).unwrap().to_be_bytes();
            hello[place..place + 2].copy_from_slice(&length);
        }
    })
}

/// Returns a server_name extension with one host name.
fn host_name(name: &[u8]) -> Vec<u8> {
    let length = u16::try_from(name.len()).unwrap();
    [&(length + 3).to_be_bytes()[..], &[0], &length.to_be_bytes(), name].concat()
}

#[test]
fn server_names_that_are_none_are_refused_by_name() {
    assert_eq!(hello_for_name(Some(&host_name(b"example.com"))), Ok(()));
    // Without the extension the server chooses its default.
    assert_eq!(hello_for_name(None), Ok(()));
    let of_10_000 = vec![b'a'; 10_000];
    let labels = [b"a.".repeat(126), b"abc".to_vec()].concat();
    for name in [
        &of_10_000[..],
        b"a name",
        b"a\0b",
        b"\xff\xfe",
        b"-.example",
        b"a..b",
        &[b'a'; 64],
        &labels,
    ] {
        let error = hello_for_name(Some(&host_name(name))).unwrap_err();
        let name = String::from_utf8_lossy(name);
        let TransportErrorCause::Tls(tls) = &error.cause else { panic!("{name:.20}: {error:?}") };
        let expected = PeerMisbehaved::ServerNameMustContainOneHostName;
        assert_eq!(**tls, rustls::Error::PeerMisbehaved(expected), "{name:.20}");
        assert_eq!(error.code.alert(), Some(47), "illegal_parameter: {name:.20}");
    }
    // An empty name, wrong lengths, and two names.
    let two = [&[0, 14][..], &[0, 0, 4], b"a.de", &[0, 0, 4], b"b.de"].concat();
    let empty = host_name(b"");
    for data in [&empty[..], &[], &[0], &[0, 9, 0, 0, 1, b'a'], &[0, 4, 0, 0, 9, b'a'], &two] {
        assert!(hello_for_name(Some(data)).is_err(), "{data:?}");
    }
}

#[derive(Debug, Default)]
struct Labels(Mutex<Vec<String>>);

impl rustls::KeyLog for Labels {
    fn log(&self, label: &str, _client_random: &[u8], _secret: &[u8]) {
        self.0.lock().unwrap().push(label.to_owned());
    }
}

#[test]
fn secrets_go_to_the_key_log_if_there_is_one() {
    let identity = identity();
    let labels = Arc::new(Labels::default());
    let config = client_config(&identity, &[b"h3"]).key_log(labels.clone());
    let mut client = client(config, "localhost");
    client.start().unwrap();
    let mut wire = Wire::new((client, server(server_config(&identity, &[b"h3"]))));
    wire.run(1200, &mut Random::from_number(1)).unwrap();
    let labels = labels.0.lock().unwrap();
    assert!(labels.iter().any(|label| label == "CLIENT_TRAFFIC_SECRET_0"), "{labels:?}");
}

/// The versions of a connection: the version of the first flight, and the negotiated one.
type Of = (Version, Version);

const IN_1: Of = (Version::V1, Version::V1);
const IN_2: Of = (Version::V2, Version::V2);
const TO_2: Of = (Version::V1, Version::V2);
const TO_1: Of = (Version::V2, Version::V1);

/// Passes everything that `from` produces to `to`; `space` is the sending space. Returns whether
/// there was anything.
pub(super) fn say(
    from: &mut dyn Session,
    space: &mut SpaceId,
    to: &mut dyn Session,
) -> Result<bool, TransportError> {
    let mut was_anything = false;
    loop {
        let mut bytes = Vec::new();
        let keys = from.produce(&mut bytes);
        if bytes.is_empty() && keys.is_none() {
            return Ok(was_anything);
        }
        was_anything = true;
        to.receive(*space, &bytes)?;
        match keys {
            Some(NewKeys::Handshake(_)) => *space = SpaceId::Handshake,
            Some(NewKeys::Application { .. }) => *space = SpaceId::Application,
            None => {}
        }
    }
}

/// Completes a handshake of version 1 between two endpoints, and exchanges their post-handshake
/// messages.
pub(super) fn converse(
    client: &mut dyn Session,
    server: &mut dyn Session,
) -> Result<(), TransportError> {
    let (mut of_client, mut of_server) = (SpaceId::Initial, SpaceId::Initial);
    while say(client, &mut of_client, server)? || say(server, &mut of_server, client)? {}
    Ok(())
}

/// Whether a handshake in these versions resumes a session. Session tickets are also exchanged.
/// `server_of` contains the versions that the server assumes.
fn resumes_with(client: &TlsClientConfig, server: &TlsServerConfig, of: Of, server_of: Of) -> bool {
    let both = [Version::V1, Version::V2];
    let mut client =
        TlsSession::connect(client, of.0, &both, "localhost", b"client".to_vec()).unwrap();
    let versions = ConnectionVersions { original: server_of.0, negotiated: server_of.1 };
    let mut server = Arc::new(server.clone()).accept(versions, b"server".to_vec()).unwrap();
    let (mut of_client, mut of_server) = (SpaceId::Initial, SpaceId::Initial);
    say(&mut client, &mut of_client, &mut *server).unwrap();
    client.change_version(of.1).unwrap();
    while say(&mut *server, &mut of_server, &mut client).unwrap()
        || say(&mut client, &mut of_client, &mut *server).unwrap()
    {}
    assert!(!client.is_handshaking() && !server.is_handshaking());
    client.connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
}

fn resumes(client: &TlsClientConfig, server: &TlsServerConfig, of: Of) -> bool {
    resumes_with(client, server, of, of)
}

/// Whether a connection of version 1 resumes a session.
pub(super) fn resumes_in_version_1(client: &TlsClientConfig, server: &TlsServerConfig) -> bool {
    resumes(client, server, IN_1)
}

/// Returns two servers: one that keeps its sessions in tickets, and one that keeps them in a table.
fn servers(identity: &tests::Identity) -> [TlsServerConfig; 2] {
    let stateful = server_config(identity, &[b"h3"]);
    let mut config = (*stateful.current.load().config).clone();
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    [TlsServerConfig::new(Arc::new(config)).unwrap(), stateful]
}

/// RFC 9369 §5: a ticket is used only in the negotiated version of its connection, regardless of
/// the version of that connection's first flight.
#[test]
fn a_ticket_is_used_in_its_version_only() {
    let identity = identity();
    for server in servers(&identity) {
        for (issued, used, is_resumed) in [
            (IN_1, IN_1, true),
            (IN_1, TO_2, true),
            (IN_1, IN_2, false),
            (IN_1, TO_1, false),
            (IN_2, IN_2, true),
            (IN_2, TO_1, true),
            (IN_2, IN_1, false),
            (TO_2, IN_2, true),
            (TO_2, IN_1, false),
            (TO_2, TO_2, false),
            (TO_1, IN_1, true),
            (TO_1, IN_2, false),
        ] {
            let client = client_config(&identity, &[b"h3"]);
            let store = Arc::new(MemorySessionStore::default());
            for client in [client.clone(), client.session_store(store)] {
                assert!(!resumes(&client, &server, issued));
                assert_eq!(resumes(&client, &server, used), is_resumed, "{issued:?} {used:?}");
            }
        }
    }
}

/// A session in the application's store is in rustls's form for the configuration that received it,
/// and is revived for any other configuration, which verifies the certificates.
#[test]
fn a_stored_session_is_made_anew_for_another_configuration_only() {
    let identity = identity();
    for server in servers(&identity) {
        for (is_same, has_certificate, is_resumed) in
            [(true, true, true), (true, false, true), (false, true, true), (false, false, false)]
        {
            let store = Arc::new(MemorySessionStore::default());
            let receiver = client_config(&identity, &[b"h3"]).session_store(store.clone());
            assert!(!resumes(&receiver, &server, IN_1));
            let mut session = store.take_session("localhost", Version::V1).unwrap();
            if !has_certificate {
                session.certificates = vec![vec![0; 10]];
            }
            store.put_session("localhost", session);
            let other = client_config(&identity, &[b"h3"]).session_store(store);
            let client = if is_same { receiver } else { other };
            assert_eq!(resumes(&client, &server, IN_1), is_resumed, "{is_same} {has_certificate}");
        }
    }
}

/// Starts this many connections before a server answers, so that each connection receives a ticket,
/// but only the first ones use one. Returns the number of resumed sessions.
fn resumed_at_once(client: &TlsClientConfig, server: &TlsServerConfig, count: usize) -> usize {
    let begin = |_| {
        let session = TlsSession::connect(client, Version::V1, &[], "localhost", b"c".to_vec());
        session.unwrap()
    };
    let clients: Vec<TlsSession> = (0..count).map(begin).collect();
    let versions = ConnectionVersions { original: Version::V1, negotiated: Version::V1 };
    let mut resumed = 0;
    for mut client in clients {
        let mut server = Arc::new(server.clone()).accept(versions, b"s".to_vec()).unwrap();
        converse(&mut client, &mut *server).unwrap();
        let kind = client.connection.handshake_kind();
        resumed += usize::from(kind == Some(rustls::HandshakeKind::Resumed));
    }
    resumed
}

#[test]
fn the_newest_tickets_of_a_server_are_kept() {
    let identity = identity();
    let client = client_config(&identity, &[b"h3"]);
    let [_, server] = servers(&identity);
    assert_eq!(resumed_at_once(&client, &server, 10), 0);
    assert_eq!(resumed_at_once(&client, &server, 10), 8);
}

/// Each copy of a session can be resumed, the first one without being revived.
#[test]
fn copies_of_a_stored_session_are_all_resumed() {
    let identity = identity();
    let [server, _] = servers(&identity);
    let store = Arc::new(MemorySessionStore::default());
    let client = client_config(&identity, &[b"h3"]).session_store(store.clone());
    assert!(!resumes(&client, &server, IN_1));
    let session = store.take_session("localhost", Version::V1).unwrap();
    for _ in 0..3 {
        store.put_session("localhost", session.clone());
        assert!(resumes(&client, &server, IN_1));
    }
}

/// Clients that open several connections at the same time use one ticket for all of them. With
/// early data, such reuse could be a replay.
#[test]
fn a_session_in_the_table_is_resumed_again_unless_early_data_is_on() {
    let identity = identity();
    for accepts_early_data in [false, true] {
        let [_, server] = servers(&identity);
        let server = server.early_data(accepts_early_data);
        let store = Arc::new(MemorySessionStore::default());
        let client = client_config(&identity, &[b"h3"]).session_store(store.clone());
        assert!(!resumes(&client, &server, IN_1));
        let session = store.take_session("localhost", Version::V1).unwrap();
        for is_resumed in [true, !accepts_early_data, !accepts_early_data] {
            store.put_session("localhost", session.clone());
            assert_eq!(resumes(&client, &server, IN_1), is_resumed, "{accepts_early_data}");
        }
    }
}

/// RFC 9369 §5: a server does not accept a ticket from a client that mixes up versions.
#[test]
fn a_server_accepts_no_ticket_of_another_version() {
    let identity = identity();
    for server in servers(&identity) {
        for (issued, used, server_takes) in [(IN_1, IN_1, IN_2), (IN_2, IN_2, IN_1)] {
            let client = client_config(&identity, &[b"h3"]);
            assert!(!resumes(&client, &server, issued));
            assert!(!resumes_with(&client, &server, used, server_takes), "{issued:?}");
        }
    }
}

/// A configuration with its own store resumes in version 1, and does not mix versions.
#[test]
fn a_store_of_the_user_s_keeps_tickets_of_version_1() {
    let identity = identity();
    for server in servers(&identity) {
        let client = || {
            let config = client_config(&identity, &[b"h3"]).config;
            TlsClientConfig::new(Arc::new((*config).clone())).unwrap()
        };
        for (issued, used, is_resumed) in
            [(IN_1, IN_1, true), (IN_1, IN_2, false), (TO_2, IN_1, false), (IN_2, IN_2, false)]
        {
            let client = client();
            assert!(!resumes(&client, &server, issued));
            assert_eq!(resumes(&client, &server, used), is_resumed, "{issued:?} {used:?}");
        }
    }
}

#[test]
fn only_a_client_that_was_told_so_changes_the_version() {
    let identity = identity();
    let config = client_config(&identity, &[b"h3"]);
    let only_1 = [Version::V1];
    let mut client =
        TlsSession::connect(&config, Version::V1, &only_1, "localhost", Vec::new()).unwrap();
    assert_eq!(client.change_version(Version::V1), Ok(()));
    assert!(client.change_version(Version::V2).is_err());
    let other = Arc::new(config).connect(Version(7), &[], "localhost", Vec::new()).err();
    assert_eq!(other, Some(SessionError::UnknownVersion));
    let versions = ConnectionVersions { original: Version::V1, negotiated: Version(7) };
    let server = Arc::new(server_config(&identity, &[b"h3"]));
    let other = server.clone().accept(versions, Vec::new()).err();
    assert_eq!(other, Some(SessionError::UnknownVersion));
    let mut server = server.accept(tests::ONE, Vec::new()).unwrap();
    assert!(server.change_version(Version::V2).is_err());
}

/// Compares the keys that rustls derives for a version with the keys derived here from the same
/// secrets.
#[test]
fn keys_of_a_changed_version_are_those_of_the_server() {
    let identity = identity();
    for versions in [TO_2, TO_1] {
        let labels = Arc::new(Labels::default());
        let client_config = client_config(&identity, &[b"h3"]).key_log(labels.clone());
        let both = [Version::V1, Version::V2];
        let mut client =
            TlsSession::connect(&client_config, versions.0, &both, "localhost", b"c".to_vec())
                .unwrap();
        let of = ConnectionVersions { original: versions.0, negotiated: versions.1 };
        let server = Arc::new(server_config(&identity, &[b"h3"]));
        let mut server = server.accept(of, b"s".to_vec()).unwrap();
        let mut hello = Vec::new();
        client.produce(&mut hello);
        server.receive(SpaceId::Initial, &hello).unwrap();
        client.change_version(versions.1).unwrap();
        let (mut from_server, mut server_keys) = (Vec::new(), Vec::new());
        loop {
            let mut bytes = Vec::new();
            let keys = server.produce(&mut bytes);
            if bytes.is_empty() && keys.is_none() {
                break;
            }
            from_server.push(bytes);
            server_keys.extend(keys);
        }
        let mut client_keys = Vec::new();
        for bytes in from_server {
            client.receive(SpaceId::Handshake, &bytes).unwrap();
            while let Some(keys) = client.produce(&mut Vec::new()) {
                client_keys.push(keys);
            }
        }
        assert_eq!((client_keys.len(), server_keys.len()), (2, 2));
        for (of_client, of_server) in client_keys.into_iter().zip(server_keys) {
            let (of_client, of_server) = (packet_keys(of_client), packet_keys(of_server));
            assert_eq!(of_client.len(), of_server.len());
            for (of_client, of_server) in of_client.iter().zip(&of_server) {
                let mut payload = b"content".to_vec();
                let tag = of_client.0.encrypt_in_place(3, b"header", &mut payload).unwrap();
                payload.extend_from_slice(tag.as_ref());
                let opened = of_server.1.decrypt_in_place(3, b"header", &mut payload);
                assert_eq!(opened.unwrap(), b"content");
            }
        }
        // Secrets that the connection's own key log requests are still forwarded.
        let labels = labels.0.lock().unwrap();
        assert!(labels.iter().any(|label| label == "CLIENT_TRAFFIC_SECRET_0"), "{labels:?}");
    }
}

type PacketKeys = (Box<dyn rustls::quic::PacketKey>, Box<dyn rustls::quic::PacketKey>);

/// Returns the local and remote packet keys of this space and of the three key phases after the
/// first.
fn packet_keys(keys: NewKeys) -> Vec<PacketKeys> {
    match keys {
        NewKeys::Handshake(keys) => vec![(keys.local.packet, keys.remote.packet)],
        NewKeys::Application { keys, mut next } => {
            let mut all = vec![(keys.local.packet, keys.remote.packet)];
            for _ in 0..3 {
                let keys = next.next_packet_keys();
                all.push((keys.local, keys.remote));
            }
            all
        }
    }
}
