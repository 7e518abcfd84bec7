//! Converts the data of events of early drafts to the layout of version 0.3.

use serde_json::{Map, Value, json};

use super::names::word;

/// The members that are read as unsigned integers. Other values ("TODO" in version 0.1) are left
/// out.
const NUMBERS: [&str; 11] = [
    "packet_number",
    "packet_size",
    "payload_length",
    "length",
    "offset",
    "stream_id",
    "maximum",
    "limit",
    "ect0",
    "ect1",
    "ce",
];
/// The members that are durations, in the unit that the trace's header states.
const DURATIONS: [&str; 7] =
    ["ack_delay", "min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance", "delta", "initial_rtt"];

/// Returns a number, which may be written as a string.
pub(super) fn decimal(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    number.filter(|number: &f64| number.is_finite())
}

/// Converts the data of the event that version 0.3 calls `name` and its draft calls `event`.
/// `scale` converts durations to milliseconds.
pub(super) fn modern(
    name: &str,
    event: &str,
    mut data: Map<String, Value>,
    trigger: Option<&str>,
    scale: f64,
) -> Map<String, Value> {
    // Some drafts have a separate column for the trigger.
    if let Some(trigger) = trigger.map(word).filter(|it| !matches!(&**it, "default" | "line")) {
        data.entry("trigger").or_insert_with(|| json!(trigger));
    }
    match name {
        "transport:packet_sent"
        | "transport:packet_received"
        | "transport:packet_dropped"
        | "recovery:packet_lost" => packet(&mut data, scale),
        "recovery:metrics_updated" => {
            rename(&mut data, &["cwnd", "current_cwnd"], "congestion_window");
            rename(&mut data, &["rttvar"], "rtt_variance");
            rename(&mut data, &["mrtt"], "min_rtt");
        }
        "recovery:loss_timer_updated" => timer(&mut data, event),
        "transport:parameters_set" => {
            rename(&mut data, &["idle_timeout"], "max_idle_timeout");
            rename(&mut data, &["max_packet_size"], "max_udp_payload_size");
        }
        "connectivity:connection_closed" => {
            rename(&mut data, &["error", "error_code"], "connection_code");
        }
        "recovery:congestion_state_updated" | "connectivity:connection_state_updated" => {
            rename(&mut data, &["state", "update"], "new");
            lower(&mut data, "new");
        }
        _ => {}
    }
    in_milliseconds(&mut data, scale);
    data
}

/// Gives a member its later name.
fn rename(data: &mut Map<String, Value>, old: &[&str], new: &str) {
    for old in old {
        if let Some(value) = data.remove(*old) {
            data.entry(new).or_insert(value);
        }
    }
}

fn lower(data: &mut Map<String, Value>, name: &str) {
    if let Some(Value::String(text)) = data.get_mut(name) {
        *text = word(text);
    }
}

fn in_milliseconds(data: &mut Map<String, Value>, scale: f64) {
    for name in DURATIONS {
        if let Some(value) = data.get_mut(name) {
            *value = decimal(value).map_or(Value::Null, |number| json!(number * scale));
        }
    }
}

/// Removes members that should be numbers but are not. Hexadecimal numbers are converted.
fn check_numbers(data: &mut Map<String, Value>) {
    for name in NUMBERS {
        let Some(value) = data.get_mut(name) else { continue };
        if let Value::String(text) = value {
            let hexadecimal = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
            let number = hexadecimal.unwrap_or_else(|| text.trim().parse());
            *value = number.map_or(Value::Null, |number| json!(number));
        }
        if !value.is_number() {
            data.remove(name);
        }
    }
}

fn packet(data: &mut Map<String, Value>, scale: f64) {
    // mvfst logs a single event for several lost packets, which carried data. Version 0.1 has the
    // packet number under another name.
    if data.contains_key("largest_lost_packet_num") {
        data.entry("packet_type").or_insert_with(|| json!("1RTT"));
    }
    rename(data, &["largest_lost_packet_num", "packet_nr", "packet_num"], "packet_number");
    rename(data, &["drop_reason"], "trigger");
    lower(data, "trigger");
    let mut header = match data.remove("header") {
        Some(Value::Object(header)) => header,
        _ => Map::new(),
    };
    check_numbers(&mut header);
    check_numbers(data);
    for name in ["packet_type", "type"] {
        if let Some(value) = data.remove(name) {
            header.entry("packet_type").or_insert(value);
        }
    }
    rename(&mut header, &["type"], "packet_type");
    if let Some(number) = data.remove("packet_number") {
        header.entry("packet_number").or_insert(number);
    }
    if header.remove("form").is_some_and(|form| form == "short") {
        header.entry("packet_type").or_insert_with(|| json!("1RTT"));
    }
    if let Some(Value::String(name)) = header.get_mut("packet_type") {
        *name = packet_type(name);
    }
    // The length of the whole packet. In some drafts `raw` contains its bytes.
    let length = header.remove("packet_size").or_else(|| data.remove("packet_size"));
    let length = length.or_else(|| data.remove("raw_length"));
    if !data.get("raw").is_some_and(Value::is_object) {
        data.remove("raw");
    }
    if let Some(length) = length {
        let raw = data.entry("raw").or_insert_with(|| json!({}));
        if let Value::Object(raw) = raw {
            raw.entry("length").or_insert(length);
        }
    }
    data.insert("header".to_owned(), header.into());
    if let Some(Value::Array(frames)) = data.remove("frames") {
        let frames = frames.into_iter().filter_map(|it| frame(it, scale)).map(Value::Object);
        data.insert("frames".to_owned(), frames.collect());
    }
}

