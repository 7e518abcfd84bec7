use core::time::Duration;

use serde_json::{Value, json};

use super::{Follower, Lane, Model, ModelBuilder, Series};
use crate::findings::{Finding, FindingId};
use crate::read::{
    Blocked, BlockedUpdate, CongestionState, Event, EventKind, Frame, Lost, Metric, MetricUnit,
    Metrics, Packet, PacketType, Reading, RecoveryParameters, Timer, TimerEvent,
};

fn at(milliseconds: u64, kind: EventKind) -> Event {
    Event { at: Duration::from_millis(milliseconds), kind }
}

fn window(bytes: u64) -> EventKind {
    EventKind::Metrics(Box::new(Metrics { congestion_window: Some(bytes), ..Metrics::default() }))
}

fn packet(number: u64, frames: Vec<Frame>) -> Packet {
    let packet_type = PacketType::OneRtt;
    Packet {
        packet_type,
        number: Some(number),
        length: Some(1200),
        frames: Some(frames),
        ..Packet::default()
    }
}

fn stream(offset: u64) -> Frame {
    Frame::Stream { stream: 4, offset, length: Some(1000), is_last: false }
}

/// A model in its serialized form.
struct Written {
    header: Value,
    columns: Vec<u8>,
}

impl From<Model> for Written {
    fn from(Model { header, columns }: Model) -> Self {
        Self { header: json!(header), columns }
    }
}

fn built(events: &[Event]) -> Written {
    let mut builder = ModelBuilder::default();
    events.iter().for_each(|event| builder.on_event(event));
    builder.finish(&Reading::default(), None, &[]).into()
}

/// Returns the numbers of a column of `f64`.
fn numbers(model: &Written, column: &Value) -> Vec<f64> {
    assert_eq!(column["type"], "f64");
    let offset = column["offset"].as_u64().unwrap() as usize;
    assert_eq!(offset % 8, 0);
    let length = column["length"].as_u64().unwrap() as usize;
    let bytes = &model.columns[offset..offset + length * 8];
    bytes.chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn of<'a>(list: &'a Value, id: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|entry| entry["id"] == id).unwrap()
}

#[test]
fn a_series_has_its_points_in_columns() {
    let model = built(&[at(1, window(12_000)), at(5, window(2_400))]);
    let series = of(&model.header["series"], "congestion_window");
    assert_eq!(numbers(&model, &series["time"]), [1.0, 5.0]);
    assert_eq!(numbers(&model, &series["value"]), [12_000.0, 2_400.0]);
    // There are no series for values that the trace lacks.
    assert_eq!(model.header["series"].as_array().unwrap().len(), 1);
    assert_eq!(model.header["duration_ms"], 5.0);
}

#[test]
fn a_lane_ends_where_the_next_state_begins_and_with_the_trace() {
    let state = |state| EventKind::CongestionState(state);
    let blocked = |reason| EventKind::Blocked(BlockedUpdate { stream: None, reason });
    let model = built(&[
        at(0, state(CongestionState::SlowStart)),
        at(3, blocked(Some(Blocked::Pacing))),
        at(4, state(CongestionState::Recovery)),
        at(4, state(CongestionState::Recovery)),
        at(6, blocked(None)),
        at(9, window(1)),
    ]);
    let lane = of(&model.header["lanes"], "congestion_state");
    assert_eq!(lane["names"], json!(["slow start", "recovery"]));
    assert_eq!(numbers(&model, &lane["begin"]), [0.0, 4.0]);
    assert_eq!(numbers(&model, &lane["end"]), [4.0, 9.0]);
    let lane = of(&model.header["lanes"], "blocked");
    assert_eq!(
        (numbers(&model, &lane["begin"]), numbers(&model, &lane["end"])),
        (vec![3.0], vec![6.0])
    );
}

