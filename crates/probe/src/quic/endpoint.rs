//! The endpoint: its state, its accessors, and its timers.

mod handshake;
mod receive;
mod send;

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;

use clearway_units::{Random, Timestamp};
use clearway_wire::Version;
use rustls::quic::Connection;
use serde::Serialize;

use super::config::{Config, Role};
use super::frame::{CloseLayer, Frame};
use super::keys::AllKeys;
use super::packet::Level;
use super::parameters::Parameters;
use super::record::{Record, milliseconds};
use super::space::Space;
use super::streams::{StreamState, Streams};
use crate::{Base, Data};

/// The flow control window of the connection and of each stream, in bytes.
const CONNECTION_WINDOW: u64 = 16 << 20;
const STREAM_WINDOW: u64 = 1 << 20;
/// The number of streams of each type that the peer may open.
const MAX_STREAMS: u64 = 100;
/// Maximum number of received datagrams, tokens and connection IDs that are kept.
const MAX_KEPT: usize = 256;
/// Upper bound on the probe timeout before backoff.
const MAX_TIMEOUT: Duration = Duration::from_secs(1);

/// The progress of a handshake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// Only Initial packets can be sent.
    Start,
    /// Handshake packets can be sent.
    HandshakeKeys,
    /// The TLS handshake is complete.
    Complete,
    /// The handshake is confirmed (RFC 9001 §4.1.2).
    Confirmed,
}

/// The party that ended the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloseOrigin {
    /// The peer sent a CONNECTION_CLOSE frame.
    Peer,
    /// The peer sent a stateless reset.
    StatelessReset,
    /// The probe could not continue the handshake.
    Local,
}

/// The end of a connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Close {
    /// The time since the start of the connection, in milliseconds.
    #[serde(rename = "time_ms", serialize_with = "milliseconds")]
    pub time: Duration,
    /// The party that ended the connection.
    pub origin: CloseOrigin,
    /// The layer of the error code.
    pub layer: CloseLayer,
    /// The error code.
    pub code: u64,
    /// The type of the frame that caused the error; 0 if unknown.
    pub frame_type: u64,
    /// The reason phrase.
    pub reason: Data,
}

impl Close {
    /// Returns the name of the error code.
    pub fn name(&self) -> String {
        match self.layer {
            CloseLayer::Transport => crate::error_codes::transport(self.code),
            CloseLayer::Application => crate::error_codes::application(self.code),
        }
    }
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            CloseOrigin::StatelessReset => return f.write_str("stateless reset"),
            CloseOrigin::Peer => {}
            CloseOrigin::Local => f.write_str("the probe's own error: ")?,
        }
        f.write_str(&self.name())?;
        if self.frame_type > 0 {
            write!(f, " (frame type {:#x})", self.frame_type)?;
        }
        if !self.reason.is_empty() {
            write!(f, ": {:?}", self.reason)?;
        }
        Ok(())
    }
}

/// The reason why something cannot be sent.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum EndpointError {
    /// There are no keys for this level.
    NoKeys {
        /// The level.
        level: Level,
    },
    /// The packet would not fit in a UDP datagram, or its packet number does not fit in 62 bits.
    Unencodable,
    /// TLS cannot be started.
    Tls {
        /// The reason.
        source: rustls::Error,
    },
    /// The peer has not issued another connection ID, which a migration requires.
    NoConnectionId,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKeys { level } => {
                let name = format!("{level:?}");
                write!(f, "there are no keys for {name} packets at this point in the handshake")
            }
            Self::Unencodable => {
                f.write_str("the packet cannot be encoded, or is larger than 65,000 bytes")
            }
            Self::Tls { source } => write!(f, "cannot start TLS: {source}"),
            Self::NoConnectionId => f.write_str("the peer has not issued another connection ID"),
        }
    }
}

impl std::error::Error for EndpointError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Tls { source } => Some(source),
            _ => None,
        }
    }
}

/// A UDP datagram to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The path to send it on: 0 before the first migration.
    pub path: usize,
    /// The UDP payload.
    pub bytes: Vec<u8>,
}

/// A connection ID that the peer has issued.
#[derive(Clone, Debug)]
struct PeerId {
    sequence: u64,
    id: Vec<u8>,
    token: Option<[u8; 16]>,
}

