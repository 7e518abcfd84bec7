//! The complete Clearway stack: endpoint, handshake and connection.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;

use clearway_http3::{QuicStreams, Transport};
use clearway_network::Ecn;
use clearway_transport::{
    Arrival, ClientConfig, ClientSessions, Connection, ConnectionHandle, EarlyData, EcnCodepoint,
    Endpoint, EndpointConfig, Event, Observer, PreferredAddresses, RandomIds, Received, ResetKey,
    SendFailure, ServerConfig, ServerSessions, SocketIndex, Transmit, TransportConfig,
};
use clearway_units::{Random, Timestamp};

use super::tls::{self, LabCertificateError, SERVER_NAME};
use super::{Kernel, LocalAddress, LocalIp, NullSessions, Sink, Stack, StackEvent, Vitals};
use crate::setup::{SessionKind, Turns};

const BUFFER: usize = 65_536;
/// The maximum number of connections per simulated endpoint: one, plus those that packets from a
/// client's new address may create.
const MAX_CONNECTIONS: usize = 16;

/// One endpoint of a Clearway connection.
pub struct ClearwayStack {
    endpoint: Endpoint,
    connections: Vec<ConnectionHandle>,
    /// The observer of the server's first connection.
    observer: Option<Box<dyn Observer>>,
    buffer: Vec<u8>,
    /// The number of datagrams that are passed to the network in one call.
    batch: usize,
    /// Whether the application was informed that early data may be sent.
    has_told_early: bool,
    kernel: Kernel,
}

impl ClearwayStack {
    /// Creates a client that begins to connect to `server` at `now`.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn client(
        now: Timestamp,
        server: SocketAddr,
        session: SessionKind,
        transport: TransportConfig,
        random: Random,
        observer: Option<Box<dyn Observer>>,
    ) -> Result<Self, LabCertificateError> {
        let sessions: Arc<dyn ClientSessions> = match session {
            SessionKind::Null => Arc::new(NullSessions),
            SessionKind::Tls(setup) => tls::client(setup)?,
        };
        Ok(Self::client_with(now, server, sessions, transport, random, observer))
    }

    /// Creates a client with the given TLS settings.
    pub(super) fn client_with(
        now: Timestamp,
        server: SocketAddr,
        sessions: Arc<dyn ClientSessions>,
        transport: TransportConfig,
        mut random: Random,
        observer: Option<Box<dyn Observer>>,
    ) -> Self {
        let config = ClientConfig { sessions, transport: Arc::new(transport), token: Vec::new() };
        let mut endpoint = Endpoint::new(endpoint_config(&mut random), None, now, random);
        let connected = endpoint.connect(now, &config, server, SERVER_NAME, observer);
        let connections = connected.into_iter().collect();
        Self::new(endpoint, connections, None)
    }

    fn new(
        endpoint: Endpoint,
        connections: Vec<ConnectionHandle>,
        observer: Option<Box<dyn Observer>>,
    ) -> Self {
        let (buffer, batch) = (vec![0; BUFFER], Turns::default().batch);
        Self {
            endpoint,
            connections,
            observer,
            buffer,
            batch,
            has_told_early: false,
            kernel: Kernel::default(),
        }
    }

    /// Creates a server that waits for its client and, if `preferred` is set, asks it to migrate to
    /// that address.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn server(
        now: Timestamp,
        session: SessionKind,
        transport: TransportConfig,
        preferred: Option<SocketAddrV4>,
        random: Random,
        observer: Option<Box<dyn Observer>>,
    ) -> Result<Self, LabCertificateError> {
        let sessions: Arc<dyn ServerSessions> = match session {
            SessionKind::Null => Arc::new(NullSessions),
            SessionKind::Tls(setup) => tls::server(setup)?,
        };
        Ok(Self::server_with(now, sessions, transport, preferred, random, observer))
    }

    /// Creates a server with the given TLS settings.
    pub(super) fn server_with(
        now: Timestamp,
        sessions: Arc<dyn ServerSessions>,
        transport: TransportConfig,
        preferred: Option<SocketAddrV4>,
        mut random: Random,
        observer: Option<Box<dyn Observer>>,
    ) -> Self {
        let server = Arc::new(ServerConfig {
            sessions,
            transport: Arc::new(transport),
            retry_token_lifetime: core::time::Duration::from_secs(15),
            new_token_lifetime: core::time::Duration::from_secs(3600),
            shared_tokens: None,
            preferred_addresses: PreferredAddresses { v4: preferred, v6: None },
        });
        let endpoint = Endpoint::new(endpoint_config(&mut random), Some(server), now, random);
        Self::new(endpoint, Vec::new(), observer)
    }

    /// Sets the maximum number of datagrams that are passed to the network in one call.
    pub fn with_batch(self, batch: usize) -> Self {
        Self { batch: batch.max(1), ..self }
    }

    /// Returns the connection that the flow uses: the first one whose handshake is confirmed, or
    /// otherwise the first one.
    fn connection(&self) -> Option<&Connection> {
        let live =
            || self.connections.iter().filter_map(|handle| self.endpoint.connection(*handle));
        live().find(|connection| connection.is_confirmed()).or_else(|| live().next())
    }

    fn connection_mut(&mut self) -> Option<&mut Connection> {
        let is_confirmed = |handle: &&ConnectionHandle| {
            self.endpoint.connection(**handle).is_some_and(Connection::is_confirmed)
        };
        let handle = *self.connections.iter().find(is_confirmed).or(self.connections.first())?;
        self.endpoint.connection_mut(handle)
    }
}

