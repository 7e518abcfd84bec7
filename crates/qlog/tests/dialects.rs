//! Tests with the same connection in every draft of qlog, as written by public tools
//! (`fixtures/dialects/`).
//!
//! A client sends an Initial packet at 0 ms and two packets with stream data at 60 and 61 ms. The second one is
//! acknowledged at 111 ms, the first one is declared lost at 125 ms, and the server closes the connection at 150 ms with
//! the application error 256.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use clearway_qlog::convert::to_0_3;
use clearway_qlog::findings::find;
use clearway_qlog::model::ModelBuilder;
use clearway_qlog::read::{
    Event, EventKind, Frame, Item, LossTrigger, Packet, PacketType, QlogReader, Reading,
    VantagePoint,
};

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dialects");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 14, "{paths:?}");
    paths
}

fn read(mut reader: QlogReader) -> (Vec<Event>, Reading) {
    let mut events = Vec::new();
    for item in reader.by_ref() {
        match item {
            Item::Event(event) => events.push(event),
            item => panic!("{item:?}"),
        }
    }
    (events, reader.reading().clone())
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Describes the connection as a dialect logs it, one line for each recognized event.
fn story(events: &[Event]) -> Vec<String> {
    let mut story = Vec::new();
    for event in events {
        let at = event.at.as_millis();
        match &event.kind {
            EventKind::PacketSent(packet) => story.push(format!("{at} sent {}", line(packet))),
            EventKind::PacketReceived(packet) => {
                story.push(format!("{at} received {}", line(packet)));
            }
            EventKind::PacketLost(lost) => {
                assert!(
                    matches!(lost.trigger, None | Some(LossTrigger::TimeThreshold)),
                    "{lost:?}"
                );
                story.push(format!("{at} lost {} {:?}", lost.packet_type.name(), lost.number));
            }
            EventKind::Metrics(metrics) => {
                let metrics = [
                    metrics.smoothed_rtt.map(|rtt| format!("{at} rtt {}", rtt.as_millis())),
                    metrics.congestion_window.map(|window| format!("{at} window {window}")),
                ];
                story.extend(metrics.into_iter().flatten());
            }
            _ => {}
        }
    }
    story
}

fn line(packet: &Packet) -> String {
    let frames = packet.frames.iter().flatten().filter_map(|frame| match frame {
        Frame::Crypto { offset, length } => Some(format!("crypto {offset}+{length:?}")),
        Frame::Stream { stream, offset, length, .. } => {
            Some(format!("stream {stream} {offset}+{length:?}"))
        }
        Frame::Ack { ranges, delay, .. } => {
            Some(format!("ack {ranges:?} {:?}", delay.map(|delay| delay.as_millis())))
        }
        Frame::ConnectionClose(_) => Some("close".to_owned()),
        _ => None,
    });
    let frames: Vec<_> = frames.collect();
    let (kind, number) = (packet.packet_type, packet.number);
    assert_ne!(kind, PacketType::Unknown);
    format!("{} {number:?}: {}", kind.name(), frames.join(", "))
}

const STORY: [&str; 10] = [
    "0 sent initial Some(0): crypto 0+Some(300)",
    "50 received initial Some(0): ack [0..=0] Some(0), crypto 0+Some(90)",
    "50 received handshake Some(0): crypto 0+Some(700)",
    "60 sent 1RTT Some(0): stream 4 0+Some(1000)",
    "61 sent 1RTT Some(1): stream 4 1000+Some(1000)",
    "111 received 1RTT Some(0): ack [1..=1] Some(2)",
    "111 rtt 50",
    "111 window 12000",
    "125 lost 1RTT Some(0)",
    "150 received 1RTT Some(1): close",
];

/// Returns the expected lines. Version 0.1 traces that are made from captures have no losses.
fn expected(name: &str) -> Vec<&'static str> {
    let lines = STORY.into_iter();
    lines.filter(|line| !name.starts_with("0.1") || !line.contains("lost")).collect()
}

