//! What a packet contains, as far as the books need it.

use clearway_wire::header::ProtectedHeader;
use clearway_wire::{Frame, PacketType, Reader};

/// What the frames of a packet add up to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contents {
    /// The peer has to acknowledge it.
    pub(super) is_ack_eliciting: bool,
    /// It counts in flight.
    pub(super) is_in_flight: bool,
    /// There is an ACK frame.
    pub(super) has_ack: bool,
    /// There is more than data of streams, or the end of one: the books of the end that receives it have to know.
    pub(super) concerns_receiver: bool,
}

/// Reads the frames of `payload`, shows each to `visit`, and adds them up. What cannot be read is
/// the transport's affair.
pub(super) fn read<'a>(payload: &'a [u8], mut visit: impl FnMut(&Frame<'a>)) -> Contents {
    let mut contents = Contents::default();
    let mut reader = Reader::new(payload);
    while !reader.is_empty() {
        let Ok(frame) = Frame::decode(&mut reader) else { break };
        contents.is_ack_eliciting |= frame.is_ack_eliciting();
        contents.is_in_flight |= frame.counts_in_flight();
        contents.has_ack |= matches!(frame, Frame::Ack(_));
        contents.concerns_receiver |= !matches!(frame, Frame::Stream(stream) if !stream.fin);
        visit(&frame);
    }
    contents
}

/// Whether there is a Handshake packet in `datagram`, judged by the unencrypted parts of headers.
pub(super) fn has_handshake_packet(datagram: &[u8]) -> bool {
    let mut rest = datagram;
    while let Ok(header) = ProtectedHeader::decode(rest, 0) {
        if matches!(header.packet_type(), Some((PacketType::Handshake, _))) {
            return true;
        }
        rest = rest.get(header.packet_len..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
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
}
