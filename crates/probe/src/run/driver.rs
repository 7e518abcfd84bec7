//! Transfers datagrams between an endpoint and its sockets.

use core::time::Duration;
use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use clearway_units::{Random, Timestamp};
use clearway_wire::header::Invariant;

use super::{Options, RunError, seed};
use crate::http3;
use crate::impair::{Direction, Impairments};
use crate::quic::{Close, CloseLayer, CloseOrigin, Endpoint, Progress, Role};
use crate::report::{Report, StepOutcome};
use crate::script::Connect;

/// The longest time that one call waits for a datagram on one of several sockets.
const SHORT_WAIT: Duration = Duration::from_millis(2);
/// The size of the largest UDP payload.
const MAX_DATAGRAM: usize = 65_536;
/// Maximum number of sockets, one for each migration.
const MAX_SOCKETS: usize = 64;

/// The sockets of a connection: one for each path of a client, one for a server.
#[derive(Debug)]
pub(super) struct Sockets {
    all: Vec<UdpSocket>,
    /// The peer's address.
    peer: Option<SocketAddr>,
    /// Whether the sockets are connected to the peer.
    is_connected: bool,
    /// The connection IDs of earlier connections, whose late packets are ignored.
    ignored: HashSet<Vec<u8>>,
    /// The length of the connection IDs that the endpoint issues.
    id_length: usize,
}

impl Sockets {
    pub(super) fn connect(peer: SocketAddr) -> Result<Self, RunError> {
        let mut sockets = Self {
            all: Vec::new(),
            peer: Some(peer),
            is_connected: true,
            ignored: HashSet::new(),
            id_length: 0,
        };
        sockets.open().map_err(|source| RunError::Socket { address: peer, source })?;
        Ok(sockets)
    }

    pub(super) fn listen(socket: UdpSocket, ignored: HashSet<Vec<u8>>, id_length: usize) -> Self {
        Self { all: vec![socket], peer: None, is_connected: false, ignored, id_length }
    }

