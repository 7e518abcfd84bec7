use serde_json::{Map, Value, json};

/// Converts the data of the event `name` to the layout of version 0.3. `None` if version 0.3 cannot
/// represent it.
pub(super) fn old_data(name: &str, mut data: Map<String, Value>) -> Option<Map<String, Value>> {
    rename(&mut data, "initiator", "owner");
    match name {
        "transport:packet_sent" | "transport:packet_received" | "recovery:packet_lost" => {
            if let Some(Value::Array(frames)) = data.get_mut("frames") {
                frames.iter_mut().for_each(frame);
            }
        }
        "transport:data_moved" => {
            if let Some(length) = length(&data) {
                data.entry("length").or_insert(length);
            }
        }
        // Version 0.3 defines only loss detection timers.
        "recovery:loss_timer_updated" => match data.get("timer_type").and_then(Value::as_str) {
            Some("ack" | "loss_timeout") => {
                data.insert("timer_type".to_owned(), json!("ack"));
            }
            Some("pto") | None => {}
            Some(_) => return None,
        },
        "connectivity:connection_closed" => {
            rename(&mut data, "connection_error", "connection_code");
            rename(&mut data, "application_error", "application_code");
        }
        _ => {}
    }
    Some(data)
}

fn rename(data: &mut Map<String, Value>, new: &str, old: &str) {
    if let Some(value) = data.remove(new) {
        data.entry(old).or_insert(value);
    }
}

/// Returns the length of a frame's data, or of data that moved between layers. In the drafts, it is
/// a member of `raw`.
fn length(data: &Map<String, Value>) -> Option<Value> {
    let raw = data.get("raw")?;
    raw.get("payload_length").or_else(|| raw.get("length")).cloned()
}

fn frame(frame: &mut Value) {
    let Value::Object(frame) = frame else { return };
    match frame.get("frame_type").and_then(Value::as_str) {
        Some("stream" | "crypto" | "datagram") => {
            if let Some(length) = length(frame) {
                frame.entry("length").or_insert(length);
            }
        }
        Some("ack") => {
            // In version 0.3, a range of one packet has both a first and a last number.
            if let Some(Value::Array(ranges)) = frame.get_mut("acked_ranges") {
                for range in ranges.iter_mut().filter_map(Value::as_array_mut) {
                    if let [only] = range.as_slice() {
                        range.push(only.clone());
                    }
                }
            }
        }
        Some("connection_close") => rename(frame, "error", "error_code"),
        _ => {}
    }
}
