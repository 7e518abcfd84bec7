//! qlog files of runs, which use the names of draft-ietf-quic-qlog-quic-events, and scripts made
//! from qlog files.
//!
//! The frames in a file carry their data (`raw.data`), so that a run of the probe can be replayed exactly.

mod replay;

use serde_json::{Map, Value, json};

use crate::Quantity;
use crate::quic::{CloseLayer, Frame, PacketKind, PacketRecord, Role, Side, Way};
use crate::report::Report;
pub use replay::{ReplayError, replay};

/// The byte that begins each record (RFC 7464 §2.2).
const RECORD_SEPARATOR: char = '\u{1e}';

/// Returns the qlog file of a run: a JSON text sequence.
pub fn write(report: &Report) -> String {
    let vantage_point = match report.role {
        Role::Client => "client",
        Role::Server => "server",
    };
    let header = json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": "clearway probe",
        "trace": {
            "common_fields": {
                "time_format": "relative_to_epoch",
                "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
            },
            "vantage_point": { "name": "clearway-probe", "type": vantage_point },
            "event_schemas": ["urn:ietf:params:qlog:events:quic-13"],
        },
    });
    let events = report.record.packets.iter().map(event);
    let closed = report.close.as_ref().map(|close| {
        let (space, code) = match close.layer {
            CloseLayer::Transport => ("connection_error", "error_code"),
            CloseLayer::Application => ("application_error", "application_error"),
        };
        let data = json!({ space: close.name(), code: close.code, "reason": close.reason.to_string() });
        json!({ "time": close.time.as_secs_f64() * 1000.0, "name": "quic:connection_closed", "data": data })
    });
    let records = core::iter::once(header).chain(events).chain(closed);
    records.map(|record| format!("{RECORD_SEPARATOR}{record}\n")).collect()
}

fn event(packet: &PacketRecord) -> Value {
    let is_dropped = packet.side == Side::Received && packet.kind == PacketKind::Undecipherable;
    let name = match packet.side {
        Side::Sent => "quic:packet_sent",
        Side::Received if is_dropped => "quic:packet_dropped",
        Side::Received => "quic:packet_received",
    };
    let mut header = Map::new();
    header.insert("packet_type".to_owned(), packet_type(packet.kind).into());
    if let Some(number) = packet.number {
        header.insert("packet_number".to_owned(), number.into());
    }
    if let Some(phase) = packet.key_phase {
        header.insert("key_phase_bit".to_owned(), phase.into());
    }
    header.insert("dcid".to_owned(), hex(packet.destination.bytes()).into());
    if let Some(source) = &packet.source {
        header.insert("scid".to_owned(), hex(source.bytes()).into());
    }
    let mut data = json!({
        "header": header,
        "frames": packet.frames.iter().map(frame).collect::<Vec<_>>(),
        "raw": { "length": packet.size },
    });
    if let (Some(note), Some(data)) = (&packet.note, data.as_object_mut()) {
        data.insert("details".to_owned(), note.clone().into());
    }
    json!({ "time": packet.time.as_secs_f64() * 1000.0, "name": name, "data": data })
}

const fn packet_type(kind: PacketKind) -> &'static str {
    match kind {
        PacketKind::Initial => "initial",
        PacketKind::ZeroRtt => "0RTT",
        PacketKind::Handshake => "handshake",
        PacketKind::OneRtt => "1RTT",
        PacketKind::Retry => "retry",
        PacketKind::VersionNegotiation => "version_negotiation",
        PacketKind::StatelessReset => "stateless_reset",
        PacketKind::Raw | PacketKind::Undecipherable => "unknown",
    }
}

/// Returns a frame in the format of quic-events §8.13.
fn frame(frame: &Frame) -> Value {
    let mut value = fields(frame);
    if let Some(object) = value.as_object_mut() {
        let name = if matches!(frame, Frame::Raw { .. }) { "unknown" } else { frame.name() };
        object.insert("frame_type".to_owned(), name.into());
    }
    value
}

