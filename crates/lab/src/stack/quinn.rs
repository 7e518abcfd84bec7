//! quinn's stack, for comparison with Clearway's: quinn-proto does no I/O and receives the time as an argument.
//!
//! Some settings of [`EndSetup`] have no effect on quinn: it acknowledges every second packet and
//! at the latest after 25 ms, chooses its own initial congestion window if none is set, starts with
//! receive windows of full size, has no upper bound for its congestion window, and abandons a
//! handshake only after the idle timeout. The other settings are mapped.
//!
//! The same seed yields the same run: byte for byte with the null session, the same times and sizes
//! with TLS. Two things do not depend on the seed. quinn's BBR draws the phase in which it begins
//! to probe from the operating system's randomness, so its runs vary. quinn's CUBIC computes cube
//! roots with the platform's math library, so another machine may round differently.

mod clock;
mod config;
mod controller;
mod sessions;
mod streams;

use core::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use clearway_http3::Transport;
use clearway_network::Ecn;
use clearway_units::{Random, Timestamp};
use quinn_proto::{
    ConnectError, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, Event,
    Incoming, ServerConfig, StreamEvent, Transmit,
};

use super::tls::LabCertificateError;
use super::tls::SERVER_NAME;
use super::{LocalAddress, Sink, Stack, StackEvent, Vitals};
use crate::setup::{EndSetup, SessionKind};
use controller::Controller;
use streams::Streams;

/// The number of datagrams that quinn's own driver requests per call.
const BATCH: usize = 10;

/// One endpoint of a quinn connection.
pub struct QuinnStack {
    endpoint: Endpoint,
    connections: Vec<(ConnectionHandle, Connection)>,
    controller: Controller,
    /// Datagrams that the endpoint itself sends, with their destinations.
    replies: Vec<(SocketAddr, Vec<u8>)>,
    buffer: Vec<u8>,
    /// quinn returns its deadline only through a mutable reference, so the deadline is stored after
    /// every call.
    deadline: Option<Timestamp>,
}

impl QuinnStack {
    /// Creates a client that begins to connect to `server` at `now`.
    ///
    /// # Errors
    /// Returns an error if quinn has no controller with that name, or TLS cannot be set up.
    pub fn client(
        now: Timestamp,
        server: SocketAddr,
        session: SessionKind,
        end: &EndSetup,
        controller: &str,
        mut random: Random,
    ) -> Result<Self, QuinnError> {
        let controller = Controller::from_name(controller)?;
        let crypto = sessions::client(session)?;
        let config = config::client(crypto, config::transport(end, controller), &mut random);
        let mut stack = Self::new(None, controller, &mut random);
        let connected = stack.endpoint.connect(clock::instant(now), config, server, SERVER_NAME)?;
        stack.connections.push(connected);
        stack.settle();
        Ok(stack)
    }

    /// Creates a server that waits for its client.
    ///
    /// # Errors
    /// Returns an error if quinn has no controller with that name, or TLS cannot be set up.
    pub fn server(
        session: SessionKind,
        end: &EndSetup,
        controller: &str,
        mut random: Random,
    ) -> Result<Self, QuinnError> {
        let controller = Controller::from_name(controller)?;
        let crypto = sessions::server(session)?;
        let config = config::server(crypto, config::transport(end, controller), &mut random);
        Ok(Self::new(Some(config), controller, &mut random))
    }

    fn new(server: Option<ServerConfig>, controller: Controller, random: &mut Random) -> Self {
        let config = Arc::new(config::endpoint(random));
        Self {
            endpoint: Endpoint::new(config, server.map(Arc::new), false, None),
            connections: Vec::new(),
            controller,
            replies: Vec::new(),
            buffer: Vec::new(),
            deadline: None,
        }
    }

    /// Returns the connection that the flow uses: the first one that is established, or otherwise
    /// the first one.
    fn index(&self) -> usize {
        let is_live =
            |connection: &Connection| !connection.is_handshaking() && !connection.is_closed();
        let live = self.connections.iter().position(|(_, connection)| is_live(connection));
        live.unwrap_or(0)
    }

    fn connection(&self) -> Option<&Connection> {
        self.connections.get(self.index()).map(|(_, connection)| connection)
    }

    fn connection_mut(&mut self) -> Option<&mut Connection> {
        let index = self.index();
        self.connections.get_mut(index).map(|(_, connection)| connection)
    }

    fn accept(&mut self, now: Timestamp, incoming: Incoming) {
        let from = incoming.remote_address();
        let mut reply = Vec::new();
        match self.endpoint.accept(incoming, clock::instant(now), &mut reply, None) {
            Ok(accepted) => self.connections.push(accepted),
            Err(error) if error.response.is_some() => self.replies.push((from, reply)),
            Err(_) => {}
        }
    }

