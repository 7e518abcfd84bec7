use std::sync::Arc;

use clearway_transport::{
    ClientSessions, ConnectionVersions, HelloParameters, NewKeys, ServerSessions, Session, SpaceId,
};
use clearway_wire::Version;

use super::NullSessions;
use crate::setup::TlsSetup;
use crate::stack::tls;

/// The bytes that an endpoint sent in each packet number space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Said {
    initial: usize,
    handshake: usize,
    application: usize,
}

/// An endpoint with the packet number space in which it sends.
struct End {
    session: Box<dyn Session>,
    space: SpaceId,
    said: Said,
}

impl End {
    fn new(session: Box<dyn Session>) -> Self {
        Self { session, space: SpaceId::Initial, said: Said::default() }
    }

    /// Returns everything that the endpoint sends now, by packet number space.
    fn speak(&mut self) -> Vec<(SpaceId, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            let mut out = Vec::new();
            let keys = self.session.produce(&mut out);
            if out.is_empty() && keys.is_none() {
                return all;
            }
            let said = match self.space {
                SpaceId::Initial => &mut self.said.initial,
                SpaceId::Handshake => &mut self.said.handshake,
                SpaceId::Application => &mut self.said.application,
            };
            *said += out.len();
            all.push((self.space, out));
            match keys {
                Some(NewKeys::Handshake(_)) => self.space = SpaceId::Handshake,
                Some(NewKeys::Application { .. }) => self.space = SpaceId::Application,
                None => {}
            }
        }
    }

    /// Receives the peer's messages, and responds after each message as the transport does.
    fn hear(&mut self, messages: Vec<(SpaceId, Vec<u8>)>) -> Vec<(SpaceId, Vec<u8>)> {
        let mut answers = Vec::new();
        for (space, bytes) in messages {
            // The messages are passed one byte at a time, because they may be split anywhere.
            for byte in bytes {
                self.session.receive(space, &[byte]).unwrap();
                answers.extend(self.speak());
            }
        }
        answers
    }
}

const PARAMETERS: usize = 60;
const VERSION: Version = Version::V1;
const VERSIONS: ConnectionVersions = ConnectionVersions { original: VERSION, negotiated: VERSION };

fn handshake(client: Box<dyn Session>, server: Box<dyn Session>) -> (Said, Said) {
    let (mut client, mut server) = (End::new(client), End::new(server));
    let mut to_server = client.speak();
    while !to_server.is_empty() {
        let to_client = server.hear(to_server);
        to_server = client.hear(to_client);
    }
    for end in [&client, &server] {
        assert!(!end.session.is_handshaking());
        assert_eq!(end.session.peer_transport_parameters().unwrap().len(), PARAMETERS);
        assert_eq!(end.session.application_protocol(), Some(&b"h3"[..]));
    }
    (client.said, server.said)
}

/// The simulated packets have the sizes of a real handshake, apart from the few bytes by which
/// signatures and serial numbers vary.
#[test]
fn every_flight_is_as_long_as_with_real_tls() {
    let parameters = || vec![0; PARAMETERS];
    let real = handshake(
        tls::client(TlsSetup::default())
            .unwrap()
            .connect(VERSION, &[], "lab.example", parameters())
            .unwrap(),
        tls::server(TlsSetup::default()).unwrap().accept(VERSIONS, parameters()).unwrap(),
    );
    let null = Arc::new(NullSessions);
    let simulated = handshake(
        null.clone().connect(VERSION, &[], "lab.example", parameters()).unwrap(),
        null.accept(VERSIONS, parameters()).unwrap(),
    );
    let pairs = [(real.0, simulated.0), (real.1, simulated.1)];
    for (real, simulated) in pairs {
        for (real, simulated) in [
            (real.initial, simulated.initial),
            (real.handshake, simulated.handshake),
            (real.application, simulated.application),
        ] {
            assert!(real.abs_diff(simulated) <= 4, "real {pairs:?} simulated");
        }
    }
}

#[test]
fn the_parameters_are_found_once_the_first_message_is_complete() {
    let null = Arc::new(NullSessions);
    let parameters = vec![7; PARAMETERS];
    let mut client = null.clone().connect(VERSION, &[], "lab.example", parameters.clone()).unwrap();
    let mut hello = Vec::new();
    assert!(client.produce(&mut hello).is_none());
    for end in 0..hello.len() {
        assert_eq!(null.find_parameters(&hello[..end]), HelloParameters::Incomplete);
    }
    assert_eq!(null.find_parameters(&hello), HelloParameters::Found(&parameters));
    // The content of this message would be longer than the message itself.
    assert_eq!(null.find_parameters(&[0, 0, 0, 8, 0, 9, 0, 0]), HelloParameters::None);
}