#[test]
fn the_same_connection_is_read_from_every_dialect() {
    for path in fixtures() {
        let name = name(&path);
        let (events, reading) = read(QlogReader::open(&path).unwrap());
        assert_eq!(story(&events), expected(name), "{name}");
        assert_eq!(reading.damage, None, "{name}");
        assert_eq!(
            reading.title.as_deref().filter(|it| !it.is_empty()),
            Some("the story"),
            "{name}"
        );
        assert_eq!(reading.vantage_point, VantagePoint::Client, "{name}");
        assert_eq!(reading.connection.as_deref(), Some("7a42c51dbdb08c62"), "{name}");
        // Times are since the epoch, or the header has a reference time.
        if let Some(began) = reading.began {
            assert_eq!(began.as_millis(), 1_701_108_722_611, "{name}");
        }
        let misread = reading.unused.keys().find(|name| name.contains("unexpected data"));
        assert_eq!(misread, None, "{name}");
    }
}

#[test]
fn every_dialect_is_converted_and_shown() {
    for path in fixtures() {
        let name = name(&path);
        let mut output = Vec::new();
        let conversion = to_0_3(&path, &mut output).unwrap();
        assert!(conversion.written >= 9, "{name}: {conversion:?}");
        let (events, reading) = read(QlogReader::new(Cursor::new(output)).unwrap());
        assert_eq!(story(&events), expected(name), "{name}");
        // Members that follow the events cannot be written before them.
        if !name.contains("header-last") {
            assert_eq!(reading.connection.as_deref(), Some("7a42c51dbdb08c62"), "{name}");
            assert_eq!(reading.began, conversion.reading.began, "{name}");
        }

        let mut model = ModelBuilder::default();
        events.iter().for_each(|event| model.on_event(event));
        assert!(!model.is_empty(), "{name}");
        assert_eq!(find(QlogReader::open(&path).unwrap(), |_| {}).len(), 1, "{name}");
    }
}

/// The file may be truncated anywhere, and any of its bytes may be changed.
#[test]
fn damage_in_any_dialect_is_survived() {
    for path in fixtures() {
        let whole = std::fs::read(&path).unwrap();
        for place in (0..whole.len()).step_by(11) {
            let mut changed = whole.clone();
            changed[place] = b"[{\"}],:0\x1e\n"[place % 10];
            for bytes in [whole[..place].to_vec(), changed] {
                let Ok(reader) = QlogReader::new(Cursor::new(bytes)) else { continue };
                let reports = find(reader, |_| {});
                assert!(reports.iter().all(|report| report.reading.events <= 20));
            }
        }
    }
}

#[test]
fn an_event_of_many_or_deep_columns_is_bounded() {
    let header = r#"{"qlog_version":"draft-01","traces":[{"event_fields":["relative_time","group_id","category","event","data"],"events":["#;
    let event =
        r#"[0,"a","transport","packet_sent",{"header":{"packet_type":"1RTT","packet_number":0}}]"#;
    let wide = format!("[0{}]", ",0".repeat(400_000));
    let long = format!(r#"[0,"{}","transport","packet_sent",{{}}]"#, "g".repeat(900_000));
    let (events, reading) = {
        let file = format!("{header}{event},{wide},{long},{event}]}}]}}");
        read(QlogReader::new(Cursor::new(file.into_bytes())).unwrap())
    };
    // The name of a connection may change; its earlier name then belongs to another one.
    assert_eq!((reading.damage, events.len()), (None, 2));
    let deep = format!("{header}{event},[{}]]}}]}}", "[".repeat(100_000) + &"]".repeat(100_000));
    let (events, reading) = read(QlogReader::new(Cursor::new(deep.into_bytes())).unwrap());
    assert_eq!(events.len(), 1);
    assert!(reading.damage.unwrap().why.contains("recursion limit"));
}
