//! Tests that late packets are recognized by their packet numbers (RFC 9000 §17.1).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clearway_lab::end::EndId;
use clearway_lab::run::{Extras, run};
use clearway_lab::scenario::Scenario;
use clearway_lab::world::Stop;
use clearway_transport::{Observation, Observer};
use clearway_units::Timestamp;

/// Counts the packets that an endpoint dropped.
struct Drops(Arc<AtomicU64>);

impl Observer for Drops {
    fn observe(&mut self, _now: Timestamp, observation: &Observation<'_>) {
        if let Observation::PacketDropped { .. } = observation {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A packet whose number is decoded incorrectly cannot be decrypted, so the sender does not learn
/// that the packet was only late, and keeps its window reduced.
#[test]
fn no_late_packet_is_dropped() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/late-packets.toml");
    for variant in &Scenario::load(&file).unwrap().variants {
        for controller in ["reno", "cubic", "bbr"] {
            for seed in 0..3 {
                let dropped = Arc::new(AtomicU64::new(0));
                let shared = dropped.clone();
                let make = move |_: EndId| -> Option<Box<dyn Observer>> {
                    Some(Box::new(Drops(shared.clone())))
                };
                let extras =
                    Extras { check: true, observers: Some(Box::new(make)), ..Extras::default() };
                let outcome =
                    run(&variant.setup, &controller.parse().unwrap(), seed, extras).unwrap();
                let place = format!("{}, {controller}, seed {seed}", variant.name);
                let dropped = dropped.load(Ordering::Relaxed);
                println!("{place}: {:?}, {dropped} packets dropped", outcome.took());
                assert_eq!(outcome.stop, Stop::Finished, "{place}: {:?}", outcome.violation);
                assert_eq!(dropped, 0, "{place}: packets were dropped");
            }
        }
    }
}
