//! Valid first Initial packets from clients that never respond.
//!
//! The transport generates one ClientHello, which is encrypted for each client with that client's
//! Destination Connection ID (RFC 9001 §5.2), so that each packet would make a server process a
//! whole handshake. All packets are generated before the first one is sent, because sending takes
//! less time than encrypting.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use clearway_transport::{
    ClientConfig, Endpoint, EndpointConfig, RandomIds, ResetKey, ServerTrust, TlsClientConfig,
    TlsClientSettings, TransportConfig,
};
use clearway_units::{Random, Timestamp};
use clearway_wire::header::{HeaderKind, ProtectedHeader};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::aws_lc_rs::kx_group::X25519;
use rustls::quic::{DirectionalKeys, Keys, Version};

use crate::attached::Steps;
use crate::{Outcome, http3};

/// Length of the Destination Connection ID in the transport's first packet.
const ID_LEN: usize = 12;
/// Offset of the Destination Connection ID in a packet, after the first byte, the version and the
/// length.
const ID_AT: usize = 6;
/// Offset of the header protection sample from the start of the packet number (RFC 9001 §5.4.2).
const SAMPLE_DISTANCE: usize = 4;
/// Number of datagrams to send between two checks of the rate.
const BURST: usize = 16;

#[derive(Args)]
pub(crate) struct FloodOptions {
    /// The address of the server.
    #[arg(long)]
    connect: SocketAddr,
    /// Number of packets to send.
    #[arg(long, default_value_t = 1_000_000)]
    initials: usize,
    /// Packets per second [default: as many as this core can send].
    #[arg(long)]
    rate: Option<f64>,
    /// Number of source addresses in 127.0.0.0/8, each with a socket.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    addresses: u16,
}

/// Prints `ready N`, waits for a line on standard input, sends the packets, and prints the rate.
pub(crate) fn run(options: &FloodOptions) -> Outcome {
    let steps = Steps::new();
    let template = Template::new(options.connect)?;
    let size = template.datagram.len();
    let mut random = Random::from_number(1);
    let mut all = vec![0; options.initials * size];
    for datagram in all.chunks_exact_mut(size) {
        template.write(&random.array(), datagram)?;
    }
    let sockets = sockets(options)?;
    steps.wait(&format!("ready {}", options.initials))?;
    let (start, mut failed) = (Instant::now(), 0);
    for (number, datagram) in all.chunks_exact(size).enumerate() {
        if let Some(rate) = options.rate.filter(|_| number % BURST == 0) {
            let due = Duration::from_secs_f64(number as f64 / rate);
            let wait = due.saturating_sub(start.elapsed());
            if !wait.is_zero() {
                std::thread::sleep(wait);
            }
        }
        failed += u64::from(sockets[number % sockets.len()].send(datagram).is_err());
    }
    let seconds = start.elapsed().as_secs_f64();
    let per_second = options.initials as f64 / seconds;
    steps.wait(&format!(
        r#"{{"initials":{},"failed":{failed},"seconds":{seconds:.3},"per_second":{per_second:.0}}}"#,
        options.initials,
    ))
}

/// Returns sockets at different local addresses that send to the server.
fn sockets(options: &FloodOptions) -> Outcome<Vec<UdpSocket>> {
    let socket = |number: u16| -> Outcome<UdpSocket> {
        let [high, low] = number.to_be_bytes();
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 1, high, low), 0))?;
        socket.connect(options.connect)?;
        Ok(socket)
    };
    (1..=options.addresses).map(socket).collect()
}

/// A first Initial packet whose protection has been removed.
struct Template {
    /// The whole datagram, with the payload in plaintext.
    datagram: Vec<u8>,
    number: u64,
    number_at: Range<usize>,
    /// Offset of the end of the payload, where the authentication tag begins.
    payload_end: usize,
}

impl Template {
    fn new(server: SocketAddr) -> Outcome<Self> {
        let mut datagram = first_datagram(server)?;
        let header = ProtectedHeader::decode(&datagram, ID_LEN)?;
        let HeaderKind::Long { destination, packet_number_offset: at, .. } = header.kind else {
            return Err("the first packet is not an Initial".into());
        };
        if destination.len() != ID_LEN || header.packet_len != datagram.len() {
            return Err("the first packet has an unexpected layout".into());
        }
        let keys = keys(destination.as_bytes())?;
        let (head, sampled) = datagram.split_at_mut(at + SAMPLE_DISTANCE);
        let (first, rest) = head.split_at_mut(1);
        let sample = &sampled[..keys.header.sample_len()];
        keys.header.decrypt_in_place(sample, &mut first[0], &mut rest[at - 1..])?;
        let number_at = at..at + usize::from(first[0] & 3) + 1;
        let number = datagram[number_at.clone()]
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte));
        let (head, payload) = datagram.split_at_mut(number_at.end);
        let plain = keys.packet.decrypt_in_place(number, head, payload)?.len();
        Ok(Self { number, payload_end: number_at.end + plain, number_at, datagram })
    }

    /// Encrypts the packet for the Destination Connection ID `id`, and writes it to `datagram`.
    fn write(&self, id: &[u8; ID_LEN], datagram: &mut [u8]) -> Outcome {
        datagram.copy_from_slice(&self.datagram);
        datagram[ID_AT..ID_AT + ID_LEN].copy_from_slice(id);
        let keys = keys(id)?;
        let (head, rest) = datagram.split_at_mut(self.number_at.end);
        let (payload, tag) = rest.split_at_mut(self.payload_end - self.number_at.end);
        tag.copy_from_slice(keys.packet.encrypt_in_place(self.number, head, payload)?.as_ref());
        let (head, sampled) = datagram.split_at_mut(self.number_at.start + SAMPLE_DISTANCE);
        let (first, rest) = head.split_at_mut(1);
        let number = &mut rest[self.number_at.start - 1..self.number_at.end - 1];
        let sample = &sampled[..keys.header.sample_len()];
        Ok(keys.header.encrypt_in_place(sample, &mut first[0], number)?)
    }
}

