use std::io::{Cursor, Read, Write};
use std::time::Duration;

use super::{
    Blocked, CongestionState, EventKind, Frame, Item, LossTrigger, MAX_RECORD_BYTES, MetricUnit,
    OpenError, PacketType, QlogReader, Reading, TimerEvent, VantagePoint,
};

const HEADER: &str = r#"{"file_schema":"urn:ietf:params:qlog:file:sequential","serialization_format":"application/qlog+json-seq","title":"a download","trace":{"vantage_point":{"name":"me","type":"server"},"event_schemas":["urn:ietf:params:qlog:events:quic-13"]}}"#;

fn reader(bytes: impl Into<Vec<u8>>) -> QlogReader {
    QlogReader::new(Cursor::new(bytes.into())).unwrap()
}

/// Returns all events, and the information about the trace at the end.
fn read(bytes: impl Into<Vec<u8>>) -> (Vec<(Duration, EventKind)>, Reading) {
    let mut reader = reader(bytes);
    let mut events = Vec::new();
    for item in reader.by_ref() {
        match item {
            Item::Event(event) => events.push((event.at, event.kind)),
            Item::Trace => panic!("there is one trace"),
        }
    }
    (events, reader.reading().clone())
}

fn sequence(events: &[&str]) -> String {
    let records = core::iter::once(&HEADER).chain(events);
    records.map(|record| format!("\u{1e}{record}\n")).collect()
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn pto(count: u64) -> EventKind {
    EventKind::Metrics(Box::new(super::Metrics { pto_count: Some(count), ..Default::default() }))
}

/// Three events as records of a sequence, as the drafts define it.
const EVENTS: [&str; 3] = [
    r#"{"time":1000.5,"name":"quic:recovery_metrics_updated","data":{"pto_count":1}}"#,
    r#"{"time":1002.5,"name":"quic:recovery_metrics_updated","data":{"pto_count":"2"}}"#,
    r#"{"time":1002.5,"name":"quic:key_discarded","data":{"key_type":"x"}}"#,
];

fn expected() -> Vec<(Duration, EventKind)> {
    vec![
        (Duration::ZERO, pto(1)),
        (ms(2), pto(2)),
        (ms(2), EventKind::Other("quic:key_discarded".into())),
    ]
}

#[test]
fn sequences_are_read_with_and_without_separators() {
    let separated = sequence(&EVENTS);
    for text in
        [separated.clone(), separated.replace('\u{1e}', ""), separated.replace('\n', "\r\n")]
    {
        let (events, reading) = read(text);
        assert_eq!(events, expected());
        assert_eq!(reading.title.as_deref(), Some("a download"));
        assert_eq!(reading.writer.as_deref(), Some("me"));
        assert_eq!(reading.vantage_point, VantagePoint::Server);
        assert_eq!(reading.dialect, "quic-13");
        assert_eq!((reading.events, reading.damage), (3, None));
        assert_eq!(
            reading.unused.into_iter().collect::<Vec<_>>(),
            [("quic:key_discarded".to_owned(), 1)]
        );
    }
}

#[test]
fn contained_json_is_read_in_any_layout() {
    let compact = format!(
        r#"{{"qlog_version":"0.3","qlog_format":"JSON","traces":[{{"common_fields":{{"time_format":"absolute"}},"events":[{}],"vantage_point":{{"type":"client"}}}}],"title":"late"}}"#,
        EVENTS.join(",")
    );
    let value: serde_json::Value = serde_json::from_str(&compact).unwrap();
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    for text in [compact.clone(), compact + "\n", pretty] {
        let (events, reading) = read(text);
        assert_eq!(events, expected());
        assert_eq!(reading.dialect, "0.3");
        assert_eq!(reading.vantage_point, VantagePoint::Client);
        assert_eq!(reading.title.as_deref(), Some("late"));
    }
}

#[test]
fn traces_are_read_one_after_the_other() {
    let trace = format!(r#"{{"title":"T","events":[{}]}}"#, EVENTS[0]);
    let contained = format!(r#"{{"qlog_version":"0.3","traces":[{trace},{trace}]}}"#);
    let appended = sequence(&EVENTS[..1]) + &sequence(&EVENTS[..1]);
    for text in [contained, appended] {
        let mut reader = reader(text);
        let event = Some(Item::Event(super::Event { at: Duration::ZERO, kind: pto(1) }));
        assert_eq!(reader.next(), event);
        assert_eq!(reader.next(), Some(Item::Trace));
        assert_eq!(reader.take_finished().map(|reading| reading.events), Some(1));
        assert_eq!(reader.next(), event);
        assert_eq!(reader.next(), None);
        assert_eq!(reader.reading().events, 1);
    }
}

#[test]
fn times_may_be_relative_to_the_previous_event() {
    let header = HEADER.replace(
        r#""trace":{"#,
        r#""trace":{"common_fields":{"time_format":"relative_to_previous_event"},"#,
    );
    let event = r#"{"time":2.5,"name":"quic:recovery_metrics_updated","data":{"pto_count":1}}"#;
    let text = format!("{header}\n{event}\n{event}\n{event}\n");
    let times: Vec<_> = read(text).0.into_iter().map(|(at, _)| at).collect();
    assert_eq!(times, [Duration::ZERO, Duration::from_micros(2500), ms(5)]);
}

#[test]
fn compressed_files() {
    let text = sequence(&EVENTS);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    assert_eq!(read(gzip.clone()).0, expected());
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let (first, second) = text.split_at(text.len() / 2);
    let mut zstandard = ruzstd::encoding::compress_to_vec(first.as_bytes(), level);
    zstandard.extend(ruzstd::encoding::compress_to_vec(second.as_bytes(), level));
    assert_eq!(read(zstandard).0, expected());

    let cut = gzip[..gzip.len() - 12].to_vec();
    let why = read(cut).1.damage.unwrap().why;
    assert!(why.contains("is truncated"), "{why}");
}

#[test]
fn damage_ends_reading_and_is_reported() {
    let text = sequence(&EVENTS);
    let end = text.len() - 20;
    let (events, reading) = read(&text.as_bytes()[..end]);
    assert_eq!(events, expected()[..2]);
    let damage = reading.damage.unwrap();
    assert_eq!(damage.why, "the last record is truncated");
    assert_eq!(damage.offset as usize, text.rfind('\u{1e}').unwrap() + 1);

    let broken = text.replacen("{\"time\":1002.5", "{\"tim#\":}1002", 1);
    let (events, reading) = read(broken);
    assert_eq!(events, expected()[..1]);
    assert!(reading.damage.unwrap().why.starts_with("unexpected record"));

    let contained = format!(
        r#"{{"qlog_version":"0.3","traces":[{{"events":[{},{}"#,
        EVENTS[0],
        &EVENTS[1][..30]
    );
    let (events, reading) = read(contained.clone());
    assert_eq!(events, expected()[..1]);
    let damage = reading.damage.unwrap();
    assert_eq!(
        (damage.why.as_str(), damage.offset as usize),
        ("the data is truncated", contained.len())
    );
}

#[test]
fn records_that_are_too_long_are_left_out() {
    let long = format!(
        r#"{{"time":1001,"name":"quic:x","data":{{"x":"{}"}}}}"#,
        "y".repeat(MAX_RECORD_BYTES * 3)
    );
    let text = sequence(&[EVENTS[0], &long, EVENTS[1], EVENTS[2]]);
    let contained = format!(
        r#"{{"qlog_version":"0.3","traces":[{{"events":[{},{long},{},{}]}}]}}"#,
        EVENTS[0], EVENTS[1], EVENTS[2]
    );
    for text in [text, contained] {
        let (events, reading) = read(text);
        assert_eq!(events, expected());
        assert_eq!(reading.unused.get("(records too long to read)"), Some(&1));
    }
}

#[test]
fn memory_does_not_grow_with_the_file() {
    let mut head = Some(Cursor::new(sequence(&[]).into_bytes()));
    let event = sequence(&EVENTS[..1]).split_off(HEADER.len() + 2);
    let body = Cursor::new(event.repeat(1000).into_bytes());
    let chained = head.take().unwrap().chain(body.clone()).chain(body.clone()).chain(body);
    let reader = QlogReader::new(chained).unwrap();
    assert_eq!(reader.count(), 3000);
}

#[test]
fn files_that_are_not_qlog_are_rejected() {
    let why = |bytes: &[u8]| QlogReader::new(Cursor::new(bytes.to_vec())).unwrap_err();
    assert!(matches!(why(b" \n "), OpenError::Empty));
    for bytes in
        [&b"GET / HTTP/1.1"[..], b"{}", b"{\"a\":[1,2]}\n{}", b"\x1e[]", b"{\"qlog_version"]
    {
        assert!(matches!(why(bytes), OpenError::NotQlog { .. }), "{bytes:?}");
    }
}

fn kind_of(name: &str, data: &str) -> EventKind {
    let event = format!(r#"{{"time":0,"name":"{name}","data":{data}}}"#);
    read(sequence(&[&event])).0.remove(0).1
}

#[test]
fn packets_are_read_from_the_drafts_and_0_3() {
    let drafts = r#"{"header":{"packet_type":"1RTT","packet_number":7},"raw":{"length":1350,"payload_length":1324},
        "frames":[{"frame_type":"stream","stream_id":0,"offset":10,"fin":true,"raw":{"payload_length":1316}},
        {"frame_type":"ack","ack_delay":0.5,"acked_ranges":[[0],[2,5]],"ect0":3,"ce":"1"},{"frame_type":"max_data","maximum":9}],
        "trigger":"pto_probe"}"#;
    let old = r#"{"packet_type":"1RTT","header":{"packet_number":"7","packet_size":1350},
        "frames":[{"frame_type":"stream","stream_id":"0","offset":"10","fin":true,"length":1316},
        {"frame_type":"ack","ack_delay":"0.5","acked_ranges":[["0","0"],["2","5"]],"ect0":3,"ce":1},{"frame_type":"max_data","maximum":"9"}],
        "trigger":"pto_probe"}"#;
    for (name, data) in [("quic:packet_sent", drafts), ("transport:packet_sent", old)] {
        let EventKind::PacketSent(packet) = kind_of(name, data) else { panic!("{name}") };
        assert_eq!((packet.packet_type, packet.number), (PacketType::OneRtt, Some(7)));
        assert_eq!((packet.length, packet.is_probe), (Some(1350), true));
        let frames = packet.frames.unwrap();
        let stream = Frame::Stream { stream: 0, offset: 10, length: Some(1316), is_last: true };
        let ack = Frame::Ack {
            ranges: vec![0..=0, 2..=5],
            delay: Some(Duration::from_micros(500)),
            ce: Some(1),
            ect: Some(3),
        };
        assert_eq!(frames, [stream, ack, Frame::MaxData { maximum: 9 }]);
    }
}

#[test]
fn event_names_of_all_dialects_are_mapped() {
    let lost = r#"{"header":{"packet_type":"1RTT","packet_number":3},"trigger":"time_threshold"}"#;
    for name in ["quic:packet_lost", "recovery:packet_lost"] {
        let EventKind::PacketLost(lost) = kind_of(name, lost) else { panic!("{name}") };
        assert_eq!((lost.number, lost.trigger), (Some(3), Some(LossTrigger::TimeThreshold)));
    }
    let state = r#"{"old":"slow_start","new":"recovery"}"#;
    for name in ["quic:congestion_state_updated", "recovery:congestion_state_updated"] {
        assert_eq!(kind_of(name, state), EventKind::CongestionState(CongestionState::Recovery));
    }
    let EventKind::Metrics(metrics) = kind_of(
        "recovery:metrics_updated",
        r#"{"cwnd":12000,"bytes_in_flight":"18446744073709551615","min_rtt":12.5}"#,
    ) else {
        panic!("metrics")
    };
    assert_eq!(metrics.congestion_window, Some(12_000));
    assert_eq!(metrics.bytes_in_flight, Some(u64::MAX));
    assert_eq!(metrics.minimum_rtt, Some(Duration::from_micros(12_500)));
    let blocked = r#"{"old":"unblocked","new":"blocked","reason":"pacing"}"#;
    let EventKind::Blocked(update) = kind_of("quic:connection_data_blocked_updated", blocked)
    else {
        panic!("blocked")
    };
    assert_eq!(update.reason, Some(Blocked::Pacing));
    let timer = r#"{"timer_type":"pto","event_type":"set","delta":25}"#;
    for name in ["quic:timer_updated", "recovery:loss_timer_updated"] {
        let EventKind::Timer(timer) = kind_of(name, timer) else { panic!("{name}") };
        assert_eq!((&*timer.timer, timer.event), ("pto", TimerEvent::Set(Some(ms(25)))));
    }
    let other = kind_of("http3:parameters_set", "{}");
    assert_eq!(other, EventKind::Other("http3:parameters_set".into()));
    // Data that does not match any draft does not stop the reader.
    assert_eq!(kind_of("quic:packet_sent", "[1]"), EventKind::Other("quic:packet_sent".into()));
}

#[test]
fn internal_variables_of_a_controller_are_read_with_their_units() {
    let data = r#"{"bytes":{"w_max":12000,"w_est":null},"milliseconds":{"k":1.5},"bits_per_second":{"bw":"8000"}}"#;
    let EventKind::Controller(metrics) = kind_of("clearway:controller_updated", data) else {
        panic!("metrics")
    };
    let metrics: Vec<_> =
        metrics.iter().map(|metric| (&*metric.name, metric.unit, metric.value)).collect();
    assert_eq!(
        metrics,
        [
            ("w_est", MetricUnit::Bytes, None),
            ("w_max", MetricUnit::Bytes, Some(12_000.0)),
            ("k", MetricUnit::Milliseconds, Some(1.5)),
            ("bw", MetricUnit::BitsPerSecond, Some(8_000.0)),
        ]
    );
}

#[test]
fn traces_of_both_endpoints_name_the_connection_by_the_same_id() {
    for fields in [r#"{"group_id":"C9d5"}"#, r#"{"ODCID":"c9D5","group_id":"another"}"#] {
        let header = format!(r#"{{"qlog_version":"0.3","trace":{{"common_fields":{fields}}}}}"#);
        let (_, reading) = read(header);
        assert_eq!(reading.connection.as_deref(), Some("c9d5"));
    }
    assert_eq!(read(sequence(&EVENTS)).1.connection, None);
}

#[test]
fn events_of_other_connections_are_left_out() {
    let of = |group: &str| {
        format!(
            r#"{{"time":1,"name":"quic:recovery_metrics_updated","group_id":"{group}","data":{{"pto_count":1}}}}"#
        )
    };
    let (events, reading) = read(sequence(&[&of("a"), &of("b"), &of("b"), &of("a")]));
    assert_eq!(events.len(), 3);
    assert_eq!(reading.unused.get("(events of other connections)"), Some(&1));
}

/// A loss that cannot be assigned to a packet would leave the packet in flight forever.
#[test]
fn the_type_of_a_lost_packet_is_read_from_every_place() {
    let lost = |data: &str| {
        let event = format!(r#"{{"time":1,"name":"recovery:packet_lost","data":{{{data}}}}}"#);
        let (events, reading) = read(sequence(&[&event]));
        let [(_, EventKind::PacketLost(lost))] = &events[..] else { panic!("{events:?}") };
        (lost.packet_type, lost.number, reading.unused.into_keys().next())
    };
    let known = (PacketType::OneRtt, Some(48), None);
    // The member is where the drafts, aioquic, and drafts before 0.3 put it.
    for data in [
        r#""header":{"packet_type":"1RTT","packet_number":48}"#,
        r#""type":"1RTT","packet_number":48"#,
        r#""packet_type":"1RTT","packet_number":"48""#,
    ] {
        assert_eq!(lost(data), known, "{data}");
    }
    let (packet_type, _, unused) = lost(r#""packet_number":48"#);
    assert_eq!(packet_type, PacketType::Unknown);
    assert_eq!(unused.as_deref(), Some("(packets of unknown type)"));
}

/// quic-go abandons the packet threshold when it detects reordering, and logs this as a word.
#[test]
fn a_threshold_may_be_a_word() {
    for (written, expected) in [("3", Some(3)), (r#""3""#, Some(3)), (r#""disabled""#, None)] {
        let event = format!(
            r#"{{"time":1,"name":"quic:recovery_parameters_set","data":{{"reordering_threshold":{written},"time_threshold":1.25}}}}"#
        );
        let (events, reading) = read(sequence(&[&event]));
        let [(_, EventKind::RecoveryParameters(parameters))] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(parameters.reordering_threshold, expected, "{written}");
        assert_eq!(parameters.time_threshold, Some(1.25));
        assert_eq!(reading.unused.len(), 0);
    }
}

#[test]
fn the_number_of_traces_in_a_file_is_bounded() {
    let one = sequence(&EVENTS[..1]);
    let mut reader = reader(one.repeat(20_000));
    let mut traces = 1;
    for item in reader.by_ref() {
        traces += usize::from(item == Item::Trace);
    }
    assert_eq!(traces, 256);
    let last = reader.reading();
    assert_eq!((last.events, last.title.as_deref()), (1, Some("a download")));
    let damage = last.damage.as_ref().unwrap();
    assert_eq!(damage.why, "the file contains more than 256 traces");
    assert!(damage.offset > 255 * one.len() as u64);
}

#[test]
fn the_texts_of_a_header_are_bounded() {
    let long = HEADER.replace("a download", &"ä".repeat(100_000));
    let (_, reading) = read(sequence(&EVENTS).replace(HEADER, &long));
    assert_eq!(reading.title, Some("ä".repeat(1000)));
    assert_eq!(reading.events, 3);
}

#[test]
fn the_suppressors_of_an_event_are_bounded() {
    let each = format!(r#"{{"suppressor":"{}","since_round":1}}"#, "x".repeat(1000));
    let all = vec![each; 900].join(",");
    let event = format!(
        r#"{{"time":1,"name":"clearway:suppressors_updated","data":{{"suppressors":[{all}]}}}}"#
    );
    let (events, _) = read(sequence(&[&event]));
    let EventKind::Suppressors(suppressors) = &events[0].1 else { panic!("{events:?}") };
    assert_eq!((suppressors.len(), suppressors[0].0.len()), (64, 100));
}

/// Tools that merge files leave an error entry in place of each file that they cannot read.
#[test]
fn an_entry_in_place_of_an_unreadable_trace_is_reported() {
    let event = r#"{"time":1,"name":"quic:connection_closed","data":{}}"#;
    let error = r#"{"error_description":"not a capture","uri":"file:///b"}"#;
    let whole = format!(r#"{{"events":[{event}]}}"#);
    for traces in [format!("{error},{whole}"), format!("{whole},{error}")] {
        let (events, reading) = read(format!(r#"{{"qlog_version":"0.3","traces":[{traces}]}}"#));
        assert_eq!((events.len(), reading.events), (1, 1), "{traces}");
        let name = "(a trace that could not be read: not a capture)";
        assert_eq!(reading.unused.get(name), Some(&1), "{traces}");
    }
}

#[test]
fn names_of_events_packets_and_frames_may_be_in_upper_case() {
    let event = r#"{"time":1,"name":"TRANSPORT:PACKET_SENT","data":{"header":{"packet_type":"HANDSHAKE","packet_number":1},"frames":[{"frame_type":"PING"}]}}"#;
    let (events, _) = read(sequence(&[event]));
    let [(_, EventKind::PacketSent(packet))] = &events[..] else { panic!("{events:?}") };
    assert_eq!(packet.packet_type, PacketType::Handshake);
    assert_eq!(packet.frames.as_deref(), Some(&[Frame::Ping][..]));
}
