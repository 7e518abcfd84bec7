//! A QUIC endpoint that can forge every frame. rustls provides TLS; packets and frames are encoded
//! by this module.
//!
//! The endpoint completes handshakes, acknowledges unless configured otherwise, and retransmits
//! handshake messages. It has no congestion control and no loss recovery for streams, and it
//! enforces no rules: the caller decides what is sent.

mod receiving;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::encoding::{encode, stream_frame};
use super::incoming::Incoming;
use super::protection::{NUMBER_LEN, TAG_LEN, initial_keys, protect, random};
use clearway_wire::header::{HeaderKind, LongHeader, ProtectedHeader, ShortHeader, set_length};
use clearway_wire::{
    ConnectionId, Frame, LongPacketType, PacketNumber, TransportParameters, VarInt, Version,
    Writer, frame,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::HandshakeKind;
use rustls::pki_types::ServerName;
use rustls::quic::{self, Connection, DirectionalKeys, KeyChange, Keys, Secrets};

/// Size of a datagram that contains an Initial packet (RFC 9000 §14.1).
pub(super) const DATAGRAM: usize = 1_200;
/// Space for frames in the 1-RTT packet of a full-size datagram.
pub(super) const PAYLOAD: usize = 1_150;
const ID_LEN: usize = 8;
/// The pause after which an unanswered handshake flight is retransmitted.
const REPEAT: Duration = Duration::from_millis(250);
/// Maximum number of packet number ranges to remember for acknowledgments.
const MAX_RANGES: usize = 32;
/// Index of the Initial packet number space.
pub(super) const INITIAL: usize = 0;
/// Index of the Handshake packet number space.
pub(super) const HANDSHAKE: usize = 1;
const APPLICATION: usize = 2;

/// Counters of the bytes and datagrams that all endpoints of an attack have sent.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) bytes: AtomicU64,
    pub(super) datagrams: AtomicU64,
}

impl Sent {
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.datagrams.fetch_add(1, Ordering::Relaxed);
    }
}

/// Settings of a client endpoint.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) tls: Arc<rustls::ClientConfig>,
    pub(super) parameters: TransportParameters,
    /// The local IP address of the client.
    pub(super) local: IpAddr,
    /// Bytes to prepend to each datagram.
    pub(super) prefix: Vec<u8>,
    pub(super) counter: Arc<Sent>,
    /// Encoded transport parameters that replace `parameters`, without
    /// initial_source_connection_id.
    pub(super) forged: Option<Forged>,
}

/// Transport parameters that are already encoded.
#[derive(Clone)]
pub(super) struct Forged {
    pub(super) encoded: Vec<u8>,
    /// Whether to append initial_source_connection_id.
    pub(super) has_source: bool,
}

#[derive(Default)]
struct Space {
    keys: Option<Keys>,
    next_number: u64,
    largest: Option<PacketNumber>,
    /// The ranges of received packet numbers, in ascending order.
    received: Vec<(u64, u64)>,
    is_ack_due: bool,
    /// All CRYPTO data to send so far.
    output: Vec<u8>,
    sent: usize,
    input: Incoming,
    read: usize,
}

impl Space {
    fn note(&mut self, number: u64) {
        match self.received.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => self.received.push((number, number)),
        }
        self.received.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (first, last) in self.received.drain(..) {
            match merged.last_mut() {
                Some((_, end)) if first <= *end + 1 => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        let old = merged.len().saturating_sub(MAX_RANGES);
        self.received = merged.split_off(old);
    }
}

/// How the peer closed a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Closed {
    pub(super) is_application: bool,
    pub(super) code: u64,
    pub(super) reason: String,
}

