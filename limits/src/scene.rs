//! An endpoint under attack, and a peer that has the keys and encodes its packets itself.

use core::net::SocketAddr;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::sync::Arc;

use clearway_lab::stack::{NullSessions, null_application_key, null_initial_key};
use clearway_transport::{
    Arrival, ClientConfig, Connection, ConnectionHandle, EcnCodepoint, Endpoint, EndpointConfig,
    Event, PreferredAddresses, RandomIds, ReadOutcome, Received, ResetKey, ServerConfig, Side,
    SocketIndex, TransportConfig,
};
use clearway_units::{Random, Timestamp};
use clearway_wire::header::{LongHeader, ShortHeader, set_length};
use clearway_wire::{
    ConnectionId, Direction, Frame, LongPacketType, PacketNumber, StreamId, VarInt, Version,
    Writer, frame,
};
use rustls::quic::PacketKey;

/// Maximum UDP payload that the attacker sends.
const DATAGRAM: usize = 1_200;
const TAG_LEN: usize = 16;
const ID_LEN: usize = 8;
/// Interval between two packets from the attacker.
const STEP: Duration = Duration::from_micros(10);

/// Behavior of the application on the endpoint under attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Application {
    /// Polls events, but accepts no streams and reads nothing.
    Idle,
    /// Accepts every stream and reads all data.
    Reads,
    /// Accepts every stream, and writes as much data as possible to each writable one.
    Writes,
}

/// An endpoint with one connection whose peer is the attacker.
pub struct Scene {
    /// The current virtual time.
    pub now: Timestamp,
    /// The endpoint under attack.
    pub victim: Endpoint,
    /// The victim's connection with the attacker.
    pub handle: ConnectionHandle,
    /// Destination Connection ID of packets to the victim on this connection.
    pub victim_id: ConnectionId,
    /// How the connection ended, if it did.
    pub closed: Option<String>,
    application: Application,
    home: SocketAddr,
    next_number: u64,
    largest_sent: Option<PacketNumber>,
    /// Whether the victim is allowed to transmit datagrams.
    pub may_transmit: bool,
    /// The 1-RTT packets that the victim has sent, with their datagrams' sizes, if they have to be
    /// recorded.
    pub sent: Option<Vec<(PacketNumber, usize)>>,
    datagram: Vec<u8>,
    scratch: Vec<u8>,
    data: bytes::Bytes,
    streams: Vec<StreamId>,
}

/// Returns the address of peer `number`. Each number has a different address.
pub fn address(number: u32) -> SocketAddr {
    let [_, high, middle, low] = number.to_be_bytes();
    SocketAddr::from(([10, high, middle, low], 50_000))
}

fn server_address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 443))
}

fn arrival(remote: SocketAddr) -> Arrival {
    Arrival { remote, socket: SocketIndex::default(), local_ip: None, ecn: EcnCodepoint::NotEct }
}

/// Returns the settings that both endpoints use: the defaults, with DATAGRAM frames enabled and
/// without an idle timeout.
pub fn settings() -> TransportConfig {
    TransportConfig::builder()
        .max_idle_timeout(None)
        .max_datagram_frame_size(Some(1_200))
        .skip_packet_numbers(false)
        .build()
        .unwrap()
}

/// Creates an endpoint whose connections use these settings. The endpoint is a server if
/// `is_server` is true.
pub fn endpoint(
    is_server: bool,
    settings: &TransportConfig,
    max_connections: usize,
    now: Timestamp,
) -> Endpoint {
    let config = EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[u8::from(is_server); 32]),
        max_connections,
    };
    let server = is_server.then(|| {
        Arc::new(ServerConfig {
            sessions: Arc::new(NullSessions),
            transport: Arc::new(settings.clone()),
            retry_token_lifetime: Duration::from_secs(15),
            new_token_lifetime: Duration::from_secs(15),
            shared_tokens: None,
            preferred_addresses: PreferredAddresses::default(),
        })
    });
    Endpoint::new(config, server, now, Random::from_number(u64::from(is_server)))
}

