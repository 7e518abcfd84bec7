//! Helpers that the tests of the lab share.

use std::path::Path;
use std::sync::{Arc, Mutex};

use clearway_lab::end::{EndId, Side};
use clearway_lab::run::{Extras, Outcome, run};
use clearway_lab::scenario::Scenario;
use clearway_lab::setup::Setup;
use clearway_transport::{Observation, Observer};
use clearway_units::Timestamp;
use clearway_wire::{Frame, Reader};

/// Returns the scenario with this name.
pub(crate) fn scenario(name: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    Scenario::load(&folder.join(format!("{name}.toml"))).unwrap()
}

/// A quantity measured in the frames that each endpoint sends.
pub(crate) type Measure = fn(&Frame<'_>) -> u64;

/// Runs `setup` under the checker, and returns the sum and the largest value of each of `measures`
/// over the frames that the client sends, and over those that the server sends.
pub(crate) fn measured<const COUNT: usize>(
    setup: &Setup,
    controller: &str,
    measures: [Measure; COUNT],
) -> (Outcome, [[Measured; COUNT]; 2]) {
    let found = Arc::new(Mutex::new([[Measured::default(); COUNT]; 2]));
    let shared = found.clone();
    let make = move |end: EndId| -> Option<Box<dyn Observer>> {
        Some(Box::new(Meter { end, measures, found: shared.clone() }))
    };
    let extras = Extras { check: true, observers: Some(Box::new(make)), ..Extras::default() };
    let outcome = run(setup, &controller.parse().unwrap(), 0, extras).unwrap();
    let found = *found.lock().unwrap();
    (outcome, found)
}

/// The result of applying a measure to the frames that an endpoint sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    /// The sum over all frames.
    pub(crate) sum: u64,
    /// The largest value of a single frame.
    pub(crate) most: u64,
}

struct Meter<const COUNT: usize> {
    end: EndId,
    measures: [Measure; COUNT],
    found: Arc<Mutex<[[Measured; COUNT]; 2]>>,
}

impl<const COUNT: usize> Observer for Meter<COUNT> {
    fn observe(&mut self, _now: Timestamp, observation: &Observation<'_>) {
        let Observation::PacketSent(packet) = observation else { return };
        let side = usize::from(self.end.side == Side::Server);
        let found = &mut self.found.lock().unwrap()[side];
        let mut reader = Reader::new(packet.payload);
        while !reader.is_empty() {
            let frame = Frame::decode(&mut reader).unwrap();
            for (found, measure) in found.iter_mut().zip(self.measures) {
                let value = measure(&frame);
                found.sum += value;
                found.most = found.most.max(value);
            }
        }
    }
}
