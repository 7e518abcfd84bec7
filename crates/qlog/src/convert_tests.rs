use std::io::Cursor;

use serde_json::{Value, json};

use super::{ConvertError, convert};
use crate::read::{EventKind, Item, QlogReader, Records, VantagePoint};

const HEADER: &str = r#"{"file_schema":"urn:ietf:params:qlog:file:sequential","serialization_format":"application/qlog+json-seq","title":"t","trace":{"event_schemas":["urn:ietf:params:qlog:events:quic-13"]}}"#;

fn converted(events: &[&str]) -> (Vec<Value>, super::Conversion, Vec<u8>) {
    let lines: Vec<&str> = core::iter::once(HEADER).chain(events.iter().copied()).collect();
    let reader = Records::new(Cursor::new(lines.join("\n").into_bytes())).unwrap();
    let mut output = Vec::new();
    let conversion = convert(reader, &mut output).unwrap();
    let text = String::from_utf8(output.clone()).unwrap();
    let records = text.split('\u{1e}').skip(1);
    (records.map(|record| serde_json::from_str(record).unwrap()).collect(), conversion, output)
}

#[test]
fn the_header_is_the_one_that_qvis_requires() {
    let (records, conversion, _) = converted(&[
        r#"{"time":5,"name":"quic:packet_received","data":{"header":{"packet_type":"initial","packet_number":0}}}"#,
        r#"{"time":6.5,"name":"clearway:suppressors_updated","data":{"suppressors":[]}}"#,
    ]);
    assert_eq!(records[0]["qlog_version"], "0.3");
    assert_eq!(records[0]["qlog_format"], "JSON-SEQ");
    assert_eq!(records[0]["trace"]["vantage_point"]["type"], "server");
    assert_eq!(records[0]["trace"]["common_fields"]["time_format"], "relative");
    assert_eq!(records[1]["name"], "transport:packet_received");
    assert_eq!(records[1]["time"], 0.0);
    assert_eq!((records.len(), conversion.written), (2, 1));
    assert_eq!(conversion.reading.unused.get("clearway:suppressors_updated"), Some(&1));
}

#[test]
fn data_has_the_layout_of_version_0_3() {
    let (records, ..) = converted(&[
        r#"{"time":1,"name":"quic:packet_sent","data":{"header":{"packet_type":"1RTT","packet_number":9},"raw":{"length":1200},"frames":[{"frame_type":"ack","acked_ranges":[[3],[5,7]]},{"frame_type":"stream","stream_id":0,"offset":0,"raw":{"payload_length":1000}}]}}"#,
        r#"{"time":2,"name":"quic:parameters_set","data":{"initiator":"remote","max_idle_timeout":1}}"#,
        r#"{"time":3,"name":"quic:timer_updated","data":{"timer_type":"pacing","event_type":"set"}}"#,
        r#"{"time":4,"name":"quic:recovery_metrics_updated","data":{"congestion_window":1}}"#,
    ]);
    let frames = &records[1]["data"]["frames"];
    assert_eq!(frames[0]["acked_ranges"], json!([[3, 3], [5, 7]]));
    assert_eq!(frames[1]["length"], 1000);
    assert_eq!(records[2]["name"], "transport:parameters_set");
    assert_eq!(records[2]["data"]["owner"], "remote");
    assert_eq!(records[3]["name"], "recovery:metrics_updated");
    assert_eq!(records[3]["time"], 3.0);
    assert_eq!(records.len(), 4);
}

#[test]
fn a_converted_file_reads_like_the_original() {
    let (_, _, output) = converted(&[
        r#"{"time":1,"name":"quic:congestion_state_updated","data":{"new":"recovery"}}"#,
        r#"{"time":2,"name":"quic:packet_sent","data":{"header":{"packet_type":"1RTT","packet_number":9}}}"#,
    ]);
    let mut reader = QlogReader::new(Cursor::new(output)).unwrap();
    let events = reader.by_ref().filter(|item| {
        matches!(item, Item::Event(event) if matches!(event.kind, EventKind::CongestionState(_) | EventKind::PacketSent(_)))
    });
    assert_eq!(events.count(), 2);
    assert_eq!(reader.reading().dialect, "0.3");
    assert_eq!(reader.reading().vantage_point, VantagePoint::Client);
}

/// Converts a trace with these common fields, and returns the common fields of the result.
fn converted_fields(fields: &str, time: &str) -> Value {
    let file = format!(
        r#"{{"qlog_version":"0.3","trace":{{"common_fields":{fields}}}}}
{{"time":{time},"name":"transport:packet_sent","data":{{}}}}
{{"time":{time},"name":"transport:packet_sent","data":{{}}}}"#
    );
    let mut output = Vec::new();
    convert(Records::new(Cursor::new(file.into_bytes())).unwrap(), &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    let header: Value = serde_json::from_str(text.split('\u{1e}').nth(1).unwrap()).unwrap();
    header["trace"]["common_fields"].clone()
}

#[test]
fn the_names_of_the_connection_and_the_reference_time_are_kept() {
    let fields = converted_fields(
        r#"{"ODCID":"4719ebb0","group_id":"4719EBB0","reference_time":1645291798012.75}"#,
        "0.25",
    );
    let expected = json!({
        "ODCID": "4719ebb0",
        "group_id": "4719EBB0",
        "time_format": "relative",
        "reference_time": 1_645_291_798_013.0,
    });
    assert_eq!(fields, expected);
    // Absolute times need no reference time. From draft 10 on, the reference time is a string.
    let absolute = converted_fields("{}", "1645291798013");
    assert_eq!(absolute["reference_time"], 1_645_291_798_013.0);
    let text = r#"{"reference_time":{"clock_type":"system","epoch":"2022-02-19T17:29:58.012Z"}}"#;
    assert_eq!(converted_fields(text, "1")["reference_time"], 1_645_291_798_013.0);
    assert_eq!(converted_fields(r#"{"reference_time":0}"#, "1")["reference_time"], 0.0);
}

#[test]
fn a_file_without_events_is_not_converted() {
    let fails = |file: &str| {
        let mut output = Vec::new();
        let reader = Records::new(Cursor::new(file.as_bytes().to_vec())).unwrap();
        let error = convert(reader, &mut output).unwrap_err();
        assert!(matches!(error, ConvertError::NoEvents { .. }), "{error:?}");
        assert_eq!(output, b"");
        error.to_string()
    };
    assert_eq!(
        fails(r#"{"qlog_version":"0.4","traces":[]}"#),
        "the file contains no events (read as 0.4)"
    );
    assert_eq!(
        fails(
            r#"{"qlog_version":"0.3","traces":[{"events":[{"time":1,"name":"a:b","data":{}}]}]}"#
        ),
        "no events that qlog 0.3 defines (read as 0.3); other events: 1 (a:b)"
    );
    assert_eq!(
        fails(r#"{"qlog_version":"0.3","traces":[{"events":[{"time":1"#),
        "the file contains no events (read as 0.3); the file is damaged: the data is truncated at byte 52"
    );
}