/// Returns the keys with which a client protects its Initial packets (RFC 9001 §5.2).
fn keys(id: &[u8]) -> Outcome<DirectionalKeys> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().ok_or("no TLS 1.3")?;
    let algorithm = suite.quic.ok_or("no QUIC")?;
    Ok(Keys::initial(Version::V1, suite, algorithm, id, rustls::Side::Client).local)
}

/// Returns the first datagram of a client that uses X25519.
fn first_datagram(server: SocketAddr) -> Outcome<Vec<u8>> {
    let now = Timestamp::from_origin(Duration::from_secs(1));
    let alpn = http3::ALPN.as_bytes();
    let mut settings = TlsClientSettings::new(ServerTrust::DangerousAnyone, &[alpn]);
    settings.key_exchange_groups = vec![X25519];
    let config = ClientConfig {
        sessions: Arc::new(TlsClientConfig::from_settings(settings)?),
        transport: Arc::new(TransportConfig::default()),
        token: Vec::new(),
    };
    let endpoint = EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[1; 32]),
        max_connections: 1,
    };
    let mut endpoint = Endpoint::new(endpoint, None, now, Random::from_number(2));
    let handle = endpoint.connect(now, &config, server, "localhost", None)?;
    let mut buffer = vec![0; 2000];
    let first = endpoint.transmit(handle, now, &mut buffer, 1).ok_or("nothing to send")?;
    buffer.truncate(first.size);
    endpoint.transmitted(handle, now);
    if endpoint.transmit(handle, now, &mut [0; 2000], 1).is_some() {
        return Err("the ClientHello needs more than one datagram".into());
    }
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use clearway_transport::{
        Arrival, EcnCodepoint, PreferredAddresses, Received, ServerConfig, SocketIndex,
        TlsServerConfig,
    };
    use rustls::pki_types::PrivatePkcs8KeyDer;

    use super::*;

    fn server() -> Endpoint {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let chain = vec![certified.cert.into()];
        let tls = TlsServerConfig::with_certificate(chain, key.into(), &[b"h3"]).unwrap();
        let config = ServerConfig {
            sessions: Arc::new(tls),
            transport: Arc::new(TransportConfig::default()),
            retry_token_lifetime: Duration::from_secs(15),
            new_token_lifetime: Duration::from_secs(15),
            shared_tokens: None,
            preferred_addresses: PreferredAddresses::default(),
        };
        let endpoint = EndpointConfig {
            id_generator: Arc::new(RandomIds),
            reset_key: ResetKey::new(&[1; 32]),
            max_connections: 10,
        };
        let random = Random::from_number(3);
        Endpoint::new(endpoint, Some(Arc::new(config)), Timestamp::ORIGIN, random)
    }

    #[test]
    fn every_packet_makes_a_server_answer_with_its_part_of_the_handshake() {
        let address = SocketAddr::from(([127, 0, 0, 1], 443));
        let (template, mut server) = (Template::new(address).unwrap(), server());
        let remote = SocketAddr::from(([127, 1, 0, 1], 5000));
        for id in [[1; ID_LEN], [2; ID_LEN]] {
            let mut datagram = vec![0; template.datagram.len()];
            template.write(&id, &mut datagram).unwrap();
            let (socket, ecn) = (SocketIndex::default(), EcnCodepoint::NotEct);
            let arrival = Arrival { remote, socket, local_ip: None, ecn };
            let received = server.receive(Timestamp::ORIGIN, arrival, &mut datagram);
            let Received::Incoming(incoming) = received else { panic!("{received:?}") };
            let handle = server.accept(Timestamp::ORIGIN, incoming, None).unwrap();
            let mut buffer = [0; 2000];
            let answer = server.transmit(handle, Timestamp::ORIGIN, &mut buffer, 1).unwrap();
            assert!(answer.size >= 1200);
        }
        assert_eq!(server.connection_count(), 2);
    }
}
