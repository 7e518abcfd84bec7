//! Scripts made from clients' qlog files.

use core::fmt;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::quic::{CloseLayer, Frame, Level, Packet, Way};
use crate::script::{Condition, Connect, Field, Script, Step};
use crate::{Data, Quantity};

/// The longest pause between two steps of a script, in milliseconds.
const MAX_PAUSE: f64 = 10_000.0;
/// Minimum length of pauses to replay, in milliseconds; shorter ones are omitted.
const MIN_PAUSE: f64 = 20.0;
/// Maximum number of steps of a script.
const MAX_STEPS: usize = 100_000;

/// Maximum number of request streams on which a script waits for responses.
const MAX_ANSWERS: usize = 1000;

/// The reason why no script can be made from a qlog file.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file is not in qlog's JSON text sequence format.
    NotQlog,
    /// The file was recorded by a server.
    NotOfClient,
    /// The file has neither packets with data nor HTTP/3 frames after the handshake.
    NothingSent,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotQlog => "not a qlog file of JSON text sequences (.sqlog)",
            Self::NotOfClient => "the qlog file was recorded by a server; use one from a client",
            Self::NothingSent => {
                "the qlog file has neither frames with their data (raw.data) nor HTTP/3 frames (http3:frame_created)"
            }
        })
    }
}

impl std::error::Error for ReplayError {}

/// Returns a script that sends what the client in a qlog file sent after the handshake.
///
/// Stream data comes from the frames of `packet_sent` events if they have data (`raw.data`, as in the probe's own
/// files), and otherwise from HTTP/3's `frame_created` and `stream_type_set` events, where the content of DATA
/// frames is replaced by zeros. Acknowledgments and frames that depend on the connection are left out.
///
/// # Errors
/// If the file is not qlog, not of a client, or has nothing to send.
pub fn replay(file: &str) -> Result<Script, ReplayError> {
    let records = file.split(['\u{1e}', '\n']).map(str::trim).filter(|record| !record.is_empty());
    let mut records = records.filter_map(|record| serde_json::from_str::<Value>(record).ok());
    let header = records.next().ok_or(ReplayError::NotQlog)?;
    let trace = header.get("trace").ok_or(ReplayError::NotQlog)?;
    let role = trace.pointer("/vantage_point/type").and_then(Value::as_str);
    if role == Some("server") {
        return Err(ReplayError::NotOfClient);
    }
    let events: Vec<Value> = records.collect();
    let has_data = events.iter().filter(|event| is(event, "packet_sent")).any(has_stream_data);
    let connect = Connect { http3: false, ..Connect::default() };
    let mut script = Script { connect, steps: Vec::new() };
    let mut last_time = None;
    for event in &events {
        let steps = if is(event, "packet_sent") {
            packet(event, has_data).into_iter().collect()
        } else if !has_data && is(event, "frame_created") {
            http3_frame(event).into_iter().collect()
        } else if !has_data && is(event, "stream_type_set") {
            stream_type(event).into_iter().collect()
        } else {
            Vec::new()
        };
        if steps.is_empty() || script.steps.len() >= MAX_STEPS {
            continue;
        }
        let time = event.get("time").and_then(Value::as_f64).unwrap_or(0.0);
        let pause = (time - last_time.unwrap_or(time)).clamp(0.0, MAX_PAUSE);
        if pause >= MIN_PAUSE {
            script.steps.push(Step::Wait { until: None, milliseconds: pause as u64 });
        }
        last_time = Some(time);
        script.steps.extend::<Vec<Step>>(steps);
    }
    if script.steps.is_empty() {
        return Err(ReplayError::NothingSent);
    }
    Ok(answers(script))
}

/// Adds steps that wait for responses on the request streams that the client has finished.
fn answers(script: Script) -> Script {
    let finished = |frame: &Frame| match frame {
        Frame::Stream { stream, fin: true, .. } => stream.constant(),
        _ => None,
    };
    let streams: BTreeSet<u64> = script
        .steps
        .iter()
        .flat_map(|step| match step {
            Step::Packets { packets } => {
                packets.iter().flat_map(|packet| &packet.frames).filter_map(finished).collect()
            }
            Step::Headers { stream, fin: true, .. } => vec![*stream],
            _ => Vec::new(),
        })
        .filter(|stream| stream & 3 == 0)
        .take(MAX_ANSWERS)
        .collect();
    // The client closed the connection after the answers had arrived.
    let mut script = script;
    let end = script.steps.iter().position(closes).unwrap_or(script.steps.len());
    let close = script.steps.split_off(end);
    let script = script.wait(Condition::Acknowledged {});
    let mut script = streams
        .into_iter()
        .fold(script, |script, stream| script.wait(Condition::Finished { stream }));
    script.steps.extend(close);
    script
}

