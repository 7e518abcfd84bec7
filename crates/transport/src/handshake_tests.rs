#[path = "handshake_tests/vectors.rs"]
pub(super) mod vectors;

use std::sync::Arc;

use clearway_units::{Random, Timestamp};
use clearway_wire::{
    ConnectionId, Frame, PacketNumber, Reader, TransportErrorCode, VarInt, Version, Writer, frame,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{
    ClientSessions, ConnectionVersions, EarlyData, ExportError, Handshake, NewKeys, Progress,
    ServerSessions, Session, TlsClientConfig, TlsServerConfig,
};
use crate::contents::PacketContents;
use crate::{Side, SpaceId, TransportError};

/// Decodes a hexadecimal string.
pub(super) fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|index| u8::from_str_radix(&digits[index..index + 2], 16).unwrap())
        .collect()
}

pub(super) struct Identity {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: PrivateKeyDer<'static>,
}

pub(super) fn identity() -> Identity {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    Identity {
        certificate: made.cert.der().clone(),
        key: PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()),
    }
}

pub(super) fn server_config(identity: &Identity, protocols: &[&[u8]]) -> TlsServerConfig {
    let chain = vec![identity.certificate.clone()];
    TlsServerConfig::with_certificate(chain, identity.key.clone_key(), protocols).unwrap()
}

pub(super) fn client_config(identity: &Identity, protocols: &[&[u8]]) -> TlsClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    TlsClientConfig::with_roots(roots, protocols).unwrap()
}

fn id(byte: u8) -> ConnectionId {
    ConnectionId::new(&[byte; 8]).unwrap()
}

pub(super) fn client(config: TlsClientConfig, name: &str) -> Handshake {
    let parameters = b"of the client".to_vec();
    let session = Arc::new(config).connect(Version::V1, &[], name, parameters).unwrap();
    Handshake::new(Side::Client, Version::V1, session, &id(1)).unwrap()
}

pub(super) fn server(config: TlsServerConfig) -> Handshake {
    let session = Arc::new(config).accept(ONE, b"of the server".to_vec()).unwrap();
    Handshake::new(Side::Server, Version::V1, session, &id(1)).unwrap()
}

/// Connection versions whose original and negotiated version is 1.
pub(super) const ONE: ConnectionVersions =
    ConnectionVersions { original: Version::V1, negotiated: Version::V1 };

/// Returns a client that has sent its ClientHello, and a compatible server.
fn pair() -> (Handshake, Handshake) {
    let identity = identity();
    let mut client = client(client_config(&identity, &[b"hq-interop", b"h3"]), "localhost");
    assert_eq!(client.start(), Ok(Progress::default()));
    (client, server(server_config(&identity, &[b"h3"])))
}

/// The CRYPTO frames of a packet.
struct Packet {
    space: SpaceId,
    frames: Vec<u8>,
}

impl Packet {
    fn crypto(&self) -> Vec<frame::Crypto<'_>> {
        let mut reader = Reader::new(&self.frames);
        let mut frames = Vec::new();
        while !reader.is_empty() {
            match Frame::decode(&mut reader).unwrap() {
                Frame::Crypto(crypto) => frames.push(crypto),
                other => panic!("{other:?}"),
            }
        }
        frames
    }
}

/// Returns everything that `sender` can send, in packets of up to `room` bytes.
fn packets(sender: &mut Handshake, room: usize) -> Vec<Packet> {
    let mut packets = Vec::new();
    for space in SpaceId::ALL {
        while sender.has_pending(space) {
            let mut frames = vec![0; room];
            let mut tokens = Vec::new();
            let mut writer = Writer::new(&mut frames);
            let mut contents = PacketContents::new(&mut writer, &mut tokens);
            assert!(sender.stream_mut(space).write_frames(&mut contents));
            let length = writer.written();
            frames.truncate(length);
            packets.push(Packet { space, frames });
        }
    }
    packets
}

/// Both ends of a handshake, and the packets between them.
pub(super) struct Wire {
    pub(super) client: Handshake,
    pub(super) server: Handshake,
    /// The packets in flight, with their receivers.
    in_flight: Vec<(Side, Packet)>,
    /// The handshake progress reported to each side, in order.
    told: Vec<(Side, Progress)>,
}

impl Wire {
    pub(super) fn new((client, server): (Handshake, Handshake)) -> Self {
        Self { client, server, in_flight: Vec::new(), told: Vec::new() }
    }

