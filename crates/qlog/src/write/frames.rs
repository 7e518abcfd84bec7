//! Writes frames as defined in quic-events §8.13.

use core::time::Duration;

use clearway_wire::frame::{Ack, AckFrequency, CloseKind, ConnectionClose, NewConnectionId};
use clearway_wire::{DecodeError, Frame, Reader, TransportErrorCode, VarInt};

use super::json::{Array, Object};
use super::{closing, names};

/// The maximum number of frames of a received packet that are written. A packet from a benign peer
/// has a handful; one that repeats small frames would take ten to thirty times as many bytes in the
/// log as in the datagram.
pub(super) const MAX_RECEIVED: usize = 64;

/// Writes the frames of a packet's payload. A frame that cannot be decoded ends the list, as a frame of type
/// `unknown`: the connection is about to be closed because of it.
///
/// Frames that equal the previous one (except ACK frames) are counted in a frame of type
/// `clearway:repeated`. Beyond `maximum` frames, the others are counted in a frame of type
/// `clearway:omitted` at the end, except for the first CONNECTION_CLOSE.
pub(super) fn write(json: &mut Array<'_>, payload: &[u8], ack_delay_exponent: u64, maximum: usize) {
    let mut reader = Reader::new(payload);
    let mut before: &[u8] = &[];
    let (mut written, mut repeated, mut omitted) = (0_usize, 0_usize, 0_usize);
    let mut has_close = false;
    while !reader.is_empty() {
        let start = payload.len().saturating_sub(reader.remaining());
        let decoded = Frame::decode(&mut reader);
        let end = payload.len().saturating_sub(reader.remaining());
        let octets = payload.get(start..end).unwrap_or_default();
        let is_same = octets == before && !matches!(decoded, Ok(Frame::Ack(_)) | Err(_));
        if is_same && omitted == 0 {
            repeated = repeated.saturating_add(1);
            continue;
        }
        counted(json, "clearway:repeated", core::mem::take(&mut repeated));
        before = octets;
        match decoded {
            Ok(frame) => {
                let is_first_close = matches!(frame, Frame::ConnectionClose(_)) && !has_close;
                if written < maximum || is_first_close {
                    json.object(|json| write_frame(json, &frame, ack_delay_exponent));
                    written = written.saturating_add(1);
                    has_close |= is_first_close;
                } else {
                    omitted = omitted.saturating_add(1);
                }
            }
            Err(error) => {
                let rest = payload.get(start..).unwrap_or_default();
                json.object(|json| undecodable(json, rest, error));
                break;
            }
        }
    }
    counted(json, "clearway:repeated", repeated);
    counted(json, "clearway:omitted", omitted);
}

/// Writes a frame that represents `count` omitted frames. The draft allows additional types of
/// frames.
fn counted(json: &mut Array<'_>, frame_type: &str, count: usize) {
    if count > 0 {
        json.object(|json| {
            json.text("frame_type", frame_type);
            json.count("count", count);
        });
    }
}

fn undecodable(json: &mut Object<'_>, rest: &[u8], error: DecodeError) {
    let frame_type = match error {
        DecodeError::UnknownFrame { frame_type } => frame_type,
        _ => u64::from(rest.first().copied().unwrap_or_default()),
    };
    json.text("frame_type", "unknown");
    json.number("frame_type_bytes", frame_type);
    json.object("raw", |json| json.count("length", rest.len()));
}

fn write_frame(json: &mut Object<'_>, frame: &Frame<'_>, ack_delay_exponent: u64) {
    json.text("frame_type", frame_type(frame));
    match frame {
        Frame::Ping | Frame::HandshakeDone | Frame::ImmediateAck => {}
        Frame::Padding(frame) => data_length(json, frame.length),
        Frame::Ack(frame) => ack(json, frame, ack_delay_exponent),
        Frame::ResetStream(frame) => {
            json.number("stream_id", frame.stream_id.get());
            closing::unknown_error(json, "error", frame.error_code);
            json.number("final_size", frame.final_size);
        }
        Frame::ResetStreamAt(frame) => {
            json.number("stream_id", frame.stream_id.get());
            closing::unknown_error(json, "error", frame.error_code);
            json.number("final_size", frame.final_size);
            json.number("reliable_size", frame.reliable_size);
        }
        Frame::AckFrequency(frame) => ack_frequency(json, frame),
        Frame::StopSending(frame) => {
            json.number("stream_id", frame.stream_id.get());
            closing::unknown_error(json, "error", frame.error_code);
        }
        Frame::Crypto(frame) => {
            json.number("offset", frame.offset);
            data_length(json, frame.data.len());
        }
        Frame::NewToken(frame) => json.object("token", |json| {
            // Only the token's length is written: with the token itself, anyone could pose as a
            // client with a validated address.
            json.object("raw", |json| json.count("length", frame.token.len()));
        }),
        Frame::Stream(frame) => {
            json.number("stream_id", frame.stream_id.get());
            json.number("offset", frame.offset);
            if frame.fin {
                json.boolean("fin", true);
            }
            data_length(json, frame.data.len());
        }
        Frame::NewConnectionId(frame) => new_connection_id(json, frame),
        Frame::RetireConnectionId(frame) => json.number("sequence_number", frame.sequence),
        Frame::PathChallenge(frame) => json.hex("data", &frame.data),
        Frame::PathResponse(frame) => json.hex("data", &frame.data),
        Frame::ConnectionClose(frame) => connection_close(json, frame),
        Frame::Datagram(frame) => data_length(json, frame.data.len()),
        limit => flow_control(json, limit),
    }
}

