//! A peer that has the keys and violates the protocol, or behaves in unusual but allowed ways.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::{Arc, OnceLock};

use clearway_units::{Random, Timestamp};
use clearway_wire::frame::{self, CloseKind};
use clearway_wire::{
    ConnectionId, Frame, PacketNumber, ResetToken, StreamId, TransportErrorCode, VarInt, Writer,
    header::{self, HeaderKind, ProtectedHeader},
};
use proptest::prelude::*;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::Connection;
use super::packet::{Draft, HeaderPlan};
use crate::address::Arrival;
use crate::event::{ConnectionError, Event};
use crate::space_id::SpaceId;
use crate::{
    ClientConfig, ConnectionHandle, Endpoint, EndpointConfig, RandomIds, Received, ResetKey,
    ServerConfig, TlsClientConfig, TlsServerConfig, TransportConfig,
};

/// Two endpoints without a network between them.
pub(super) struct Wire {
    pub(super) now: Timestamp,
    pub(super) client: Endpoint,
    pub(super) server: Endpoint,
    pub(super) handle: ConnectionHandle,
    pub(super) accepted: ConnectionHandle,
}

pub(super) fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

pub(super) const CLIENT: u16 = 50_000;
pub(super) const SERVER: u16 = 443;

pub(super) fn from(port: u16) -> Arrival {
    Arrival {
        remote: address(port),
        socket: crate::SocketIndex::default(),
        local_ip: None,
        ecn: crate::EcnCodepoint::NotEct,
    }
}

fn tls() -> &'static (RootCertStore, Arc<TlsServerConfig>) {
    static TLS: OnceLock<(RootCertStore, Arc<TlsServerConfig>)> = OnceLock::new();
    TLS.get_or_init(|| {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let certificate = CertificateDer::from(certified.cert);
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let chain = vec![certificate];
        let server = TlsServerConfig::with_certificate(chain, key.into(), &[b"test"]).unwrap();
        (roots, Arc::new(server))
    })
}

fn endpoint(server: Option<ServerConfig>, seed: u8, now: Timestamp) -> Endpoint {
    let config = EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[seed; 32]),
        max_connections: 10,
    };
    Endpoint::new(config, server.map(Arc::new), now, Random::from_seed([seed; 32]))
}

/// Returns everything that a connection can send now.
pub(super) fn datagrams(
    endpoint: &mut Endpoint,
    handle: ConnectionHandle,
    now: Timestamp,
) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 1500];
    let mut sent = Vec::new();
    while let Some(transmit) = endpoint.transmit(handle, now, &mut buffer, 1) {
        endpoint.transmitted(handle, now);
        sent.push(buffer[..transmit.size].to_vec());
    }
    sent
}

impl Wire {
    /// Returns two endpoints that have confirmed the handshake.
    pub(super) fn new() -> Self {
        Self::with(TransportConfig::builder().max_datagram_frame_size(None).build().unwrap())
    }

    pub(super) fn with(transport: TransportConfig) -> Self {
        let mut wire = Self::begin(transport, |_| {});
        wire.exchange();
        assert!(wire.client().is_confirmed() && wire.server().is_confirmed());
        wire
    }

    /// Returns two endpoints after the client's first datagrams have arrived as modified by
    /// `change`. Nothing has been sent in response.
    pub(super) fn begin(transport: TransportConfig, change: impl Fn(&mut Vec<Vec<u8>>)) -> Self {
        let now = Timestamp::from_origin(Duration::from_secs(1));
        let (roots, sessions) = tls();
        let transport = Arc::new(transport);
        let server = ServerConfig {
            sessions: sessions.clone(),
            transport: transport.clone(),
            retry_token_lifetime: Duration::from_secs(15),
            new_token_lifetime: Duration::from_secs(15),
            shared_tokens: None,
            preferred_addresses: crate::PreferredAddresses::default(),
        };
        let client_config = ClientConfig {
            sessions: Arc::new(TlsClientConfig::with_roots(roots.clone(), &[b"test"]).unwrap()),
            transport,
            token: Vec::new(),
        };
        let client = endpoint(None, 1, now);
        let server = endpoint(Some(server), 2, now);
        Self::connect(now, client, server, &client_config, change)
    }

