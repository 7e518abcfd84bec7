use clearway_wire::ConnectionId;
use clearway_wire::header::Retry;

use super::retry_integrity_tag;
use crate::handshake::tests::hex;

/// RFC 9001 §A.4.
const RETRY: &str = "ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba";

#[test]
fn the_sample_retry_has_this_tag() {
    let id = ConnectionId::new(&hex("8394c8f03e515708")).unwrap();
    let packet = hex(RETRY);
    let (packet, tag) = packet.split_last_chunk::<{ Retry::INTEGRITY_TAG_LEN }>().unwrap();
    assert_eq!(retry_integrity_tag(&id, packet), Ok(*tag));
}
