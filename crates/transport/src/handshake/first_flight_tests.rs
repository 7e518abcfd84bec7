use clearway_wire::{VarInt, Writer, frame};

use super::*;
use crate::handshake::tests::{hex, vectors};

/// The Destination Connection ID of the samples in RFC 9001 §A and RFC 9369 §A.
fn destination() -> ConnectionId {
    ConnectionId::new(&hex("8394c8f03e515708")).unwrap()
}

fn read(version: Version, datagrams: &[Vec<u8>]) -> Option<ClientHello> {
    read_client_hello(version, &destination(), datagrams.iter().map(Vec::as_slice))
}

fn assert_is_sample(hello: &ClientHello) {
    assert_eq!(hello.server_name(), Some("example.com"));
    assert_eq!(hello.application_protocols().collect::<Vec<_>>(), [b"alpn"]);
    assert!(hello.is_complete());
}

/// Returns a client's datagram of one Initial packet with these parts of the sample message, each
/// with its start and end.
fn initial(number: u64, parts: &[(usize, usize)]) -> Vec<u8> {
    let message = hex(vectors::CLIENT_CRYPTO).split_off(4);
    let mut payload = vec![0; 1162];
    let mut writer = Writer::new(&mut payload);
    for &(start, end) in parts {
        let offset = VarInt::new(start as u64).unwrap();
        frame::Crypto { offset, data: &message[start..end] }.encode(&mut writer).unwrap();
    }
    let mut packet = hex(vectors::CLIENT_HEADER);
    packet.extend(payload);
    packet.extend([0; 16]);
    let mut client = Protection::new();
    let keys = initial::keys(Version::V1, Side::Client, &destination()).unwrap();
    client.install(SpaceId::Initial, keys);
    // The header of the sample has a packet number of four bytes.
    packet[18..22].copy_from_slice(&u32::try_from(number).unwrap().to_be_bytes());
    let number = clearway_wire::PacketNumber::new(number).unwrap();
    client.seal(SpaceId::Initial, number, 18, 22, &mut packet).unwrap();
    packet
}

#[test]
fn the_sample_packets_have_a_name_and_a_protocol() {
    for (version, other, packet) in [
        (Version::V1, Version::V2, vectors::CLIENT_PACKET),
        (Version::V2, Version::V1, vectors::CLIENT_PACKET_2),
    ] {
        assert_is_sample(&read(version, &[hex(packet)]).unwrap());
        assert_eq!(read(other, &[hex(packet)]), None);
    }
}

#[test]
fn damaged_and_other_packets_are_skipped() {
    let sample = hex(vectors::CLIENT_PACKET);
    let mut damaged = sample.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(read(Version::V1, &[damaged.clone()]), None);
    assert_eq!(read(Version::V1, &[]), None);
    let others = [vec![], vec![0x40; 1200], vec![0xc0; 3], damaged, sample];
    assert_is_sample(&read(Version::V1, &others).unwrap());
}

#[test]
fn a_message_may_come_in_parts_and_in_any_order() {
    let end = hex(vectors::CLIENT_CRYPTO).len() - 4;
    let (first, second) = (initial(0, &[(200, end), (0, 40)]), initial(1, &[(40, 210)]));
    assert_is_sample(&read(Version::V1, &[first.clone(), second.clone()]).unwrap());
    assert_is_sample(&read(Version::V1, &[second.clone(), first.clone()]).unwrap());
    assert_is_sample(&read(Version::V1, &[[first.clone(), second.clone()].concat()]).unwrap());
    let partial = read(Version::V1, &[first]).unwrap();
    assert_eq!((partial.server_name(), partial.is_complete()), (None, false));
    assert_eq!(read(Version::V1, &[second]), None);
}

/// Anyone can send many packets and many fragments.
#[test]
fn the_work_for_one_client_is_bounded() {
    let end = hex(vectors::CLIENT_CRYPTO).len() - 4;
    let whole = initial(99, &[(0, end)]);
    let mut datagrams: Vec<Vec<u8>> = (0..MAX_PACKETS as u64).map(|it| initial(it, &[])).collect();
    datagrams.push(whole.clone());
    assert_eq!(read(Version::V1, &datagrams), None);
    datagrams.remove(0);
    assert_is_sample(&read(Version::V1, &datagrams).unwrap());
    let fragments: Vec<_> = (1..end / 2).map(|it| (2 * it, 2 * it + 1)).collect();
    assert_is_sample(&read(Version::V1, &[initial(0, &fragments), whole]).unwrap());
}
