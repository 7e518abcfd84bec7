//! Initial packets, which anyone on the path can create (RFC 9001 §5.2).

use clearway_transport::{Side, initial_keys};
use clearway_wire::header::{LongHeader, set_length};
use clearway_wire::{ConnectionId, LongPacketType, PacketNumber, Version, Writer};

/// An Initial packet of `side`, protected with the keys of a connection that the client began with
/// the destination `began_with`.
pub struct Initial<'a> {
    pub side: Side,
    pub version: Version,
    pub began_with: &'a [u8],
    pub destination: &'a [u8],
    pub source: &'a [u8],
    pub number: u32,
    /// The frames, followed by PADDING.
    pub frames: &'a [u8],
}

impl Initial<'_> {
    /// Returns the protected packet in a datagram of `size` bytes.
    pub fn datagram(&self, size: usize) -> Vec<u8> {
        let id = |bytes| ConnectionId::new(bytes).unwrap();
        let header = LongHeader {
            packet_type: LongPacketType::Initial,
            version: self.version,
            destination: id(self.destination),
            source: id(self.source),
            token: &[],
        };
        let mut datagram = vec![0; size];
        let number = PacketNumber::new(self.number.into()).unwrap();
        let offsets = header.encode(&mut Writer::new(&mut datagram), number, 4).unwrap();
        set_length(&mut datagram, offsets.length, size - offsets.packet_number).unwrap();
        datagram[offsets.payload..][..self.frames.len()].copy_from_slice(self.frames);
        let keys = initial_keys(self.version, self.side, &id(self.began_with)).unwrap().local;
        let (head, rest) = datagram.split_at_mut(offsets.payload);
        let (content, room) = rest.split_at_mut(rest.len() - 16);
        let tag = keys.packet.encrypt_in_place(self.number.into(), head, content).unwrap();
        room.copy_from_slice(tag.as_ref());
        let (head, sample) = datagram.split_at_mut(offsets.packet_number + 4);
        let (before, number) = head.split_at_mut(offsets.packet_number);
        keys.header.encrypt_in_place(&sample[..16], &mut before[0], number).unwrap();
        datagram
    }
}
