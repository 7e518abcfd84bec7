//! Encoding of QUIC frames and integers.

use clearway_wire::{Frame, VarInt, Writer};

/// Encodes a sequence of frames.
pub(super) fn encode(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; frames.iter().map(Frame::encoded_len).sum()];
    let mut writer = Writer::new(&mut bytes);
    frames.iter().for_each(|frame| frame.encode(&mut writer).expect("room for the frames"));
    bytes
}

/// Returns a QUIC variable-length integer.
pub(super) fn varint(value: u64) -> VarInt {
    VarInt::new(value).expect("a value below 2^62")
}

/// Encodes a QUIC variable-length integer.
pub(super) fn varint_bytes(value: u64) -> Vec<u8> {
    let mut bytes = [0; 8];
    let mut writer = Writer::new(&mut bytes);
    varint(value).encode(&mut writer).expect("room for 8 bytes");
    writer.filled().to_vec()
}

/// Encodes a STREAM frame with offset and length.
pub(super) fn stream_frame(stream: u64, offset: u64, data: &[u8], fin: bool) -> Vec<u8> {
    let mut bytes = vec![0x0e | u8::from(fin)];
    bytes.extend(varint_bytes(stream));
    bytes.extend(varint_bytes(offset));
    bytes.extend(varint_bytes(data.len() as u64));
    bytes.extend(data);
    bytes
}
