//! Tests of runs in which a property is violated.

use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::path::Path;
use std::sync::{Arc, Mutex};

use clearway_congestion::{
    Acknowledgement, Algorithm, CongestionResponse, Controller, ControllerFactory,
    ControllerParameters, RttSnapshot, SentPacket, Snapshot, SpuriousLoss,
};
use clearway_lab::log::{log, main_end};
use clearway_lab::run::{Candidate, Extras, Outcome, run};
use clearway_lab::scenario::Scenario;
use clearway_lab::setup::Setup;
use clearway_lab::sweep::{Event, Job, sweep};
use clearway_lab::world::Stop;
use clearway_qlog::findings::{FindingId, find};
use clearway_qlog::read::QlogReader;
use clearway_units::Rate;

/// A Reno controller that ignores all acknowledgments after its first loss.
#[derive(Debug)]
struct Stalled {
    reno: Box<dyn Controller>,
    has_lost: bool,
}

#[derive(Debug)]
struct MakeStalled;

impl ControllerFactory for MakeStalled {
    fn build(&self, parameters: &ControllerParameters) -> Box<dyn Controller> {
        Box::new(Stalled { reno: Algorithm::Reno.build(parameters), has_lost: false })
    }
}

impl Controller for Stalled {
    fn name(&self) -> &'static str {
        "stalled"
    }

    fn on_sent(&mut self, packet: &SentPacket, bytes_in_flight: u64) {
        self.reno.on_sent(packet, bytes_in_flight);
    }

    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) -> CongestionResponse {
        let response = match self.has_lost {
            true => CongestionResponse::None,
            false => self.reno.on_acknowledgement(event),
        };
        self.has_lost |= !event.lost.is_empty();
        response
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {}

    fn on_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.reno.on_max_datagram_size(max_datagram_size);
    }

    fn window(&self) -> u64 {
        self.reno.window()
    }

    fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        self.reno.pacing_rate(rtt)
    }

    fn snapshot(&self) -> Snapshot {
        self.reno.snapshot()
    }
}

fn collapse() -> Setup {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/collapse.toml");
    Scenario::load(&path).unwrap().variants[0].setup.clone()
}

fn stalled() -> Candidate {
    Candidate { name: "stalled".to_owned(), factory: Arc::new(MakeStalled) }
}

fn checked(goes_on: bool) -> Outcome {
    run(&collapse(), &stalled(), 2, Extras { check: true, goes_on, ..Extras::default() }).unwrap()
}

#[test]
fn a_violation_ends_a_run_unless_the_run_is_to_continue() {
    let (ended, went_on) = (checked(false), checked(true));
    assert_eq!(ended.stop, Stop::Violated);
    assert_eq!(went_on.stop, Stop::TimeUp, "a window that never grows carries 10 MB in minutes");
    assert_eq!(ended.violation, went_on.violation, "the first violation is reported");
    assert_eq!(ended.violation.unwrap().at.since_origin(), ended.at);
    assert!(went_on.at > ended.at + Duration::from_secs(1));
}

/// A sweep whose runs continue after a violation reports their durations in addition to the
/// violations.
#[test]
fn a_sweep_that_keeps_going_reports_the_violation_and_the_time() {
    let setup = Setup { limit: Duration::from_secs(3600), ..collapse() };
    let candidate = stalled();
    for goes_on in [false, true] {
        let (setup, candidate) = (&setup, &candidate);
        let job = Job { setup, candidate, seeds: 2..3, sample_every: None, check: true, goes_on };
        let mut outcomes = Vec::new();
        sweep(&[job], 1, &AtomicBool::new(false), &mut |event| {
            if let Event::JobDone { swept, .. } = event {
                outcomes.extend(swept.runs.into_iter().map(|run| run.outcome));
            }
        })
        .unwrap();
        let [outcome] = outcomes.try_into().unwrap();
        assert!(outcome.violation.is_some());
        assert_eq!(outcome.took().is_some(), goes_on, "{:?}", outcome.stop);
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A run continues after a violation so that its log shows the consequences, which come later.
#[test]
fn the_log_of_a_run_that_continues_shows_the_consequences() {
    let found = |goes_on| {
        let written = Shared::default();
        let on_error = Arc::new(|error: &clearway_qlog::QlogError| panic!("{error}"));
        let (setup, title) = (collapse(), "stalled".to_owned());
        let log =
            log(&setup, &stalled(), title, main_end(&setup), written.clone(), on_error).unwrap();
        let extras = Extras { check: true, goes_on, observers: Some(log), ..Extras::default() };
        run(&collapse(), &stalled(), 2, extras).unwrap();
        let bytes = written.0.lock().unwrap().clone();
        let reader = QlogReader::new(std::io::Cursor::new(bytes)).unwrap();
        let findings = find(reader, |_| {}).remove(0).findings;
        findings.first().map(|finding| finding.id)
    };
    assert_eq!(found(false), None, "the run ended before there was anything to find");
    assert_eq!(found(true), Some(FindingId::NoGrowth));
}
