use bytes::{Buf, Bytes, BytesMut};
use clearway_wire::{Reader, VarInt, Writer};

/// The frame type of PRIORITY_UPDATE for requests (RFC 9218 §7.2).
pub(crate) const PRIORITY_UPDATE: u64 = 0xf0700;

/// The frame types of RFC 9114 §11.2.1 and RFC 9218 §7.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameType {
    Data,
    Headers,
    CancelPush,
    Settings,
    PushPromise,
    GoAway,
    MaxPushId,
    /// PRIORITY_UPDATE for a request (RFC 9218 §7.2).
    PriorityUpdate,
    /// PRIORITY_UPDATE for a push.
    PriorityUpdatePush,
    /// An HTTP/2 frame type that is reserved in HTTP/3 (§7.2.8): always an error.
    ReservedHttp2,
    /// Any other type: the frame is skipped.
    Unknown,
}

impl FrameType {
    const fn new(value: u64) -> Self {
        match value {
            0x00 => Self::Data,
            0x01 => Self::Headers,
            0x03 => Self::CancelPush,
            0x04 => Self::Settings,
            0x05 => Self::PushPromise,
            0x07 => Self::GoAway,
            0x0d => Self::MaxPushId,
            PRIORITY_UPDATE => Self::PriorityUpdate,
            0xf0701 => Self::PriorityUpdatePush,
            0x02 | 0x06 | 0x08 | 0x09 => Self::ReservedHttp2,
            _ => Self::Unknown,
        }
    }
}

/// The type and the length of a frame (RFC 9114 §7.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameHeader {
    pub(crate) frame_type: FrameType,
    pub(crate) length: u64,
}

impl FrameHeader {
    /// Parses the header at the start of `bytes`, and returns it with its length in bytes; `None`
    /// if it is incomplete.
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut reader = Reader::new(bytes);
        let frame_type = VarInt::decode(&mut reader, "frame type").ok()?;
        let length = VarInt::decode(&mut reader, "frame length").ok()?;
        let header = Self { frame_type: FrameType::new(frame_type.get()), length: length.get() };
        Some((header, bytes.len().saturating_sub(reader.remaining())))
    }
}

/// Maximum length of a frame header: two variable-length integers.
const HEADER_MAX: usize = 16;

/// Collects a frame header from chunks that may end anywhere.
#[derive(Debug, Default)]
pub(crate) struct FrameHeaderDecoder {
    bytes: [u8; HEADER_MAX],
    filled: usize,
}

impl FrameHeaderDecoder {
    /// Reads a header from the start of `input`, and consumes it, or consumes all of `input` if the
    /// header does not end in it.
    pub(crate) fn decode(&mut self, input: &mut Bytes) -> Option<FrameHeader> {
        if self.filled == 0
            && let Some((header, used)) = FrameHeader::parse(input)
        {
            input.advance(used.min(input.len()));
            return Some(header);
        }
        while let Some(&byte) = input.first() {
            input.advance(1);
            if let Some(slot) = self.bytes.get_mut(self.filled) {
                *slot = byte;
            }
            self.filled = self.filled.saturating_add(1).min(HEADER_MAX);
            let collected = self.bytes.get(..self.filled).unwrap_or_default();
            if let Some((header, _)) = FrameHeader::parse(collected) {
                self.filled = 0;
                return Some(header);
            }
        }
        None
    }

    /// Returns whether a header has begun but is not complete yet.
    pub(crate) fn is_partial(&self) -> bool {
        self.filled > 0
    }
}

/// Removes and returns up to `limit` bytes from the start of `input`.
pub(crate) fn take(input: &mut Bytes, limit: u64) -> Bytes {
    let length = usize::try_from(limit).unwrap_or(usize::MAX).min(input.len());
    input.split_to(length)
}

/// Appends a variable-length integer; values of more than 62 bits are capped at the maximum.
pub(crate) fn put_varint(output: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; 8];
    let mut writer = Writer::new(&mut bytes);
    if VarInt::saturating(value).encode(&mut writer).is_ok() {
        output.extend_from_slice(writer.filled());
    }
}

/// Appends a complete frame.
pub(crate) fn put_frame(output: &mut Vec<u8>, frame_type: u64, payload: &[u8]) {
    put_varint(output, frame_type);
    put_varint(output, payload.len() as u64);
    output.extend_from_slice(payload);
}

/// Returns the HEADERS frame of an encoded field section and, if `content` follows, the header of a
/// DATA frame with that many bytes. The result is split off `scratch`, so that many short frames
/// share one allocation.
pub(crate) fn headers_frame(scratch: &mut BytesMut, section: &[u8], content: Option<u64>) -> Bytes {
    let wanted = section.len().saturating_add(2 * HEADER_MAX);
    if scratch.capacity() < wanted {
        scratch.reserve(wanted.max(SCRATCH));
    }
    put_header(scratch, 0x01, section.len() as u64);
    scratch.extend_from_slice(section);
    if let Some(length) = content {
        put_header(scratch, 0x00, length);
    }
    scratch.split().freeze()
}

/// Appends the header of a frame whose type takes one byte.
fn put_header(output: &mut BytesMut, frame_type: u8, length: u64) {
    let mut bytes = [0; 9];
    let mut writer = Writer::new(&mut bytes);
    // Nine bytes hold the type and any length.
    let _ = writer.u8(frame_type).and_then(|()| VarInt::saturating(length).encode(&mut writer));
    output.extend_from_slice(writer.filled());
}

/// Number of bytes per allocation for frames and frame headers.
const SCRATCH: usize = 2048;

/// Returns the header of a DATA frame with `length` bytes. The result is split off `scratch`, so
/// that many headers share one allocation.
pub(crate) fn data_header(scratch: &mut BytesMut, length: u64) -> Bytes {
    if scratch.capacity() < HEADER_MAX {
        scratch.reserve(SCRATCH);
    }
    put_header(scratch, 0x00, length);
    scratch.split().freeze()
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