fn endpoint_config(random: &mut Random) -> EndpointConfig {
    EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&random.array::<32>()),
        max_connections: MAX_CONNECTIONS,
    }
}

/// The reason why a kernel rejects a batch.
enum Refusal {
    TooLarge,
    Failed(SendFailure),
}

impl Kernel {
    /// Returns the reason why the kernel rejects `sent`; `None` if it does not. The first socket is
    /// not bound to an address; the others send from their own addresses.
    fn refuses(&self, sent: &Transmit) -> Option<Refusal> {
        if self.mtu.is_some_and(|most| sent.segment_size.unwrap_or(sent.size) > most) {
            return Some(Refusal::TooLarge);
        }
        if sent.socket != SocketIndex(0) {
            return None;
        }
        let failure = match (self.local_ip, sent.source_ip) {
            (LocalIp::Kept, _) | (LocalIp::Replaced(_), None) => return None,
            (LocalIp::Replaced(ip), Some(source)) if ip == source => return None,
            (LocalIp::Gone, None) => SendFailure::NoRoute,
            (LocalIp::Gone | LocalIp::Replaced(_), Some(_)) => SendFailure::AddressGone,
        };
        Some(Refusal::Failed(failure))
    }
}

impl Stack for ClearwayStack {
    fn receive(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        at: LocalAddress,
        ecn: Ecn,
        payload: &mut [u8],
    ) {
        let arrival = Arrival {
            remote: from,
            socket: SocketIndex(at.socket),
            local_ip: at.ip,
            ecn: EcnCodepoint::from_bits(ecn.bits()),
        };
        if let Received::Incoming(incoming) = self.endpoint.receive(now, arrival, payload) {
            let accepted = self.endpoint.accept(now, incoming, self.observer.take());
            self.connections.extend(accepted);
        }
    }

    fn transmit(&mut self, now: Timestamp, sink: &mut Sink<'_>) {
        for handle in &self.connections {
            while let Some(sent) =
                self.endpoint.transmit(*handle, now, &mut self.buffer, self.batch)
            {
                match self.kernel.refuses(&sent) {
                    None => self.endpoint.transmitted(*handle, now),
                    Some(Refusal::TooLarge) => {
                        self.endpoint.transmit_refused(*handle, now);
                        continue;
                    }
                    Some(Refusal::Failed(failure)) => {
                        self.endpoint.transmit_failed(*handle, now, failure);
                        continue;
                    }
                }
                let size = sent.segment_size.unwrap_or(sent.size);
                for datagram in self.buffer[..sent.size].chunks(size) {
                    let ecn = Ecn::from_bits(sent.ecn.bits());
                    sink(sent.socket.0, sent.destination, ecn, datagram);
                }
            }
        }
        while let Some((sent, reply)) = self.endpoint.next_reply() {
            sink(sent.socket.0, sent.destination, Ecn::NotEct, &reply);
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        let live = self.connections.iter().filter_map(|handle| self.endpoint.connection(*handle));
        live.filter_map(Connection::deadline).min()
    }

    fn on_deadline(&mut self, now: Timestamp) {
        for handle in &self.connections {
            if let Some(connection) = self.endpoint.connection_mut(*handle)
                && connection.deadline().is_some_and(|deadline| deadline <= now)
            {
                connection.on_deadline(now);
            }
        }
    }

    fn next_event(&mut self) -> Option<StackEvent> {
        let has_told_early = core::mem::replace(&mut self.has_told_early, true);
        let connection = self.connection_mut()?;
        if !has_told_early && connection.early_data() == EarlyData::Offered {
            return Some(StackEvent::EarlyDataOffered);
        }
        loop {
            return Some(match connection.next_event()? {
                Event::Connected => StackEvent::Connected,
                Event::StreamsAvailable(_) => StackEvent::StreamsAvailable,
                Event::Opened(_) => StackEvent::StreamsArrived,
                Event::Readable(id) => StackEvent::Readable(id.get()),
                Event::Writable(id) => StackEvent::Writable(id.get()),
                Event::Stopped { stream_id, error_code } => {
                    StackEvent::Stopped { stream: stream_id.get(), code: error_code.get() }
                }
                Event::Closed(error) => StackEvent::Closed(error.to_string()),
                _ => continue,
            });
        }
    }

    fn with_streams(&mut self, now: Timestamp, act: &mut dyn FnMut(&mut dyn Transport)) {
        if let Some(connection) = self.connection_mut() {
            act(&mut QuicStreams::new(now, connection));
        }
    }

    fn update_keys(&mut self, now: Timestamp) {
        if let Some(connection) = self.connection_mut() {
            connection.update_keys(now);
        }
    }

    fn migrate(&mut self, now: Timestamp, to: LocalAddress) -> bool {
        let connection = self.connection_mut();
        connection.is_some_and(|it| it.migrate(now, SocketIndex(to.socket), to.ip).is_ok())
    }

    fn set_kernel(&mut self, kernel: Kernel) {
        self.kernel = kernel;
    }

    fn vitals(&self) -> Vitals {
        let Some(connection) = self.connection() else { return Vitals::default() };
        let statistics = connection.statistics();
        Vitals {
            window: statistics.congestion_window,
            minimum_window: statistics.minimum_window,
            bytes_in_flight: Some(statistics.bytes_in_flight),
            packets_lost: statistics.packets_lost,
            packets_spuriously_lost: Some(statistics.packets_spuriously_lost),
            congestion_events: statistics.congestion_events,
            smoothed_rtt: statistics.smoothed_rtt.map_or(0, |rtt| rtt.as_nanos() as u64),
            is_closed: connection.is_closed(),
        }
    }
}
