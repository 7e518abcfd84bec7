use core::time::Duration;

use clearway_units::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::quic::{Config, Endpoint, Identity, Level};
use crate::script::Step;

/// Returns the report of a client after a handshake with another probe.
fn report() -> Report {
    let now = Timestamp::ORIGIN;
    let mut server = Config::new([2; 32]);
    server.identity = Some(Identity::self_signed(&["localhost"]).unwrap());
    let mut server = Endpoint::server(server, now).unwrap();
    let mut client = Endpoint::client(Config::new([1; 32]), now).unwrap();
    client.write_stream(0, b"request", true);
    client
        .queue_frames(Level::OneRtt, vec![Frame::StopSending { stream: 0.into(), code: 7.into() }]);
    for _ in 0..10 {
        while let Some(datagram) = client.poll_transmit(now) {
            server.receive(now, 0, &datagram.bytes);
        }
        while let Some(datagram) = server.poll_transmit(now) {
            client.receive(now, 0, &datagram.bytes);
        }
    }
    Report::new(&client, Duration::from_secs(1), 0, Vec::new())
}

#[test]
fn a_run_can_be_replayed() {
    let script = replay(&write(&report())).unwrap();
    let frames: Vec<Frame> = script
        .steps
        .iter()
        .flat_map(|step| match step {
            Step::Packets { packets } => {
                packets.iter().flat_map(|packet| packet.frames.clone()).collect()
            }
            _ => Vec::new(),
        })
        .collect();
    let expected = [
        Frame::stream(0, 0, "request", true),
        Frame::StopSending { stream: 0.into(), code: 7.into() },
    ];
    assert_eq!(frames, expected);
}

#[test]
fn the_files_can_be_read_as_qlog() {
    let text = write(&report());
    let reader = clearway_qlog::read::QlogReader::new(std::io::Cursor::new(text)).unwrap();
    let reports = clearway_qlog::findings::find(reader, |_| {});
    assert_eq!(reports.len(), 1);
}

#[test]
fn events_of_http3_become_steps() {
    let file = [
        r#"{"qlog_version":"0.4","trace":{"vantage_point":{"type":"client"}}}"#,
        r#"{"time":1,"name":"http3:stream_type_set","data":{"stream_id":2,"stream_type":"control"}}"#,
        r#"{"time":1,"name":"http3:frame_created","data":{"stream_id":2,"frame":{"frame_type":"settings","settings":[{"name":"settings_max_field_section_size","value":100}]}}}"#,
        r#"{"time":90,"name":"http3:frame_created","data":{"stream_id":0,"frame":{"frame_type":"headers","headers":[{"name":":method","value":"GET"}]}}}"#,
        r#"{"time":91,"name":"http3:frame_created","data":{"stream_id":4,"length":3,"frame":{"frame_type":"data"}}}"#,
    ];
    let script = replay(&file.map(|record| format!("\u{1e}{record}\n")).concat()).unwrap();
    let names: Vec<_> = script.steps.iter().map(Step::name).collect();
    assert_eq!(names, ["open-uni", "settings", "wait", "headers", "http3-frame", "wait", "wait"]);
}

#[test]
fn files_without_a_script() {
    assert_eq!(replay("nonsense"), Err(ReplayError::NotQlog));
    let server = r#"{"trace":{"vantage_point":{"type":"server"}}}"#;
    assert_eq!(replay(server), Err(ReplayError::NotOfClient));
    assert_eq!(replay(r#"{"trace":{}}"#), Err(ReplayError::NothingSent));
}

proptest! {
    #[test]
    fn any_text(text in "\\PC{0,200}") {
        drop(replay(&format!("{{\"trace\":{{}}}}\n{text}")));
    }
}