#[test]
fn packets_have_their_frames_as_text_and_a_loss_names_its_row() {
    let ack = Frame::Ack { ranges: vec![1..=3, 7..=7], delay: None, ce: None, ect: None };
    let lost = Lost { packet_type: PacketType::OneRtt, number: Some(2), ..Lost::default() };
    let model = built(&[
        at(0, EventKind::PacketSent(packet(2, vec![stream(0), Frame::Ping]))),
        at(2, EventKind::PacketReceived(packet(9, vec![ack]))),
        at(3, EventKind::PacketLost(lost)),
    ]);
    let packets = &model.header["packets"];
    assert_eq!(numbers(&model, &packets["number"]), [2.0, 9.0, 2.0]);
    let text = &model.header["text"];
    let offset = text["offset"].as_u64().unwrap() as usize;
    let length = text["length"].as_u64().unwrap() as usize;
    let text = core::str::from_utf8(&model.columns[offset..offset + length]).unwrap();
    assert_eq!(text, "STREAM 4 at 0+1000, PINGACK 1-3 7");
    let marks = of(&model.header["marks"], "lost");
    assert_eq!(numbers(&model, &marks["time"]), [3.0]);
    let offset = marks["packet"]["offset"].as_u64().unwrap() as usize;
    assert_eq!(model.columns[offset..offset + 4], 2_u32.to_le_bytes());
}

#[test]
fn a_probe_timeout_that_is_logged_twice_is_marked_once() {
    let timer = |event| EventKind::Timer(Timer { timer: "pto".into(), event });
    let count = |count| {
        EventKind::Metrics(Box::new(Metrics { pto_count: Some(count), ..Metrics::default() }))
    };
    let marks = |model: &Written| numbers(model, &of(&model.header["marks"], "pto")["time"]);
    assert_eq!(marks(&built(&[at(5, count(1)), at(9, count(0))])), [5.0]);
    let events =
        [at(0, timer(TimerEvent::Set(None))), at(5, timer(TimerEvent::Expired)), at(5, count(1))];
    assert_eq!(marks(&built(&events)), [5.0]);
}

#[test]
fn goodput_counts_data_when_it_is_first_acknowledged() {
    let ack = |ranges| Frame::Ack { ranges, delay: None, ce: None, ect: None };
    let model = built(&[
        at(0, EventKind::PacketSent(packet(0, vec![stream(0)]))),
        at(0, EventKind::PacketSent(packet(1, vec![stream(1000)]))),
        at(10, EventKind::PacketReceived(packet(0, vec![ack(vec![0..=0])]))),
        at(120, EventKind::PacketReceived(packet(1, vec![ack(vec![0..=1])]))),
    ]);
    let series = of(&model.header["series"], "goodput");
    assert_eq!(numbers(&model, &series["time"]), [0.0, 50.0, 100.0]);
    assert_eq!(numbers(&model, &series["value"]), [20_000.0, 0.0, 20_000.0]);
}

#[test]
fn a_spike_of_one_sample_survives_thinning() {
    let mut series = Series::new(64);
    for index in 0..10_000_u64 {
        let value = match index {
            777 => 1e6,
            4_321 => -1e6,
            _ => (index % 7) as f64,
        };
        series.push(Duration::from_millis(index), value);
    }
    assert!(series.is_thinned());
    let mut columns = super::columns::Columns::default();
    let (time, value) = series.write(&mut columns);
    let model = Written { header: Value::Null, columns: columns.into_bytes() };
    let (times, values) = (numbers(&model, &json!(time)), numbers(&model, &json!(value)));
    assert!(times.len() <= 64 && times.is_sorted());
    let spikes: Vec<_> =
        times.iter().zip(&values).filter(|(_, value)| value.abs() == 1e6).collect();
    assert_eq!(spikes, [(&777.0, &1e6), (&4_321.0, &-1e6)]);
}

#[test]
fn findings_are_in_the_header_with_their_catalogue_entries() {
    let finding = Finding {
        id: FindingId::WindowAtFloor,
        severity: 2.5,
        begin: Duration::from_millis(10),
        end: Duration::from_millis(2_510),
        headline: "Congestion window pinned at its floor".to_owned(),
        metrics: vec![("congestion window", "2,700 bytes".to_owned())],
    };
    let model = ModelBuilder::default().finish(&Reading::default(), None, &[finding]);
    let entry = FindingId::WindowAtFloor.entry();
    let expected = json!({
        "id": "window-at-floor",
        "headline": "Congestion window pinned at its floor",
        "severity": 2.5,
        "begin_ms": 10.0,
        "end_ms": 2_510.0,
        "metrics": [["congestion window", "2,700 bytes"]],
        "meaning": entry.meaning,
        "causes": entry.causes,
    });
    assert_eq!(json!(model.header)["findings"], json!([expected]));
}