/// The flow control limits that the peer has set.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    max_data: u64,
    max_streams_bidi: u64,
    max_streams_uni: u64,
}

/// One side of one QUIC connection, without I/O. See the [crate documentation](crate).
pub struct Endpoint {
    role: Role,
    config: Config,
    random: Random,
    now: Timestamp,
    version: Version,
    tls: Option<Connection>,
    keys: AllKeys,
    /// The encryption level of the next TLS messages.
    write_level: Level,
    /// Whether the first flight has been edited.
    is_edited: bool,
    spaces: [Space; 3],
    source: Vec<u8>,
    destination: Vec<u8>,
    /// The Destination Connection ID of the client's first packet.
    original_destination: Vec<u8>,
    retry_source: Option<Vec<u8>>,
    token: Vec<u8>,
    reset_token: [u8; 16],
    peer_ids: Vec<PeerId>,
    next_sequence: u64,
    progress: Progress,
    peer_parameters: Option<Parameters>,
    limits: Limits,
    /// The connection-level flow control limit advertised to the peer.
    granted: u64,
    streams: Streams,
    datagrams: Vec<Data>,
    tokens: Vec<Vec<u8>>,
    out: VecDeque<Transmit>,
    /// Packets that wait for their keys.
    early: Vec<(usize, Vec<u8>)>,
    /// Datagrams that a server holds until it is released.
    held: Vec<(usize, Vec<u8>)>,
    is_released: bool,
    path: usize,
    rtt: Option<Duration>,
    record: Record,
    close: Option<Close>,
}

impl Endpoint {
    /// Starts a connection to a server at the time `now`. The times in the record are relative to
    /// the origin of `now`.
    ///
    /// # Errors
    /// If the server's name is not a host name.
    pub fn client(config: Config, now: Timestamp) -> Result<Self, EndpointError> {
        let mut endpoint = Self::new(Role::Client, config, now);
        let id = endpoint.config.destination.as_ref().map(|id| id.bytes().to_vec());
        endpoint.destination = id.unwrap_or_else(|| endpoint.random.array::<8>().to_vec());
        endpoint.original_destination = endpoint.destination.clone();
        endpoint.start_client()?;
        Ok(endpoint)
    }

    /// Creates a server endpoint, which waits for a client's first packet.
    ///
    /// # Errors
    /// If there is no certificate.
    pub fn server(config: Config, now: Timestamp) -> Result<Self, EndpointError> {
        if config.identity.is_none() {
            let source = rustls::Error::General("a server needs a certificate".to_owned());
            return Err(EndpointError::Tls { source });
        }
        Ok(Self::new(Role::Server, config, now))
    }

    fn new(role: Role, config: Config, now: Timestamp) -> Self {
        let mut random = Random::from_seed(config.seed);
        let source = config.source.as_ref().map(|id| id.bytes().to_vec());
        Self {
            role,
            now,
            version: config.version,
            tls: None,
            keys: AllKeys::default(),
            write_level: Level::Initial,
            is_edited: false,
            spaces: Default::default(),
            source: source.unwrap_or_else(|| random.array::<8>().to_vec()),
            destination: Vec::new(),
            original_destination: Vec::new(),
            retry_source: None,
            token: config.token.bytes().to_vec(),
            reset_token: random.array(),
            peer_ids: Vec::new(),
            next_sequence: 1,
            progress: Progress::Start,
            peer_parameters: None,
            limits: Limits::default(),
            granted: CONNECTION_WINDOW,
            streams: Streams::default(),
            datagrams: Vec::new(),
            tokens: Vec::new(),
            out: VecDeque::new(),
            early: Vec::new(),
            held: Vec::new(),
            is_released: !config.holds_first,
            path: 0,
            rtt: None,
            record: Record::default(),
            close: None,
            random,
            config,
        }
    }

    /// Returns the role.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Returns the progress of the handshake.
    pub const fn progress(&self) -> Progress {
        self.progress
    }

    /// Returns whether a server has received a client's first packet.
    pub fn has_peer(&self) -> bool {
        !self.original_destination.is_empty()
    }

