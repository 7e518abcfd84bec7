use core::time::Duration;

use clearway_congestion::{RttSnapshot, Suppressors};
use clearway_transport::Metrics;
use clearway_units::Timestamp;

use super::json::Object;
use super::records::Records;
use super::{RecoveryParameters, names};

/// The value of an absent slow start threshold: infinity (RFC 9002 §B.3).
const INFINITE: u64 = u64::MAX;

/// The recovery metrics as last written. Only metrics that have changed are written again.
#[derive(Debug)]
pub(super) struct MetricsLog {
    parameters: RecoveryParameters,
    /// Whether the metrics have changed since they were last written.
    is_outdated: bool,
    last: Values,
    suppressors: Suppressors,
    /// The number of congestion events, and the number of those that were undone.
    congestion_events: (u64, u64),
}

/// The members of `recovery_metrics_updated` (quic-events §7.2): either the known ones, or the
/// changed ones.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Values {
    minimum_rtt: Option<Duration>,
    smoothed_rtt: Option<Duration>,
    latest_rtt: Option<Duration>,
    rtt_variation: Option<Duration>,
    pto_count: Option<u64>,
    congestion_window: Option<u64>,
    bytes_in_flight: Option<u64>,
    slow_start_threshold: Option<u64>,
    pacing_rate: Option<u64>,
}

impl Values {
    fn of(metrics: &Metrics, before: &Self) -> Self {
        let rtt = |part: fn(&RttSnapshot) -> Duration| metrics.rtt.as_ref().map(part);
        let congestion = &metrics.congestion;
        Self {
            minimum_rtt: rtt(|rtt| rtt.minimum),
            smoothed_rtt: rtt(|rtt| rtt.smoothed),
            latest_rtt: rtt(|rtt| rtt.latest),
            rtt_variation: rtt(|rtt| rtt.variation),
            pto_count: Some(u64::from(metrics.pto_count)),
            congestion_window: Some(congestion.window),
            bytes_in_flight: Some(metrics.bytes_in_flight),
            // A removed slow start threshold must be logged, but not one that never existed.
            slow_start_threshold: congestion
                .slow_start_threshold
                .or(before.slow_start_threshold.map(|_| INFINITE)),
            pacing_rate: metrics.pacing_rate.map(|rate| rate.bits_per_second()),
        }
    }

    /// Returns only the members that differ from `before`.
    fn changes(&self, before: &Self) -> Self {
        fn changed<T: PartialEq>(new: Option<T>, old: Option<T>) -> Option<T> {
            if new == old { None } else { new }
        }
        Self {
            minimum_rtt: changed(self.minimum_rtt, before.minimum_rtt),
            smoothed_rtt: changed(self.smoothed_rtt, before.smoothed_rtt),
            latest_rtt: changed(self.latest_rtt, before.latest_rtt),
            rtt_variation: changed(self.rtt_variation, before.rtt_variation),
            pto_count: changed(self.pto_count, before.pto_count),
            congestion_window: changed(self.congestion_window, before.congestion_window),
            bytes_in_flight: changed(self.bytes_in_flight, before.bytes_in_flight),
            slow_start_threshold: changed(self.slow_start_threshold, before.slow_start_threshold),
            pacing_rate: changed(self.pacing_rate, before.pacing_rate),
        }
    }

    fn write(&self, json: &mut Object<'_>) {
        let durations = [
            ("min_rtt", self.minimum_rtt),
            ("smoothed_rtt", self.smoothed_rtt),
            ("latest_rtt", self.latest_rtt),
            ("rtt_variance", self.rtt_variation),
        ];
        for (name, duration) in durations {
            if let Some(duration) = duration {
                json.milliseconds(name, duration);
            }
        }
        let numbers = [
            ("pto_count", self.pto_count),
            ("congestion_window", self.congestion_window),
            ("bytes_in_flight", self.bytes_in_flight),
            ("ssthresh", self.slow_start_threshold),
            ("pacing_rate", self.pacing_rate),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                json.number(name, number);
            }
        }
    }
}

impl MetricsLog {
    /// Writes the constants of recovery. The metrics follow later.
    pub(super) fn begin(
        records: &mut Records,
        now: Timestamp,
        parameters: &RecoveryParameters,
    ) -> Self {
        let log = Self {
            parameters: parameters.clone(),
            is_outdated: false,
            last: Values::default(),
            suppressors: Suppressors::default(),
            congestion_events: (0, 0),
        };
        log.write_parameters(records, now);
        log
    }

    /// Sets the size of full datagrams. The constants are written again with the next metrics.
    pub(super) fn on_datagram_size(&mut self, size: u64) {
        self.is_outdated |= self.parameters.max_datagram_size != size;
        self.parameters.max_datagram_size = size;
    }

    fn write_parameters(&self, records: &mut Records, now: Timestamp) {
        records.event(now, "quic:recovery_parameters_set", |json| self.parameters.write(json));
    }

    pub(super) fn update(&mut self, records: &mut Records, now: Timestamp, metrics: &Metrics) {
        let minimum_window = Some(metrics.congestion.minimum_window);
        let is_outdated = core::mem::take(&mut self.is_outdated);
        if self.parameters.minimum_congestion_window != minimum_window || is_outdated {
            self.parameters.minimum_congestion_window = minimum_window;
            self.write_parameters(records, now);
        }
        let values = Values::of(metrics, &self.last);
        let changes = values.changes(&self.last);
        self.last = values;
        if changes != Values::default() {
            records.event(now, "quic:recovery_metrics_updated", |json| changes.write(json));
        }
        self.update_internals(records, now, metrics);
    }

    fn update_internals(&mut self, records: &mut Records, now: Timestamp, metrics: &Metrics) {
        let suppressors = metrics.congestion.suppressors;
        if suppressors != self.suppressors {
            self.suppressors = suppressors;
            records.event(now, "clearway:suppressors_updated", |json| {
                json.array("suppressors", |json| {
                    for (suppressor, round) in suppressors.active() {
                        json.object(|json| {
                            json.text("suppressor", names::suppressor(suppressor));
                            json.number("since_round", round);
                        });
                    }
                });
            });
        }
        let events = (metrics.congestion.congestion_events, metrics.congestion.undone_events);
        if events != self.congestion_events {
            self.congestion_events = events;
            records.event(now, "clearway:congestion_events_updated", |json| {
                json.number("congestion_events", events.0);
                json.number("undone_events", events.1);
            });
        }
    }
}