    /// Opens another socket to the peer.
    fn open(&mut self) -> io::Result<()> {
        let Some(peer) = self.peer.filter(|_| self.all.len() < MAX_SOCKETS) else {
            return Err(io::Error::other(
                "the peer's address is unknown, or there are too many paths",
            ));
        };
        let local: SocketAddr = match peer {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(local)?;
        socket.connect(peer)?;
        self.all.push(socket);
        Ok(())
    }

    fn send(&self, path: usize, bytes: &[u8]) -> io::Result<()> {
        let socket = self.all.get(path).or_else(|| self.all.last());
        let Some(socket) = socket else { return Ok(()) };
        match self.peer {
            Some(_) if self.is_connected => socket.send(bytes).map(drop),
            Some(peer) => socket.send_to(bytes, peer).map(drop),
            None => Ok(()),
        }
    }

    /// Waits for a datagram. Returns its path and length.
    fn receive(&mut self, buffer: &mut [u8], wait: Duration) -> io::Result<Option<(usize, usize)>> {
        let wait = if self.all.len() > 1 { wait.min(SHORT_WAIT) } else { wait };
        for (path, socket) in self.all.iter().enumerate() {
            socket.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
            match socket.recv_from(buffer) {
                Ok((length, from)) => {
                    let bytes = buffer.get(..length).unwrap_or_default();
                    if self.is_connected {
                        return Ok(Some((path, length)));
                    }
                    if is_of_connection(bytes, &self.ignored, self.id_length, self.peer.is_some()) {
                        self.peer = Some(from);
                        return Ok(Some((path, length)));
                    }
                }
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Returns whether a datagram that a server received belongs to the current connection. Until there
/// is a client (`has_peer`), only a long header can begin one.
fn is_of_connection(
    bytes: &[u8],
    ignored: &HashSet<Vec<u8>>,
    id_length: usize,
    has_peer: bool,
) -> bool {
    let Ok(header) = Invariant::decode(bytes, id_length) else { return has_peer };
    let is_long = matches!(header, Invariant::Long { .. });
    (has_peer || is_long) && !ignored.contains(header.destination_connection_id())
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// A connection that executes a script.
pub(super) struct Driver {
    pub(super) endpoint: Endpoint,
    sockets: Sockets,
    pub(super) authority: String,
    pub(super) options: Options,
    start: Instant,
    pub(super) impairments: Impairments,
    /// The reason why the last datagram was not sent or received.
    refusal: Option<io::Error>,
    /// The number of datagrams that have arrived.
    pub(super) arrived: u64,
    pub(super) outcomes: Vec<StepOutcome>,
    buffer: Vec<u8>,
}

impl Driver {
    pub(super) fn new(
        endpoint: Endpoint,
        sockets: Sockets,
        authority: String,
        options: Options,
    ) -> Self {
        Self {
            endpoint,
            sockets,
            authority,
            options,
            start: Instant::now(),
            impairments: Impairments::new(Random::from_seed(seed())),
            refusal: None,
            arrived: 0,
            outcomes: Vec::new(),
            buffer: vec![0; MAX_DATAGRAM],
        }
    }

    pub(super) const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_origin(self.start.elapsed())
    }

    /// Performs the handshake until the first step can begin.
    ///
    /// # Errors
    /// If nothing arrives from the peer.
    pub(super) fn begin(&mut self, connect: &Connect) -> Result<(), RunError> {
        let timeout = self.options.handshake_timeout;
        if self.endpoint.role() == Role::Server {
            if !self.drive(timeout, |driver| driver.endpoint.has_peer()) {
                return Err(RunError::NoClient);
            }
            // The time of a connection begins with its first packet.
            if connect.until > Progress::Start {
                self.drive(timeout, |driver| driver.endpoint.progress() >= connect.until);
            }
        } else if connect.early_data {
            self.flush();
        } else if connect.until > Progress::Start {
            let has_progressed =
                self.drive(timeout, |driver| driver.endpoint.progress() >= connect.until);
            if !has_progressed && self.arrived == 0 {
                return Err(self.unreachable());
            }
            let own = self.endpoint.close().filter(|close| close.origin == CloseOrigin::Local);
            if let (Some(close), true) = (own, connect.tls.is_empty()) {
                return Err(self.rejected(close));
            }
        }
        let is_http3 = self.endpoint.alpn() == Some(b"h3") || connect.early_data;
        if connect.http3 && is_http3 && self.endpoint.close().is_none() {
            self.open_http3_streams();
        }
        Ok(())
    }

    fn unreachable(&self) -> RunError {
        let why = match &self.refusal {
            Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                "connection refused (ICMP); check the port, and whether the server is running"
                    .to_owned()
            }
            Some(error) => error.to_string(),
            None => {
                let seconds = self.options.handshake_timeout.as_secs_f64();
                format!(
                    "no response within {seconds} s; check the address, and whether a firewall drops UDP"
                )
            }
        };
        let unspecified = (Ipv4Addr::UNSPECIFIED, 0).into();
        RunError::CannotConnect { address: self.sockets.peer.unwrap_or(unspecified), why }
    }

    /// Returns the error for a server whose handshake the probe rejected.
    fn rejected(&self, close: &Close) -> RunError {
        let unspecified = (Ipv4Addr::UNSPECIFIED, 0).into();
        let why = close.reason.to_string();
        RunError::CannotConnect { address: self.sockets.peer.unwrap_or(unspecified), why }
    }

    /// Opens the streams that every HTTP/3 endpoint opens (RFC 9114 §6.2.1, RFC 9204 §4.2).
    fn open_http3_streams(&mut self) {
        let first = match self.endpoint.role() {
            Role::Client => 2,
            Role::Server => 3,
        };
        let mut control = http3::varints(&[http3::CONTROL_STREAM]);
        control.extend(http3::settings(&[]));
        self.endpoint.write_stream(first, &control, false);
        let others = [http3::ENCODER_STREAM, http3::DECODER_STREAM];
        for (stream, kind) in [first | 4, first | 8].into_iter().zip(others) {
            self.endpoint.write_stream(stream, &http3::varints(&[kind]), false);
        }
    }

    /// Sends everything that can be sent now.
    pub(super) fn flush(&mut self) {
        let now = self.now();
        while let Some(transmit) = self.endpoint.poll_transmit(now) {
            let carried = (transmit.path, transmit.bytes);
            for (path, bytes) in self.impairments.apply(now, Direction::Sent, carried) {
                self.send(path, &bytes);
            }
        }
    }

    fn send(&mut self, path: usize, bytes: &[u8]) {
        if let Err(error) = self.sockets.send(path, bytes) {
            self.refusal = Some(error);
        }
    }

    fn deliver(&mut self, path: usize, bytes: &[u8]) {
        let now = self.now();
        self.arrived = self.arrived.saturating_add(1);
        self.endpoint.receive(now, path, bytes);
    }

    /// Delivers delayed datagrams that are due.
    fn deliver_delayed(&mut self) {
        let now = self.now();
        while let Some((direction, (path, bytes))) = self.impairments.due(now) {
            match direction {
                Direction::Sent => self.send(path, &bytes),
                Direction::Received => self.deliver(path, &bytes),
            }
        }
    }

    /// Sends and receives until `is_done` returns true, the connection has ended, or the time has
    /// expired. Returns the last result of `is_done`.
    pub(super) fn drive(&mut self, time: Duration, mut is_done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now() + time;
        loop {
            if is_done(self) {
                return true;
            }
            self.flush();
            let now = self.now();
            let is_refused = self.arrived == 0
                && self
                    .refusal
                    .as_ref()
                    .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if now >= end || self.endpoint.close().is_some() || is_refused {
                return is_done(self);
            }
            let deadlines = [self.endpoint.deadline(), self.impairments.deadline(), Some(end)];
            let wake = deadlines.into_iter().flatten().min().unwrap_or(end);
            self.receive_one(wake.saturating_since(now));
            let now = self.now();
            self.deliver_delayed();
            self.endpoint.on_timeout(now);
        }
    }

    fn receive_one(&mut self, wait: Duration) {
        let mut buffer = core::mem::take(&mut self.buffer);
        match self.sockets.receive(&mut buffer, wait) {
            Ok(Some((path, length))) => {
                let bytes = buffer.get(..length).unwrap_or_default().to_vec();
                let now = self.now();
                for (path, bytes) in self.impairments.apply(now, Direction::Received, (path, bytes))
                {
                    self.deliver(path, &bytes);
                }
            }
            Ok(None) => {}
            Err(error) => self.refusal = Some(error),
        }
        self.buffer = buffer;
    }

    /// Opens the socket for a new path.
    pub(super) fn open_path(&mut self) -> io::Result<()> {
        self.sockets.open()
    }

    /// Closes the connection, unless it has already ended.
    pub(super) fn finish(&mut self) {
        if self.endpoint.close().is_none() && self.endpoint.has_peer() {
            let now = self.now();
            self.endpoint.send_close(now, CloseLayer::Application, 0x100, "".into());
            self.flush();
        }
    }

    pub(super) fn into_report(self) -> Report {
        Report::new(&self.endpoint, self.start.elapsed(), self.impairments.dropped(), self.outcomes)
    }
}
