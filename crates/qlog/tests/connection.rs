//! Tests the logs of a real connection, in virtual time.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clearway_qlog::{QlogObserver, RecoveryParameters, TraceOptions};
use clearway_transport::{
    Arrival, ClientConfig, ConnectionHandle, EcnCodepoint, Endpoint, EndpointConfig, Observer,
    RandomIds, Received, ResetKey, ServerConfig, TlsClientConfig, TlsServerConfig, TransportConfig,
};
use clearway_units::{Random, Timestamp};
use clearway_wire::{Direction, VarInt};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde_json::Value;

/// The one-way delay of a datagram.
const DELAY: Duration = Duration::from_millis(5);

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn observer(&self) -> Box<dyn Observer> {
        let recovery_parameters = RecoveryParameters::of(&TransportConfig::default());
        let options = TraceOptions { recovery_parameters, ..TraceOptions::default() };
        Box::new(QlogObserver::new(self.clone(), options))
    }

    fn records(&self) -> Vec<Value> {
        let bytes = self.0.lock().unwrap();
        let records = bytes.split(|byte| *byte == 0x1e).skip(1);
        records.map(|record| serde_json::from_slice(record).unwrap()).collect()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Pair {
    now: Timestamp,
    client: Endpoint,
    server: Endpoint,
    client_handle: ConnectionHandle,
    server_handle: Option<ConnectionHandle>,
    server_log: Memory,
    /// The number of datagrams from the client so far, and the number of the one that is lost,
    /// counted from 1.
    sent: usize,
    lost: usize,
}

fn configs() -> (ClientConfig, ServerConfig) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let certificate = CertificateDer::from(certified.cert);
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let server_tls = TlsServerConfig::with_certificate(vec![certificate], key.into(), &[b"test"]);
    let transport = Arc::new(TransportConfig::default());
    let client = ClientConfig {
        sessions: Arc::new(TlsClientConfig::with_roots(roots, &[b"test"]).unwrap()),
        transport: Arc::clone(&transport),
        token: Vec::new(),
    };
    let server = ServerConfig {
        sessions: Arc::new(server_tls.unwrap()),
        transport,
        retry_token_lifetime: Duration::from_secs(15),
        new_token_lifetime: Duration::from_secs(3600),
        shared_tokens: None,
        preferred_addresses: clearway_transport::PreferredAddresses::default(),
    };
    (client, server)
}

impl Pair {
    fn new(client_log: &Memory, server_log: &Memory, lost: usize) -> Self {
        let (client_config, server_config) = configs();
        let now = Timestamp::from_origin(Duration::from_secs(1));
        let endpoint = |seed: u8, server| {
            let config = EndpointConfig {
                id_generator: Arc::new(RandomIds),
                reset_key: ResetKey::new(&[seed; 32]),
                max_connections: 1,
            };
            Endpoint::new(config, server, now, Random::from_number(seed.into()))
        };
        let mut client = endpoint(1, None);
        let remote = "192.0.2.2:443".parse().unwrap();
        let client_handle = client
            .connect(now, &client_config, remote, "localhost", Some(client_log.observer()))
            .unwrap();
        Self {
            now,
            client,
            server: endpoint(2, Some(Arc::new(server_config))),
            client_handle,
            server_handle: None,
            server_log: server_log.clone(),
            sent: 0,
            lost,
        }
    }

