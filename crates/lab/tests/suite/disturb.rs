//! Tests a single disturbance at some injection points of small transfers: a sample of the runs of
//! `clearway lab disturb`.

use core::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use clearway_congestion::{
    Acknowledgement, Algorithm, CongestionResponse, Controller, ControllerFactory,
    ControllerParameters, RttSnapshot, SentPacket, Snapshot, SpuriousLoss,
};
use clearway_lab::checker::Property;
use clearway_lab::disturb::{
    Baseline, Bounds, Choice, Event, Fault, Kind, judge, standard, trials,
};
use clearway_lab::run::Candidate;
use clearway_lab::scenario::Variant;
use clearway_lab::setup::Setup;
use clearway_lab::sweep::{Event as Swept, Job, sweep};
use clearway_units::Rate;

/// Runs `variant` with `candidate` once for each disturbance; returns the number of runs and the
/// failed ones.
fn disturbed(
    variant: &Variant,
    candidate: &Candidate,
    choice: &Choice,
) -> (usize, Vec<(Event, Fault)>) {
    let setup = &variant.setup;
    let baseline = Baseline::measure(setup, candidate, 0).unwrap();
    assert_eq!(judge(&baseline.outcome, setup.limit), None, "{}", variant.name);
    let bounds = Bounds::new(setup, &candidate.name, &baseline, None);
    let events = trials(choice, setup, &baseline);
    let runs: Vec<(Setup, Duration)> = events
        .iter()
        .map(|event| {
            let bound = bounds.of(&[*event]);
            let setup = Event::put_all(&[*event], setup);
            (Setup { limit: bound + Duration::from_secs(20), ..setup }, bound)
        })
        .collect();
    let job = |(setup, _)| Job {
        setup,
        candidate,
        seeds: 0..1,
        sample_every: None,
        check: true,
        goes_on: false,
    };
    let jobs: Vec<_> = runs.iter().map(|(setup, bound)| job((setup, bound))).collect();
    let mut found = Vec::new();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    sweep(&jobs, threads, &AtomicBool::new(false), &mut |event| {
        let Swept::JobDone { job, swept } = event else { return };
        let fault = bounds.judge(&[events[job]], &swept.runs[0].outcome);
        found.extend(fault.map(|fault| (events[job], fault)));
    })
    .unwrap();
    (events.len(), found)
}

/// Returns the variant of the standard scenario with this name.
fn variant(name: &str) -> Variant {
    let mut variants = standard().unwrap().variants.into_iter();
    variants.find(|variant| variant.name == name).unwrap()
}

#[test]
fn a_disturbance_at_any_moment_of_a_small_transfer_causes_no_fault() {
    let choice = Choice { every: 89, ..Choice::default() };
    let mut runs = 0;
    let mut lines = Vec::new();
    for variant in standard().unwrap().variants {
        for algorithm in Algorithm::ALL {
            let (count, found) = disturbed(&variant, &algorithm.into(), &choice);
            runs += count;
            lines.extend(found.into_iter().map(|(event, fault)| {
                format!("{algorithm}, {:?}, {event}: the run {fault}", variant.name)
            }));
        }
    }
    assert!(runs > 500, "{runs}");
    assert!(lines.is_empty(), "{} of {runs} runs:\n{}", lines.len(), lines.join("\n"));
}

/// A Reno controller that sends only 1 kB per second once a packet has been lost.
#[derive(Debug)]
struct Throttled {
    reno: Box<dyn Controller>,
    has_lost: bool,
}

#[derive(Debug)]
struct MakeThrottled;

impl ControllerFactory for MakeThrottled {
    fn build(&self, parameters: &ControllerParameters) -> Box<dyn Controller> {
        Box::new(Throttled { reno: Algorithm::Reno.build(parameters), has_lost: false })
    }
}

impl Controller for Throttled {
    fn name(&self) -> &'static str {
        "throttled"
    }

    fn on_sent(&mut self, packet: &SentPacket, bytes_in_flight: u64) {
        self.reno.on_sent(packet, bytes_in_flight);
    }

    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) -> CongestionResponse {
        self.has_lost |= !event.lost.is_empty();
        self.reno.on_acknowledgement(event)
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {}

    fn on_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.reno.on_max_datagram_size(max_datagram_size);
    }

    fn window(&self) -> u64 {
        self.reno.window()
    }

    fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        match self.has_lost {
            true => Some(Rate::from_bytes_per_second(1000)),
            false => self.reno.pacing_rate(rtt),
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.reno.snapshot()
    }
}

/// An undisturbed run does not reveal this bug, because nothing is lost in it.
#[test]
fn a_sender_that_a_loss_throttles_is_found() {
    let throttled = Candidate { name: "throttled".to_owned(), factory: Arc::new(MakeThrottled) };
    let mut variant = variant("download, 200 ms");
    // With all properties turned off, only the completion time reveals the bug.
    variant.setup.properties_off =
        Property::ALL.map(|property| (property.id().to_owned(), String::new())).to_vec();
    let choice = Choice { kinds: vec![Kind::Lose], every: 8, ..Choice::default() };
    let (runs, found) = disturbed(&variant, &throttled, &choice);
    let is_slow = |fault: &Fault| matches!(fault, Fault::Late { .. } | Fault::Unfinished(_));
    assert!(found.len() > 2, "only {} of {runs} runs are faulty", found.len());
    assert!(found.iter().all(|(_, fault)| is_slow(fault)), "{found:?}");
}

/// The client's path dies, its address is removed or replaced, or datagrams must become smaller.
/// The client migrates by itself, at its application's request, or not at all. All transfers finish
/// within their time limit or end with an error that names the cause.
#[test]
fn a_client_survives_what_happens_to_its_host_and_its_path() {
    let is_of_host = |kind: &Kind| matches!(kind, Kind::Host(..) | Kind::RebindAndMigrate);
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(is_of_host).collect();
    assert_eq!(kinds.len(), 11);
    let choice = Choice { kinds, every: 41, ..Choice::default() };
    let mut runs = 0;
    let mut lines = Vec::new();
    for variant in standard().unwrap().variants {
        for algorithm in Algorithm::ALL {
            let (count, found) = disturbed(&variant, &algorithm.into(), &choice);
            runs += count;
            lines.extend(found.into_iter().map(|(event, fault)| {
                format!("{algorithm}, {:?}, {event}: the run {fault}", variant.name)
            }));
        }
    }
    assert!(runs > 500, "{runs}");
    assert!(lines.is_empty(), "{} of {runs} runs:\n{}", lines.len(), lines.join("\n"));
}
