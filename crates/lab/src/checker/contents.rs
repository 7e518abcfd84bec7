//! Packet contents that the records need.

use clearway_wire::header::ProtectedHeader;
use clearway_wire::{Frame, PacketType, Reader};

/// A summary of a packet's frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contents {
    /// Whether the packet is ack-eliciting.
    pub(super) is_ack_eliciting: bool,
    /// Whether the packet counts as in flight.
    pub(super) is_in_flight: bool,
    /// Whether the packet contains an ACK frame.
    pub(super) has_ack: bool,
    /// Whether the packet contains more than stream data, or contains the end of a stream, and so
    /// matters to the receiving endpoint's records.
    pub(super) concerns_receiver: bool,
}

/// Reads the frames of `payload`, passes each to `visit`, and summarizes them. Frames that cannot
/// be decoded are left to the transport.
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

/// Returns whether there is a Handshake packet in `datagram`, based on the unencrypted parts of the
/// headers.
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

    /// A version 1 Initial packet with zero-length connection IDs, no token, and five bytes of
    /// payload.
    const INITIAL: [u8; 14] = [0xc0, 0, 0, 0, 1, 0, 0, 0, 5, 1, 2, 3, 4, 5];
    /// A Handshake packet of the same structure.
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
            // The bytes after a short header belong to its packet.
            (vec![&SHORT[..], &HANDSHAKE[..]], false),
            (vec![], false),
        ] {
            assert_eq!(has_handshake_packet(&packets.concat()), has_one, "{packets:?}");
        }
    }
}