    /// Returns the end of the connection, if it has ended.
    pub const fn close(&self) -> Option<&Close> {
        self.close.as_ref()
    }

    /// Returns everything that was sent and received.
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the peer's transport parameters.
    pub const fn peer_parameters(&self) -> Option<&Parameters> {
        self.peer_parameters.as_ref()
    }

    /// Returns the negotiated application protocol.
    pub fn alpn(&self) -> Option<&[u8]> {
        match self.tls.as_ref()? {
            Connection::Client(tls) => tls.alpn_protocol(),
            Connection::Server(tls) => tls.alpn_protocol(),
        }
    }

    /// Returns whether a client's early data was accepted.
    pub fn is_early_data_accepted(&self) -> bool {
        match &self.tls {
            Some(Connection::Client(tls)) => tls.is_early_data_accepted(),
            _ => false,
        }
    }

    /// Returns whether 0-RTT packets can be sent.
    pub const fn has_early_keys(&self) -> bool {
        self.keys.early.is_some()
    }

    /// Returns the state of a stream on which something has been sent or received.
    pub fn stream(&self, id: u64) -> Option<&StreamState> {
        self.streams.get(id)
    }

    /// Returns all streams in the order of their IDs.
    pub fn streams(&self) -> impl Iterator<Item = (u64, &StreamState)> {
        self.streams.iter()
    }

    /// Returns the payloads of received DATAGRAM frames, at most the first 256.
    pub fn datagrams(&self) -> &[Data] {
        &self.datagrams
    }

    /// Returns the tokens of received NEW_TOKEN frames, at most the first 256.
    pub fn tokens(&self) -> &[Vec<u8>] {
        &self.tokens
    }

    /// Returns the smallest measured round-trip time.
    pub const fn round_trip_time(&self) -> Option<Duration> {
        self.rtt
    }

    /// Returns the number of streams (bidirectional, unidirectional) that this endpoint may open.
    pub const fn stream_counts(&self) -> (u64, u64) {
        (self.limits.max_streams_bidi, self.limits.max_streams_uni)
    }

    /// Returns the QUIC version in use.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Returns the connection ID that the peer uses for this endpoint, and the connection ID that
    /// this endpoint uses for the peer.
    pub fn connection_ids(&self) -> (&[u8], &[u8]) {
        (&self.source, &self.destination)
    }

    /// Returns the Destination Connection IDs that the peer can use, except those from
    /// NEW_CONNECTION_ID frames.
    pub(crate) fn own_ids(&self) -> impl Iterator<Item = Vec<u8>> {
        let ids = [&self.source, &self.original_destination].into_iter().chain(&self.retry_source);
        ids.filter(|id| !id.is_empty()).cloned()
    }

    /// Returns whether everything that was sent has been acknowledged.
    pub fn is_acknowledged(&self) -> bool {
        self.out.is_empty() && self.spaces.iter().all(Space::is_idle)
    }

    /// Returns the time at which the next probe timeout expires.
    pub fn deadline(&self) -> Option<Timestamp> {
        if self.close.is_some() || !self.config.retransmits {
            return None;
        }
        let timeout = self.timeout();
        self.spaces.iter().filter_map(|space| space.deadline(timeout)).min()
    }

    /// Retransmits unacknowledged frames, if their timeout has expired.
    pub fn on_timeout(&mut self, now: Timestamp) {
        self.now = now;
        let timeout = self.timeout();
        if self.close.is_some() || !self.config.retransmits {
            return;
        }
        for space in &mut self.spaces {
            if space.deadline(timeout).is_some_and(|deadline| deadline <= now) {
                space.on_timeout();
            }
        }
    }

    /// Returns the probe timeout, before backoff.
    fn timeout(&self) -> Duration {
        let measured =
            self.rtt.map(|rtt| rtt.saturating_mul(3).saturating_add(Duration::from_millis(50)));
        measured.unwrap_or(self.config.initial_timeout).min(MAX_TIMEOUT)
    }

