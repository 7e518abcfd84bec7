//! HTTP/3 frames (RFC 9114 §7), literal field sections (RFC 9204 §4.5), and the HTTP/3 view of
//! received streams.

use clearway_http3::field_section;
use clearway_wire::{Reader, VarInt};
use serde::Serialize;

use crate::Data;
use crate::quic::{StreamState, put_varint};

/// The DATA frame type.
pub const DATA: u64 = 0x00;
/// The HEADERS frame type.
pub const HEADERS: u64 = 0x01;
/// The CANCEL_PUSH frame type.
pub const CANCEL_PUSH: u64 = 0x03;
/// The SETTINGS frame type.
pub const SETTINGS: u64 = 0x04;
/// The PUSH_PROMISE frame type.
pub const PUSH_PROMISE: u64 = 0x05;
/// The GOAWAY frame type.
pub const GOAWAY: u64 = 0x07;
/// The MAX_PUSH_ID frame type.
pub const MAX_PUSH_ID: u64 = 0x0d;
/// The PRIORITY_UPDATE frame type for request streams (RFC 9218).
pub const PRIORITY_UPDATE: u64 = 0xf0700;

/// The type of a control stream.
pub const CONTROL_STREAM: u64 = 0x00;
/// The type of a push stream.
pub const PUSH_STREAM: u64 = 0x01;
/// The type of a QPACK encoder stream.
pub const ENCODER_STREAM: u64 = 0x02;
/// The type of a QPACK decoder stream.
pub const DECODER_STREAM: u64 = 0x03;

/// Maximum number of frames to report per stream.
const MAX_FRAMES: usize = 1000;
/// Maximum number of payload bytes to report per frame.
const MAX_PAYLOAD: usize = 256;
/// Maximum size of a decoded field section, counted as in RFC 9114 §4.2.2.
const MAX_SECTION: u64 = 64 << 10;

/// Returns a frame of any type.
pub fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    put_varint(&mut output, kind);
    put_varint(&mut output, payload.len() as u64);
    output.extend_from_slice(payload);
    output
}

/// Returns the encoding of consecutive variable-length integers.
pub fn varints(numbers: &[u64]) -> Vec<u8> {
    let mut output = Vec::new();
    numbers.iter().for_each(|number| put_varint(&mut output, *number));
    output
}

/// Returns a SETTINGS frame.
pub fn settings(settings: &[(u64, u64)]) -> Vec<u8> {
    let numbers: Vec<u64> = settings.iter().flat_map(|(id, value)| [*id, *value]).collect();
    frame(SETTINGS, &varints(&numbers))
}

/// Returns a field section that consists of literal field lines with literal names, without Huffman
/// coding, so that names and values can contain any bytes (RFC 9204 §4.5.6).
pub fn literal_section<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        prefixed(&mut section, 0x20, 3, name.len());
        section.extend_from_slice(name);
        prefixed(&mut section, 0, 7, value.len());
        section.extend_from_slice(value);
    }
    section
}

/// Appends a prefixed integer (RFC 7541 §5.1).
fn prefixed(output: &mut Vec<u8>, flags: u8, prefix: u32, value: usize) {
    let mask = (1_usize.wrapping_shl(prefix)).saturating_sub(1);
    let Some(mut rest) = value.checked_sub(mask) else {
        return output.push(flags | value as u8);
    };
    output.push(flags | mask as u8);
    while rest >= 0x80 {
        output.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    output.push(rest as u8);
}

/// An HTTP/3 frame on a received stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ReceivedFrame {
    /// The frame type.
    pub kind: u64,
    /// The name of the frame type, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'static str>,
    /// The Length field.
    pub length: u64,
    /// The start of the payload, as far as it has arrived.
    pub payload: Data,
    /// The field lines of a HEADERS frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<(String, String)>>,
}

impl ReceivedFrame {
    /// Returns the status of a response's HEADERS frame.
    pub fn status(&self) -> Option<u16> {
        let fields = self.fields.as_ref()?;
        let status = fields.iter().find(|(name, _)| name == ":status");
        status.and_then(|(_, value)| value.parse().ok())
    }
}