    /// Exchanges events between the connections and the endpoint, and stores the deadline.
    fn settle(&mut self) {
        let Self { endpoint, connections, deadline, .. } = self;
        *deadline = None;
        for (handle, connection) in connections {
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(answer) = endpoint.handle_event(*handle, event) {
                    connection.handle_event(answer);
                }
            }
            let next = connection.poll_timeout().map(clock::timestamp);
            *deadline = (*deadline).into_iter().chain(next).min();
        }
    }
}

impl Stack for QuinnStack {
    fn receive(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        _at: LocalAddress,
        ecn: Ecn,
        payload: &mut [u8],
    ) {
        let mut reply = Vec::new();
        let (at, ecn) = (clock::instant(now), EcnCodepoint::from_bits(ecn.bits()));
        let data = BytesMut::from(&*payload);
        match self.endpoint.handle(at, from, None, ecn, data, &mut reply) {
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(now, incoming),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let mut connections = self.connections.iter_mut();
                if let Some((_, connection)) = connections.find(|(other, _)| *other == handle) {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(Transmit { destination, .. })) => {
                self.replies.push((destination, reply));
            }
            None => {}
        }
        self.settle();
    }

    fn transmit(&mut self, now: Timestamp, sink: &mut Sink<'_>) {
        for (to, reply) in self.replies.drain(..) {
            sink(0, to, Ecn::NotEct, &reply);
        }
        for (_, connection) in &mut self.connections {
            self.buffer.clear();
            while let Some(sent) =
                connection.poll_transmit(clock::instant(now), BATCH, &mut self.buffer)
            {
                let ecn = sent.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
                let size = sent.segment_size.unwrap_or(sent.size).max(1);
                for datagram in self.buffer[..sent.size].chunks(size) {
                    sink(0, sent.destination, ecn, datagram);
                }
                self.buffer.clear();
            }
        }
        self.settle();
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    fn on_deadline(&mut self, now: Timestamp) {
        for (_, connection) in &mut self.connections {
            connection.handle_timeout(clock::instant(now));
        }
        self.settle();
    }

    fn next_event(&mut self) -> Option<StackEvent> {
        let connection = self.connection_mut()?;
        loop {
            return Some(match connection.poll()? {
                Event::Connected => StackEvent::Connected,
                Event::ConnectionLost { reason } => StackEvent::Closed(reason.to_string()),
                Event::Stream(StreamEvent::Opened { .. }) => StackEvent::StreamsArrived,
                Event::Stream(StreamEvent::Available { .. }) => StackEvent::StreamsAvailable,
                Event::Stream(StreamEvent::Readable { id }) => StackEvent::Readable(id.into()),
                Event::Stream(StreamEvent::Writable { id }) => StackEvent::Writable(id.into()),
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    StackEvent::Stopped { stream: id.into(), code: error_code.into_inner() }
                }
                _ => continue,
            });
        }
    }

    fn with_streams(&mut self, now: Timestamp, act: &mut dyn FnMut(&mut dyn Transport)) {
        if let Some(connection) = self.connection_mut() {
            act(&mut Streams { now: clock::instant(now), connection });
            self.settle();
        }
    }

    fn update_keys(&mut self, _now: Timestamp) {
        if let Some(connection) = self.connection_mut() {
            connection.force_key_update();
            self.settle();
        }
    }

    fn vitals(&self) -> Vitals {
        let Some(connection) = self.connection() else { return Vitals::default() };
        let statistics = connection.stats();
        // Before the first RTT sample, quinn reports its initial RTT.
        let has_sample = statistics.frame_rx.acks > 0;
        let smoothed_rtt = if has_sample { statistics.path.rtt.as_nanos() as u64 } else { 0 };
        Vitals {
            window: statistics.path.cwnd,
            minimum_window: self.controller.minimum_window(statistics.path.current_mtu),
            bytes_in_flight: None,
            packets_lost: statistics.path.lost_packets,
            packets_spuriously_lost: None,
            congestion_events: statistics.path.congestion_events,
            smoothed_rtt,
            is_closed: connection.is_closed(),
        }
    }
}

/// The reason why an endpoint with quinn's stack cannot be created.
#[derive(Debug)]
#[non_exhaustive]
pub enum QuinnError {
    /// quinn has no congestion controller with this name.
    UnknownController(String),
    /// TLS cannot be set up.
    Tls(LabCertificateError),
    /// quinn rejected the attempt to connect.
    Connect(ConnectError),
}

impl fmt::Display for QuinnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownController(name) => write!(
                f,
                "quinn has no congestion controller {name:?}; choose one of: reno cubic bbr"
            ),
            Self::Tls(error) => error.fmt(f),
            Self::Connect(error) => write!(f, "quinn cannot connect: {error}"),
        }
    }
}

impl core::error::Error for QuinnError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Tls(error) => Some(error),
            Self::Connect(error) => Some(error),
            Self::UnknownController(_) => None,
        }
    }
}

impl From<LabCertificateError> for QuinnError {
    fn from(error: LabCertificateError) -> Self {
        Self::Tls(error)
    }
}

impl From<ConnectError> for QuinnError {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}
