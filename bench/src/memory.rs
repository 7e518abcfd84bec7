//! The CPU cost of the transport alone, where two endpoints in one process exchange datagrams in
//! memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clearway_transport::{
    Arrival, ClientConfig, ConnectionHandle, Endpoint, EndpointConfig, PreferredAddresses,
    RandomIds, ReadOutcome, Received, ResetKey, ServerConfig, TlsClientConfig, TlsServerConfig,
    TransportConfig,
};
use clearway_units::{Random, Timestamp};
use clearway_wire::Direction;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::options::Mtu;

const BATCH: usize = 40;

struct End {
    endpoint: Endpoint,
    handle: Option<ConnectionHandle>,
    address: SocketAddr,
    spent: Duration,
}

/// Downloads `size` bytes in datagrams of `mtu` bytes, and prints the CPU time spent in each
/// endpoint.
pub(crate) fn run(size: usize, mtu: Mtu) {
    let transport = TransportConfig::builder().initial_window(Some(1 << 20));
    let transport = match mtu {
        Mtu::Fixed(size) => transport.initial_datagram_size(size.into()).discover_path_mtu(false),
        Mtu::Discovered => transport,
    };
    let transport = Arc::new(transport.build().expect("the configuration is valid"));
    let (client_tls, server_tls) = tls();
    let mut now = Timestamp::from_nanos(1);
    let mut server = End {
        endpoint: Endpoint::new(
            endpoint_config(),
            Some(Arc::new(ServerConfig {
                sessions: Arc::new(server_tls),
                transport: transport.clone(),
                retry_token_lifetime: Duration::from_secs(15),
                new_token_lifetime: Duration::from_secs(15),
                shared_tokens: None,
                preferred_addresses: PreferredAddresses::default(),
            })),
            now,
            Random::from_number(1),
        ),
        handle: None,
        address: ([127, 0, 0, 2], 443).into(),
        spent: Duration::ZERO,
    };
    let mut client = End {
        endpoint: Endpoint::new(endpoint_config(), None, now, Random::from_number(2)),
        handle: None,
        address: ([127, 0, 0, 1], 5000).into(),
        spent: Duration::ZERO,
    };
    let config = ClientConfig { sessions: Arc::new(client_tls), transport, token: Vec::new() };
    let handle = client.endpoint.connect(now, &config, server.address, "localhost", None);
    client.handle = Some(handle.expect("the client can connect"));
    let mut buffer = vec![0; 65_536];
    let chunk = Bytes::from(vec![7; 1 << 20]);
    let (mut asked, mut answering, mut left, mut got) = (None, None, size, 0);
    while got < size {
        now += Duration::from_micros(20);
        let start = Instant::now();
        {
            let connection = client.connection();
            while connection.next_event().is_some() {}
            if asked.is_none() && !connection.is_handshaking() {
                asked = connection.open(Direction::Bidirectional);
                let _ = connection.write_slice(asked.expect("a stream"), b"x");
            }
            if let Some(stream) = asked {
                while let Ok(ReadOutcome::Data(data)) = connection.read(now, stream, usize::MAX) {
                    got += data.len();
                }
            }
        }
        client.spent += start.elapsed();
        client.move_to(&mut server, now, &mut buffer);
        let start = Instant::now();
        if server.handle.is_some() {
            let connection = server.connection();
            while connection.next_event().is_some() {}
            answering = answering.or_else(|| connection.accept(Direction::Bidirectional));
            if let Some(stream) = answering {
                let _ = connection.read(now, stream, usize::MAX);
                while left > 0 {
                    let taken = connection.write(stream, chunk.slice(..chunk.len().min(left)));
                    match taken {
                        Ok(0) | Err(_) => break,
                        Ok(taken) => left -= taken,
                    }
                }
            }
        }
        server.spent += start.elapsed();
        server.move_to(&mut client, now, &mut buffer);
    }
    let gib = size as f64 / f64::from(1 << 30);
    println!(
        "server {:.3} s/GiB, client {:.3} s/GiB; {:?}",
        server.spent.as_secs_f64() / gib,
        client.spent.as_secs_f64() / gib,
        server.connection().statistics(),
    );
}

impl End {
    fn connection(&mut self) -> &mut clearway_transport::Connection {
        let handle = self.handle.expect("a connection");
        self.endpoint.connection_mut(handle).expect("an open connection")
    }

    fn move_to(&mut self, peer: &mut End, now: Timestamp, buffer: &mut [u8]) {
        let Some(handle) = self.handle else { return };
        loop {
            let start = Instant::now();
            let transmit = self.endpoint.transmit(handle, now, buffer, BATCH);
            self.endpoint.transmitted(handle, now);
            self.spent += start.elapsed();
            let Some(transmit) = transmit else { break };
            let start = Instant::now();
            let size = transmit.segment_size.unwrap_or(transmit.size);
            for datagram in buffer[..transmit.size].chunks_mut(size) {
                let (remote, socket, ecn) = (self.address, transmit.socket, transmit.ecn);
                let arrival = Arrival { remote, socket, local_ip: None, ecn };
                let received = peer.endpoint.receive(now, arrival, datagram);
                if let Received::Incoming(incoming) = received {
                    peer.handle = peer.endpoint.accept(now, incoming, None).ok();
                }
            }
            if let Some(handle) = peer.handle
                && let Some(connection) = peer.endpoint.connection_mut(handle)
                && connection.deadline().is_some_and(|deadline| deadline <= now)
            {
                connection.on_deadline(now);
            }
            peer.spent += start.elapsed();
        }
        let now = now + Duration::from_micros(10);
        let connection = self.connection();
        if connection.deadline().is_some_and(|deadline| deadline <= now) {
            connection.on_deadline(now);
        }
    }
}

fn endpoint_config() -> EndpointConfig {
    EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[1; 32]),
        max_connections: 10,
    }
}

fn tls() -> (TlsClientConfig, TlsServerConfig) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])
        .expect("a certificate can be made");
    let certificate = CertificateDer::from(certified.cert);
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("the generated certificate is valid");
    let client = TlsClientConfig::with_roots(roots, &[b"perf"]);
    let server = TlsServerConfig::with_certificate(vec![certificate], key.into(), &[b"perf"]);
    (client.expect("a client configuration"), server.expect("a server configuration"))
}