    /// Exchanges packets of up to `room` bytes in random order until there are none; each is
    /// delivered once or twice.
    pub(super) fn run(
        &mut self,
        room: usize,
        random: &mut Random,
    ) -> Result<(), (Side, TransportError)> {
        loop {
            let to_server = packets(&mut self.client, room);
            self.in_flight.extend(to_server.into_iter().map(|packet| (Side::Server, packet)));
            let to_client = packets(&mut self.server, room);
            self.in_flight.extend(to_client.into_iter().map(|packet| (Side::Client, packet)));
            if self.in_flight.is_empty() {
                return Ok(());
            }
            let index = random.below(self.in_flight.len() as u64) as usize;
            let (side, packet) = self.in_flight.swap_remove(index);
            let receiver = match side {
                Side::Client => &mut self.client,
                Side::Server => &mut self.server,
            };
            if !receiver.protection().can_open(packet.space) {
                self.in_flight.push((side, packet));
                continue;
            }
            for crypto in packet.crypto() {
                let progress = receiver
                    .receive_crypto(packet.space, &crypto)
                    .map_err(|error| (side, error))?;
                if progress != Progress::default() {
                    self.told.push((side, progress));
                }
            }
            if random.chance(0.2) {
                self.in_flight.push((side, packet));
            }
        }
    }
}

/// Returns a completed handshake.
fn finished() -> Wire {
    let mut wire = Wire::new(pair());
    wire.run(1200, &mut Random::from_number(1)).unwrap();
    assert!(wire.client.is_complete() && wire.server.is_complete());
    wire
}

fn crypto(offset: u64, data: &[u8]) -> frame::Crypto<'_> {
    frame::Crypto { offset: VarInt::new(offset).unwrap(), data }
}

#[test]
fn a_handshake_completes_in_any_order_and_any_pieces() {
    for (seed, room) in [(1, 1200), (2, 300), (3, 40), (4, 60), (5, 40)] {
        let mut wire = Wire::new(pair());
        wire.run(room, &mut Random::from_number(seed)).unwrap();
        let (client, server) = (wire.client.session(), wire.server.session());
        assert!(wire.client.is_complete() && wire.server.is_complete());
        assert_eq!(client.peer_transport_parameters(), Some(&b"of the server"[..]));
        assert_eq!(server.peer_transport_parameters(), Some(&b"of the client"[..]));
        assert_eq!(client.application_protocol(), Some(&b"h3"[..]));
        assert_eq!(server.application_protocol(), Some(&b"h3"[..]));
        assert_eq!(client.server_name(), Some("localhost"));
        assert_eq!(server.server_name(), Some("localhost"));
        assert_eq!(client.peer_certificates().unwrap().len(), 1);
        assert!(server.peer_certificates().is_none());
        assert_eq!(client.cipher_suite(), server.cipher_suite());
        assert!(client.cipher_suite().unwrap().starts_with("TLS_AES_"));
        let (mut ours, mut theirs) = ([0; 32], [0; 32]);
        client.export_keying_material(&mut ours, b"label", Some(b"context")).unwrap();
        server.export_keying_material(&mut theirs, b"label", Some(b"context")).unwrap();
        assert_eq!(ours, theirs);
        assert_ne!(ours, [0; 32]);
        // Session tickets were also received.
        assert!(wire.client.stream(SpaceId::Application).read_offset() > 0);
    }
}

/// A session that produces its messages in small pieces, and keys after the last piece.
struct InPieces {
    session: Box<dyn Session>,
    written: Vec<u8>,
    keys: Option<NewKeys>,
}

impl Session for InPieces {
    fn produce(&mut self, out: &mut Vec<u8>) -> Option<NewKeys> {
        if self.written.is_empty() && self.keys.is_none() {
            self.keys = self.session.produce(&mut self.written);
        }
        out.extend(self.written.drain(..self.written.len().min(100)));
        self.keys.take_if(|_| self.written.is_empty())
    }

    fn receive(&mut self, space: SpaceId, message_bytes: &[u8]) -> Result<(), TransportError> {
        self.session.receive(space, message_bytes)
    }

    fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        self.session.peer_transport_parameters()
    }

    fn application_protocol(&self) -> Option<&[u8]> {
        self.session.application_protocol()
    }

    fn server_name(&self) -> Option<&str> {
        self.session.server_name()
    }

    fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.session.peer_certificates()
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        self.session.export_keying_material(output, label, context)
    }

    fn cipher_suite(&self) -> Option<&'static str> {
        self.session.cipher_suite()
    }
}

/// [`Session::produce`] is called until it yields neither bytes nor keys.
#[test]
fn a_session_may_give_out_its_messages_in_pieces() {
    let identity = identity();
    let in_pieces = |session| Box::new(InPieces { session, written: Vec::new(), keys: None });
    let sessions = Arc::new(client_config(&identity, &[b"h3"]));
    let session = sessions.connect(Version::V1, &[], "localhost", b"c".to_vec()).unwrap();
    let mut client = Handshake::new(Side::Client, Version::V1, in_pieces(session), &id(1)).unwrap();
    client.start().unwrap();
    let sessions = Arc::new(server_config(&identity, &[b"h3"]));
    let session = sessions.accept(ONE, b"s".to_vec()).unwrap();
    let server = Handshake::new(Side::Server, Version::V1, in_pieces(session), &id(1)).unwrap();
    let mut wire = Wire::new((client, server));
    wire.run(1200, &mut Random::from_number(1)).unwrap();
    assert!(wire.client.is_complete() && wire.server.is_complete());
    // Checks the methods that have default implementations.
    let session = wire.client.session();
    assert_eq!((session.early_data(), session.negotiated_version()), (EarlyData::None, None));
    assert_eq!((session.remembered_parameters(), session.remembered_context()), (None, None));
    assert_eq!(session.key_exchange_group(), None);
}

#[test]
fn progress_is_reported_once_and_in_order() {
    let wire = finished();
    let of = |side| {
        let told = wire.told.iter().filter(move |(told, _)| *told == side);
        told.map(|(_, progress)| *progress).collect::<Vec<_>>()
    };
    let handshake = Progress { handshake_keys_ready: true, ..Progress::default() };
    let both = Progress { application_keys_ready: true, ..handshake };
    let complete = Progress { complete: true, ..Progress::default() };
    assert_eq!(of(Side::Server), [both, complete]);
    let last = Progress { application_keys_ready: true, ..complete };
    assert_eq!(of(Side::Client), [handshake, last]);
}

#[test]
fn a_server_sends_but_does_not_open_one_rtt_packets_before_completion() {
    let (mut client, mut server) = pair();
    for packet in packets(&mut client, 1200) {
        for crypto in packet.crypto() {
            server.receive_crypto(packet.space, &crypto).unwrap();
        }
    }
    assert!(server.protection().can_seal(SpaceId::Application));
    assert!(!server.protection().can_open(SpaceId::Application));
    assert!(server.session().export_keying_material(&mut [0; 8], b"label", None).is_err());
}

#[test]
fn keys_of_both_ends_match_in_every_space() {
    let mut wire = finished();
    for space in SpaceId::ALL {
        let first = if space == SpaceId::Application { 0x40 } else { 0xc0 };
        let mut packet = vec![first, 0, 1, 2, 3, 4];
        packet.extend([0; 16]);
        let number = PacketNumber::ZERO;
        wire.client.protection_mut().seal(space, number, 1, 2, &mut packet).unwrap();
        let protection = wire.server.protection_mut();
        let opened = protection.open(space, Timestamp::ORIGIN, None, 1, &mut packet).unwrap();
        assert_eq!(opened.payload, [1, 2, 3, 4]);
    }
}

#[test]
fn discarded_spaces_send_nothing() {
    let (mut client, _) = pair();
    assert!(client.has_pending(SpaceId::Initial));
    client.discard(SpaceId::Initial);
    assert!(!client.has_pending(SpaceId::Initial));
    assert!(!client.protection().can_open(SpaceId::Initial));
}