/// The HTTP/3 view of a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ReceivedStream {
    /// The stream's purpose: request, control, push, qpack-encoder, qpack-decoder, or unknown;
    /// "sent" if the peer has sent nothing on it.
    pub purpose: &'static str,
    /// The frames, at most 1,000. QPACK and unknown streams have none.
    pub frames: Vec<ReceivedFrame>,
}

/// Reads the frames that a peer has sent on a stream so far.
pub fn read(id: u64, stream: &StreamState) -> ReceivedStream {
    let mut reader = Reader::new(stream.data());
    let purpose = if stream.data().is_empty() && stream.sent() > 0 {
        "sent"
    } else if id & 2 == 0 {
        "request"
    } else {
        match VarInt::decode(&mut reader, "Stream Type").map(VarInt::get) {
            Ok(CONTROL_STREAM) => "control",
            Ok(PUSH_STREAM) => "push",
            Ok(ENCODER_STREAM) => "qpack-encoder",
            Ok(DECODER_STREAM) => "qpack-decoder",
            _ => "unknown",
        }
    };
    if purpose == "push" {
        // The Push ID.
        let _ = VarInt::decode(&mut reader, "Push ID");
    }
    let has_frames = matches!(purpose, "request" | "control" | "push");
    let frames = if has_frames { read_frames(&mut reader) } else { Vec::new() };
    ReceivedStream { purpose, frames }
}

fn read_frames(reader: &mut Reader<'_>) -> Vec<ReceivedFrame> {
    let mut frames = Vec::new();
    while !reader.is_empty() && frames.len() < MAX_FRAMES {
        let kind = VarInt::decode(reader, "Type");
        let length = VarInt::decode(reader, "Length");
        let (Ok(kind), Ok(length)) = (kind, length) else { break };
        let (kind, length) = (kind.get(), length.get());
        let whole =
            usize::try_from(length).ok().and_then(|length| reader.bytes(length, "Payload").ok());
        let payload = whole.unwrap_or_else(|| reader.take_rest());
        let fields = match (kind, whole) {
            (HEADERS, Some(section)) => read_section(section),
            _ => None,
        };
        let payload = Data::clipped(payload, MAX_PAYLOAD);
        frames.push(ReceivedFrame { kind, name: name(kind), length, payload, fields });
    }
    frames
}

fn read_section(section: &[u8]) -> Option<Vec<(String, String)>> {
    let fields = field_section::decode(section, MAX_SECTION).ok()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Some(fields.into_iter().map(|(name, value)| (text(name), text(value))).collect())
}

/// Returns the name of a frame type.
fn name(kind: u64) -> Option<&'static str> {
    Some(match kind {
        DATA => "DATA",
        HEADERS => "HEADERS",
        CANCEL_PUSH => "CANCEL_PUSH",
        SETTINGS => "SETTINGS",
        PUSH_PROMISE => "PUSH_PROMISE",
        GOAWAY => "GOAWAY",
        MAX_PUSH_ID => "MAX_PUSH_ID",
        PRIORITY_UPDATE => "PRIORITY_UPDATE",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn literal_sections_can_be_decoded() {
        let long = [b'x'; 300];
        let fields =
            [(b":method".as_slice(), b"GET".as_slice()), (b"Upper", b"a\nb"), (&long, &long)];
        let decoded = field_section::decode(&literal_section(fields), 10_000).unwrap();
        let decoded: Vec<_> = decoded.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert_eq!(decoded, fields);
    }

    #[test]
    fn frames_of_a_response() {
        let mut bytes =
            frame(HEADERS, &field_section::encode([(b":status".as_slice(), b"404".as_slice())]));
        bytes.extend(frame(DATA, b"not here"));
        bytes.extend(frame(0x21, &[0; 500]).get(..100).unwrap());
        let frames = read_frames(&mut Reader::new(&bytes));
        assert_eq!(frames.len(), 3);
        assert_eq!(
            (frames[0].status(), frames[1].payload.bytes()),
            (Some(404), b"not here".as_slice())
        );
        assert_eq!((frames[2].length, frames[2].payload.len()), (500, 97));
    }

    proptest! {
        #[test]
        fn any_stream(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            read_frames(&mut Reader::new(&bytes));
        }
    }
}
