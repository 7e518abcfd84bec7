use super::has_handshake_packet;

/// An Initial packet of version 1 without connection IDs and token, with five bytes of content.
const INITIAL: [u8; 14] = [0xc0, 0, 0, 0, 1, 0, 0, 0, 5, 1, 2, 3, 4, 5];
/// A Handshake packet of the same kind.
const HANDSHAKE: [u8; 13] = [0xe0, 0, 0, 0, 1, 0, 0, 5, 1, 2, 3, 4, 5];
const SHORT: [u8; 5] = [0x40, 1, 2, 3, 4];

#[test]
fn a_handshake_packet_is_found_wherever_it_is_in_a_datagram() {
    for (packets, has_one) in [
        (vec![&INITIAL[..]], false),
        (vec![&SHORT[..]], false),
        (vec![&HANDSHAKE[..]], true),
        (vec![&INITIAL[..], &HANDSHAKE[..], &SHORT[..]], true),
        (vec![&INITIAL[..], &INITIAL[..], &SHORT[..]], false),
        // What follows a short header belongs to its packet.
        (vec![&SHORT[..], &HANDSHAKE[..]], false),
        (vec![], false),
    ] {
        assert_eq!(has_handshake_packet(&packets.concat()), has_one, "{packets:?}");
    }
}
