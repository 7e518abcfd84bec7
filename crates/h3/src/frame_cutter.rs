//! Cutting a received stream at the boundaries of HTTP/3 frames.

use core::fmt;

use bytes::{Bytes, BytesMut};
use clearway_wire::{DecodeError, Reader, VarInt, Writer};

/// The largest frame, other than DATA, that is passed to h3, which stores such a frame whole before
/// it checks its own limits.
const MAX_WHOLE_FRAME: u64 = 1 << 20;

/// The type of a unidirectional stream that carries frames (RFC 9114 §6.2.1).
const CONTROL_STREAM: u64 = 0x00;

const DATA_TYPE: VarInt = VarInt::from_u32(0x00);
const DATA: u64 = DATA_TYPE.get();

/// The first of the two bytes of a frame type.
const INCOMPLETE: &[u8] = &[0x40];

/// Not a frame: the rest of the stream belongs to a WebTransport session
/// (draft-ietf-webtrans-http3 §4.3).
const WEBTRANSPORT_STREAM: u64 = 0x41;

/// Cuts a stream into pieces that end where a frame's header or payload ends.
///
/// h3 receives a piece before each frame and before each piece of content, but uses only what
/// belongs to that frame, and stores the rest without limit
/// (<https://github.com/hyperium/h3/issues/308>). If a piece never reaches into the next frame,
/// nothing is left to store.
///
/// DATA frames are split into frames that have arrived completely: h3 panics if it has read a part
/// of a frame when the stream ends. Frames of types that h3 ignores are dropped, since h3 would
/// first store them whole.
#[derive(Debug)]
pub(crate) struct FrameCutter(State);

#[derive(Debug)]
enum State {
    /// The type of a unidirectional stream, of which the first bytes may have arrived.
    StreamType(Bytes),
    /// The header of a frame, of which the first bytes may have arrived.
    Header(Bytes),
    /// The payload of a frame that h3 stores whole.
    Payload { remaining: u64 },
    /// The content of a DATA frame for which h3 has not received a header yet.
    Content { remaining: u64 },
    /// The content of a DATA frame after h3 has received a header for the next `length` bytes.
    ContentPart { length: usize, remaining: u64 },
    /// The payload of a frame that h3 would ignore.
    Ignored { remaining: u64 },
    /// No frames are expected: pieces are passed on as they arrive.
    Unframed,
}

impl FrameCutter {
    /// Creates a cutter for a stream with a request or a response.
    pub(crate) fn request() -> Self {
        Self(State::Header(Bytes::new()))
    }

    /// Creates a cutter for a unidirectional stream: only a control stream carries frames.
    pub(crate) fn unidirectional() -> Self {
        Self(State::StreamType(Bytes::new()))
    }

    /// Creates a cutter for a stream that carries no frames.
    pub(crate) fn unframed() -> Self {
        Self(State::Unframed)
    }

    /// Returns the next piece of `received`, which must not be empty, and removes it from there.
    ///
    /// Returns `None` if `received` was used up and contains no complete piece.
    ///
    /// # Errors
    /// Fails if a frame is larger than h3 should store.
    pub(crate) fn next(&mut self, received: &mut Bytes) -> Result<Option<Bytes>, FrameTooLarge> {
        while !received.is_empty() {
            let next = match &mut self.0 {
                State::StreamType(held) => {
                    let Some((piece, kind)) = take(held, received, stream_type) else { break };
                    self.0 = State::after_stream_type(kind);
                    Some(piece)
                }
                State::Header(held) => {
                    let Some((piece, header)) = take(held, received, header) else { break };
                    self.begin_frame(header)?.then_some(piece)
                }
                State::Payload { remaining } => {
                    let piece = take_at_most(*remaining, received);
                    self.0 = State::payload(*remaining - piece.len() as u64);
                    Some(piece)
                }
                State::Content { remaining } => {
                    let length = at_most(*remaining, received);
                    let remaining = *remaining - length as u64;
                    self.0 = State::ContentPart { length, remaining };
                    Some(data_header(length))
                }
                State::ContentPart { length, remaining } => {
                    let piece = received.split_to(*length);
                    self.0 = State::content(*remaining);
                    Some(piece)
                }
                State::Ignored { remaining } => {
                    let piece = take_at_most(*remaining, received);
                    self.0 = State::ignored(*remaining - piece.len() as u64);
                    None
                }
                State::Unframed => Some(core::mem::take(received)),
            };
            if next.is_some() {
                return Ok(next);
            }
        }
        Ok(None)
    }