fn packet_type(name: &str) -> String {
    let name = word(name);
    let name = match name.as_str() {
        "0rtt" | "zerortt" | "0_rtt_protected" | "0_rtt" => "0RTT",
        "1rtt" | "onertt" | "1_rtt" | "short" => "1RTT",
        other => other,
    };
    name.to_owned()
}

/// Converts a frame. `None` if it is not an object with a type.
fn frame(frame: Value, scale: f64) -> Option<Map<String, Value>> {
    let Value::Object(members) = frame else { return None };
    let mut frame = Map::new();
    let (whole, dotted): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|(name, _)| !name.contains('.'));
    frame.extend(whole);
    // Version 0.1 uses the names of a packet dissector: "frame_type.crypto.offset".
    for (name, value) in dotted {
        let short = name.rsplit('.').next().unwrap_or_default();
        frame.entry(short).or_insert(value);
    }
    // draft-00 uses this name for the types of some frames.
    let name = frame.get("frame_type").or_else(|| frame.get("stream_type"))?.as_str()?;
    let (name, is_of_application) = frame_type(name);
    if is_of_application {
        frame.entry("error_space").or_insert_with(|| json!("application"));
    }
    frame.insert("frame_type".to_owned(), json!(name));
    if name.contains("stream") || name == "stop_sending" {
        rename(&mut frame, &["id"], "stream_id");
    }
    rename(&mut frame, &["len"], "length");
    rename(&mut frame, &["off"], "offset");
    rename(&mut frame, &["maximum_data", "max_streams"], "maximum");
    rename(&mut frame, &["data_limit", "stream_limit"], "limit");
    rename(&mut frame, &["reason_phrase"], "reason");
    if name == "ack" {
        acknowledged(&mut frame);
    }
    check_numbers(&mut frame);
    in_milliseconds(&mut frame, scale);
    Some(frame)
}

/// Returns the name of a frame type, and whether it is a CONNECTION_CLOSE frame with an application
/// error.
fn frame_type(name: &str) -> (String, bool) {
    let name = word(name);
    let later = match name.as_str() {
        "rst_stream" => "reset_stream",
        "application_close" | "connection_close_app_err" | "connection_close_app" => {
            return ("connection_close".to_owned(), true);
        }
        "blocked" => "data_blocked",
        "stream_blocked" => "stream_data_blocked",
        "stream_id_blocked" | "streams_blocked_bidi" | "streams_blocked_uni" => "streams_blocked",
        "max_stream_id" | "max_streams_bidi" | "max_streams_uni" => "max_streams",
        "crypto_frame" => "crypto",
        "ack_ecn" => "ack",
        "handshake_done_frame" => "handshake_done",
        other => other,
    };
    (later.to_owned(), false)
}

/// Converts the first range of an ACK frame, which version 0.1 writes as the Largest Acknowledged
/// packet number and the length of the range.
fn acknowledged(frame: &mut Map<String, Value>) {
    if frame.contains_key("acked_ranges") {
        return;
    }
    let number = |name: &str| frame.get(name).and_then(decimal);
    if let Some(largest) = number("largest_acknowledged") {
        let first = largest - number("fab").unwrap_or_default();
        frame.insert("acked_ranges".to_owned(), json!([[first.max(0.0) as u64, largest as u64]]));
    }
}

fn timer(data: &mut Map<String, Value>, event: &str) {
    let event = word(event);
    let is_set = event.ends_with("_set") || event.ends_with("_armed");
    if !event.ends_with("_updated") {
        data.entry("event_type").or_insert_with(|| json!(if is_set { "set" } else { "expired" }));
    }
    rename(data, &["timeout", "alarm_duration"], "delta");
    rename(data, &["type", "alarm_type"], "timer_type");
    lower(data, "timer_type");
    // Other timers of loss detection are ACK timers in version 0.3.
    if let Some(Value::String(timer)) = data.get_mut("timer_type")
        && timer != "ack"
    {
        "pto".clone_into(timer);
    }
}