/// One endpoint of a connection.
pub(super) struct Endpoint {
    socket: Arc<UdpSocket>,
    remote: SocketAddr,
    tls: Connection,
    is_client: bool,
    prefix: Vec<u8>,
    /// The peer's connection ID.
    pub(super) destination: ConnectionId,
    source: ConnectionId,
    /// The token from a Retry packet, or one set by the caller.
    pub(super) token: Vec<u8>,
    spaces: [Space; 3],
    level: usize,
    next_secrets: Option<Secrets>,
    key_phase: bool,
    last_flight: Instant,
    /// Whether the handshake is confirmed.
    pub(super) is_confirmed: bool,
    /// Whether to stop sending after a Retry packet.
    pub(super) stops_at_retry: bool,
    /// Whether to acknowledge received packets.
    pub(super) acknowledges: bool,
    /// Whether the client withholds its Finished message.
    pub(super) withholds_finished: bool,
    /// Reserved bits to set in the first byte of packets.
    pub(super) reserved: u8,
    /// Whether to answer PATH_CHALLENGE frames.
    pub(super) answers_challenges: bool,
    pub(super) closed: Option<Closed>,
    pub(super) streams: BTreeMap<u64, Incoming>,
    next_stream: [u64; 2],
    offsets: BTreeMap<u64, u64>,
    /// Maximum number of bidirectional streams that the peer allows.
    pub(super) max_streams: u64,
    /// The largest sequence number among the connection IDs issued by the peer.
    pub(super) issued: u64,
    /// The tokens received in NEW_TOKEN frames.
    pub(super) new_tokens: Vec<Vec<u8>>,
    pub(super) received_datagrams: u64,
    pub(super) received_bytes: u64,
    counter: Arc<Sent>,
}

fn random_id() -> ConnectionId {
    let mut id = [0; ID_LEN];
    random(&mut id);
    ConnectionId::new(&id).expect("an ID of 8 bytes")
}

