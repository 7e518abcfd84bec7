use clearway_transport::KeySchedule;
use rustls::quic::PacketKey;

use super::NullKeys;

const KEYS: NullKeys = NullKeys { level: 7 };

fn sealed(payload: &[u8]) -> Vec<u8> {
    let mut packet = payload.to_vec();
    let tag = KEYS.encrypt_in_place(3, b"header", &mut packet).unwrap();
    packet.extend_from_slice(tag.as_ref());
    packet
}

#[test]
fn a_sealed_packet_can_be_opened() {
    for length in 0..100 {
        let payload: Vec<u8> = (0..length).collect();
        let mut packet = sealed(&payload);
        assert_eq!(KEYS.decrypt_in_place(3, b"header", &mut packet).unwrap(), payload);
    }
}

#[test]
fn every_changed_bit_is_detected() {
    let payload: Vec<u8> = (0..77).collect();
    let packet = sealed(&payload);
    for position in 0..packet.len() * 8 {
        let mut changed = packet.clone();
        changed[position / 8] ^= 1 << (position % 8);
        assert!(KEYS.decrypt_in_place(3, b"header", &mut changed).is_err(), "bit {position}");
    }
    for position in 0..6 * 8 {
        let mut header = *b"header";
        header[position / 8] ^= 1 << (position % 8);
        assert!(KEYS.decrypt_in_place(3, &header, &mut packet.clone()).is_err());
    }
}

#[test]
fn changes_that_could_cancel_out_are_detected() {
    let payload: Vec<u8> = (0..96).collect();
    let packet = sealed(&payload);
    let mut changed = packet.clone();
    changed[0] += 1;
    changed[32] -= 1;
    assert!(KEYS.decrypt_in_place(3, b"header", &mut changed).is_err(), "two words of a column");
    let mut changed = packet;
    changed[..64].rotate_left(32);
    assert!(KEYS.decrypt_in_place(3, b"header", &mut changed).is_err(), "swapped blocks");
}

#[test]
fn a_packet_opens_only_with_its_number_level_and_key_phase() {
    let packet = sealed(b"payload");
    assert!(KEYS.decrypt_in_place(4, b"header", &mut packet.clone()).is_err());
    let other = NullKeys { level: 8 };
    assert!(other.decrypt_in_place(3, b"header", &mut packet.clone()).is_err());
    let next = KEYS.clone().next_packet_keys();
    assert!(next.remote.decrypt_in_place(3, b"header", &mut packet.clone()).is_err());
    assert!(KEYS.decrypt_in_place(3, b"header", &mut []).is_err());
}
