use serde_json::{Value, json};

use super::{EarlyEvent, early_event};
use crate::read::layout::Layout;

fn layout(header: &str) -> Layout {
    Layout::of_header(header.as_bytes()).unwrap()
}

fn event(header: &str, json: &str) -> EarlyEvent {
    early_event(json.as_bytes(), &layout(header)).unwrap().unwrap()
}

/// picoquic writes this in 2026.
const PICOQUIC: &str = r#"{"event_fields":["relative_time","category","event","data"],"configuration":{"time_units":"us"}}"#;

#[test]
fn times_in_microseconds_become_milliseconds() {
    let metrics = r#"[250500,"recovery","metrics_updated",{"cwnd":12000,"smoothed_rtt":105512,"latest_rtt":"2500"}]"#;
    let event = event(PICOQUIC, metrics);
    assert_eq!((event.time.0, event.name.as_str()), (250.5, "recovery:metrics_updated"));
    let expected = json!({"congestion_window": 12000, "smoothed_rtt": 105.512, "latest_rtt": 2.5});
    assert_eq!(event.data, expected);
}

#[test]
fn packets_and_frames_get_their_later_layout() {
    let event = event(
        PICOQUIC,
        r#"[1,"transport","packet_received",{"packet_type":"1RTT","header":{"packet_size":55,"packet_number":303},
            "frames":[{"frame_type":"ack","ack_delay":882,"acked_ranges":[[530,539]]},
                      {"frame_type":"stream","id":4,"offset":7,"length":9,"fin":true}]}]"#,
    );
    let expected = json!({
        "header": {"packet_type": "1RTT", "packet_number": 303},
        "raw": {"length": 55},
        "frames": [
            {"frame_type": "ack", "ack_delay": 0.882, "acked_ranges": [[530, 539]]},
            {"frame_type": "stream", "stream_id": 4, "offset": 7, "length": 9, "fin": true},
        ],
    });
    assert_eq!(event.data, expected);
}

#[test]
fn names_in_upper_case_and_triggers_in_a_column_are_read() {
    let header = r#"{"event_fields":["relative_time","CATEGORY","EVENT_TYPE","TRIGGER","DATA"]}"#;
    let lost = event(
        header,
        r#"["12","RECOVERY","PACKET_LOST","TIME_THRESHOLD",{"packet_type":"1RTT","packet_number":"5"}]"#,
    );
    assert_eq!((lost.time.0, lost.name.as_str()), (12.0, "recovery:packet_lost"));
    assert_eq!(lost.data["trigger"], "time_threshold");
    assert_eq!(lost.data["header"], json!({"packet_type": "1RTT", "packet_number": 5}));
    let sent = event(
        header,
        r#"[0,"TRANSPORT","PACKET_SENT","DEFAULT",{"packet_type":"INITIAL","header":{"packet_number":0},"frames":[{"frame_type":"STREAM","id":"4","offset":"0","length":"10"},{"stream_type":"MAX_DATA","maximum":"9"}]}]"#,
    );
    assert_eq!(sent.data.get("trigger"), None);
    assert_eq!(sent.data["header"]["packet_type"], "initial");
    assert_eq!(
        sent.data["frames"],
        json!([
            {"frame_type": "stream", "stream_id": 4, "offset": 0, "length": 10},
            {"frame_type": "max_data", "stream_type": "MAX_DATA", "maximum": 9},
        ])
    );
}

#[test]
fn the_first_version_is_read() {
    let header = r#"{"fields":["time","category","type","trigger","data"]}"#;
    let received = event(
        header,
        r#"[3,"TRANSPORT","PACKET_RX","LINE",{"raw_encrypted":"TODO","header":{"form":"short","payload_length":"TODO","packet_number":"2"},
            "frames":[{"frame_type":"CRYPTO","frame_type.crypto.offset":"0","frame_type.crypto.length":"995"},
                      {"frame_type":"ACK","frame_type.ack.largest_acknowledged":"7","frame_type.ack.fab":"2"},
                      {"frame_type":"APPLICATION_CLOSE","frame_type.ac.error_code":"3"}]}]"#,
    );
    assert_eq!(received.name, "transport:packet_received");
    assert_eq!(received.data["header"], json!({"packet_number": 2, "packet_type": "1RTT"}));
    let frames = &received.data["frames"];
    assert_eq!(frames[0], json!({"frame_type": "crypto", "offset": 0, "length": 995}));
    assert_eq!(frames[1]["acked_ranges"], json!([[5, 7]]));
    assert_eq!(frames[2]["frame_type"], "connection_close");
    assert_eq!(frames[2]["error_space"], "application");
    let begun = event(header, r#"[0,"CONNECTIVITY","NEW CONNECTION","LINE",{}]"#);
    assert_eq!(begun.name, "connectivity:connection_started");
}

#[test]
fn columns_that_the_header_does_not_name_are_guessed() {
    let read = |json: &str| early_event(json.as_bytes(), &Layout::default()).unwrap().unwrap();
    let expected = ("transport:packet_sent".to_owned(), 5.0);
    for json in [
        r#"[5,"transport:packet_sent",{}]"#,
        r#"[5,"transport","packet_sent",{}]"#,
        r#"["5","TRANSPORT","PACKET_SENT","DEFAULT",{}]"#,
    ] {
        let event = read(json);
        assert_eq!((event.name, event.time.0), expected, "{json}");
    }
}

/// draft-02 allows a category and a type in place of a name.
#[test]
fn events_that_are_objects_may_have_a_category_and_a_type() {
    let json = r#"{"time":5,"category":"transport","type":"packet_sent","data":{}}"#;
    let event = early_event(json.as_bytes(), &Layout::default()).unwrap().unwrap();
    assert_eq!((event.time.0, event.name.as_str()), (5.0, "transport:packet_sent"));
}

#[test]
fn what_is_no_event_is_left_out() {
    for json in ["[]", "[1]", "{}", "7", "null", r#"["","","",{}]"#] {
        assert_eq!(early_event(json.as_bytes(), &layout(PICOQUIC)).unwrap(), None, "{json}");
    }
    assert!(early_event(b"[1,", &layout(PICOQUIC)).is_err());
}

#[test]
fn groups_may_be_values_of_any_type() {
    let header = r#"{"event_fields":["delta_time","group_id","category","event","data"]}"#;
    let event = event(header, r#"[5,{"ip1":"192.0.2.1"},"transport","packet_sent",{}]"#);
    assert_eq!(event.group.as_deref(), Some(r#"{"ip1":"192.0.2.1"}"#));
    assert!(event.is_since_previous);
    assert_eq!(event.data["header"], Value::Object(serde_json::Map::new()));
}
