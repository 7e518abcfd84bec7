use clearway_wire::frame as wire;
use clearway_wire::{Direction, VarInt};
use serde::{Deserialize, Serialize};

use crate::{Base, Data, Quantity};

/// Maximum number of bytes to record of a field.
const RECORDED: usize = 256;
/// Maximum number of ranges to record of an ACK frame.
const RECORDED_RANGES: usize = 64;

/// A frame to be sent, or one that was sent or received (RFC 9000 §19, RFC 9221 §4). Fields may hold values that
/// the RFCs forbid.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are those of RFC 9000 §19")]
pub enum Frame {
    /// Consecutive PADDING frames.
    Padding {
        #[serde(default = "one")]
        length: usize,
    },
    /// The PING frame.
    Ping {},
    /// The ACK frame; its type is 0x03 if it has ECN counts (ECT0, ECT1, CE).
    Ack {
        largest: Quantity,
        #[serde(default)]
        delay: Quantity,
        #[serde(default)]
        first_range: Quantity,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ranges: Vec<AckRange>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ecn: Option<[Quantity; 3]>,
    },
    /// The RESET_STREAM frame.
    ResetStream { stream: Quantity, code: Quantity, final_size: Quantity },
    /// The RESET_STREAM_AT frame (draft-ietf-quic-reliable-stream-reset).
    ResetStreamAt {
        stream: Quantity,
        code: Quantity,
        final_size: Quantity,
        reliable_size: Quantity,
    },
    /// The STOP_SENDING frame.
    StopSending { stream: Quantity, code: Quantity },
    /// The CRYPTO frame.
    Crypto { offset: Quantity, data: Data },
    /// The NEW_TOKEN frame.
    NewToken { token: Data },
    /// The STREAM frame, with a Length field.
    Stream {
        stream: Quantity,
        #[serde(default)]
        offset: Quantity,
        #[serde(default)]
        data: Data,
        #[serde(default)]
        fin: bool,
    },
    /// The MAX_DATA frame.
    MaxData { maximum: Quantity },
    /// The MAX_STREAM_DATA frame.
    MaxStreamData { stream: Quantity, maximum: Quantity },
    /// The MAX_STREAMS frame.
    MaxStreams { way: Way, maximum: Quantity },
    /// The DATA_BLOCKED frame.
    DataBlocked { limit: Quantity },
    /// The STREAM_DATA_BLOCKED frame.
    StreamDataBlocked { stream: Quantity, limit: Quantity },
    /// The STREAMS_BLOCKED frame.
    StreamsBlocked { way: Way, limit: Quantity },
    /// The NEW_CONNECTION_ID frame.
    NewConnectionId { sequence: Quantity, retire_prior_to: Quantity, id: Data, token: Data },
    /// The RETIRE_CONNECTION_ID frame.
    RetireConnectionId { sequence: Quantity },
    /// The PATH_CHALLENGE frame.
    PathChallenge { data: Data },
    /// The PATH_RESPONSE frame.
    PathResponse { data: Data },
    /// The CONNECTION_CLOSE frame.
    ConnectionClose {
        layer: CloseLayer,
        code: Quantity,
        #[serde(default)]
        frame_type: Quantity,
        #[serde(default)]
        reason: Data,
    },
    /// The HANDSHAKE_DONE frame.
    HandshakeDone {},
    /// The DATAGRAM frame, with a Length field.
    Datagram { data: Data },
    /// The ACK_FREQUENCY frame (draft-ietf-quic-ack-frequency).
    AckFrequency {
        sequence: Quantity,
        threshold: Quantity,
        max_ack_delay: Quantity,
        reordering: Quantity,
    },
    /// The IMMEDIATE_ACK frame (draft-ietf-quic-ack-frequency).
    ImmediateAck {},
    /// Arbitrary bytes in place of a frame.
    Raw { bytes: Data },
}

const fn one() -> usize {
    1
}

/// One (Gap, ACK Range Length) pair of an ACK frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AckRange {
    /// The Gap field.
    pub gap: Quantity,
    /// The ACK Range Length field.
    pub length: Quantity,
}

/// The direction of the streams that a frame refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Bidirectional streams.
    Bidi,
    /// Unidirectional streams.
    Uni,
}