    /// Starts like [`Self::begin`], on a connection that resumes an earlier session and offers
    /// early data.
    pub(super) fn resumed() -> Self {
        let now = Timestamp::from_origin(Duration::from_secs(1));
        let (roots, sessions) = tls();
        let server = ServerConfig {
            sessions: Arc::new(TlsServerConfig::clone(sessions).early_data(true)),
            transport: Arc::default(),
            retry_token_lifetime: Duration::from_secs(15),
            new_token_lifetime: Duration::from_secs(15),
            shared_tokens: None,
            preferred_addresses: crate::PreferredAddresses::default(),
        };
        let tls = TlsClientConfig::with_roots(roots.clone(), &[b"test"]).unwrap();
        let client_config = ClientConfig {
            sessions: Arc::new(tls.early_data(true)),
            transport: Arc::default(),
            token: Vec::new(),
        };
        let (client, server) = (endpoint(None, 1, now), endpoint(Some(server), 2, now));
        let mut first = Self::connect(now, client, server, &client_config, |_| {});
        first.exchange();
        Self::connect(first.now, first.client, first.server, &client_config, |_| {})
    }

    fn connect(
        now: Timestamp,
        mut client: Endpoint,
        mut server: Endpoint,
        client_config: &ClientConfig,
        change: impl Fn(&mut Vec<Vec<u8>>),
    ) -> Self {
        let handle =
            client.connect(now, client_config, address(SERVER), "localhost", None).unwrap();
        let mut first = datagrams(&mut client, handle, now);
        change(&mut first);
        let Received::Incoming(incoming) = server.receive(now, from(CLIENT), &mut first[0]) else {
            panic!("a new client")
        };
        let accepted = server.accept(now, incoming, None).unwrap();
        for datagram in &mut first[1..] {
            server.receive(now, from(CLIENT), datagram);
        }
        Self { now, client, server, handle, accepted }
    }

    pub(super) fn client(&mut self) -> &mut Connection {
        self.client.connection_mut(self.handle).unwrap()
    }

    pub(super) fn server(&mut self) -> &mut Connection {
        self.server.connection_mut(self.accepted).unwrap()
    }

    /// Delivers datagrams, with a delay of ten milliseconds each way, until neither endpoint has
    /// more to send.
    pub(super) fn exchange(&mut self) {
        loop {
            let up = datagrams(&mut self.client, self.handle, self.now);
            let down = datagrams(&mut self.server, self.accepted, self.now);
            if up.is_empty() && down.is_empty() {
                return;
            }
            self.now += Duration::from_millis(10);
            for mut datagram in up {
                self.server.receive(self.now, from(CLIENT), &mut datagram);
            }
            for mut datagram in down {
                self.client.receive(self.now, from(SERVER), &mut datagram);
            }
        }
    }

    /// Returns a 1-RTT packet from the client with these bytes as its frames.
    pub(super) fn forge(&mut self, frames: &[u8]) -> Vec<u8> {
        let now = self.now;
        let client = self.client();
        let destination = client.remote_ids.current();
        forge(client, now, SpaceId::Application, destination, &[], frames)
    }

    /// Delivers a 1-RTT packet with these bytes as its frames to the server.
    pub(super) fn send(&mut self, frames: &[u8]) {
        let mut datagram = self.forge(frames);
        self.server.receive(self.now, from(CLIENT), &mut datagram);
    }

    fn send_frame(&mut self, frame: &Frame<'_>) {
        self.send(&encoded(&[frame]));
    }