/// Writes the fields of frames that advertise a flow control limit or report that the sender is
/// blocked by one.
fn flow_control(json: &mut Object<'_>, frame: &Frame<'_>) {
    match frame {
        Frame::MaxData(frame) => json.number("maximum", frame.maximum),
        Frame::MaxStreamData(frame) => {
            json.number("stream_id", frame.stream_id.get());
            json.number("maximum", frame.maximum);
        }
        Frame::MaxStreams(frame) => {
            json.text("stream_type", names::stream_type(frame.direction));
            json.number("maximum", frame.maximum);
        }
        Frame::DataBlocked(frame) => json.number("limit", frame.limit),
        Frame::StreamDataBlocked(frame) => {
            json.number("stream_id", frame.stream_id.get());
            json.number("limit", frame.limit);
        }
        Frame::StreamsBlocked(frame) => {
            json.text("stream_type", names::stream_type(frame.direction));
            json.number("limit", frame.limit);
        }
        _ => {}
    }
}

const fn frame_type(frame: &Frame<'_>) -> &'static str {
    match frame {
        Frame::Padding(_) => "padding",
        Frame::Ping => "ping",
        Frame::Ack(_) => "ack",
        Frame::ResetStream(_) => "reset_stream",
        Frame::StopSending(_) => "stop_sending",
        Frame::Crypto(_) => "crypto",
        Frame::NewToken(_) => "new_token",
        Frame::Stream(_) => "stream",
        Frame::MaxData(_) => "max_data",
        Frame::MaxStreamData(_) => "max_stream_data",
        Frame::MaxStreams(_) => "max_streams",
        Frame::DataBlocked(_) => "data_blocked",
        Frame::StreamDataBlocked(_) => "stream_data_blocked",
        Frame::StreamsBlocked(_) => "streams_blocked",
        Frame::NewConnectionId(_) => "new_connection_id",
        Frame::RetireConnectionId(_) => "retire_connection_id",
        Frame::PathChallenge(_) => "path_challenge",
        Frame::PathResponse(_) => "path_response",
        Frame::ConnectionClose(_) => "connection_close",
        Frame::HandshakeDone => "handshake_done",
        Frame::Datagram(_) => "datagram",
        Frame::AckFrequency(_) => "ack_frequency",
        Frame::ImmediateAck => "immediate_ack",
        Frame::ResetStreamAt(_) => "reset_stream_at",
    }
}

/// Writes the value of a Length field. The draft requires it as `length`, a name that elsewhere
/// includes a frame's header; `payload_length` means the same thing everywhere.
fn data_length(json: &mut Object<'_>, length: usize) {
    json.object("raw", |json| {
        json.count("length", length);
        json.count("payload_length", length);
    });
}

fn ack(json: &mut Object<'_>, frame: &Ack<'_>, ack_delay_exponent: u64) {
    let exponent = u32::try_from(ack_delay_exponent).unwrap_or(u32::MAX);
    let factor = 1_u64.checked_shl(exponent).unwrap_or(u64::MAX);
    let delay = Duration::from_micros(frame.delay.get().saturating_mul(factor));
    json.milliseconds("ack_delay", delay);
    json.array("acked_ranges", |json| {
        for range in frame.ranges() {
            json.array(|json| {
                json.number(range.start().get());
                if range.start() != range.end() {
                    json.number(range.end().get());
                }
            });
        }
    });
    if let Some(counts) = frame.ecn {
        json.number("ect1", counts.ect1);
        json.number("ect0", counts.ect0);
        json.number("ce", counts.ce);
    }
}

/// Writes an ACK_FREQUENCY frame, which quic-events does not define; the names are those that
/// quic-go writes.
fn ack_frequency(json: &mut Object<'_>, frame: &AckFrequency) {
    json.number("sequence_number", frame.sequence);
    json.number("ack_eliciting_threshold", frame.ack_eliciting_threshold);
    json.milliseconds("request_max_ack_delay", Duration::from_micros(frame.max_ack_delay.get()));
    json.number("reordering_threshold", frame.reordering_threshold);
}

/// Leaves out the stateless reset token: a reader of the log must not be able to end the
/// connection.
fn new_connection_id(json: &mut Object<'_>, frame: &NewConnectionId) {
    json.number("sequence_number", frame.sequence);
    json.number("retire_prior_to", frame.retire_prior_to);
    json.hex("connection_id", frame.id.as_bytes());
}

fn connection_close(json: &mut Object<'_>, frame: &ConnectionClose<'_>) {
    match frame.kind {
        CloseKind::Transport { .. } => {
            json.text("error_space", "transport");
            closing::transport_error(json, "error", TransportErrorCode(frame.error_code));
        }
        CloseKind::Application => {
            json.text("error_space", "application");
            closing::unknown_error(json, "error", frame.error_code);
        }
    }
    match core::str::from_utf8(frame.reason) {
        Ok(reason) => json.text("reason", reason),
        Err(_) => json.hex("reason_bytes", frame.reason),
    }
    if let CloseKind::Transport { frame_type } = frame.kind
        && frame_type != VarInt::ZERO
    {
        json.number("trigger_frame_type", frame_type);
    }
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