/// The layer that closes a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloseLayer {
    /// The transport: type 0x1c.
    Transport,
    /// The application: type 0x1d.
    Application,
}

impl Frame {
    /// Creates a STREAM frame.
    pub fn stream(
        stream: impl Into<Quantity>,
        offset: impl Into<Quantity>,
        data: impl Into<Data>,
        fin: bool,
    ) -> Self {
        Self::Stream { stream: stream.into(), offset: offset.into(), data: data.into(), fin }
    }

    /// Creates a CRYPTO frame that continues the TLS messages at its packet's encryption level.
    pub fn tls_message(message: impl Into<Data>) -> Self {
        Self::Crypto { offset: Quantity::beyond(Base::CryptoOffset, 0), data: message.into() }
    }

    /// Creates arbitrary bytes in place of a frame.
    pub fn raw(bytes: impl Into<Data>) -> Self {
        Self::Raw { bytes: bytes.into() }
    }

    /// Returns whether the frame is ack-eliciting (RFC 9002 §2). Arbitrary bytes count as
    /// ack-eliciting.
    pub const fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Self::Padding { .. } | Self::Ack { .. } | Self::ConnectionClose { .. })
    }

    /// Appends the encoded frame. Numbers above 2^62 - 1 are encoded as 2^62 - 1.
    pub fn encode(&self, output: &mut Vec<u8>, values: &dyn Fn(Base) -> u64) {
        let mut out = Encoder { output, values };
        match self {
            Self::Padding { length } => {
                out.output.resize(out.output.len().saturating_add((*length).min(1 << 16)), 0)
            }
            Self::Ping {} => out.integers(0x01, &[]),
            Self::Ack { largest, delay, first_range, ranges, ecn } => {
                let count = Quantity::new(ranges.len() as u64);
                let frame_type = if ecn.is_some() { 0x03 } else { 0x02 };
                out.integers(frame_type, &[*largest, *delay, count, *first_range]);
                ranges.iter().for_each(|range| out.more(&[range.gap, range.length]));
                ecn.iter().for_each(|counts| out.more(counts));
            }
            Self::ResetStream { stream, code, final_size } => {
                out.integers(0x04, &[*stream, *code, *final_size])
            }
            Self::StopSending { stream, code } => out.integers(0x05, &[*stream, *code]),
            Self::Crypto { offset, data } => {
                out.integers(0x06, &[*offset]);
                out.sized(data);
            }
            Self::NewToken { token } => {
                out.integers(0x07, &[]);
                out.sized(token);
            }
            Self::Stream { stream, offset, data, fin } => {
                let has_offset = *offset != Quantity::new(0);
                let frame_type = 0x0a | u64::from(*fin) | u64::from(has_offset) << 2;
                out.integers(frame_type, &[*stream]);
                if has_offset {
                    out.more(&[*offset]);
                }
                out.sized(data);
            }
            Self::MaxData { maximum } => out.integers(0x10, &[*maximum]),
            Self::MaxStreamData { stream, maximum } => out.integers(0x11, &[*stream, *maximum]),
            Self::MaxStreams { way, maximum } => out.integers(0x12 | way.bit(), &[*maximum]),
            Self::DataBlocked { limit } => out.integers(0x14, &[*limit]),
            Self::StreamDataBlocked { stream, limit } => out.integers(0x15, &[*stream, *limit]),
            Self::StreamsBlocked { way, limit } => out.integers(0x16 | way.bit(), &[*limit]),
            Self::NewConnectionId { sequence, retire_prior_to, id, token } => {
                out.integers(0x18, &[*sequence, *retire_prior_to]);
                out.output.push(id.bytes().len() as u8);
                out.output.extend_from_slice(id.bytes());
                out.output.extend_from_slice(token.bytes());
            }
            Self::RetireConnectionId { sequence } => out.integers(0x19, &[*sequence]),
            Self::PathChallenge { data } => out.fixed(0x1a, data),
            Self::PathResponse { data } => out.fixed(0x1b, data),
            Self::ConnectionClose { layer, code, frame_type, reason } => {
                match layer {
                    CloseLayer::Transport => out.integers(0x1c, &[*code, *frame_type]),
                    CloseLayer::Application => out.integers(0x1d, &[*code]),
                }
                out.sized(reason);
            }
            Self::HandshakeDone {} => out.integers(0x1e, &[]),
            Self::ImmediateAck {} => out.integers(0x1f, &[]),
            Self::ResetStreamAt { stream, code, final_size, reliable_size } => {
                out.integers(0x24, &[*stream, *code, *final_size, *reliable_size]);
            }
            Self::Datagram { data } => {
                out.integers(0x31, &[]);
                out.sized(data);
            }
            Self::AckFrequency { sequence, threshold, max_ack_delay, reordering } => {
                out.integers(0xaf, &[*sequence, *threshold, *max_ack_delay, *reordering]);
            }
            Self::Raw { bytes } => out.output.extend_from_slice(bytes.bytes()),
        }
    }

    /// Records a received frame. Long fields are truncated.
    pub(crate) fn received(frame: &clearway_wire::Frame<'_>) -> Self {
        use clearway_wire::Frame as Wire;
        let data = |bytes: &[u8]| Data::clipped(bytes, RECORDED);
        let number = |value: VarInt| Quantity::new(value.get());
        match frame {
            Wire::Padding(frame) => Self::Padding { length: frame.length },
            Wire::Ping => Self::Ping {},
            Wire::Ack(frame) => received_ack(frame),
            Wire::ResetStream(frame) => Self::ResetStream {
                stream: number(frame.stream_id.varint()),
                code: number(frame.error_code),
                final_size: number(frame.final_size),
            },
            Wire::StopSending(frame) => Self::StopSending {
                stream: number(frame.stream_id.varint()),
                code: number(frame.error_code),
            },
            Wire::Crypto(frame) => {
                Self::Crypto { offset: number(frame.offset), data: data(frame.data) }
            }
            Wire::NewToken(frame) => Self::NewToken { token: data(frame.token) },
            Wire::Stream(frame) => Self::Stream {
                stream: number(frame.stream_id.varint()),
                offset: number(frame.offset),
                data: data(frame.data),
                fin: frame.fin,
            },
            Wire::MaxData(frame) => Self::MaxData { maximum: number(frame.maximum) },
            Wire::MaxStreamData(frame) => Self::MaxStreamData {
                stream: number(frame.stream_id.varint()),
                maximum: number(frame.maximum),
            },
            Wire::MaxStreams(frame) => {
                Self::MaxStreams { way: Way::of(frame.direction), maximum: number(frame.maximum) }
            }
            Wire::DataBlocked(frame) => Self::DataBlocked { limit: number(frame.limit) },
            Wire::StreamDataBlocked(frame) => Self::StreamDataBlocked {
                stream: number(frame.stream_id.varint()),
                limit: number(frame.limit),
            },
            Wire::StreamsBlocked(frame) => {
                Self::StreamsBlocked { way: Way::of(frame.direction), limit: number(frame.limit) }
            }
            Wire::NewConnectionId(frame) => Self::NewConnectionId {
                sequence: number(frame.sequence),
                retire_prior_to: number(frame.retire_prior_to),
                id: data(frame.id.as_bytes()),
                token: data(frame.reset_token.as_bytes()),
            },
            Wire::RetireConnectionId(frame) => {
                Self::RetireConnectionId { sequence: number(frame.sequence) }
            }
            Wire::PathChallenge(frame) => Self::PathChallenge { data: data(&frame.data) },
            Wire::PathResponse(frame) => Self::PathResponse { data: data(&frame.data) },
            Wire::ConnectionClose(frame) => {
                let (layer, frame_type) = match frame.kind {
                    wire::CloseKind::Transport { frame_type } => {
                        (CloseLayer::Transport, frame_type)
                    }
                    wire::CloseKind::Application => (CloseLayer::Application, VarInt::ZERO),
                };
                let (code, frame_type) = (number(frame.error_code), number(frame_type));
                Self::ConnectionClose { layer, code, frame_type, reason: data(frame.reason) }
            }
            Wire::HandshakeDone => Self::HandshakeDone {},
            Wire::Datagram(frame) => Self::Datagram { data: data(frame.data) },
            Wire::ImmediateAck => Self::ImmediateAck {},
            Wire::AckFrequency(frame) => Self::AckFrequency {
                sequence: number(frame.sequence),
                threshold: number(frame.ack_eliciting_threshold),
                max_ack_delay: number(frame.max_ack_delay),
                reordering: number(frame.reordering_threshold),
            },
            Wire::ResetStreamAt(frame) => Self::ResetStreamAt {
                stream: number(frame.stream_id.varint()),
                code: number(frame.error_code),
                final_size: number(frame.final_size),
                reliable_size: number(frame.reliable_size),
            },
        }
    }

    /// Returns the name of the frame type in scripts.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Padding { .. } => "padding",
            Self::Ping {} => "ping",
            Self::Ack { .. } => "ack",
            Self::ResetStream { .. } => "reset_stream",
            Self::ResetStreamAt { .. } => "reset_stream_at",
            Self::StopSending { .. } => "stop_sending",
            Self::Crypto { .. } => "crypto",
            Self::NewToken { .. } => "new_token",
            Self::Stream { .. } => "stream",
            Self::MaxData { .. } => "max_data",
            Self::MaxStreamData { .. } => "max_stream_data",
            Self::MaxStreams { .. } => "max_streams",
            Self::DataBlocked { .. } => "data_blocked",
            Self::StreamDataBlocked { .. } => "stream_data_blocked",
            Self::StreamsBlocked { .. } => "streams_blocked",
            Self::NewConnectionId { .. } => "new_connection_id",
            Self::RetireConnectionId { .. } => "retire_connection_id",
            Self::PathChallenge { .. } => "path_challenge",
            Self::PathResponse { .. } => "path_response",
            Self::ConnectionClose { .. } => "connection_close",
            Self::HandshakeDone {} => "handshake_done",
            Self::Datagram { .. } => "datagram",
            Self::AckFrequency { .. } => "ack_frequency",
            Self::ImmediateAck {} => "immediate_ack",
            Self::Raw { .. } => "raw",
        }
    }
}