/// Connects `client` from the address `home`, and exchanges datagrams until neither endpoint has any to send.
pub fn shake_hands(
    now: &mut Timestamp,
    server: &mut Endpoint,
    client: &mut Endpoint,
    settings: &TransportConfig,
    home: SocketAddr,
) -> Option<(ConnectionHandle, ConnectionHandle)> {
    let sessions = Arc::new(NullSessions);
    let config =
        ClientConfig { sessions, transport: Arc::new(settings.clone()), token: Vec::new() };
    let at_client = client.connect(*now, &config, server_address(), "localhost", None).ok()?;
    let mut at_server = None;
    let mut buffer = vec![0; DATAGRAM];
    for _ in 0..20 {
        let mut is_silent = true;
        *now += Duration::from_millis(1);
        while let Some(transmit) = client.transmit(at_client, *now, &mut buffer, 1) {
            client.transmitted(at_client, *now);
            is_silent = false;
            let datagram = buffer.get_mut(..transmit.size)?;
            if let Received::Incoming(incoming) = server.receive(*now, arrival(home), datagram) {
                at_server = server.accept(*now, incoming, None).ok();
            }
        }
        let handle = at_server?;
        while let Some(transmit) = server.transmit(handle, *now, &mut buffer, 1) {
            server.transmitted(handle, *now);
            is_silent = false;
            client.receive(*now, arrival(server_address()), buffer.get_mut(..transmit.size)?);
        }
        if is_silent {
            break;
        }
    }
    Some((at_server?, at_client))
}

impl Scene {
    /// Creates a connection whose handshake is confirmed. The endpoint on side `victim` is attacked
    /// by its peer.
    ///
    /// # Panics
    /// Panics if the handshake fails.
    pub fn new(victim: Side, application: Application) -> Self {
        Self::with(victim, application, &settings(), 100)
    }

    /// Like [`new`](Self::new), with other settings and another connection limit.
    ///
    /// # Panics
    /// Panics if the handshake fails.
    pub fn with(
        victim: Side,
        application: Application,
        settings: &TransportConfig,
        max_connections: usize,
    ) -> Self {
        let mut now = Timestamp::from_origin(Duration::from_secs(1));
        let mut server = endpoint(true, settings, max_connections, now);
        let mut client = endpoint(false, settings, max_connections, now);
        let made = shake_hands(&mut now, &mut server, &mut client, settings, address(1));
        let (at_server, at_client) = made.expect("a handshake");
        let (victim, handle, other, at_other, home) = match victim {
            Side::Server => (server, at_server, client, at_client, address(1)),
            Side::Client => (client, at_client, server, at_server, server_address()),
        };
        let connection = other.connection(at_other).expect("the attacker's connection");
        let parameters = connection.peer_parameters().expect("the victim's parameters");
        let victim_id = parameters.initial_source_connection_id.expect("the victim's ID");
        assert!(victim.connection(handle).is_some_and(Connection::is_confirmed));
        Self {
            now,
            victim,
            handle,
            victim_id,
            closed: None,
            application,
            home,
            // Larger than any packet number used in the handshake.
            next_number: 1_000,
            largest_sent: None,
            may_transmit: true,
            sent: None,
            datagram: vec![0; DATAGRAM + 100],
            scratch: vec![0; 16 * DATAGRAM],
            data: bytes::Bytes::from(vec![7; 1 << 16]),
            streams: Vec::with_capacity(1_000),
        }
    }

    /// Returns the connection under attack.
    ///
    /// # Panics
    /// Panics if the connection no longer exists.
    pub fn connection(&mut self) -> &mut Connection {
        self.victim.connection_mut(self.handle).expect("the victim's connection")
    }

    /// Returns whether the victim closed the connection.
    pub fn is_closed(&self) -> bool {
        self.victim.connection(self.handle).is_none_or(Connection::is_closed)
    }

    /// Connects another client to the victim, which must be a server.
    ///
    /// # Panics
    /// Panics if the handshake fails.
    pub fn add_connection(&mut self, settings: &TransportConfig, home: SocketAddr) {
        let mut client = endpoint(false, settings, 1, self.now);
        shake_hands(&mut self.now, &mut self.victim, &mut client, settings, home)
            .expect("a handshake");
    }