    /// Returns the error with which the server closed the connection; the client must receive the
    /// same code.
    pub(super) fn server_error(&mut self) -> Option<TransportErrorCode> {
        let mut error = None;
        while let Some(event) = self.server().next_event() {
            if let Event::Closed(ConnectionError::TransportError(transport)) = event {
                error = Some(transport.code);
            }
        }
        self.exchange();
        while let Some(event) = self.client().next_event() {
            if let Event::Closed(ConnectionError::ConnectionClosed { error_code, .. }) = event {
                assert_eq!(Some(error_code), error);
            }
        }
        assert_eq!(self.client().is_closed(), error.is_some());
        error
    }
}

/// Returns a packet from `connection` with these bytes as its frames, alone in its datagram.
pub(super) fn forge(
    connection: &mut Connection,
    now: Timestamp,
    space: SpaceId,
    destination: ConnectionId,
    token: &[u8],
    frames: &[u8],
) -> Vec<u8> {
    let plan = HeaderPlan {
        version: clearway_wire::Version::V1,
        spin: false,
        space,
        number: connection.recovery.get_mut().next_packet_number(space).unwrap(),
        number_room: connection.recovery.get().number_room(space),
        source: connection.identity.local,
        destination,
        token,
        key_phase: connection.handshake.protection().key_phase(),
        is_early: space == SpaceId::Application && connection.sends_early(),
    };
    let mut buffer = vec![0; 1400];
    let mut writer = Writer::new(&mut buffer);
    let draft = Draft::write(&mut writer, &plan, &mut Vec::new(), |contents| {
        contents.raw(frames);
    });
    connection.outgoing.buffers.drafts.clear();
    connection.outgoing.buffers.drafts.extend(draft);
    connection.protect_and_stage(now, writer.filled_mut()).unwrap();
    connection.recovery.get_mut().transmitted(now).unwrap();
    writer.filled().to_vec()
}