fn fields(frame: &Frame) -> Value {
    let number =
        |value: &Quantity| value.constant().map_or_else(|| value.to_string().into(), Value::from);
    let raw = |data: &crate::Data| json!({ "length": data.len(), "payload_length": data.len(), "data": hex(data.bytes()) });
    let way = |way: &Way| match way {
        Way::Bidi => "bidirectional",
        Way::Uni => "unidirectional",
    };
    match frame {
        Frame::Padding { length } => {
            json!({ "raw": { "length": length, "payload_length": length } })
        }
        Frame::Ping {} | Frame::HandshakeDone {} | Frame::ImmediateAck {} => json!({}),
        Frame::Ack { largest, delay, first_range, ranges, .. } => {
            let constant = |value: &Quantity| value.constant().unwrap_or(0);
            let last = constant(largest);
            let mut first = last.saturating_sub(constant(first_range));
            let mut acked = vec![json!([first, last])];
            for range in ranges {
                let last = first.saturating_sub(constant(&range.gap)).saturating_sub(2);
                first = last.saturating_sub(constant(&range.length));
                acked.push(json!([first, last]));
            }
            acked.reverse();
            json!({ "ack_delay": number(delay), "acked_ranges": acked })
        }
        Frame::ResetStream { stream, code, final_size } => {
            json!({ "stream_id": number(stream), "error_code": number(code), "final_size": number(final_size) })
        }
        Frame::ResetStreamAt { stream, code, final_size, reliable_size } => json!({
            "stream_id": number(stream), "error_code": number(code),
            "final_size": number(final_size), "reliable_size": number(reliable_size),
        }),
        Frame::StopSending { stream, code } => {
            json!({ "stream_id": number(stream), "error_code": number(code) })
        }
        Frame::Crypto { offset, data } => json!({ "offset": number(offset), "raw": raw(data) }),
        Frame::NewToken { token } => json!({ "token": { "raw": raw(token) } }),
        Frame::Stream { stream, offset, data, fin } => json!({
            "stream_id": number(stream), "offset": number(offset), "fin": fin, "raw": raw(data),
        }),
        Frame::MaxData { maximum } => json!({ "maximum": number(maximum) }),
        Frame::MaxStreamData { stream, maximum } => {
            json!({ "stream_id": number(stream), "maximum": number(maximum) })
        }
        Frame::MaxStreams { way: it, maximum } => {
            json!({ "stream_type": way(it), "maximum": number(maximum) })
        }
        Frame::DataBlocked { limit } => json!({ "limit": number(limit) }),
        Frame::StreamDataBlocked { stream, limit } => {
            json!({ "stream_id": number(stream), "limit": number(limit) })
        }
        Frame::StreamsBlocked { way: it, limit } => {
            json!({ "stream_type": way(it), "limit": number(limit) })
        }
        Frame::NewConnectionId { sequence, retire_prior_to, id, token } => json!({
            "sequence_number": number(sequence), "retire_prior_to": number(retire_prior_to),
            "connection_id_length": id.len(), "connection_id": hex(id.bytes()),
            "stateless_reset_token": hex(token.bytes()),
        }),
        Frame::RetireConnectionId { sequence } => json!({ "sequence_number": number(sequence) }),
        Frame::PathChallenge { data } | Frame::PathResponse { data } => {
            json!({ "data": hex(data.bytes()) })
        }
        Frame::ConnectionClose { layer, code, frame_type, reason } => {
            let space = match layer {
                CloseLayer::Transport => "transport",
                CloseLayer::Application => "application",
            };
            json!({
                "error_space": space, "error_code": number(code), "trigger_frame_type": number(frame_type),
                "reason": reason.to_string(),
            })
        }
        Frame::Datagram { data } => json!({ "raw": raw(data) }),
        Frame::AckFrequency { sequence, threshold, max_ack_delay, reordering } => json!({
            "sequence_number": number(sequence), "ack_eliciting_threshold": number(threshold),
            "requested_max_ack_delay": number(max_ack_delay), "reordering_threshold": number(reordering),
        }),
        Frame::Raw { bytes } => json!({ "raw": raw(bytes) }),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "qlog_tests.rs"]
mod tests;
