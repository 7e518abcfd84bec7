use clearway_wire::ConnectionId;

use super::{RETRY_INTEGRITY_TAG_LEN, is_retry_authentic, retry_integrity_tag};
use crate::handshake::tests::hex;

/// RFC 9001 §A.4.
const RETRY: &str = "ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba";

#[test]
fn the_sample_retry_has_this_tag() {
    let id = ConnectionId::new(&hex("8394c8f03e515708")).unwrap();
    let packet = hex(RETRY);
    let (packet, tag) = packet.split_last_chunk::<RETRY_INTEGRITY_TAG_LEN>().unwrap();
    assert_eq!(retry_integrity_tag(&id, packet), Ok(*tag));
}

#[test]
fn a_retry_is_authentic_only_unchanged_and_for_its_connection_id() {
    let id = ConnectionId::new(&hex("8394c8f03e515708")).unwrap();
    let packet = hex(RETRY);
    assert!(is_retry_authentic(&id, &packet));
    for index in 0..packet.len() {
        let mut changed = packet.clone();
        changed[index] ^= 1;
        assert!(!is_retry_authentic(&id, &changed), "byte {index}");
    }
    let other = ConnectionId::new(&hex("8394c8f03e515709")).unwrap();
    assert!(!is_retry_authentic(&other, &packet));
    assert!(!is_retry_authentic(&id, &packet[..15]));
}
