//! How an endpoint responds to incorrect version information from the peer (RFC 9368 §4).

use std::sync::Arc;

use crate::support::seconds;
use crate::support::versions::{V1, V2, changing, client, closed, own_error, pair, staying};
use clearway_transport::{
    ClientSessions, ConnectionError, ConnectionVersions, Event, ServerSessions, Session,
    SessionError, TransportError,
};
use clearway_wire::{
    Initiator, TransportErrorCode, TransportParameters, Version, VersionInformation,
};

/// Replaces the version information in transport parameters.
type Change = fn(&mut TransportParameters) -> &'static [u8];

fn rewritten(parameters: &[u8], from: Initiator, change: Change) -> Vec<u8> {
    let mut parameters = TransportParameters::decode(parameters, from).unwrap();
    let more = change(&mut parameters);
    let mut encoded = Vec::new();
    parameters.encode(&mut encoded, None);
    encoded.extend_from_slice(more);
    encoded
}

fn set(parameters: &mut TransportParameters, chosen: Version, available: &[Version]) {
    parameters.version_information =
        Some(VersionInformation { chosen, available: available.to_vec() });
}

/// A client whose transport parameters differ from those that its transport created.
#[derive(Debug)]
struct LyingClient(Arc<dyn ClientSessions>, Change);

impl ClientSessions for LyingClient {
    fn connect(
        self: Arc<Self>,
        version: Version,
        others: &[Version],
        name: &str,
        parameters: Vec<u8>,
    ) -> Result<Box<dyn Session>, SessionError> {
        let parameters = rewritten(&parameters, Initiator::Client, self.1);
        self.0.clone().connect(version, others, name, parameters)
    }
}

/// A server whose transport parameters differ from those that its transport created.
#[derive(Debug)]
struct LyingServer(Arc<dyn ServerSessions>, Change);

impl ServerSessions for LyingServer {
    fn accept(
        self: Arc<Self>,
        versions: ConnectionVersions,
        parameters: Vec<u8>,
    ) -> Result<Box<dyn Session>, SessionError> {
        let parameters = rewritten(&parameters, Initiator::Server, self.1);
        self.0.clone().accept(versions, parameters)
    }
}

/// RFC 9368 §4: a server's response to a client whose version information is incorrect, whether or
/// not it may change the version.
#[test]
fn wrong_version_information_of_a_client_is_an_error() {
    let cases: [(Change, TransportErrorCode, &str); 4] = [
        (
            |it| {
                set(it, V2, &[V2, V1]);
                &[]
            },
            TransportErrorCode::VERSION_NEGOTIATION_ERROR,
            "the version of the client's packets differs from its chosen version",
        ),
        (
            |it| {
                it.version_information = None;
                &[0x11, 3, 0, 0, 0]
            },
            TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
            "version_information",
        ),
        (
            |it| {
                it.version_information = None;
                &[0x11, 8, 0, 0, 0, 1, 0, 0, 0, 0]
            },
            TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
            "version_information",
        ),
        (
            |it| {
                set(it, V1, &[V2]);
                &[]
            },
            TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
            "version_information",
        ),
    ];
    for server in [staying(&[V1, V2]), changing(&[V2, V1])] {
        for (change, code, reason) in cases {
            let mut pair = pair(&client(V1, &[V2, V1]), &server);
            let sessions = pair.client_config.sessions.clone();
            pair.client_config.sessions = Arc::new(LyingClient(sessions, change));
            pair.reconnect(Vec::new());
            pair.run_for(seconds(2));
            let error = own_error(&pair.server_events);
            assert_eq!((error.code, error.reason()), (code, reason));
            let Some(ConnectionError::ConnectionClosed { error_code, .. }) =
                closed(&pair.client_events)
            else {
                panic!("{:?}", pair.client_events)
            };
            assert_eq!(*error_code, code);
        }
    }
}

/// Returns the error of a client that gets this response. If `has_reacted`, the client has
/// restarted in version 2 before.
fn client_error(change: Change, has_reacted: bool) -> Option<TransportError> {
    let server = if has_reacted { staying(&[V2]) } else { staying(&[V1, V2]) };
    let mut pair = pair(&client(V1, &[V2, V1]), &server);
    let mut config = (*pair.server_config).clone();
    config.sessions = Arc::new(LyingServer(config.sessions, change));
    pair.server.set_server(Some(config.into()));
    pair.run_for(seconds(2));
    if pair.client_events.contains(&Event::Connected) {
        return None;
    }
    Some(own_error(&pair.client_events).clone())
}

/// RFC 9368 §4.
#[test]
fn wrong_version_information_of_a_server_is_an_error() {
    let negotiation = TransportErrorCode::VERSION_NEGOTIATION_ERROR;
    let parameter = TransportErrorCode::TRANSPORT_PARAMETER_ERROR;
    let without: Change = |it| {
        it.version_information = None;
        &[]
    };
    assert_eq!(client_error(without, false), None);
    let cases: [(Change, bool, TransportErrorCode, &str); 7] = [
        (without, true, negotiation, "the server's version information is missing"),
        (
            |it| {
                set(it, Version(7), &[V1]);
                &[]
            },
            false,
            negotiation,
            "the server chose a version that was not offered",
        ),
        (
            |it| {
                set(it, V2, &[V1, V2]);
                &[]
            },
            false,
            negotiation,
            "the version of the server's packets differs from its chosen version",
        ),
        (
            |it| {
                set(it, V1, &[V1, V2]);
                &[]
            },
            true,
            negotiation,
            "the version of the server's packets differs from its chosen version",
        ),
        (
            |it| {
                set(it, V2, &[]);
                &[]
            },
            true,
            negotiation,
            "the server's version list is empty after a Version Negotiation packet",
        ),
        (
            |it| {
                it.version_information = None;
                &[0x11, 0]
            },
            false,
            parameter,
            "version_information",
        ),
        (
            |it| {
                it.version_information = None;
                &[0x11, 4, 0, 0, 0, 0]
            },
            true,
            parameter,
            "version_information",
        ),
    ];
    for (change, has_reacted, code, reason) in cases {
        let error = client_error(change, has_reacted).expect("a connection that fails");
        assert_eq!((error.code, error.reason()), (code, reason));
    }
}
