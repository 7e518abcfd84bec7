use std::sync::atomic::Ordering;

use clearway_congestion::{
    Acknowledgement, CongestionResponse, Phase, RttSnapshot, SentPacket, Snapshot, SpuriousLoss,
    StateValue, Suppressors, Visit,
};
use clearway_units::Rate;

use super::*;

/// The depth that a debug build explores within seconds; `clearway lab explore` goes deeper.
const DEPTH: usize = 4;

fn manner(depth: usize) -> Manner {
    Manner { depth, threads: 2 }
}

fn search(algorithm: Algorithm, manner: Manner) -> Explored {
    explore_algorithm(algorithm, manner, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

#[test]
fn no_controller_has_a_fault_in_a_small_scope() {
    for algorithm in Algorithm::ALL {
        let explored = search(algorithm, manner(DEPTH));
        assert_eq!(explored.faults, [], "{algorithm}");
        assert_eq!(explored.cycles, 0, "{algorithm}");
        assert!(explored.is_complete, "{algorithm}");
        assert_eq!(explored.levels.len(), DEPTH + 1, "{algorithm}");
        assert!(explored.states() > 1000, "{algorithm}: {:?}", explored.levels);
    }
}

#[test]
fn threads_change_nothing() {
    let by = |threads| search(Algorithm::Cubic, Manner { depth: 3, threads });
    assert_eq!(by(1), by(3));
}

#[test]
fn a_search_can_be_stopped() {
    let is_ended = AtomicBool::new(false);
    let mut stop = |progress: Progress| {
        if progress.length == 2 {
            is_ended.store(true, Ordering::Relaxed);
        }
    };
    let explored = explore_algorithm(Algorithm::Reno, manner(6), &is_ended, &mut stop).unwrap();
    assert!(!explored.is_complete);
    assert_eq!(explored.levels.len(), 3);
}

/// A controller whose window never changes.
#[derive(Clone, Debug)]
struct Stuck(u64);

impl Controller for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }

    fn on_sent(&mut self, _: &SentPacket, _: u64) {}

    fn on_acknowledgement(&mut self, _: &Acknowledgement<'_>) -> CongestionResponse {
        CongestionResponse::None
    }

    fn on_spurious_loss(&mut self, _: &SpuriousLoss) {}

    fn on_max_datagram_size(&mut self, _: u64) {}

    fn window(&self) -> u64 {
        self.0
    }

    fn pacing_rate(&self, _: Option<&RttSnapshot>) -> Option<Rate> {
        None
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            window: self.0,
            slow_start_threshold: None,
            minimum_window: 2400,
            phase: Phase::SlowStart,
            suppressors: Suppressors::default(),
            congestion_events: 0,
            undone_events: 0,
        }
    }
}

impl Inspect for Stuck {
    fn inspect(&self, visit: &mut Visit<'_>) {
        visit("window", StateValue::Bytes(self.0));
    }
}

#[test]
fn a_window_that_stays_as_it_is_is_found() {
    let make = |parameters: &ControllerParameters| Stuck(parameters.initial_window());
    let explored = explore(make, manner(2), &AtomicBool::new(false), &mut |_| {});
    assert!(explored.cycles > 0);
    assert!(!explored.is_complete);
    assert!(explored.faults.iter().all(|found| found.property == "L1"), "{:?}", explored.faults);
    assert_eq!(explored.faults.first().map(|found| found.path.len()), Some(0));
}