    /// Returns a value of the connection for a packet of `level`.
    fn value(&self, base: Base, level: Level) -> u64 {
        let parameter = |id| self.peer_parameters.as_ref().map_or(0, |it| it.integer(id, 0));
        let beyond = |count: u64, kind: u64| {
            let initiator = u64::from(self.role == Role::Server);
            count.saturating_mul(4).saturating_add(kind).saturating_add(initiator)
        };
        let space = self.spaces.get(space_of(level));
        match base {
            Base::MaxData => self.limits.max_data,
            Base::StreamDataBidiLocal => parameter(Parameters::BIDI_LOCAL),
            Base::StreamDataBidiRemote => parameter(Parameters::BIDI_REMOTE),
            Base::StreamDataUni => parameter(Parameters::UNI),
            Base::BeyondBidi => beyond(self.limits.max_streams_bidi, 0),
            Base::BeyondUni => beyond(self.limits.max_streams_uni, 2),
            Base::ActiveConnectionIdLimit => parameter(Parameters::ACTIVE_ID_LIMIT).max(2),
            Base::MaxDatagramFrameSize => parameter(Parameters::MAX_DATAGRAM_FRAME_SIZE),
            Base::CryptoOffset => space.map_or(0, |space| space.crypto_sent),
            Base::NextPacketNumber => space.map_or(0, |space| space.next),
            Base::LargestPeerSequence => {
                self.peer_ids.iter().map(|id| id.sequence).max().unwrap_or(0)
            }
            Base::NextSequence => self.next_sequence,
        }
    }

    /// Records the end of the connection, unless it has already ended.
    fn end(
        &mut self,
        origin: CloseOrigin,
        layer: CloseLayer,
        code: u64,
        frame_type: u64,
        reason: Data,
    ) {
        let time = self.now.since_origin();
        self.close.get_or_insert(Close { time, origin, layer, code, frame_type, reason });
    }

    fn space(&mut self, level: Level) -> &mut Space {
        let [initial, handshake, application] = &mut self.spaces;
        match level {
            Level::Initial => initial,
            Level::Handshake => handshake,
            Level::ZeroRtt | Level::OneRtt => application,
        }
    }

    /// Queues a PING frame. Returns the lowest packet number whose acknowledgment shows that the peer is alive.
    pub fn ping(&mut self) -> u64 {
        self.queue_frames(Level::OneRtt, vec![Frame::Ping {}]);
        self.spaces.last().map_or(0, |space| space.next)
    }

    /// Returns whether the peer has acknowledged a 1-RTT packet with this number or a larger one.
    pub fn has_acknowledged(&self, number: u64) -> bool {
        self.spaces.last().is_some_and(|space| space.largest_acked >= Some(number))
    }

    /// Closes the connection at the highest level for which there are keys. The peer may not have them yet.
    pub fn send_close(&mut self, now: Timestamp, layer: CloseLayer, code: u64, reason: Data) {
        self.now = now;
        let close = |layer, code: u64| Frame::ConnectionClose {
            layer,
            code: code.into(),
            frame_type: 0.into(),
            reason: reason.clone(),
        };
        let is_complete = self.progress >= Progress::Complete;
        let levels: &[Level] =
            if is_complete { &[Level::OneRtt] } else { &[Level::Handshake, Level::Initial] };
        for level in levels {
            let frame = match level {
                Level::OneRtt => close(layer, code),
                // Only the transport can close a connection during the handshake (RFC 9000 §10.2.3).
                _ => close(
                    CloseLayer::Transport,
                    if layer == CloseLayer::Transport { code } else { 0x0c },
                ),
            };
            let packet = super::packet::Packet {
                once: true,
                ..super::packet::Packet::at(*level, vec![frame])
            };
            // Without keys for a level, the other one has to do.
            drop(self.send_packet(now, &packet));
        }
    }

    /// Queues frames to be sent reliably at `level` as soon as there are keys.
    pub fn queue_frames(&mut self, level: Level, frames: Vec<Frame>) {
        let packet = super::packet::Packet::at(level, frames);
        self.queue(packet);
    }
}

/// Returns the index of the packet number space of `level`.
const fn space_of(level: Level) -> usize {
    match level {
        Level::Initial => 0,
        Level::Handshake => 1,
        Level::ZeroRtt | Level::OneRtt => 2,
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("role", &self.role)
            .field("progress", &self.progress)
            .field("close", &self.close)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
