//! Packets that parties other than the peer can create, from what they observe and from public
//! information.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use clearway_transport::{
    Arrival, EcnCodepoint, Endpoint, EndpointConfig, RandomIds, Received, ResetKey, SocketIndex,
};
use clearway_units::Random;
use clearway_wire::header::{Invariant, VersionNegotiation};
use clearway_wire::{Version, Writer};

use crate::support::{CLIENT, Pair, address, configurations, quiet, tls};

/// Datagrams in send order.
pub(crate) type Record = Rc<RefCell<Vec<Vec<u8>>>>;

/// Returns the connection IDs of a long header: destination and source.
pub(crate) fn ids_of(datagram: &[u8]) -> (Vec<u8>, Vec<u8>) {
    match Invariant::decode(datagram, 8) {
        Ok(Invariant::Long { destination_connection_id, source_connection_id, .. }) => {
            (destination_connection_id.to_vec(), source_connection_id.to_vec())
        }
        other => panic!("{other:?}"),
    }
}

/// Returns a Version Negotiation packet from the endpoint with the ID `source` to the endpoint with
/// the ID `destination`.
pub(crate) fn version_negotiation(
    destination: &[u8],
    source: &[u8],
    versions: &[Version],
) -> Vec<u8> {
    let mut packet = vec![0; 200];
    let mut writer = Writer::new(&mut packet);
    VersionNegotiation::encode(&mut writer, 0, destination, source, versions).unwrap();
    let length = writer.written();
    packet.truncate(length);
    packet
}

fn arrival() -> Arrival {
    Arrival {
        remote: address(CLIENT),
        socket: SocketIndex::default(),
        local_ip: None,
        ecn: EcnCodepoint::NotEct,
    }
}

/// Creates another server with the stateless reset key of the pair's server.
fn other_server(pair: &Pair) -> Endpoint {
    let config = EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[2; 32]),
        max_connections: 10,
    };
    let (_, server) = configurations(tls(), quiet(), quiet());
    Endpoint::new(config, Some(server), pair.now, Random::from_number(77))
}

/// Returns a Retry packet with a valid integrity tag in response to the client's datagram `first`
/// (RFC 9001 §5.8).
pub(crate) fn retry(pair: &Pair, first: &[u8]) -> Vec<u8> {
    let mut server = other_server(pair);
    let Received::Incoming(incoming) = server.receive(pair.now, arrival(), &mut first.to_vec())
    else {
        panic!("a first datagram");
    };
    server.retry(pair.now, &incoming);
    server.next_reply().expect("a Retry packet").1
}

/// Returns the stateless reset with which the client's server responds to the client's datagram
/// `sent` (RFC 9000 §10.3).
pub(crate) fn stateless_reset(pair: &Pair, sent: &[u8]) -> Vec<u8> {
    let mut server = other_server(pair);
    let received = server.receive(pair.now, arrival(), &mut sent.to_vec());
    assert!(matches!(received, Received::Unknown));
    server.next_reply().expect("a stateless reset").1
}

/// Returns another client's first datagram.
pub(crate) fn first_of_another_client(pair: &Pair, seed: u64) -> Vec<u8> {
    let config = EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[9; 32]),
        max_connections: 1,
    };
    let mut client = Endpoint::new(config, None, pair.now, Random::from_number(seed));
    let (settings, _) = configurations(tls(), quiet(), quiet());
    let server = address(crate::support::SERVER);
    let handle = client.connect(pair.now, &settings, server, "localhost", None).unwrap();
    let mut buffer = vec![0; 2000];
    let transmit = client.transmit(handle, pair.now, &mut buffer, 1).unwrap();
    buffer.truncate(transmit.size);
    buffer
}

/// Returns a datagram of `size` random bytes that starts with `start`.
pub(crate) fn garbage(start: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size.max(start.len())];
    Random::from_number(size as u64).fill(&mut bytes);
    bytes[..start.len()].copy_from_slice(start);
    bytes
}

/// Returns a packet with a long header of version 1, these connection IDs, and a payload that
/// cannot be decrypted. `kind` is 0 for Initial, 1 for 0-RTT, 2 for Handshake (RFC 9000 §17.2).
pub(crate) fn forged_long(kind: u8, destination: &[u8], source: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xc0 | kind << 4 | 3];
    packet.extend_from_slice(&1_u32.to_be_bytes());
    packet.push(destination.len() as u8);
    packet.extend_from_slice(destination);
    packet.push(source.len() as u8);
    packet.extend_from_slice(source);
    if kind == 0 {
        packet.push(0);
    }
    // The rest is 1200 bytes long including the packet number.
    packet.extend_from_slice(&(0x4000_u16 | 1200).to_be_bytes());
    let size = packet.len() + 1200;
    garbage(&packet, size)
}

/// Returns a packet with a short header, this connection ID, and a payload that cannot be
/// decrypted.
pub(crate) fn forged_short(destination: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x40];
    packet.extend_from_slice(destination);
    garbage(&packet, 100)
}
