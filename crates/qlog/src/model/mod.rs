//! Events to the columns that the viewer's page draws.
//!
//! [`ModelBuilder`] takes events one at a time and keeps, in memory that is bounded, what a page shows of them: series of
//! numbers, lanes of states, marks, and a table of packets. [`Model`] is that as one JSON header and one block of columns:
//! arrays of little-endian numbers, named in the header by offset, length and type, so that a browser takes them as they are.
//!
//! What is longer than [`MAX_POINTS`] is thinned: of neighbours, the smallest and the largest stay, so that a spike of one
//! sample is still there. `viewer/README.md` has the header's layout.

mod columns;
mod delivery;
mod figures;
mod header;
mod lanes;
mod live;
mod packets;
mod series;

#[cfg(test)]
mod tests;

use core::time::Duration;

use serde_json::{Value, json};

use crate::read::{Event, EventKind, Lost, Metrics, Packet, Reading, TimerEvent};

use self::delivery::Deliveries;
use self::figures::Figures;
use self::lanes::Lane;
use self::packets::{Kind, Packets};
use self::series::Series;

pub use live::Follower;

/// How many points a series has at most, and how many rows a table.
pub const MAX_POINTS: usize = 1 << 21;

/// A trace, as a page draws it.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    /// What there is, and where in the columns.
    pub header: Value,
    /// Arrays of little-endian numbers, each at a multiple of eight bytes.
    pub columns: Vec<u8>,
}

/// Something that a trace shows to be wrong, for the list beside the curves.
#[derive(Clone, PartialEq, Debug)]
pub struct Remark {
    /// Its ID in the catalogue.
    pub id: String,
    /// What it is, in a few words.
    pub title: String,
    /// How bad, in seconds that it cost; the worst come first.
    pub severity: f64,
    /// When it began, from the trace's beginning.
    pub begin: Duration,
    /// When it ended.
    pub end: Duration,
    /// What was seen, with figures.
    pub explanation: String,
}

/// Keeps of events what a page shows.
#[derive(Debug)]
pub struct ModelBuilder {
    series: [Series; SERIES.len()],
    figures: Figures,
    state: Lane,
    blocked: Lane,
    suppressors: Lane,
    lost: Series,
    timeouts: Series,
    congestion_events: Series,
    spurious: Series,
    packets: Packets,
    deliveries: Deliveries,
    /// The trace tells when the probe timer is set and runs out.
    has_timers: bool,
    last: Duration,
}

/// Each series: its ID, its title, its unit, and whether a value holds until the next.
const SERIES: [(&str, &str, &str, bool); 8] = [
    ("congestion_window", "congestion window", "bytes", true),
    ("bytes_in_flight", "bytes in flight", "bytes", true),
    ("slow_start_threshold", "slow start threshold", "bytes", true),
    ("pacing_rate", "pacing rate", "bytes/s", true),
    ("smoothed_rtt", "smoothed RTT", "ms", true),
    ("latest_rtt", "latest RTT", "ms", false),
    ("minimum_rtt", "minimum RTT", "ms", true),
    ("goodput", "goodput", "bytes/s", true),
];
const GOODPUT: usize = 7;
const SMOOTHED_RTT: usize = 4;

/// A series as the header names it.
fn declaration((id, title, unit, step): &(&str, &str, &str, bool)) -> Value {
    json!({ "id": id, "title": title, "unit": unit, "step": step })
}