#[test]
fn initial_data_after_the_change_of_keys_is_a_violation() {
    let mut wire = finished();
    let end = wire.client.stream(SpaceId::Initial).received_end();
    let again = wire.client.receive_crypto(SpaceId::Initial, &crypto(end - 2, &[0, 0]));
    assert_eq!(again, Ok(Progress::default()), "duplicates are ignored");
    let error = wire.client.receive_crypto(SpaceId::Initial, &crypto(end - 1, &[0, 0]));
    assert_eq!(error.unwrap_err().code, TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn data_waiting_across_the_change_of_keys_is_a_violation() {
    let (mut client, mut server) = pair();
    let hello = packets(&mut client, 4000).remove(0);
    let hello = hello.crypto()[0];
    // One byte is missing between the ClientHello and the data that must not follow it.
    let beyond = hello.data.len() as u64 + 1;
    server.receive_crypto(SpaceId::Initial, &crypto(beyond, &[0])).unwrap();
    let error = server.receive_crypto(SpaceId::Initial, &hello).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn data_right_after_the_change_of_keys_is_a_violation() {
    let (mut client, mut server) = pair();
    let hello = packets(&mut client, 4000).remove(0);
    let mut data = hello.crypto()[0].data.to_vec();
    data.push(0);
    let error = server.receive_crypto(SpaceId::Initial, &crypto(0, &data)).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn a_legacy_session_id_is_a_violation() {
    let (_, mut server) = pair();
    let mut hello = hex("010002000303");
    hello.extend([7; 32]);
    server.receive_crypto(SpaceId::Initial, &crypto(0, &hello)).unwrap();
    let error = server.receive_crypto(SpaceId::Initial, &crypto(38, &[32])).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn nonsense_is_an_alert() {
    let (_, mut server) = pair();
    let error = server.receive_crypto(SpaceId::Initial, &crypto(0, &[0xff; 100])).unwrap_err();
    assert!(error.code.alert().is_some(), "{error}");
}

/// Sends `message` to one endpoint after the handshake, and returns the error.
fn say_after(side: Side, message: &[u8]) -> TransportError {
    let mut wire = finished();
    let receiver = match side {
        Side::Client => &mut wire.client,
        Side::Server => &mut wire.server,
    };
    let offset = receiver.stream(SpaceId::Application).read_offset();
    receiver.receive_crypto(SpaceId::Application, &crypto(offset, message)).unwrap_err()
}

#[test]
fn a_tls_key_update_is_an_unexpected_message() {
    for side in [Side::Client, Side::Server] {
        let error = say_after(side, &hex("1800000100"));
        assert_eq!(error.code.0.get(), 0x10a, "{side:?}");
    }
}

#[test]
fn a_certificate_request_after_the_handshake_is_a_violation() {
    let error = say_after(Side::Client, &hex("0d00000b000008000d000400020403"));
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn a_ticket_with_a_limit_on_early_data_is_a_violation() {
    let error = say_after(
        Side::Client,
        &hex("0400001a00000e100000000000000501020304050008002a000400000001"),
    );
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn tickets_are_accepted_up_to_a_limit() {
    let mut wire = finished();
    let mut ticket = hex("0400040d00000e1000000000000400");
    ticket.extend([5; 0x400]);
    ticket.extend([0, 0]);
    let mut taken = 0;
    let mut outcome = Ok(());
    while outcome.is_ok() && taken < 1000 {
        let offset = wire.client.stream(SpaceId::Application).read_offset();
        let told = wire.client.receive_crypto(SpaceId::Application, &crypto(offset, &ticket));
        outcome = told.map(|_| taken += 1);
    }
    assert_eq!(outcome.unwrap_err().code, TransportErrorCode::CRYPTO_BUFFER_EXCEEDED);
    assert!(taken > 100, "only {taken}");
}

#[test]
fn after_a_retry_the_same_client_hello_is_sent_with_new_keys() {
    let (mut client, _) = pair();
    let first = packets(&mut client, 1200);
    assert!(!client.has_pending(SpaceId::Initial));
    client.restart(&id(2)).unwrap();
    let second = packets(&mut client, 1200);
    assert_eq!(first.len(), second.len());
    assert!(first.iter().zip(&second).all(|(first, second)| first.frames == second.frames));
    assert_eq!(second[0].crypto()[0].offset, VarInt::ZERO);

    let mut packet = vec![0xc0, 0, 1, 2, 3, 4];
    packet.extend([0; 16]);
    client.protection_mut().seal(SpaceId::Initial, PacketNumber::ZERO, 1, 2, &mut packet).unwrap();
    let session = Arc::new(server_config(&identity(), &[b"h3"])).accept(ONE, Vec::new()).unwrap();
    let mut server = Handshake::new(Side::Server, Version::V1, session, &id(2)).unwrap();
    let protection = server.protection_mut();
    assert!(protection.open(SpaceId::Initial, Timestamp::ORIGIN, None, 1, &mut packet).is_ok());
}