    /// Returns the datagrams that an endpoint can send now.
    fn take(endpoint: &mut Endpoint, handle: ConnectionHandle, now: Timestamp) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; 65_536];
        let mut datagrams = Vec::new();
        while let Some(transmit) = endpoint.transmit(handle, now, &mut buffer, 10) {
            endpoint.transmitted(handle, now);
            let size = transmit.segment_size.unwrap_or(transmit.size);
            datagrams.extend(buffer[..transmit.size].chunks(size).map(<[u8]>::to_vec));
        }
        datagrams
    }

    fn step(&mut self) {
        let to_server = Self::take(&mut self.client, self.client_handle, self.now);
        let to_client = match self.server_handle {
            Some(handle) => Self::take(&mut self.server, handle, self.now),
            None => Vec::new(),
        };
        self.now += DELAY;
        let arrival = |address: &str| Arrival {
            remote: address.parse().unwrap(),
            socket: clearway_transport::SocketIndex::default(),
            local_ip: None,
            ecn: EcnCodepoint::NotEct,
        };
        for mut datagram in to_server {
            self.sent += 1;
            if self.sent == self.lost {
                continue;
            }
            let from = arrival("192.0.2.1:50000");
            if let Received::Incoming(incoming) = self.server.receive(self.now, from, &mut datagram)
            {
                let observer = Some(self.server_log.observer());
                self.server_handle = self.server.accept(self.now, incoming, observer).ok();
            }
        }
        for mut datagram in to_client {
            self.client.receive(self.now, arrival("192.0.2.2:443"), &mut datagram);
        }
        let ends =
            [(&mut self.client, Some(self.client_handle)), (&mut self.server, self.server_handle)];
        for (endpoint, handle) in ends {
            if let Some(connection) = handle.and_then(|handle| endpoint.connection_mut(handle))
                && connection.deadline().is_some_and(|deadline| deadline <= self.now)
            {
                connection.on_deadline(self.now);
            }
        }
    }
}

fn names(records: &[Value]) -> Vec<&str> {
    records.iter().filter_map(|record| record["name"].as_str()).collect()
}

#[test]
fn both_ends_log_a_connection_with_a_loss() {
    let (client_log, server_log) = (Memory::default(), Memory::default());
    let mut pair = Pair::new(&client_log, &server_log, 12);
    for _ in 0..20 {
        pair.step();
    }
    let client = pair.client.connection_mut(pair.client_handle).unwrap();
    let stream_id = client.open(Direction::Bidirectional).unwrap();
    client.write_slice(stream_id, &[0x55; 50_000]).unwrap();
    client.finish(stream_id).unwrap();
    for _ in 0..60 {
        pair.step();
    }
    let now = pair.now;
    pair.client.connection_mut(pair.client_handle).unwrap().close(now, VarInt::ZERO, b"done");
    for _ in 0..5 {
        pair.step();
    }
    drop(pair);

    let (client, server) = (client_log.records(), server_log.records());
    assert_eq!(
        client[0]["trace"]["common_fields"]["group_id"],
        server[0]["trace"]["common_fields"]["group_id"]
    );
    for (records, side) in [(&client, "client"), (&server, "server")] {
        assert_eq!(records[0]["trace"]["vantage_point"]["type"], side);
        let names = names(records);
        for name in [
            "quic:connection_started",
            "quic:parameters_set",
            "quic:alpn_information",
            "quic:connection_state_updated",
            "quic:packet_sent",
            "quic:packet_received",
            "quic:recovery_parameters_set",
            "quic:recovery_metrics_updated",
            "quic:key_discarded",
            "quic:connection_closed",
        ] {
            assert!(names.contains(&name), "the log of the {side} has no {name}");
        }
        let times: Vec<f64> = records[1..].iter().map(|r| r["time"].as_f64().unwrap()).collect();
        assert!(times.is_sorted(), "the times in the log of the {side} are not in order");
        let text = serde_json::to_string(records).unwrap();
        assert!(
            !text.contains(r#""frame_type":"unknown""#),
            "the log of the {side} has frames of unknown type"
        );
    }
    assert!(names(&client).contains(&"quic:packet_lost"));
    assert_eq!(delivered(&client, "quic:packet_sent"), delivered(&server, "quic:packet_received"));
}

/// Returns the largest offset of stream data in the frames of the events called `name`, and whether
/// one of these frames has FIN.
fn delivered(records: &[Value], name: &str) -> (u64, bool) {
    let frames = records
        .iter()
        .filter(|record| record["name"] == name)
        .flat_map(|record| record["data"]["frames"].as_array().unwrap())
        .filter(|frame| frame["frame_type"] == "stream");
    frames.fold((0, false), |(end, fin), frame| {
        let length = frame["raw"]["length"].as_u64().unwrap();
        (end.max(frame["offset"].as_u64().unwrap() + length), fin || frame["fin"] == true)
    })
}
