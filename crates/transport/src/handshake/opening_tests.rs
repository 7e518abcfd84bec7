use clearway_wire::{ConnectionId, TransportErrorCode};

use super::*;
use crate::handshake::tests::{client_config, hex, identity, server_config, vectors};
use crate::handshake::{ClientSessions, TlsServerConfig};

const V1: Version = Version::V1;
const V2: Version = Version::V2;

/// Returns the session of a server that prefers version 2, for a client that starts in version 1.
fn opening(config: TlsServerConfig) -> Opening {
    let parameters = TransportParameters {
        initial_source_connection_id: Some(ConnectionId::default()),
        ..TransportParameters::default()
    };
    let grease = (VarInt::from_u32(27), [1, 2, 3, 4]);
    Opening::new(Arc::new(config), V1, &[V2, V1], OpenParameters { parameters, grease })
}

/// Returns the ClientHello of a client with these transport parameters.
fn hello(identity: &crate::handshake::tests::Identity, parameters: Vec<u8>) -> Vec<u8> {
    let sessions = Arc::new(client_config(identity, &[b"h3"]));
    let mut session = sessions.connect(V1, &[V2, V1], "localhost", parameters).unwrap();
    let mut hello = Vec::new();
    assert!(session.produce(&mut hello).is_none());
    hello
}

fn offering(chosen: Version, available: &[Version]) -> Vec<u8> {
    let information = VersionInformation { chosen, available: available.to_vec() };
    let parameters = TransportParameters {
        version_information: Some(information),
        ..TransportParameters::default()
    };
    let mut encoded = Vec::new();
    parameters.encode(&mut encoded, None);
    encoded
}

#[test]
fn the_version_is_chosen_when_the_first_message_is_complete() {
    let identity = identity();
    let mut opening = opening(server_config(&identity, &[b"h3"]));
    let hello = hello(&identity, offering(V1, &[V1, V2]));
    let (last, all_but_one) = hello.split_last().unwrap();
    for byte in all_but_one {
        opening.receive(SpaceId::Initial, &[*byte]).unwrap();
        assert_eq!((opening.negotiated_version(), opening.is_handshaking()), (None, true));
        assert!(opening.produce(&mut Vec::new()).is_none());
        assert_eq!((opening.cipher_suite(), opening.key_exchange_group()), (None, None));
    }
    opening.receive(SpaceId::Initial, &[*last]).unwrap();
    assert_eq!(opening.negotiated_version(), Some(V2));
    assert!(opening.peer_transport_parameters().is_some());
    assert_eq!(opening.server_name(), Some("localhost"));
    assert!(opening.cipher_suite().unwrap().starts_with("TLS_"));
    assert!(opening.key_exchange_group().unwrap().starts_with("X25519"));
    let mut answer = Vec::new();
    assert!(matches!(opening.produce(&mut answer), Some(NewKeys::Handshake(_))));
    assert!(!answer.is_empty() && opening.received.is_empty());
}

#[test]
fn what_is_not_offered_is_not_chosen() {
    let identity = identity();
    for parameters in [
        offering(V1, &[V1]),
        offering(V2, &[V2, V1]),
        offering(V1, &[V1, Version::reserved(3)]),
        Vec::new(),
        // Version information that cannot be parsed, which TLS does not check.
        hex("1103000000"),
    ] {
        let mut opening = opening(server_config(&identity, &[b"h3"]));
        let hello = hello(&identity, parameters);
        opening.receive(SpaceId::Initial, &hello).unwrap();
        assert_eq!(opening.negotiated_version(), Some(V1));
    }
}

/// A message that is not a ClientHello is passed to TLS, which reports the error.
#[test]
fn tls_judges_what_cannot_be_read() {
    let config = || server_config(&identity(), &[b"alpn"]);
    for bytes in [&[0xff; 100][..], &[1, 0xff, 0, 0, 1]] {
        let mut opening = opening(config());
        let outcome = opening.receive(SpaceId::Initial, bytes);
        assert_eq!(opening.negotiated_version(), Some(V1));
        assert!(outcome.is_err_and(|error| error.code.alert().is_some()) || bytes[0] == 1);
    }
    let mut without_parameters = hex(vectors::CLIENT_CRYPTO).split_off(4);
    let extension = without_parameters.windows(4).position(|it| it == [0, 0x39, 0, 0x32]).unwrap();
    without_parameters[extension] = 0x7a;
    let error = opening(config()).receive(SpaceId::Initial, &without_parameters).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::crypto(109));
}

/// Sessions whose first message never ends.
#[derive(Debug)]
struct Endless(Arc<TlsServerConfig>);

impl ServerSessions for Endless {
    fn accept(
        self: Arc<Self>,
        versions: ConnectionVersions,
        parameters: Vec<u8>,
    ) -> Result<Box<dyn Session>, SessionError> {
        self.0.clone().accept(versions, parameters)
    }

    fn find_parameters<'a>(&self, _: &'a [u8]) -> HelloParameters<'a> {
        HelloParameters::Incomplete
    }
}

#[test]
fn no_more_than_one_message_is_kept() {
    let identity = identity();
    let mut opening = opening(server_config(&identity, &[b"h3"]));
    opening.sessions = Arc::new(Endless(Arc::new(server_config(&identity, &[b"h3"]))));
    let mut kept = 0;
    while opening.negotiated_version().is_none() {
        let _ = opening.receive(SpaceId::Initial, &[1; 1000]);
        kept = kept.max(opening.received.len());
        assert!(kept <= MAX_RECEIVED + 1000);
    }
    assert!(kept > MAX_RECEIVED - 1000 && opening.received.is_empty());
    assert_eq!(opening.negotiated_version(), Some(V1));
}
