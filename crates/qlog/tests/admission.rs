//! Tests the log files of a server whose clients do not complete a handshake, in virtual time.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clearway_qlog::{QlogDirectory, QlogSummary, TraceOptions};
use clearway_transport::{
    Arrival, ClientConfig, ClientSessions, EcnCodepoint, Endpoint, EndpointConfig, ExportError,
    NewKeys, PreferredAddresses, RandomIds, Received, ResetKey, ServerConfig, Session,
    SessionError, SocketIndex, SpaceId, TlsServerConfig, TransportConfig, TransportError,
};
use clearway_units::{Random, Timestamp};
use clearway_wire::Version;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// The number of clients that do not complete a handshake.
const CLIENTS: usize = 2000;

/// A temporary folder, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("clearway-qlog-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        drop(fs::remove_dir_all(&path));
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A server whose connections are logged in a folder.
struct Server {
    endpoint: Endpoint,
    now: Timestamp,
    directory: QlogDirectory,
    folder: Folder,
    accepted: usize,
}

impl Server {
    fn new(name: &str) -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let chain = vec![CertificateDer::from(certified.cert)];
        let tls = TlsServerConfig::with_certificate(chain, key.into(), &[b"test"]).unwrap();
        let config = ServerConfig {
            sessions: Arc::new(tls),
            transport: Arc::default(),
            retry_token_lifetime: Duration::from_secs(15),
            new_token_lifetime: Duration::from_secs(3600),
            shared_tokens: None,
            preferred_addresses: PreferredAddresses::default(),
        };
        let now = Timestamp::from_origin(Duration::from_secs(1));
        let folder = Folder::new(name);
        Self {
            endpoint: endpoint(2, Some(Arc::new(config)), now),
            now,
            directory: QlogDirectory::new(&folder.0, TraceOptions::default()).unwrap(),
            folder,
            accepted: 0,
        }
    }

    fn receive(&mut self, mut datagram: Vec<u8>) {
        let from = Arrival {
            remote: "192.0.2.1:50000".parse().unwrap(),
            socket: SocketIndex::default(),
            local_ip: None,
            ecn: EcnCodepoint::NotEct,
        };
        if let Received::Incoming(incoming) = self.endpoint.receive(self.now, from, &mut datagram) {
            let observer = self.directory.observer();
            self.accepted += 1;
            // A connection that is closed immediately counts as accepted, too.
            let _ = self.endpoint.accept(self.now, incoming, Some(observer));
        }
    }

    /// Drops all connections; returns the number of files, and the summary of the connections
    /// without one.
    fn end(self) -> (usize, QlogSummary) {
        assert_eq!(self.accepted, CLIENTS);
        drop(self.endpoint);
        let summary = self.directory.finish(Duration::from_secs(60));
        (fs::read_dir(&self.folder.0).unwrap().count(), summary)
    }
}

fn endpoint(seed: u8, server: Option<Arc<ServerConfig>>, now: Timestamp) -> Endpoint {
    let config = EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[seed; 32]),
        max_connections: CLIENTS,
    };
    Endpoint::new(config, server, now, Random::from_number(seed.into()))
}

#[test]
fn initials_that_cannot_be_decrypted_leave_no_files() {
    let mut server = Server::new("junk");
    for number in 0..CLIENTS as u64 {
        // The datagram has version 1, connection IDs of 8 bytes, no token, and a length of 1174
        // bytes.
        let mut datagram = vec![0xc0, 0, 0, 0, 1, 8];
        datagram.extend(number.to_be_bytes());
        datagram.extend([8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x44, 0x96]);
        datagram.resize(1200, 0x5a);
        server.receive(datagram);
    }
    let (files, summary) = server.end();
    assert_eq!((files, summary.unopened), (0, CLIENTS as u64));
}

/// A client that sends garbage in place of handshake messages.
#[derive(Debug)]
struct Garbage;

impl ClientSessions for Garbage {
    fn connect(
        self: Arc<Self>,
        _: Version,
        _: &[Version],
        _: &str,
        _: Vec<u8>,
    ) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(GarbageSession { was_sent: false }))
    }
}

struct GarbageSession {
    was_sent: bool,
}

impl Session for GarbageSession {
    fn receive(&mut self, _: SpaceId, _: &[u8]) -> Result<(), TransportError> {
        Ok(())
    }

    fn produce(&mut self, out: &mut Vec<u8>) -> Option<NewKeys> {
        if !core::mem::replace(&mut self.was_sent, true) {
            out.extend([0x5a; 300]);
        }
        None
    }

    fn is_handshaking(&self) -> bool {
        true
    }

    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        None
    }

    fn application_protocol(&self) -> Option<&[u8]> {
        None
    }

    fn server_name(&self) -> Option<&str> {
        None
    }

    fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        None
    }

    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        Err(ExportError)
    }

    fn cipher_suite(&self) -> Option<&'static str> {
        None
    }
}

#[test]
fn initials_whose_handshake_messages_are_garbage_leave_few_files() {
    let mut server = Server::new("garbage");
    let mut clients = endpoint(1, None, server.now);
    let config = ClientConfig {
        sessions: Arc::new(Garbage),
        transport: Arc::<TransportConfig>::default(),
        token: Vec::new(),
    };
    let remote = "192.0.2.2:443".parse().unwrap();
    for _ in 0..CLIENTS {
        let client = clients.connect(server.now, &config, remote, "localhost", None).unwrap();
        let mut buffer = vec![0; 2000];
        let sent = clients.transmit(client, server.now, &mut buffer, 1).unwrap();
        buffer.truncate(sent.size);
        clients.transmitted(client, server.now);
        server.receive(buffer);
    }
    let (files, summary) = server.end();
    assert_eq!((files, summary.failed_handshakes), (16, CLIENTS as u64 - 16));
}