    /// Skips packet numbers, as if the path had lost these packets.
    pub fn skip_numbers(&mut self, count: u64) {
        self.next_number += count;
    }

    /// Passes a 1-RTT packet with these frames from the attacker's address to the victim.
    pub fn send(&mut self, frames: &[Frame<'_>]) {
        self.send_from(self.home, frames);
    }

    /// Like [`send`](Self::send), from any source address.
    ///
    /// # Panics
    /// Panics if the frames do not fit into a packet.
    pub fn send_from(&mut self, from: SocketAddr, frames: &[Frame<'_>]) {
        let mut datagram = std::mem::take(&mut self.datagram);
        let size = write_packet(&mut datagram, self.victim_id, self.next_number, |writer| {
            for frame in frames {
                frame.encode(writer).expect("frames that fit");
            }
        });
        self.next_number += 1;
        self.victim.receive(self.now, arrival(from), &mut datagram[..size]);
        self.datagram = datagram;
        self.turn();
    }

    /// Passes a 1-RTT packet with this payload to the victim.
    ///
    /// # Panics
    /// Panics if the payload does not fit into a packet.
    pub fn send_bytes(&mut self, payload: &[u8]) {
        let mut datagram = std::mem::take(&mut self.datagram);
        let size = write_packet(&mut datagram, self.victim_id, self.next_number, |writer| {
            writer.bytes(payload).expect("a payload that fits");
        });
        self.next_number += 1;
        self.victim.receive(self.now, arrival(self.home), &mut datagram[..size]);
        self.datagram = datagram;
        self.turn();
    }

    /// Passes an Initial packet for `destination` with these frames to the victim.
    ///
    /// # Panics
    /// Panics if the frames do not fit into a packet.
    pub fn send_initial(
        &mut self,
        from: SocketAddr,
        destination: ConnectionId,
        frames: &[Frame<'_>],
    ) {
        let mut datagram = std::mem::take(&mut self.datagram);
        let number = self.next_number;
        self.next_number += 1;
        write_initial(&mut datagram, destination, number, frames);
        let received = self.victim.receive(self.now, arrival(from), &mut datagram[..DATAGRAM]);
        if let Received::Incoming(incoming) = received {
            // The endpoint rejects connections above its limit.
            let _ = self.victim.accept(self.now, incoming, None);
        }
        self.datagram = datagram;
        self.turn();
    }

    /// Passes a datagram with these bytes to the victim, from any source address.
    pub fn send_raw(&mut self, from: SocketAddr, bytes: &[u8]) {
        let mut datagram = std::mem::take(&mut self.datagram);
        datagram[..bytes.len()].copy_from_slice(bytes);
        self.victim.receive(self.now, arrival(from), &mut datagram[..bytes.len()]);
        self.datagram = datagram;
        self.turn();
    }

    /// Sets the behavior of the victim's application.
    pub fn set_application(&mut self, application: Application) {
        self.application = application;
    }

    /// Advances the time, and lets the victim's application run and the victim send once.
    pub fn turn(&mut self) {
        self.now += STEP;
        self.run_application();
        self.run_sender();
    }

    fn run_application(&mut self) {
        let now = self.now;
        let application = self.application;
        let Some(connection) = self.victim.connection_mut(self.handle) else { return };
        while let Some(event) = connection.next_event() {
            if let Event::Closed(error) = &event {
                self.closed = Some(format!("{error}"));
            }
        }
        if application == Application::Idle {
            return;
        }
        for direction in [Direction::Bidirectional, Direction::Unidirectional] {
            while let Some(stream) = connection.accept(direction) {
                if self.streams.len() == self.streams.capacity() {
                    self.streams.clear();
                }
                self.streams.push(stream);
            }
        }
        for stream in &self.streams {
            if application == Application::Writes {
                let _ = connection.write(*stream, self.data.clone());
            } else {
                while connection.read(now, *stream, 1 << 16).is_ok_and(|read| !is_empty(&read)) {}
            }
        }
        while application == Application::Reads && connection.receive_datagram().is_some() {}
    }

    fn run_sender(&mut self) {
        let (now, handle) = (self.now, self.handle);
        if let Some(connection) = self.victim.connection_mut(handle)
            && connection.deadline().is_some_and(|deadline| deadline <= now)
        {
            connection.on_deadline(now);
        }
        while self.may_transmit
            && let Some(transmit) = self.victim.transmit(handle, now, &mut self.scratch, 10)
        {
            self.victim.transmitted(handle, now);
            let size = transmit.segment_size.unwrap_or(transmit.size);
            for packet in self.scratch[..transmit.size].chunks(size) {
                let number = number_of(packet, self.largest_sent);
                self.largest_sent = number.max(self.largest_sent);
                if let (Some(sent), Some(number)) = (&mut self.sent, number) {
                    sent.push((number, packet.len()));
                }
            }
        }
        while self.victim.next_reply().is_some() {}
        self.victim.settle(handle);
    }

    /// Returns the largest packet number of a 1-RTT packet that the victim sent.
    pub fn largest_sent(&self) -> Option<PacketNumber> {
        self.largest_sent
    }

    /// Acknowledges exactly these packet numbers.
    ///
    /// # Panics
    /// Panics if there are no ranges, or the ranges are not in descending order.
    pub fn acknowledge(&mut self, ranges: impl Iterator<Item = RangeInclusive<PacketNumber>>) {
        let mut payload = [0; 1_100];
        let mut writer = Writer::new(&mut payload);
        frame::Ack::encode_ranges(&mut writer, VarInt::ZERO, ranges, None).expect("ranges");
        let length = writer.written();
        self.send_bytes(&payload[..length]);
    }
}

fn is_empty(outcome: &ReadOutcome) -> bool {
    !matches!(outcome, ReadOutcome::Data(_))
}

/// Returns the packet number of a 1-RTT packet from the victim. Null keys leave the packet's header
/// unprotected.
fn number_of(packet: &[u8], largest: Option<PacketNumber>) -> Option<PacketNumber> {
    let first = *packet.first().filter(|first| **first & 0x80 == 0)?;
    let number = packet.get(1 + ID_LEN..)?.get(..usize::from(first & 3) + 1)?;
    Some(PacketNumber::decode_truncated(number, largest))
}

/// Encodes a 1-RTT packet, and returns its size.
fn write_packet(
    datagram: &mut [u8],
    destination: ConnectionId,
    number: u64,
    fill: impl FnOnce(&mut Writer<'_>),
) -> usize {
    let number = PacketNumber::new(number).expect("a packet number");
    let mut writer = Writer::new(datagram);
    let header = ShortHeader { destination, spin: false, key_phase: false };
    header.encode(&mut writer, number, 4).expect("room for the header");
    let payload = writer.written();
    fill(&mut writer);
    let content = writer.written();
    let end = content.max(payload + 4);
    datagram[content..end].fill(0);
    seal(datagram, payload, end, number, &null_application_key());
    end + TAG_LEN
}

/// Encodes an Initial packet that fills a datagram.
fn write_initial(
    datagram: &mut [u8],
    destination: ConnectionId,
    number: u64,
    frames: &[Frame<'_>],
) {
    let number = PacketNumber::new(number).expect("a packet number");
    datagram.fill(0);
    let mut writer = Writer::new(datagram);
    let header = LongHeader {
        packet_type: LongPacketType::Initial,
        version: Version::V1,
        destination,
        source: ConnectionId::new(&[1; ID_LEN]).expect("a connection ID"),
        token: &[],
    };
    let offsets = header.encode(&mut writer, number, 4).expect("room for the header");
    for frame in frames {
        frame.encode(&mut writer).expect("frames that fit");
    }
    let length = DATAGRAM - offsets.packet_number;
    set_length(datagram, offsets.length, length).expect("a length");
    seal(datagram, offsets.payload, DATAGRAM - TAG_LEN, number, &null_initial_key());
}

fn seal(
    datagram: &mut [u8],
    payload: usize,
    end: usize,
    number: PacketNumber,
    key: &dyn PacketKey,
) {
    let (header, rest) = datagram.split_at_mut(payload);
    let (content, tag) = rest.split_at_mut(end - payload);
    let made = key.encrypt_in_place(number.get(), header, content).expect("null keys seal");
    tag[..TAG_LEN].copy_from_slice(made.as_ref());
}