impl Default for ModelBuilder {
    fn default() -> Self {
        Self {
            series: core::array::from_fn(|_| Series::new(MAX_POINTS)),
            figures: Figures::default(),
            state: Lane::new("congestion_state", "congestion state"),
            blocked: Lane::new("blocked", "why sending stopped"),
            suppressors: Lane::new("suppressors", "what keeps the window from growing"),
            lost: Series::new(MAX_POINTS),
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
    /// Takes an event. They come in the order of their times; one that is late counts as of the time that was reached.
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
            EventKind::CongestionState(state) => self.state.set(at, Some(state.name())),
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
            EventKind::Controller(figures) => self.figures.push(at, figures),
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

    fn on_lost(&mut self, at: Duration, lost: &Lost) {
        let Lost { packet_type, number, length, .. } = lost;
        let packet = Packet {
            packet_type: *packet_type,
            number: *number,
            length: *length,
            ..Packet::default()
        };
        self.lost.push(at, self.packets.next_row());
        self.packets.push(at, Kind::Lost, &packet);
    }

    fn on_metrics(&mut self, at: Duration, metrics: &Metrics) {
        let bytes = |value: Option<u64>| value.map(|value| value as f64);
        let milliseconds = |value: Option<Duration>| value.map(|value| value.as_secs_f64() * 1e3);
        let values = [
            bytes(metrics.congestion_window),
            bytes(metrics.bytes_in_flight),
            // A threshold that nobody has set is told as the largest number that there is.
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
        // Who tells of timers tells this twice.
        if !self.has_timers && metrics.pto_count.is_some_and(|count| count > 0) {
            self.timeouts.push(at, packets::NONE);
        }
    }

    const fn lanes(&self) -> [&Lane; 3] {
        [&self.state, &self.blocked, &self.suppressors]
    }

    const fn marks(&self) -> [&Series; 4] {
        [&self.lost, &self.timeouts, &self.congestion_events, &self.spurious]
    }

    /// What there is so far of one of [`SERIES`].
    fn known(&self, index: usize) -> Option<&Series> {
        match index {
            GOODPUT => Some(self.deliveries.so_far()),
            _ => self.series.get(index),
        }
    }

    /// Nothing has come that a page would show.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.series.iter().all(Series::is_empty)
    }

    /// All of it, with what is known of the file, and what is wrong.
    pub fn finish(mut self, reading: &Reading, remarks: &[Remark]) -> Model {
        let goodput = self.deliveries.finish(self.last);
        if let Some(series) = self.series.get_mut(GOODPUT) {
            *series = goodput;
        }
        let round_trip = self.series.get(SMOOTHED_RTT).and_then(Series::median);
        let mut columns = columns::Columns::default();
        let figures = || self.figures.iter().map(|figure| &figure.series);
        let is_thinned =
            self.packets.is_cut() || self.series.iter().chain(figures()).any(Series::is_thinned);
        let mut header = header::header(reading, self.last, round_trip, is_thinned);
        let known = SERIES.iter().zip(&self.series).filter(|(_, series)| !series.is_empty());
        let known = known.map(|(of, series)| (declaration(of), series));
        let told = self.figures.iter().map(|figure| (figure.declaration(), &figure.series));
        let series: Vec<Value> = known
            .chain(told)
            .map(|(mut declared, series)| {
                let (time, value) = series.write(&mut columns);
                if let Some(fields) = declared.as_object_mut() {
                    fields.insert("time".to_owned(), time);
                    fields.insert("value".to_owned(), value);
                }
                declared
            })
            .collect();
        let lanes = [self.state, self.blocked, self.suppressors].map(|lane| lane.finish(self.last));
        let lanes: Vec<Value> = lanes
            .iter()
            .filter(|lane| !lane.is_empty())
            .map(|lane| lane.write(&mut columns))
            .collect();
        let marks = [
            ("lost", "lost", &self.lost),
            ("pto", "probe timeout", &self.timeouts),
            ("congestion_event", "congestion event", &self.congestion_events),
            ("spurious", "loss that was none", &self.spurious),
        ];
        let marks: Vec<Value> = marks
            .iter()
            .filter(|(_, _, series)| !series.is_empty())
            .map(|(id, title, series)| {
                let (time, packet) = series.write_marks(&mut columns);
                json!({ "id": id, "title": title, "time": time, "packet": packet })
            })
            .collect();
        let (packets, text) = self.packets.write(&mut columns);
        if let Some(fields) = header.as_object_mut() {
            fields.insert("series".to_owned(), Value::Array(series));
            fields.insert("lanes".to_owned(), Value::Array(lanes));
            fields.insert("marks".to_owned(), Value::Array(marks));
            fields.insert("packets".to_owned(), packets);
            fields.insert("text".to_owned(), text);
            let remarks = remarks.iter().map(header::remark).collect();
            fields.insert("findings".to_owned(), Value::Array(remarks));
        }
        Model { header, columns: columns.into_bytes() }
    }
}