pub(super) fn encoded(frames: &[&Frame<'_>]) -> Vec<u8> {
    let mut buffer = vec![0; 1400];
    let mut writer = Writer::new(&mut buffer);
    for frame in frames {
        frame.encode(&mut writer).unwrap();
    }
    writer.filled().to_vec()
}

fn varint(value: u64) -> VarInt {
    VarInt::new(value).unwrap()
}

fn ack(first: u64, last: u64) -> Vec<u8> {
    let mut buffer = [0; 64];
    let mut writer = Writer::new(&mut buffer);
    let number = |number| PacketNumber::new(number).unwrap();
    let ranges = core::iter::once(number(first)..=number(last));
    frame::Ack::encode_ranges(&mut writer, VarInt::ZERO, ranges, None).unwrap();
    writer.filled().to_vec()
}

fn stream(id: u64, offset: u64, data: &[u8], fin: bool) -> Vec<u8> {
    let stream_id = StreamId::from_varint(varint(id));
    let frame = frame::Stream { stream_id, offset: varint(offset), data, fin };
    encoded(&[&Frame::Stream(frame)])
}

fn reset(id: u64, final_size: u64) -> Vec<u8> {
    encoded(&[&Frame::ResetStream(frame::ResetStream {
        stream_id: StreamId::from_varint(varint(id)),
        error_code: VarInt::ZERO,
        final_size: varint(final_size),
    })])
}

fn new_connection_id(sequence: u64, retire_prior_to: u64) -> Vec<u8> {
    encoded(&[&Frame::NewConnectionId(frame::NewConnectionId {
        sequence: varint(sequence),
        retire_prior_to: varint(retire_prior_to),
        id: ConnectionId::new(&(sequence + 1000).to_be_bytes()).unwrap(),
        reset_token: ResetToken::new([sequence as u8; 16]),
    })])
}

fn retire(sequence: u64) -> Vec<u8> {
    let sequence = varint(sequence);
    encoded(&[&Frame::RetireConnectionId(frame::RetireConnectionId { sequence })])
}

pub(super) fn ack_frequency(microseconds: u64) -> Vec<u8> {
    encoded(&[&Frame::AckFrequency(frame::AckFrequency {
        sequence: VarInt::ZERO,
        ack_eliciting_threshold: varint(1),
        max_ack_delay: varint(microseconds),
        reordering_threshold: varint(1),
    })])
}

#[test]
fn violations_end_the_connection_with_the_code_of_the_rfc() {
    let crypto = |offset: u64| {
        encoded(&[&Frame::Crypto(frame::Crypto { offset: varint(offset), data: &[0; 10] })])
    };
    let max_streams = {
        let mut bytes = vec![0x12];
        bytes.extend_from_slice(&(((1_u64 << 60) + 1) | (3 << 62)).to_be_bytes());
        bytes
    };
    type Code = TransportErrorCode;
    let cases: Vec<(&str, Vec<u8>, Code)> = vec![
        ("§12.4 unknown frame type", vec![0x40, 0x99], Code::FRAME_ENCODING_ERROR),
        ("§12.4 a truncated frame", vec![0x06, 0x00, 0x10, 1], Code::FRAME_ENCODING_ERROR),
        ("§13.1 an ACK of a packet never sent", ack(0, 100_000), Code::PROTOCOL_VIOLATION),
        ("§19.7 NEW_TOKEN from a client", vec![0x07, 0x01, 0x55], Code::PROTOCOL_VIOLATION),
        ("§19.20 HANDSHAKE_DONE from a client", vec![0x1e], Code::PROTOCOL_VIOLATION),
        (
            "§4.1 beyond the stream's limit",
            stream(0, 1 << 30, b"x", false),
            Code::FLOW_CONTROL_ERROR,
        ),
        ("§4.6 beyond the stream limit", stream(4000, 0, b"x", false), Code::STREAM_LIMIT_ERROR),
        (
            "§19.8 a stream only the server opens",
            stream(1, 0, b"x", false),
            Code::STREAM_STATE_ERROR,
        ),
        (
            "§19.8 a stream only the server writes",
            stream(3, 0, b"x", false),
            Code::STREAM_STATE_ERROR,
        ),
        (
            "§4.5 the final size changes",
            [stream(0, 0, b"abc", true), stream(0, 3, b"d", false)].concat(),
            Code::FINAL_SIZE_ERROR,
        ),
        (
            "§4.5 a reset below what was received",
            [stream(0, 0, b"abc", false), reset(0, 2)].concat(),
            Code::FINAL_SIZE_ERROR,
        ),
        ("§4.5 a reset beyond the limit", reset(0, 1 << 40), Code::FLOW_CONTROL_ERROR),
        ("§19.11 too many streams", max_streams, Code::FRAME_ENCODING_ERROR),
        ("§19.16 an ID that was never sent", retire(99), Code::PROTOCOL_VIOLATION),
        (
            "ack-frequency §4 a delay below min_ack_delay",
            ack_frequency(999),
            Code::PROTOCOL_VIOLATION,
        ),
        (
            "ack-frequency §4 a delay above the maximum of max_ack_delay",
            ack_frequency(16_384_000),
            Code::PROTOCOL_VIOLATION,
        ),
        ("ack-frequency §4 a truncated frame", vec![0x40, 0xaf, 0, 1], Code::FRAME_ENCODING_ERROR),
        (
            "reliable-stream-reset §4 the reliable size exceeds the final size",
            vec![0x24, 0, 7, 5, 6],
            Code::FRAME_ENCODING_ERROR,
        ),
        (
            "reliable-stream-reset §4 a final size beyond the limit",
            [vec![0x24, 0, 7], (1_u64 << 40 | 3 << 62).to_be_bytes().to_vec(), vec![6]].concat(),
            Code::FLOW_CONTROL_ERROR,
        ),
        ("§19.16 the ID of the packet itself", retire(0), Code::PROTOCOL_VIOLATION),
        (
            "§5.1.1 too many IDs",
            (4..12).flat_map(|sequence| new_connection_id(sequence, 0)).collect(),
            Code::CONNECTION_ID_LIMIT_ERROR,
        ),
        (
            "§19.15 one sequence number for two IDs",
            {
                let mut other = new_connection_id(1, 0);
                *other.last_mut().unwrap() ^= 1;
                other
            },
            Code::PROTOCOL_VIOLATION,
        ),
        ("§7.5 CRYPTO data beyond the buffer", crypto(1 << 20), Code::CRYPTO_BUFFER_EXCEEDED),
        ("RFC 9221 §3 not announced", vec![0x30, 1, 2, 3], Code::PROTOCOL_VIOLATION),
    ];
    for (what, frames, code) in cases {
        let mut wire = Wire::new();
        wire.send(&frames);
        assert_eq!(wire.server_error(), Some(code), "{what}");
    }
}

#[test]
fn a_datagram_is_credited_once_however_many_packets_it_has() {
    // Gallery row 81.
    let credit = |packets: usize| {
        let lengthen = |datagrams: &mut Vec<Vec<u8>>| {
            let datagram = &mut datagrams[0];
            let header = ProtectedHeader::decode(datagram, 0).unwrap();
            let HeaderKind::Long { destination, .. } = header.kind else {
                panic!("an Initial packet")
            };
            // Handshake packets that cannot be decrypted.
            for _ in 1..packets {
                datagram.extend([0xe3, 0, 0, 0, 1, destination.len() as u8]);
                datagram.extend(destination.as_bytes());
                datagram.extend([0, 40]);
                datagram.extend([7; 40]);
            }
        };
        let mut wire = Wire::begin(TransportConfig::default(), lengthen);
        wire.server().paths.current().amplification_credit()
    };
    let (one, two) = (credit(1), credit(2));
    assert!(two > one && two < one + 300, "{one} {two}");
}

#[test]
fn a_packet_that_cannot_be_opened_leaves_the_rest_of_its_datagram_alone() {
    // Gallery row 67: the server needs the Handshake packet behind the Initial one.
    let mut wire = Wire::begin(TransportConfig::default(), |_| {});
    let down = datagrams(&mut wire.server, wire.accepted, wire.now);
    wire.now += Duration::from_millis(10);
    for mut datagram in down {
        wire.client.receive(wire.now, from(SERVER), &mut datagram);
    }
    let mut up = datagrams(&mut wire.client, wire.handle, wire.now);
    let first = ProtectedHeader::decode(&up[0], 0).unwrap().packet_len;
    assert!(first < up[0].len(), "two packets");
    up[0][first - 1] ^= 1;
    wire.now += Duration::from_millis(10);
    for mut datagram in up {
        wire.server.receive(wire.now, from(CLIENT), &mut datagram);
    }
    assert!(wire.server().is_confirmed());
}

/// RFC 9000 §12.4: a packet without frames is a PROTOCOL_VIOLATION.
#[test]
fn a_packet_without_frames_is_a_violation() {
    let mut wire = Wire::new();
    let now = wire.now;
    let client = wire.client();
    let header = header::ShortHeader {
        destination: client.remote_ids.current(),
        spin: false,
        key_phase: client.handshake.protection().key_phase(),
    };
    let mut buffer = [0; 100];
    let mut writer = Writer::new(&mut buffer);
    let number = client.recovery.get_mut().next_packet_number(SpaceId::Application).unwrap();
    let number_offset = header.encode(&mut writer, number, 4).unwrap();
    let payload_offset = writer.written();
    writer.zeros(16).unwrap();
    let packet = writer.filled_mut();
    let protection = client.handshake.protection_mut();
    protection.seal(SpaceId::Application, number, number_offset, payload_offset, packet).unwrap();
    let mut datagram = packet.to_vec();
    wire.server.receive(now, from(CLIENT), &mut datagram);
    assert_eq!(wire.server_error(), Some(TransportErrorCode::PROTOCOL_VIOLATION));
}

/// RFC 9000 §21.4: a peer that acknowledges a skipped packet number has not received the packets
/// that it acknowledges.
#[test]
fn an_acknowledgement_of_a_skipped_packet_number_is_a_violation() {
    let mut wire = Wire::new();
    let mut before = None;
    let skipped = loop {
        wire.server().ping();
        wire.exchange();
        let next = wire
            .server()
            .recovery
            .get_mut()
            .next_packet_number(SpaceId::Application)
            .unwrap()
            .get();
        if let Some(before) = before
            && next > before + 1
        {
            break next - 1;
        }
        before = Some(next);
    };
    wire.send(&ack(skipped, skipped));
    assert_eq!(wire.server_error(), Some(TransportErrorCode::PROTOCOL_VIOLATION));
}

/// RFC 9000 §19.16: a peer can retire only IDs that were issued to it, so a packet full of
/// RETIRE_CONNECTION_ID frames cannot make this endpoint issue IDs without bound.
#[test]
fn retiring_faster_than_ids_are_given_is_a_violation() {
    let mut wire = Wire::new();
    let frames: Vec<u8> = (1..200).flat_map(retire).collect();
    wire.send(&frames);
    assert_eq!(wire.server_error(), Some(TransportErrorCode::PROTOCOL_VIOLATION));
}

/// RFC 9000 §5.1.1, §5.1.2: a connection ID that the peer retires is replaced by a new one, which
/// identifies the connection.
#[test]
fn ids_that_are_retired_are_replaced_and_found() {
    let mut wire = Wire::new();
    let first = wire.client().remote_ids.current();
    for _ in 0..20 {
        let old = wire.client().remote_ids.current();
        let server = address(SERVER);
        assert!(wire.client().remote_ids.follow(server.into(), server.into(), false));
        wire.client().remote_ids.release(|_| true);
        assert_ne!(wire.client().remote_ids.current(), old);
        wire.exchange();
        assert_eq!(wire.server_error(), None);
        assert_eq!(wire.server().local_ids().count(), 4);
        assert!(wire.client().recovery.is_nothing_outstanding(SpaceId::Application));
    }
    assert!(wire.server().local_ids().all(|id| id != first));
}

/// RFC 9000 §8.2.2: many challenges cause few responses, and no memory is allocated for them.
#[test]
fn a_flood_of_challenges_is_answered_a_few_times() {
    let mut wire = Wire::new();
    let challenge = |byte| Frame::PathChallenge(frame::PathChallenge { data: [byte; 8] });
    let frames: Vec<u8> = (0..100).flat_map(|byte| encoded(&[&challenge(byte)])).collect();
    for _ in 0..10 {
        wire.send(&frames);
    }
    let now = wire.now;
    let answers = datagrams(&mut wire.server, wire.accepted, now);
    assert!(answers.len() <= 2, "{}", answers.len());
    // From an address that is not validated: at most three times the bytes received from it.
    let mut datagram = wire.forge(&frames[..36]);
    wire.server.receive(now, from(6666), &mut datagram);
    let answers = datagrams(&mut wire.server, wire.accepted, now);
    let bytes: usize = answers.iter().map(Vec::len).sum();
    assert!(bytes > 0 && bytes <= 3 * datagram.len(), "{bytes} for {}", datagram.len());
    assert_eq!(wire.server_error(), None);
}

/// An ACK that is due but blocked by the anti-amplification limit does not leave a timer expired;
/// it can be sent after the next packet from the peer.
#[test]
fn an_acknowledgement_that_may_not_be_sent_does_not_spin() {
    let mut wire = Wire::new();
    let now = wire.now;
    let receive_from_elsewhere = |wire: &mut Wire| {
        let mut datagram = wire.forge(&[0x01]);
        wire.server.receive(now, from(6666), &mut datagram);
    };
    receive_from_elsewhere(&mut wire);
    datagrams(&mut wire.server, wire.accepted, now);
    wire.server().paths.current_mut().on_sent(200);
    receive_from_elsewhere(&mut wire);
    receive_from_elsewhere(&mut wire);
    assert!(datagrams(&mut wire.server, wire.accepted, now).is_empty());
    assert!(wire.server().deadline().is_some_and(|deadline| deadline > now));
    for _ in 0..4 {
        receive_from_elsewhere(&mut wire);
    }
    assert!(!datagrams(&mut wire.server, wire.accepted, now).is_empty());
}

/// RFC 9000 §19.19: the error code and the reason of the peer's CONNECTION_CLOSE are reported
/// unchanged.
#[test]
fn the_peer_s_close_is_reported_unchanged() {
    let mut wire = Wire::new();
    wire.send_frame(&Frame::ConnectionClose(frame::ConnectionClose {
        error_code: varint(0x7777),
        kind: CloseKind::Application,
        reason: b"enough",
    }));
    let error = ConnectionError::ApplicationClosed {
        error_code: varint(0x7777),
        reason: bytes::Bytes::from_static(b"enough"),
    };
    let events: Vec<Event> = core::iter::from_fn(|| wire.server().next_event()).collect();
    assert!(events.contains(&Event::Closed(error)));
    let now = wire.now;
    assert!(datagrams(&mut wire.server, wire.accepted, now).is_empty(), "draining");
}

/// RFC 9000 §10.3.1: the stateless reset token of an unused connection ID has no effect.
#[test]
fn only_the_reset_token_of_the_id_in_use_ends_the_connection() {
    let mut wire = Wire::new();
    let now = wire.now;
    let key = ResetKey::new(&[2; 32]);
    let ids: Vec<ConnectionId> = wire.server().local_ids().collect();
    let reset = |id: &ConnectionId| [&[0x41; 30][..], key.token(id).as_bytes()].concat();
    for spare in &ids[1..] {
        wire.client.receive(now, from(SERVER), &mut reset(spare));
        assert!(!wire.client().is_closed());
    }
    wire.client.receive(now, from(6666), &mut reset(&ids[0]));
    assert!(!wire.client().is_closed(), "from elsewhere");
    wire.client.receive(now, from(SERVER), &mut reset(&ids[0]));
    assert!(wire.client().is_closed());
}

/// Generates random frames from a peer that has the keys.
fn any_frames() -> impl Strategy<Value = Vec<u8>> {
    let small = prop_oneof![0..8_u64, 0..300_u64, any::<u64>().prop_map(|value| value >> 2)];
    let bytes = proptest::collection::vec(any::<u8>(), 1..200);
    prop_oneof![
        bytes,
        (0..0x1f_u8, proptest::collection::vec(small, 0..6)).prop_map(|(kind, fields)| {
            let mut buffer = [0; 100];
            let mut writer = Writer::new(&mut buffer);
            for field in fields {
                varint(field).encode(&mut writer).unwrap();
            }
            let mut frames = vec![kind];
            frames.extend_from_slice(writer.filled());
            frames
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn made_up_frames_end_the_connection_or_do_nothing(
        packets in proptest::collection::vec(any_frames(), 1..40)
    ) {
        let mut wire = Wire::new();
        for frames in packets {
            wire.send(&frames);
            let now = wire.now;
            let server = wire.server();
            prop_assert!(server.is_closed() || server.deadline().is_some());
            prop_assert!(server.streams_statistics().open <= 200);
            prop_assert!(server.local_ids().count() <= 8);
            datagrams(&mut wire.server, wire.accepted, now);
            if wire.server().is_closed() {
                break;
            }
        }
    }
}
