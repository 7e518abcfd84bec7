//! Encoding of HTTP/3 and QPACK without any checks, so that every message can be forged.

use clearway_wire::{Reader, VarInt};

use super::encoding::varint_bytes;
use super::endpoint::Endpoint;
use super::incoming::Incoming;

/// The HTTP/3 frame type of DATA.
pub(super) const DATA: u64 = 0;
/// The HTTP/3 frame type of HEADERS.
pub(super) const HEADERS: u64 = 1;
/// The HTTP/3 frame type of SETTINGS.
const SETTINGS: u64 = 4;

/// Encodes a frame with this type and payload.
pub(super) fn frame(frame_type: u64, payload: &[u8]) -> Vec<u8> {
    [varint_bytes(frame_type), varint_bytes(payload.len() as u64), payload.to_vec()].concat()
}

/// Encodes an integer with a prefix of `prefix` bits (RFC 7541 §5.1).
pub(super) fn prefixed(flags: u8, prefix: u8, value: u64) -> Vec<u8> {
    let most = (1 << prefix) - 1;
    if value < most {
        return vec![flags | value as u8];
    }
    let mut bytes = vec![flags | most as u8];
    let mut rest = value - most;
    while rest >= 128 {
        bytes.push(rest as u8 & 127 | 128);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

/// Encodes a literal field line with a literal name.
pub(super) fn literal(name: &str, value: &str) -> Vec<u8> {
    let (name_length, value_length) = (name.len() as u64, value.len() as u64);
    let mut bytes = prefixed(0x20, 3, name_length);
    bytes.extend(name.as_bytes());
    bytes.extend(prefixed(0, 7, value_length));
    bytes.extend(value.as_bytes());
    bytes
}

/// Encodes a field section without references to the dynamic or static table.
pub(super) fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let lines = fields.iter().flat_map(|(name, value)| literal(name, value));
    [0, 0].into_iter().chain(lines).collect()
}

/// Returns the fields of a request for this path.
pub(super) fn fields<'a>(method: &'a str, path: &'a str) -> Vec<(&'a str, &'a str)> {
    [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)].into()
}

/// Encodes a HEADERS frame that requests a path.
pub(super) fn get(path: &str) -> Vec<u8> {
    frame(HEADERS, &section(&fields("GET", path)))
}

/// Opens the control stream and sends these settings.
pub(super) fn open(endpoint: &mut Endpoint, settings: &[(u64, u64)]) -> u64 {
    let control = endpoint.next_stream(true);
    let values = settings
        .iter()
        .flat_map(|(name, value)| [varint_bytes(*name), varint_bytes(*value)].concat());
    let values: Vec<u8> = values.collect();
    endpoint.send_stream(control, &[vec![0], frame(SETTINGS, &values)].concat(), false);
    control
}

/// Sends a request without content, and returns its stream ID.
pub(super) fn request(endpoint: &mut Endpoint, path: &str) -> u64 {
    let stream = endpoint.next_stream(false);
    endpoint.send_stream(stream, &get(path), true);
    stream
}

/// Returns the status of a response whose first field line is a static table entry, as in
/// Clearway's responses.
pub(super) fn status(incoming: &Incoming) -> Option<u16> {
    let mut bytes = incoming.data.as_slice();
    let mut integer = || {
        let first = *bytes.first()?;
        let length = 1 << (first >> 6);
        let value =
            bytes.get(..length)?.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        bytes = bytes.get(length..)?;
        Some(value & !(3_u64.checked_shl(8 * length as u32 - 2).unwrap_or(0)))
    };
    let (frame_type, _) = (integer()?, integer()?);
    let line = bytes.get(2..).unwrap_or_default();
    let index = match line {
        [0xff, rest, ..] => 63 + u16::from(*rest),
        [first, ..] if first & 0xc0 == 0xc0 => u16::from(first & 0x3f),
        // `:status` as a literal with a name reference. The value is three digits or Huffman-coded.
        [0x5f, 0x09, ..] => return literal_status(bytes.get(4..)?),
        _ => return None,
    };
    let known = [
        (24, 103),
        (25, 200),
        (26, 304),
        (27, 404),
        (28, 503),
        (63, 100),
        (64, 204),
        (65, 206),
        (66, 302),
        (67, 400),
        (68, 403),
        (69, 421),
        (70, 425),
        (71, 500),
    ];
    let found = known.into_iter().find(|(known, _)| *known == index);
    found.filter(|_| frame_type == HEADERS).map(|(_, status)| status)
}

/// Returns whether a control stream contains a GOAWAY frame; the bytes begin with the stream type.
pub(super) fn has_goaway(bytes: &[u8]) -> bool {
    // The stream type is one byte.
    let mut reader = Reader::new(bytes.get(1..).unwrap_or_default());
    let frames = std::iter::from_fn(|| {
        let frame_type = VarInt::decode(&mut reader, "Type").ok()?.get();
        reader.length_prefixed("Payload").ok()?;
        Some(frame_type)
    });
    frames.into_iter().any(|frame_type| frame_type == 7)
}

fn literal_status(value: &[u8]) -> Option<u16> {
    match value {
        [3, digits @ ..] => std::str::from_utf8(digits.get(..3)?).ok()?.parse().ok(),
        // Huffman-coded, so not one of the values above.
        [_, ..] => Some(0),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_those_of_rfc_7541() {
        assert_eq!(prefixed(0, 5, 10), [10]);
        assert_eq!(prefixed(0, 5, 1337), [31, 154, 10]);
    }

    #[test]
    fn the_status_is_read_from_the_static_table() {
        let of = |section: &[u8]| {
            let mut incoming = Incoming::default();
            incoming.data = frame(HEADERS, section);
            status(&incoming)
        };
        assert_eq!(of(&[0, 0, 0xd9]), Some(200));
        assert_eq!(of(&[0, 0, 0xff, 6]), Some(421));
        assert_eq!(of(&[0, 0, 0xc1]), None);
    }
}