fn metric(name: &str, unit: MetricUnit, value: Option<f64>) -> EventKind {
    EventKind::Controller(vec![Metric { name: name.into(), unit, value }])
}

#[test]
fn a_series_of_a_controller_metric_ends_with_the_metric() {
    let bandwidth = |value| metric("max_bw", MetricUnit::BitsPerSecond, value);
    let model = built(&[at(1, bandwidth(Some(8e6))), at(4, bandwidth(None))]);
    let series = of(&model.header["series"], "controller.max_bw");
    assert_eq!((&series["title"], &series["unit"]), (&"max_bw".into(), &"bytes/s".into()));
    assert_eq!(series["detail"], true);
    assert_eq!(numbers(&model, &series["time"]), [1.0, 4.0]);
    let values = numbers(&model, &series["value"]);
    assert_eq!(values[0], 1e6);
    assert!(values[1].is_nan());
}

#[test]
fn the_number_of_controller_series_is_bounded() {
    let name = |number| format!("{number}{}", "x".repeat(1_000));
    let events: Vec<Event> = (0..1_000)
        .map(|number| at(number, metric(&name(number), MetricUnit::Bytes, Some(1.0))))
        .collect();
    let model = built(&events);
    let series = model.header["series"].as_array().unwrap();
    assert_eq!(series.len(), 16);
    assert!(series.iter().all(|series| series["title"].as_str().unwrap().len() <= 64));
}

#[test]
fn thinning_keeps_the_end_of_a_series() {
    let mut series = Series::new(8);
    for index in 0..8 {
        let value = if index == 7 { f64::NAN } else { index as f64 };
        series.push(Duration::from_millis(index), value);
    }
    series.push(Duration::from_millis(8), 8.0);
    let kept: Vec<f64> = series.since(0).iter().map(|(_, value)| *value).collect();
    assert_eq!(kept[..4], [0.0, 3.0, 4.0, 6.0]);
    assert!(kept[4].is_nan());
    assert_eq!(kept[5], 8.0);
}

#[test]
fn a_follower_declares_a_metric_when_it_first_occurs() {
    let (mut builder, mut follower) = (ModelBuilder::default(), Follower::default());
    assert_eq!(follower.rows(&builder, None, &[]).declared, []);
    for (time, name) in [(1, "w_max"), (2, "k"), (3, "w_max")] {
        let unit = if name == "k" { MetricUnit::Milliseconds } else { MetricUnit::Bytes };
        builder.on_event(&at(time, metric(name, unit, Some(time as f64))));
        let rows = json!(follower.rows(&builder, None, &[]));
        let declared = rows["declared"].as_array().unwrap();
        let id = format!("controller.{name}");
        assert_eq!(declared.len(), usize::from(time < 3), "it is declared once");
        assert!(declared.iter().all(|series| series["id"] == id.as_str()));
        let expected = json!({ id: [[time as f64, time as f64]] });
        assert_eq!(rows["series"], expected);
    }
    assert!(!follower.is_outrun(&builder));
}

#[test]
fn a_follower_sends_everything_once() {
    let (mut builder, mut follower) = (ModelBuilder::default(), Follower::default());
    let header = json!(Follower::header(&builder, &Reading::default()));
    assert_eq!(of(&header["series"], "congestion_window")["unit"], "bytes");
    builder.on_event(&at(1, window(12_000)));
    builder.on_event(&at(2, EventKind::CongestionState(CongestionState::SlowStart)));
    let rows = json!(follower.rows(&builder, None, &[]));
    assert_eq!(rows["series"], json!({ "congestion_window": [[1.0, 12_000.0]] }));
    assert_eq!(rows["lanes"], json!({ "congestion_state": [[1.0, null, "slow start"]] }));
    builder.on_event(&at(5, EventKind::CongestionState(CongestionState::Recovery)));
    let rows = json!(follower.rows(&builder, None, &[]));
    assert_eq!(rows["series"], json!({}));
    assert_eq!(
        rows["lanes"]["congestion_state"],
        json!([[1.0, 5.0, "slow start"], [5.0, null, "recovery"]])
    );
}