fn received_ack(frame: &wire::Ack<'_>) -> Frame {
    let mut ranges = frame.ranges();
    let first = ranges.next();
    let (largest, smallest) =
        first.map_or((0, 0), |range| (range.end().get(), range.start().get()));
    let mut before = smallest;
    let mut recorded = Vec::new();
    for range in ranges.take(RECORDED_RANGES) {
        let (end, start) = (range.end().get(), range.start().get());
        let gap = before.saturating_sub(end).saturating_sub(2);
        recorded.push(AckRange { gap: gap.into(), length: end.saturating_sub(start).into() });
        before = start;
    }
    Frame::Ack {
        largest: largest.into(),
        delay: frame.delay.get().into(),
        first_range: largest.saturating_sub(smallest).into(),
        ranges: recorded,
        ecn: frame.ecn.map(|ecn| [ecn.ect0, ecn.ect1, ecn.ce].map(|count| count.get().into())),
    }
}

impl Way {
    const fn bit(self) -> u64 {
        match self {
            Self::Bidi => 0,
            Self::Uni => 1,
        }
    }

    fn of(direction: Direction) -> Self {
        match direction {
            Direction::Bidirectional => Self::Bidi,
            Direction::Unidirectional => Self::Uni,
        }
    }
}

struct Encoder<'a> {
    output: &'a mut Vec<u8>,
    values: &'a dyn Fn(Base) -> u64,
}

impl Encoder<'_> {
    fn integers(&mut self, frame_type: u64, fields: &[Quantity]) {
        put_varint(self.output, frame_type);
        self.more(fields);
    }

    fn more(&mut self, fields: &[Quantity]) {
        fields.iter().for_each(|field| put_varint(self.output, field.resolve(self.values)));
    }

    fn sized(&mut self, data: &Data) {
        put_varint(self.output, data.bytes().len() as u64);
        self.output.extend_from_slice(data.bytes());
    }

    fn fixed(&mut self, frame_type: u64, data: &Data) {
        put_varint(self.output, frame_type);
        self.output.extend_from_slice(data.bytes());
    }
}

/// Appends the shortest encoding of `value`, or of 2^62 - 1 if `value` is larger (RFC 9000 §16).
pub(crate) fn put_varint(output: &mut Vec<u8>, value: u64) {
    let value = VarInt::saturating(value);
    let mut space = [0; 8];
    let mut writer = clearway_wire::Writer::new(&mut space);
    // Eight bytes are enough for any integer.
    if value.encode(&mut writer).is_ok() {
        output.extend_from_slice(writer.filled());
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
