//! Converts events to the columns that the viewer's page draws.
//!
//! [`ModelBuilder`] processes events one at a time and keeps, in bounded memory, what a page
//! displays: series of numbers, lanes of states, marks, and a table of packets. [`Model`] is the
//! result, as one JSON header and one block of columns: arrays of little-endian numbers, which the
//! header describes by offset, length and type, so that a browser can use them in place.
//!
//! A series longer than [`MAX_POINTS`] is thinned: of each group of neighbors, the smallest and the
//! largest are kept, so that a spike of one sample remains visible. `viewer/README.md` describes
//! the header's layout.

mod columns;
mod controller_metrics;
mod delivery;
mod header;
mod lanes;
mod live;
mod packets;
mod series;

#[cfg(test)]
mod protocol;
#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;

use core::time::Duration;

use crate::findings::{Ending, Finding};
use crate::read::{CongestionState, Event, EventKind, Lost, Metrics, Packet, Reading, TimerEvent};

use self::controller_metrics::ControllerMetrics;
use self::delivery::Deliveries;
use self::lanes::Lane;
use self::packets::{Kind, Packets};
use self::series::Series;

pub use header::{
    ColumnPlace, ColumnType, DamageHeader, EndingHeader, FindingHeader, Header, LaneHeader,
    MarksHeader, PacketsHeader, Rows, SeriesHeader, TraceName, Unit,
};
pub use live::Follower;

/// The maximum number of points of a series, and of rows of a table.
pub const MAX_POINTS: usize = 1 << 21;

/// A trace in the form that a page draws.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    /// A description of the trace, with the locations of its data in the columns.
    pub header: Header,
    /// Arrays of little-endian numbers, each at an offset that is a multiple of eight bytes.
    pub columns: Vec<u8>,
}

/// Builds a [`Model`] from the events of a trace.
#[derive(Debug)]
pub struct ModelBuilder {
    series: [Series; SERIES.len()],
    controller_metrics: ControllerMetrics,
    state: Lane,
    blocked: Lane,
    suppressors: Lane,
    lost: Series,
    /// Losses that a stack counts without listing the packets, derived from increases of the count.
    lost_counted: Series,
    /// The largest lost-packet count, if the trace has one.
    lost_total: u64,
    /// The time of the first known congestion window, which is when the first congestion state began.
    began: Option<Duration>,
    timeouts: Series,
    congestion_events: Series,
    spurious: Series,
    packets: Packets,
    deliveries: Deliveries,
    /// Whether the trace logs when the PTO timer is set and expires.
    has_timers: bool,
    last: Duration,
}

/// The series: ID, title, unit, and whether a value holds until the next one.
const SERIES: [(&str, &str, Unit, bool); 8] = [
    ("congestion_window", "congestion window", Unit::Bytes, true),
    ("bytes_in_flight", "bytes in flight", Unit::Bytes, true),
    ("slow_start_threshold", "slow start threshold", Unit::Bytes, true),
    ("pacing_rate", "pacing rate", Unit::BytesPerSecond, true),
    ("smoothed_rtt", "smoothed RTT", Unit::Milliseconds, true),
    ("latest_rtt", "latest RTT", Unit::Milliseconds, false),
    ("minimum_rtt", "minimum RTT", Unit::Milliseconds, true),
    ("goodput", "goodput", Unit::BytesPerSecond, true),
];
/// The kinds of marks: ID and title.
const MARKS: [(&str, &str); 5] = [
    ("lost", "lost"),
    (LOST_COUNTED, "lost (counter)"),
    ("pto", "probe timeout"),
    ("congestion_event", "congestion event"),
    ("spurious", "spurious loss"),
];
/// The kind of mark that refers to a number of packets instead of a row in the table.
const LOST_COUNTED: &str = "lost_counted";
const GOODPUT: usize = 7;
const SMOOTHED_RTT: usize = 4;

/// Returns the header of a series without its points.
fn declaration((id, title, unit, step): &(&str, &str, Unit, bool)) -> SeriesHeader {
    SeriesHeader {
        id: (*id).to_owned(),
        title: (*title).to_owned(),
        unit: *unit,
        step: *step,
        detail: false,
        time: None,
        value: None,
    }
}

/// Returns the congestion state in which a sender begins.
const fn initial_state(is_model_based: bool) -> CongestionState {
    if is_model_based { CongestionState::Startup } else { CongestionState::SlowStart }
}