#[test]
fn the_state_lane_begins_with_the_initial_state_of_a_sender() {
    let lane = |events: &[Event]| {
        let model = built(events);
        let lane = of(&model.header["lanes"], "congestion_state");
        (lane["names"].clone(), numbers(&model, &lane["begin"]))
    };
    let state = |state| EventKind::CongestionState(state);
    // This trace logs only state changes.
    let (names, begin) = lane(&[at(1, window(12_000)), at(40, state(CongestionState::Recovery))]);
    assert_eq!((names, begin), (json!(["slow start", "recovery"]), vec![1.0, 40.0]));
    let (names, begin) = lane(&[at(1, window(12_000)), at(40, state(CongestionState::Drain))]);
    assert_eq!((names, begin), (json!(["Startup", "Drain"]), vec![1.0, 40.0]));
    // This trace names its controller, and its state never changes.
    for (controller, initial) in [("cubic", "slow start"), ("bbr", "Startup")] {
        let controller = Some(controller.into());
        let parameters = RecoveryParameters { controller, ..RecoveryParameters::default() };
        let parameters = EventKind::RecoveryParameters(Box::new(parameters));
        let (names, begin) = lane(&[at(0, parameters), at(90, window(24_000))]);
        assert_eq!((names, begin), (json!([initial]), vec![0.0]));
    }
    // If a trace logs its first state at the same time, no other state precedes it.
    let first = at(1, state(CongestionState::Recovery));
    let (_, begin) = lane(&[at(1, window(12_000)), first, at(9, window(12_000))]);
    assert_eq!(begin, [1.0]);
}

fn lost_packets(total: u64) -> EventKind {
    EventKind::Metrics(Box::new(Metrics { lost_packets: Some(total), ..Metrics::default() }))
}

#[test]
fn a_model_that_leaves_out_marks_or_states_says_so() {
    let is_thinned = |builder: ModelBuilder| {
        let model: Written = builder.finish(&Reading::default(), None, &[]).into();
        model.header["thinned"] == true
    };
    assert!(!is_thinned(ModelBuilder::default()));
    let mut marked = ModelBuilder { lost: Series::new(4), ..ModelBuilder::default() };
    let mut stated =
        ModelBuilder { state: Lane::new("state", "state", 4), ..ModelBuilder::default() };
    for index in 0..10 {
        let at = Duration::from_millis(index);
        marked.lost.push(at, index as f64);
        stated.state.set(at, Some(if index % 2 == 0 { "recovery" } else { "slow_start" }));
    }
    assert!(is_thinned(marked));
    assert!(is_thinned(stated));
}

#[test]
fn losses_without_packets_are_marked_with_their_count() {
    let events = [at(1, lost_packets(0)), at(5, lost_packets(3)), at(7, lost_packets(3))];
    let mut events = events.to_vec();
    events.push(at(9, lost_packets(10)));
    let model = built(&events);
    let marks = of(&model.header["marks"], "lost_counted");
    assert_eq!(numbers(&model, &marks["time"]), [5.0, 9.0]);
    assert_eq!(numbers(&model, &marks["count"]), [3.0, 7.0]);
    // Losses that are listed are marked only once.
    events.insert(2, at(5, EventKind::PacketLost(Lost::default())));
    let model = built(&events);
    let ids: Vec<_> =
        model.header["marks"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, ["lost"]);
}

#[test]
fn a_follower_sends_counted_losses_until_losses_are_listed() {
    let (mut builder, mut follower) = (ModelBuilder::default(), Follower::default());
    builder.on_event(&at(5, lost_packets(3)));
    let rows = json!(follower.rows(&builder, None, &[]));
    assert_eq!(rows["marks"], json!({ "lost_counted": [[5.0, 3.0]] }));
    builder.on_event(&at(6, EventKind::PacketLost(Lost::default())));
    assert!(follower.is_outrun(&builder), "the page starts over");
}