    /// Begins a frame. Returns whether h3 is to receive its header.
    fn begin_frame(&mut self, header: Header) -> Result<bool, FrameTooLarge> {
        let Header::Frame { kind, length } = header else {
            self.0 = State::Unframed;
            return Ok(true);
        };
        self.0 = match kind {
            DATA => State::content(length),
            _ if is_ignored(kind) => State::ignored(length),
            _ if length > MAX_WHOLE_FRAME => return Err(FrameTooLarge { kind, length }),
            _ => State::payload(length),
        };
        Ok(match kind {
            DATA => length == 0,
            _ => !is_ignored(kind),
        })
    }

    /// Returns what h3 must still receive at the end of the stream: if a frame is not complete,
    /// which is an error (RFC 9114 §7.1), bytes that are not a complete frame.
    pub(crate) fn finish(&mut self) -> Option<Bytes> {
        let rest = match core::mem::replace(&mut self.0, State::Unframed) {
            State::StreamType(held) | State::Header(held) => held,
            State::Content { .. } | State::ContentPart { .. } | State::Ignored { .. } => {
                Bytes::from_static(INCOMPLETE)
            }
            // h3 has the beginning of the frame.
            State::Payload { .. } | State::Unframed => Bytes::new(),
        };
        (!rest.is_empty()).then_some(rest)
    }
}

impl State {
    fn after_stream_type(kind: u64) -> Self {
        match kind {
            CONTROL_STREAM => Self::Header(Bytes::new()),
            _ => Self::Unframed,
        }
    }

    fn payload(remaining: u64) -> Self {
        Self::or_next_frame(Self::Payload { remaining }, remaining)
    }

    fn content(remaining: u64) -> Self {
        Self::or_next_frame(Self::Content { remaining }, remaining)
    }

    fn ignored(remaining: u64) -> Self {
        Self::or_next_frame(Self::Ignored { remaining }, remaining)
    }

    fn or_next_frame(self, remaining: u64) -> Self {
        match remaining {
            0 => Self::Header(Bytes::new()),
            _ => self,
        }
    }
}

/// The header of a frame.
enum Header {
    Frame {
        kind: u64,
        length: u64,
    },
    /// The signal value in place of a frame's type, without a length.
    WebTransportStream,
}

/// Returns whether h3 ignores frames of this type. It processes those of RFC 9114, and rejects the
/// ones that only HTTP/2 has (§7.2.8).
fn is_ignored(kind: u64) -> bool {
    !matches!(kind, 0x00..=0x09 | 0x0d)
}

fn stream_type(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    Ok(VarInt::decode(reader, "stream type")?.get())
}

fn header(reader: &mut Reader<'_>) -> Result<Header, DecodeError> {
    let kind = VarInt::decode(reader, "frame type")?.get();
    if kind == WEBTRANSPORT_STREAM {
        return Ok(Header::WebTransportStream);
    }
    Ok(Header::Frame { kind, length: VarInt::decode(reader, "frame length")?.get() })
}

/// Decodes the beginning of `received`, of which `held` arrived earlier, and removes it. If it is
/// not complete, `held` becomes all of it.
fn take<T>(
    held: &mut Bytes,
    received: &mut Bytes,
    decode: fn(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Option<(Bytes, T)> {
    if !held.is_empty() {
        let mut joined = BytesMut::from(core::mem::take(held));
        joined.extend_from_slice(received);
        *received = joined.freeze();
    }
    let mut reader = Reader::new(received);
    match decode(&mut reader) {
        Ok(value) => {
            let length = received.len() - reader.remaining();
            Some((received.split_to(length), value))
        }
        // A variable-length integer has no other error than its missing end.
        Err(_) => {
            *held = core::mem::take(received);
            None
        }
    }
}

fn at_most(length: u64, received: &Bytes) -> usize {
    usize::try_from(length).map_or(received.len(), |length| length.min(received.len()))
}

/// Removes up to `length` bytes from the beginning of `received`.
fn take_at_most(length: u64, received: &mut Bytes) -> Bytes {
    let length = at_most(length, received);
    received.split_to(length)
}

/// Encodes the header of a DATA frame.
fn data_header(length: usize) -> Bytes {
    let mut buffer = [0; 9];
    let mut writer = Writer::new(&mut buffer);
    let length = VarInt::try_from(length).unwrap_or(VarInt::MAX);
    let encoded = DATA_TYPE.encode(&mut writer).and_then(|()| length.encode(&mut writer));
    debug_assert!(encoded.is_ok(), "a header has at most nine bytes");
    Bytes::copy_from_slice(writer.filled())
}

/// A frame is too large to be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameTooLarge {
    kind: u64,
    length: u64,
}

impl fmt::Display for FrameTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, length } = self;
        write!(
            f,
            "the peer sent a frame of type {kind:#x} with {length} bytes, but only DATA frames may \
             have more than {MAX_WHOLE_FRAME}"
        )
    }
}

impl core::error::Error for FrameTooLarge {}

#[cfg(test)]
#[path = "frame_cutter_tests.rs"]
mod tests;