impl Default for ModelBuilder {
    fn default() -> Self {
        Self {
            series: core::array::from_fn(|_| Series::new(MAX_POINTS)),
            controller_metrics: ControllerMetrics::default(),
            state: Lane::new("congestion_state", "congestion state", MAX_POINTS),
            blocked: Lane::new("blocked", "sending blocked by", MAX_POINTS),
            suppressors: Lane::new("suppressors", "growth suppressed by", MAX_POINTS),
            lost: Series::new(MAX_POINTS),
            lost_counted: Series::new(MAX_POINTS),
            lost_total: 0,
            began: None,
            timeouts: Series::new(MAX_POINTS),
            congestion_events: Series::new(MAX_POINTS),
            spurious: Series::new(MAX_POINTS),
            packets: Packets::default(),
            deliveries: Deliveries::default(),
            has_timers: false,
            last: Duration::ZERO,
        }
    }
}

impl ModelBuilder {
    /// Adds an event. Events are expected in chronological order; an event that is earlier than a
    /// previous one is treated as simultaneous with the latest one.
    pub fn on_event(&mut self, event: &Event) {
        self.last = self.last.max(event.at);
        let at = self.last;
        match &event.kind {
            EventKind::PacketSent(packet) => self.on_sent(at, packet),
            EventKind::PacketReceived(packet) => self.on_received(at, packet),
            EventKind::PacketLost(lost) => self.on_lost(at, lost),
            EventKind::PacketDropped { length, .. } => {
                self.packets.push(
                    at,
                    Kind::Dropped,
                    &Packet { length: *length, ..Packet::default() },
                );
            }
            EventKind::Metrics(metrics) => self.on_metrics(at, metrics),
            EventKind::CongestionState(state) => self.on_congestion_state(at, state),
            EventKind::RecoveryParameters(parameters) => {
                // A stack that logs its controller's name logs each state change, but not the
                // initial state.
                if let Some(controller) = &parameters.controller {
                    let is_model = controller.to_ascii_lowercase().contains("bbr");
                    self.state.assume(at, initial_state(is_model).name());
                }
            }
            EventKind::Blocked(update) if update.stream.is_none() => {
                self.blocked.set(at, update.reason.map(crate::read::Blocked::name));
            }
            EventKind::Timer(timer) if &*timer.timer == "pto" => {
                self.has_timers = true;
                if timer.event == TimerEvent::Expired {
                    self.timeouts.push(at, packets::NONE);
                }
            }
            EventKind::Suppressors(names) => {
                let names: Vec<&str> = names.iter().map(|(name, _)| &**name).collect();
                let joined = names.join(", ");
                self.suppressors.set(at, Some(joined.as_str()).filter(|names| !names.is_empty()));
            }
            EventKind::CongestionEvents { .. } => self.congestion_events.push(at, packets::NONE),
            EventKind::Controller(metrics) => self.controller_metrics.push(at, metrics),
            EventKind::SpuriousLoss { .. } => self.spurious.push(at, packets::NONE),
            _ => {}
        }
    }

    fn on_sent(&mut self, at: Duration, packet: &Packet) {
        self.deliveries.on_sent(packet);
        self.packets.push(at, Kind::Sent, packet);
    }

    fn on_received(&mut self, at: Duration, packet: &Packet) {
        self.deliveries.on_received(at, packet);
        self.packets.push(at, Kind::Received, packet);
    }

    /// Handles a congestion state change. Before the first state that a trace logs, a sender is in
    /// the initial state of every sender (RFC 9002 §7.3.1).
    fn on_congestion_state(&mut self, at: Duration, state: &CongestionState) {
        if let Some(began) = self.began {
            self.state.assume(began, initial_state(state.is_of_model()).name());
        }
        self.state.set(at, Some(state.name()));
    }

    fn on_lost(&mut self, at: Duration, lost: &Lost) {
        let Lost { packet_type, number, length, .. } = lost;
        let packet = Packet {
            packet_type: *packet_type,
            number: *number,
            length: *length,
            ..Packet::default()
        };
        // If a stack lists its losses, they must not be counted twice.
        self.lost_counted = Series::new(MAX_POINTS);
        self.lost.push(at, self.packets.next_row());
        self.packets.push(at, Kind::Lost, &packet);
    }