/// Returns transport parameters that grant the peer the largest possible limits.
pub(super) fn generous() -> TransportParameters {
    let much = VarInt::from_u32(1 << 29);
    TransportParameters {
        max_idle_timeout: VarInt::from_u32(60_000),
        initial_max_data: much,
        initial_max_stream_data_bidi_local: much,
        initial_max_stream_data_bidi_remote: much,
        initial_max_stream_data_uni: much,
        initial_max_streams_bidi: VarInt::from_u32(10_000),
        initial_max_streams_uni: VarInt::from_u32(100),
        active_connection_id_limit: VarInt::from_u32(8),
        max_datagram_frame_size: VarInt::from_u32(1_200),
        ..TransportParameters::default()
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Endpoint {
    /// Completes a handshake with a server.
    ///
    /// # Errors
    /// Returns an error if the handshake takes longer than `limit`, or the server closes the
    /// connection.
    pub(super) fn connect(
        server: SocketAddr,
        settings: &Settings,
        limit: Duration,
    ) -> Result<Self, String> {
        let mut client = Self::begin(server, settings)?;
        client.flush()?;
        let is_confirmed = client.until(limit, |client| client.is_confirmed)?;
        match (is_confirmed, &client.closed) {
            (true, _) => Ok(client),
            (false, Some(closed)) => Err(format!("closed during the handshake: {closed:?}")),
            (false, None) => Err("the handshake did not complete in time".to_owned()),
        }
    }

    /// Returns a client that has not sent anything yet.
    pub(super) fn begin(server: SocketAddr, settings: &Settings) -> Result<Self, String> {
        let socket = UdpSocket::bind((settings.local, 0)).map_err(text)?;
        socket.set_nonblocking(true).map_err(text)?;
        // The kernel doubles the value, and limits it for unprivileged users.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20);
        let source = random_id();
        let mut parameters = settings.parameters.clone();
        parameters.initial_source_connection_id = Some(source);
        let mut encoded = Vec::new();
        match &settings.forged {
            Some(forged) => {
                encoded.clone_from(&forged.encoded);
                if forged.has_source {
                    encoded.extend([&[0x0f, ID_LEN as u8], source.as_bytes()].concat());
                }
            }
            None => parameters.encode(&mut encoded, None),
        }
        let name = ServerName::try_from("localhost").map_err(text)?;
        let tls =
            quic::ClientConnection::new(settings.tls.clone(), quic::Version::V1, name, encoded);
        let destination = random_id();
        let mut client = Self::new(
            (Arc::new(socket), server),
            Connection::Client(tls.map_err(text)?),
            (destination, source, destination),
            settings.counter.clone(),
        );
        client.prefix.clone_from(&settings.prefix);
        client.write_tls();
        Ok(client)
    }

    /// Accepts a client whose first datagram was received on a socket.
    pub(super) fn accept(
        (socket, client): (Arc<UdpSocket>, SocketAddr),
        first: &mut [u8],
        (tls, parameters): (&Arc<rustls::ServerConfig>, &TransportParameters),
        counter: Arc<Sent>,
    ) -> Result<Self, String> {
        let header = ProtectedHeader::decode(first, ID_LEN).map_err(text)?;
        let HeaderKind::Long { packet_type: LongPacketType::Initial, destination, source, .. } =
            header.kind
        else {
            return Err("the first packet is not an Initial packet".to_owned());
        };
        let ours = random_id();
        let mut parameters = parameters.clone();
        parameters.initial_source_connection_id = Some(ours);
        parameters.original_destination_connection_id = Some(destination);
        let mut encoded = Vec::new();
        parameters.encode(&mut encoded, None);
        let tls = quic::ServerConnection::new(tls.clone(), quic::Version::V1, encoded);
        let tls = Connection::Server(tls.map_err(text)?);
        let mut server = Self::new((socket, client), tls, (source, ours, destination), counter);
        server.receive(first)?;
        server.flush()?;
        Ok(server)
    }

    fn new(
        (socket, remote): (Arc<UdpSocket>, SocketAddr),
        tls: Connection,
        (destination, source, first): (ConnectionId, ConnectionId, ConnectionId),
        counter: Arc<Sent>,
    ) -> Self {
        let is_client = matches!(tls, Connection::Client(_));
        let mut spaces: [Space; 3] = Default::default();
        spaces[INITIAL].keys = Some(initial_keys(&first, is_client));
        Self {
            socket,
            remote,
            tls,
            is_client,
            prefix: Vec::new(),
            destination,
            source,
            token: Vec::new(),
            spaces,
            level: INITIAL,
            next_secrets: None,
            key_phase: false,
            last_flight: Instant::now(),
            is_confirmed: false,
            stops_at_retry: false,
            acknowledges: true,
            withholds_finished: false,
            reserved: 0,
            answers_challenges: false,
            closed: None,
            streams: BTreeMap::new(),
            next_stream: if is_client { [0, 2] } else { [1, 3] },
            offsets: BTreeMap::new(),
            max_streams: 0,
            issued: 0,
            new_tokens: Vec::new(),
            received_datagrams: 0,
            received_bytes: 0,
            counter,
        }
    }

    /// Returns the ClientHello of a client that has not sent anything yet.
    pub(super) fn first_flight(&self) -> Vec<u8> {
        self.spaces[INITIAL].output.clone()
    }

    /// Returns the first datagram of a client that has not sent anything yet.
    pub(super) fn first_flight_packet(&mut self) -> Vec<u8> {
        let frame = frame::Crypto { offset: VarInt::ZERO, data: &self.first_flight() };
        self.seal(INITIAL, &encode(&[Frame::Crypto(frame)]))
    }

    /// Returns the local address that packets are sent from.
    pub(super) fn local_address(&self) -> Result<SocketAddr, String> {
        self.socket.local_addr().map_err(text)
    }

    /// Uses another local address for all packets from now on.
    pub(super) fn move_to(&mut self, local: IpAddr) -> Result<(), String> {
        let socket = UdpSocket::bind((local, 0)).map_err(text)?;
        socket.set_nonblocking(true).map_err(text)?;
        self.socket = Arc::new(socket);
        Ok(())
    }

    fn write_tls(&mut self) {
        loop {
            let mut bytes = Vec::new();
            let change = self.tls.write_hs(&mut bytes);
            let is_over = bytes.is_empty() && change.is_none();
            self.spaces[self.level].output.extend(bytes);
            match change {
                Some(KeyChange::Handshake { keys }) => {
                    self.level = HANDSHAKE;
                    self.spaces[HANDSHAKE].keys = Some(keys);
                }
                Some(KeyChange::OneRtt { keys, next }) => {
                    self.level = APPLICATION;
                    self.spaces[APPLICATION].keys = Some(keys);
                    self.next_secrets = Some(next);
                }
                None if is_over => return,
                None => {}
            }
        }
    }

    /// Sends a datagram unchanged.
    pub(super) fn send_datagram(&self, datagram: &[u8]) {
        self.send_from(&self.socket, datagram);
    }

    /// Like [`send_datagram`](Self::send_datagram), from another socket.
    pub(super) fn send_from(&self, socket: &UdpSocket, datagram: &[u8]) {
        self.counter.add(datagram.len());
        if self.prefix.is_empty() {
            // If the send buffer is full, the datagram is dropped, as it could be on a path.
            let _ = socket.send_to(datagram, self.remote);
        } else {
            let _ = socket.send_to(&[&self.prefix, datagram].concat(), self.remote);
        }
    }

    /// Returns a 1-RTT packet with this payload.
    pub(super) fn packet(&mut self, payload: &[u8]) -> Vec<u8> {
        self.seal(APPLICATION, payload)
    }

    /// Sends a 1-RTT packet with this payload.
    pub(super) fn send(&mut self, payload: &[u8]) {
        let packet = self.packet(payload);
        self.send_datagram(&packet);
    }

    /// Sends a 1-RTT packet with these frames.
    pub(super) fn send_frames(&mut self, frames: &[Frame<'_>]) {
        self.send(&encode(frames));
    }

    /// Skips packet numbers, as if these packets had been lost on the path.
    pub(super) fn skip_numbers(&mut self, count: u64) {
        self.spaces[APPLICATION].next_number += count;
    }

    /// Returns the largest packet number received in a 1-RTT packet.
    pub(super) fn largest_received(&self) -> Option<u64> {
        self.spaces[APPLICATION].largest.map(PacketNumber::get)
    }

    /// Sends a packet in this packet number space, if there are keys for it.
    pub(super) fn send_in(&mut self, space: usize, payload: &[u8]) {
        if self.has_keys(space) {
            let packet = self.seal(space, payload);
            self.send_datagram(&packet);
        }
    }

    /// Returns whether packets can be sent in this packet number space.
    pub(super) fn has_keys(&self, space: usize) -> bool {
        self.spaces[space].keys.is_some()
    }

    /// Returns the kind of handshake (such as full or resumed); `None` while it is unknown.
    pub(super) fn handshake_kind(&self) -> Option<HandshakeKind> {
        self.tls.handshake_kind()
    }

    /// Returns a 0-RTT packet with this payload, if the client's session allows early data.
    pub(super) fn early_packet(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let Connection::Client(tls) = &mut self.tls else { return None };
        let keys = tls.zero_rtt_keys()?;
        Some(self.build(APPLICATION, Some(LongPacketType::ZeroRtt), payload, Some(&keys)))
    }

    fn seal(&mut self, space: usize, payload: &[u8]) -> Vec<u8> {
        let long = match space {
            INITIAL => Some(LongPacketType::Initial),
            HANDSHAKE => Some(LongPacketType::Handshake),
            _ => None,
        };
        self.build(space, long, payload, None)
    }

    /// Builds a packet with a long header of this type, or with a short header, protected with the
    /// given keys or those of the packet number space.
    fn build(
        &mut self,
        space: usize,
        long: Option<LongPacketType>,
        payload: &[u8],
        keys: Option<&DirectionalKeys>,
    ) -> Vec<u8> {
        let number = self.spaces[space].next_number;
        self.spaces[space].next_number += 1;
        let number = PacketNumber::new(number).expect("a packet number");
        let mut datagram = vec![0; payload.len().max(DATAGRAM) + 200];
        let mut writer = Writer::new(&mut datagram);
        let (destination, source) = (self.destination, self.source);
        let (number_at, length_at) = if let Some(packet_type) = long {
            let token = &self.token;
            let header =
                LongHeader { packet_type, version: Version::V1, destination, source, token };
            let offsets = header.encode(&mut writer, number, NUMBER_LEN).expect("room");
            (offsets.packet_number, Some(offsets.length))
        } else {
            let header = ShortHeader { destination, spin: false, key_phase: self.key_phase };
            (header.encode(&mut writer, number, NUMBER_LEN).expect("room"), None)
        };
        let start = number_at + NUMBER_LEN;
        // The header protection sample starts after the longest possible packet number.
        let mut end = start + payload.len().max(4);
        if space == INITIAL {
            end = end.max(DATAGRAM - TAG_LEN);
        }
        datagram[start..start + payload.len()].copy_from_slice(payload);
        if let Some(length_at) = length_at {
            set_length(&mut datagram, length_at, end + TAG_LEN - number_at).expect("a length");
        }
        datagram.truncate(end + TAG_LEN);
        datagram[0] |= self.reserved;
        let own = self.spaces[space].keys.as_ref().map(|keys| &keys.local);
        let keys = keys.or(own).expect("keys of a space in use");
        protect(keys, &mut datagram, number_at, end, number.get());
        datagram
    }

    /// Sends the handshake messages and acknowledgments that are due.
    ///
    /// # Errors
    /// Currently never fails.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        for space in [INITIAL, HANDSHAKE, APPLICATION] {
            let is_withheld = space == HANDSHAKE && self.withholds_finished;
            while self.spaces[space].keys.is_some() && !is_withheld {
                let mut payload = vec![0; PAYLOAD];
                let mut writer = Writer::new(&mut payload);
                let state = &mut self.spaces[space];
                if state.is_ack_due && (self.acknowledges || space != APPLICATION) {
                    let number = |number| PacketNumber::new(number).expect("a packet number");
                    let ranges = state.received.iter().rev();
                    let ranges = ranges.map(|(first, last)| number(*first)..=number(*last));
                    let _ = frame::Ack::encode_ranges(&mut writer, VarInt::ZERO, ranges, None);
                }
                state.is_ack_due = false;
                let rest = &state.output[state.sent..];
                let part = &rest[..rest.len().min(writer.remaining().saturating_sub(16))];
                if !part.is_empty() {
                    let offset = VarInt::saturating(state.sent as u64);
                    let frame = Frame::Crypto(frame::Crypto { offset, data: part });
                    if frame.encode(&mut writer).is_ok() {
                        state.sent += part.len();
                    }
                }
                let length = writer.written();
                if length == 0 {
                    break;
                }
                let packet = self.seal(space, &payload[..length]);
                self.send_datagram(&packet);
            }
        }
        Ok(())
    }

    /// Processes received datagrams and waits for more until `is_done` returns true or the time
    /// limit expires. Returns whether `is_done` returned true.
    pub(super) fn until(
        &mut self,
        limit: Duration,
        mut is_done: impl FnMut(&mut Self) -> bool,
    ) -> Result<bool, String> {
        let began = Instant::now();
        loop {
            self.drain()?;
            if is_done(self) {
                return Ok(true);
            }
            if self.closed.is_some() || began.elapsed() >= limit {
                return Ok(false);
            }
            let left = limit.saturating_sub(began.elapsed()).min(Duration::from_millis(20));
            let timeout = Timespec::try_from(left).map_err(text)?;
            let socket = self.socket.clone();
            // An interrupted call only shortens the wait.
            let _ = poll(&mut [PollFd::new(&*socket, PollFlags::IN)], Some(&timeout));
        }
    }

    /// Processes datagrams that arrive during `time`.
    pub(super) fn pump(&mut self, time: Duration) -> Result<(), String> {
        self.until(time, |_| false).map(drop)
    }

    /// Processes received datagrams, and sends what is due.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        let mut buffer = [0; 2_048];
        for _ in 0..1_000 {
            let Ok((length, _)) = self.socket.recv_from(&mut buffer) else { break };
            self.receive(&mut buffer[..length])?;
            // The attack decides which address sends the token.
            if self.stops_at_retry && !self.token.is_empty() {
                return Ok(());
            }
        }
        if !self.is_confirmed && self.last_flight.elapsed() > REPEAT {
            self.last_flight = Instant::now();
            self.spaces.iter_mut().for_each(|space| space.sent = 0);
        }
        self.flush()
    }

    /// Returns the ID of the next stream that this endpoint opens, bidirectional or unidirectional.
    pub(super) fn next_stream(&mut self, is_unidirectional: bool) -> u64 {
        let next = &mut self.next_stream[usize::from(is_unidirectional)];
        let id = *next;
        *next += 4;
        id
    }

    /// Sends data on a stream, following the data that was already sent.
    pub(super) fn send_stream(&mut self, stream: u64, data: &[u8], fin: bool) {
        let offset = self.offsets.entry(stream).or_default();
        let mut at = *offset;
        *offset += data.len() as u64;
        let mut rest = data;
        loop {
            let (part, next) = rest.split_at(rest.len().min(PAYLOAD - 24));
            self.send(&stream_frame(stream, at, part, fin && next.is_empty()));
            at += part.len() as u64;
            rest = next;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Updates the keys (RFC 9001 §6). Packets that the peer then sends with its own next keys are
    /// not decrypted.
    pub(super) fn update_keys(&mut self) {
        if let (Some(secrets), Some(keys)) =
            (&mut self.next_secrets, &mut self.spaces[APPLICATION].keys)
        {
            keys.local.packet = secrets.next_packet_keys().local;
            self.key_phase = !self.key_phase;
        }
    }

    /// Closes the connection without an error.
    pub(super) fn close(&mut self) {
        let kind = frame::CloseKind::Application;
        let (error_code, reason) = (VarInt::from_u32(0x100), &b""[..]);
        self.send_frames(&[Frame::ConnectionClose(frame::ConnectionClose {
            error_code,
            kind,
            reason,
        })]);
    }
}
