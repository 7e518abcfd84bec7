use core::time::Duration;

use clearway_congestion::{
    Acknowledgement, CongestionResponse, Controller, Metric, Phase, Quantity, RttSnapshot,
    SentPacket, Snapshot, SpuriousLoss, Suppressors,
};
use clearway_transport::{Observation, Observer, Side};
use clearway_units::Rate;
use serde_json::json;

use crate::write::testing::{Memory, at, started};
use crate::{QlogObserver, TraceOptions};

/// A congestion controller that does nothing but return metrics.
#[derive(Debug)]
struct Told(Vec<(&'static str, Quantity)>);

impl Controller for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn on_sent(&mut self, _packet: &SentPacket, _bytes_in_flight: u64) {}

    fn on_acknowledgement(&mut self, _event: &Acknowledgement<'_>) -> CongestionResponse {
        CongestionResponse::None
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {}

    fn on_max_datagram_size(&mut self, _max_datagram_size: u64) {}

    fn window(&self) -> u64 {
        0
    }

    fn pacing_rate(&self, _rtt: Option<&RttSnapshot>) -> Option<Rate> {
        None
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            window: 0,
            slow_start_threshold: None,
            minimum_window: 0,
            phase: Phase::SlowStart,
            suppressors: Suppressors::default(),
            congestion_events: 0,
            undone_events: 0,
        }
    }

    fn metrics(&self, tell: &mut dyn FnMut(Metric)) {
        for (name, quantity) in &self.0 {
            tell(Metric { name, quantity: *quantity });
        }
    }
}

#[test]
fn internal_variables_of_a_controller_are_written_when_they_change() {
    let k = Quantity::Time(Duration::from_micros(1_500));
    let bandwidth = Quantity::Rate(Rate::from_bytes_per_second(1_000));
    let controllers = [
        Told(Vec::new()),
        Told(vec![("w_max", Quantity::Bytes(12_000)), ("k", k)]),
        Told(vec![("w_max", Quantity::Bytes(12_000)), ("k", k)]),
        Told(vec![("w_max", Quantity::Bytes(9_000)), ("k", k), ("bw", bandwidth)]),
        Told(vec![("k", k)]),
    ];
    let memory = Memory::default();
    let mut observer = QlogObserver::new(memory.clone(), TraceOptions::default());
    observer.observe(at(0), &started(Side::Client));
    for (index, controller) in controllers.iter().enumerate() {
        observer.observe(at(index as u64 + 1), &Observation::Controller(controller));
    }
    drop(observer);
    assert_eq!(
        memory.events("clearway:controller_updated"),
        [
            json!({"bytes": {"w_max": 12_000}, "milliseconds": {"k": 1.5}}),
            json!({"bytes": {"w_max": 9_000}, "bits_per_second": {"bw": 8_000}}),
            json!({"bytes": {"w_max": null}, "bits_per_second": {"bw": null}}),
        ]
    );
}