    fn on_metrics(&mut self, at: Duration, metrics: &Metrics) {
        let bytes = |value: Option<u64>| value.map(|value| value as f64);
        let milliseconds = |value: Option<Duration>| value.map(|value| value.as_secs_f64() * 1e3);
        let values = [
            bytes(metrics.congestion_window),
            bytes(metrics.bytes_in_flight),
            // Stacks log an unset threshold as the largest possible number.
            bytes(metrics.slow_start_threshold.filter(|threshold| *threshold < 1 << 53)),
            bytes(metrics.pacing_rate).map(|bits| bits / 8.0),
            milliseconds(metrics.smoothed_rtt),
            milliseconds(metrics.latest_rtt),
            milliseconds(metrics.minimum_rtt),
        ];
        for (series, value) in self.series.iter_mut().zip(values) {
            if let Some(value) = value {
                series.push(at, value);
            }
        }
        if metrics.congestion_window.is_some() {
            self.began.get_or_insert(at);
        }
        if let Some(total) = metrics.lost_packets {
            let more = total.saturating_sub(self.lost_total);
            self.lost_total = self.lost_total.max(total);
            if more > 0 && self.lost.is_empty() {
                self.lost_counted.push(at, more as f64);
            }
        }
        // A trace that logs timers contains this information twice.
        if !self.has_timers && metrics.pto_count.is_some_and(|count| count > 0) {
            self.timeouts.push(at, packets::NONE);
        }
    }

    const fn lanes(&self) -> [&Lane; 3] {
        [&self.state, &self.blocked, &self.suppressors]
    }

    /// Returns the marks of each of [`MARKS`].
    const fn marks(&self) -> [&Series; MARKS.len()] {
        [&self.lost, &self.lost_counted, &self.timeouts, &self.congestion_events, &self.spurious]
    }

    /// Returns the known part of one of [`SERIES`].
    fn known(&self, index: usize) -> Option<&Series> {
        match index {
            GOODPUT => Some(self.deliveries.so_far()),
            _ => self.series.get(index),
        }
    }

    /// Returns whether the events so far contain nothing that a page would show.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.series.iter().all(Series::is_empty)
    }

    /// Returns the whole model, including the information about the trace, how the connection ended, and the findings.
    pub fn finish(
        mut self,
        reading: &Reading,
        ending: Option<&Ending>,
        findings: &[Finding],
    ) -> Model {
        let goodput = core::mem::take(&mut self.deliveries).finish(self.last);
        if let Some(series) = self.series.get_mut(GOODPUT) {
            *series = goodput;
        }
        let metrics = self.controller_metrics.iter().map(|metric| &metric.series);
        let all = self.series.iter().chain(self.marks()).chain(metrics);
        let is_thinned = all.into_iter().any(Series::is_thinned);
        let mut columns = columns::Columns::default();
        let series = self.write_series(&mut columns);
        let marks = self.write_marks(&mut columns);
        let lanes = [self.state, self.blocked, self.suppressors].map(|lane| lane.finish(self.last));
        let thinned = is_thinned || self.packets.is_cut() || lanes.iter().any(Lane::is_cut);
        let lanes = lanes.iter().filter(|lane| !lane.is_empty());
        let lanes = lanes.map(|lane| lane.write(&mut columns)).collect();
        let (packets, text) = self.packets.write(&mut columns);
        let header = Header {
            thinned,
            round_trip_ms: self.series.get(SMOOTHED_RTT).and_then(Series::median),
            series,
            lanes,
            marks,
            packets: Some(packets),
            text: Some(text),
            ending: ending.map(EndingHeader::from),
            findings: findings.iter().map(FindingHeader::from).collect(),
            ..Header::new(reading, self.last)
        };
        Model { header, columns: columns.into_bytes() }
    }

    fn write_series(&self, columns: &mut columns::Columns) -> Vec<SeriesHeader> {
        let known = SERIES.iter().zip(&self.series).filter(|(_, series)| !series.is_empty());
        let known = known.map(|(of, series)| (declaration(of), series));
        let metrics =
            self.controller_metrics.iter().map(|metric| (metric.declaration(), &metric.series));
        let written = known.chain(metrics).map(|(declared, series)| {
            let (time, value) = series.write(columns);
            SeriesHeader { time: Some(time), value: Some(value), ..declared }
        });
        written.collect()
    }

    fn write_marks(&self, columns: &mut columns::Columns) -> Vec<MarksHeader> {
        let known = MARKS.iter().zip(self.marks()).filter(|(_, series)| !series.is_empty());
        let written = known.map(|((id, title), series)| {
            let is_counted = *id == LOST_COUNTED;
            let (time, of_each) =
                if is_counted { series.write(columns) } else { series.write_marks(columns) };
            MarksHeader {
                id: (*id).to_owned(),
                title: (*title).to_owned(),
                time: Some(time),
                packet: Some(of_each).filter(|_| !is_counted),
                count: Some(of_each).filter(|_| is_counted),
            }
        });
        written.collect()
    }
}