/// Returns whether a step closes the connection.
fn closes(step: &Step) -> bool {
    let is_close = |frame: &Frame| matches!(frame, Frame::ConnectionClose { .. });
    match step {
        Step::Packets { packets } => packets.iter().flat_map(|packet| &packet.frames).any(is_close),
        _ => false,
    }
}

/// Returns whether an event has this name, in any namespace.
fn is(event: &Value, name: &str) -> bool {
    let full = event.get("name").and_then(Value::as_str).unwrap_or_default();
    full.rsplit(':').next() == Some(name)
}

fn has_stream_data(event: &Value) -> bool {
    frames(event)
        .iter()
        .any(|frame| text(frame, "/frame_type") == Some("stream") && raw(frame).is_some())
}

fn frames(event: &Value) -> &[Value] {
    event.pointer("/data/frames").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// Returns an integer, which qlog may represent as a string.
fn number(value: &Value, pointer: &str) -> Option<u64> {
    let value = value.pointer(pointer)?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn hex(value: &Value, pointer: &str) -> Option<Data> {
    format!("hex:{}", text(value, pointer)?).parse().ok()
}

/// Returns the data of a frame.
fn raw(frame: &Value) -> Option<Data> {
    hex(frame, "/raw/data")
}

/// Returns the 1-RTT packet of an event, without the frames that cannot be replayed.
fn packet(event: &Value, has_data: bool) -> Option<Step> {
    if !matches!(text(event, "/data/header/packet_type"), Some("1RTT" | "0RTT")) {
        return None;
    }
    let frames: Vec<Frame> =
        frames(event).iter().filter_map(|value| frame(value, has_data)).collect();
    let packet = Packet::at(Level::OneRtt, frames);
    (!packet.frames.is_empty()).then(|| Step::Packets { packets: vec![packet] })
}

fn frame(value: &Value, has_data: bool) -> Option<Frame> {
    let field = |pointer| number(value, pointer).map(Quantity::new);
    let stream = || field("/stream_id");
    let way = || match text(value, "/stream_type") {
        Some("unidirectional") => Way::Uni,
        _ => Way::Bidi,
    };
    Some(match text(value, "/frame_type")? {
        "ping" => Frame::Ping {},
        "stream" if has_data => Frame::Stream {
            stream: stream()?,
            offset: field("/offset").unwrap_or_default(),
            data: raw(value).unwrap_or_default(),
            fin: value.get("fin").and_then(Value::as_bool).unwrap_or(false),
        },
        "reset_stream" => Frame::ResetStream {
            stream: stream()?,
            code: field("/error_code").unwrap_or_default(),
            final_size: field("/final_size")?,
        },
        "stop_sending" => {
            Frame::StopSending { stream: stream()?, code: field("/error_code").unwrap_or_default() }
        }
        "max_data" => Frame::MaxData { maximum: field("/maximum")? },
        "max_stream_data" => {
            Frame::MaxStreamData { stream: stream()?, maximum: field("/maximum")? }
        }
        "max_streams" => Frame::MaxStreams { way: way(), maximum: field("/maximum")? },
        "data_blocked" => Frame::DataBlocked { limit: field("/limit")? },
        "stream_data_blocked" => {
            Frame::StreamDataBlocked { stream: stream()?, limit: field("/limit")? }
        }
        "streams_blocked" => Frame::StreamsBlocked { way: way(), limit: field("/limit")? },
        "handshake_done" => Frame::HandshakeDone {},
        "path_challenge" => Frame::PathChallenge { data: hex(value, "/data")? },
        "new_connection_id" => Frame::NewConnectionId {
            sequence: field("/sequence_number")?,
            retire_prior_to: field("/retire_prior_to").unwrap_or_default(),
            id: hex(value, "/connection_id")?,
            token: hex(value, "/stateless_reset_token").unwrap_or_else(|| Data::zeros(16)),
        },
        "connection_close" => Frame::ConnectionClose {
            layer: match text(value, "/error_space") {
                Some("application" | "application_error") => CloseLayer::Application,
                _ => CloseLayer::Transport,
            },
            code: field("/error_code").unwrap_or_default(),
            frame_type: field("/trigger_frame_type").unwrap_or_default(),
            reason: text(value, "/reason").unwrap_or_default().into(),
        },
        "datagram" => Frame::Datagram { data: raw(value)? },
        "unknown" => Frame::Raw { bytes: raw(value)? },
        _ => return None,
    })
}

/// Returns the step for an HTTP/3 frame that the client created.
fn http3_frame(event: &Value) -> Option<Step> {
    let stream = number(event, "/data/stream_id")?;
    let frame = event.pointer("/data/frame")?;
    let empty = || Data::default();
    Some(match text(frame, "/frame_type")? {
        "headers" => {
            let headers = frame.get("headers")?.as_array()?;
            let field = |header: &Value| {
                Some(Field::new(text(header, "/name")?, text(header, "/value").unwrap_or_default()))
            };
            let fields: Vec<Field> = headers.iter().filter_map(field).collect();
            // A request without content ends here; one with content is ended by the script's author.
            let fin = fields
                .iter()
                .any(|field| field.name == ":method".into() && field.value == "GET".into());
            Step::Headers { stream, fields, literal: false, fin }
        }
        "data" => {
            let length =
                number(event, "/data/length").or_else(|| number(frame, "/raw/payload_length"));
            let payload = raw(frame)
                .unwrap_or_else(|| Data::zeros(usize::try_from(length.unwrap_or(0)).unwrap_or(0)));
            Step::Http3Frame { stream, kind: crate::http3::DATA, payload, fin: false }
        }
        "settings" => {
            let all =
                frame.get("settings").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let setting = |it: &Value| {
                Some((number(it, "/name_bytes").or_else(|| setting_id(it))?, number(it, "/value")?))
            };
            Step::Settings { stream, settings: all.iter().filter_map(setting).collect() }
        }
        "goaway" => {
            let payload = crate::http3::varints(&[number(frame, "/id")?]);
            Step::Http3Frame {
                stream,
                kind: crate::http3::GOAWAY,
                payload: payload.into(),
                fin: false,
            }
        }
        "cancel_push" => {
            let payload = crate::http3::varints(&[number(frame, "/push_id")?]);
            Step::Http3Frame {
                stream,
                kind: crate::http3::CANCEL_PUSH,
                payload: payload.into(),
                fin: false,
            }
        }
        "max_push_id" => {
            let payload = crate::http3::varints(&[number(frame, "/push_id")?]);
            Step::Http3Frame {
                stream,
                kind: crate::http3::MAX_PUSH_ID,
                payload: payload.into(),
                fin: false,
            }
        }
        "unknown" | "reserved" => {
            let kind = number(frame, "/frame_type_bytes")
                .or_else(|| number(frame, "/frame_type_value"))?;
            Step::Http3Frame { stream, kind, payload: raw(frame).unwrap_or_else(empty), fin: false }
        }
        _ => return None,
    })
}

/// Returns the identifier of a setting that is given by name.
fn setting_id(setting: &Value) -> Option<u64> {
    Some(match text(setting, "/name")? {
        "settings_qpack_max_table_capacity" => 0x01,
        "settings_max_field_section_size" => 0x06,
        "settings_qpack_blocked_streams" => 0x07,
        "settings_enable_connect_protocol" => 0x08,
        "settings_h3_datagram" => 0x33,
        _ => return None,
    })
}

/// Returns the step that opens a unidirectional stream of the client.
fn stream_type(event: &Value) -> Option<Step> {
    let stream = number(event, "/data/stream_id")?;
    let kind = match text(event, "/data/stream_type")? {
        "control" => crate::http3::CONTROL_STREAM,
        "qpack_encode" => crate::http3::ENCODER_STREAM,
        "qpack_decode" => crate::http3::DECODER_STREAM,
        "push" => crate::http3::PUSH_STREAM,
        _ => number(event, "/data/stream_type_bytes")?,
    };
    // Streams of the server are not the client's to open.
    (stream & 3 == 2).then(|| Step::OpenUni { stream, kind, data: Data::default(), fin: false })
}
