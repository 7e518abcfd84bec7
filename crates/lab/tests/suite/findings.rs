//! Tests that traces of correct controllers have no findings.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use clearway_lab::end::{EndId, Side};
use clearway_lab::run::{Candidate, Extras, run, transport_config};
use clearway_lab::scenario::{Scenario, Variant};
use clearway_lab::setup::{StackKind, Traffic};
use clearway_qlog::findings::{FindingId, Report, find};
use clearway_qlog::read::QlogReader;
use clearway_qlog::{QlogObserver, RecoveryParameters, TraceOptions};
use clearway_transport::Observer;

/// Findings that are correct because the scenario causes them: the scenario, the finding, and why
/// it is correct.
const TRUE_FINDINGS: [(&str, FindingId, &str); 3] = [
    (
        "peer-gone",
        FindingId::TimedOutWithData,
        "the client disappears in the middle of a download and does not come back",
    ),
    (
        "rate-falls-100x",
        FindingId::StandingQueue,
        "the queue, sized for the rate before, takes a hundred times as long to drain",
    ),
    (
        "rate-rises-100x",
        FindingId::StandingQueue,
        "the queue, sized for the rate afterwards, is a hundred times too long before",
    ),
];

/// The writing end of a log that is read while it is written.
struct Pipe(SyncSender<Vec<u8>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reading end of a [`Pipe`].
struct Outlet {
    receiver: Receiver<Vec<u8>>,
    rest: Vec<u8>,
}

impl Read for Outlet {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            let Ok(more) = self.receiver.recv() else { return Ok(0) };
            self.rest = more;
        }
        let length = self.rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.rest[..length]);
        self.rest.drain(..length);
        Ok(length)
    }
}

type Reading = JoinHandle<Vec<Report>>;

/// Runs a seed and reads the logs of both endpoints of the first flow that is not optional.
fn reports(variant: &Variant, candidate: &Candidate, seed: u64) -> Vec<(EndId, Vec<Report>)> {
    let setup = &variant.setup;
    let Some((index, flow)) = setup.flows.iter().enumerate().find(|(_, it)| !it.is_optional) else {
        return Vec::new();
    };
    let readings: Rc<RefCell<Vec<(EndId, Reading)>>> = Rc::default();
    let parameters = [Side::Client, Side::Server].map(|side| {
        let end = if side == Side::Client { &flow.client } else { &flow.server };
        RecoveryParameters::of(&transport_config(flow, end, candidate).unwrap())
    });
    let started = readings.clone();
    let observe = move |end: EndId| -> Option<Box<dyn Observer>> {
        if end.flow != index {
            return None;
        }
        let (sender, receiver) = sync_channel(16);
        let reading = std::thread::spawn(move || {
            let outlet = Outlet { receiver, rest: Vec::new() };
            QlogReader::new(outlet).map_or_else(|_| Vec::new(), |reader| find(reader, |_| {}))
        });
        started.borrow_mut().push((end, reading));
        let recovery_parameters = parameters[usize::from(end.side == Side::Server)].clone();
        let options = TraceOptions { recovery_parameters, ..TraceOptions::default() };
        Some(Box::new(QlogObserver::new(Pipe(sender), options)))
    };
    let extras = Extras { observers: Some(Box::new(observe)), ..Extras::default() };
    run(setup, candidate, seed, extras).unwrap();
    let readings = readings.take();
    readings.into_iter().map(|(end, reading)| (end, reading.join().unwrap())).collect()
}

/// Returns all findings except those in `TRUE_FINDINGS`, as text.
fn findings(scenario: &Scenario, variant: &Variant, controller: &str, seed: u64) -> Vec<String> {
    let candidate: Candidate = controller.parse().unwrap();
    let mut found = Vec::new();
    for (end, reports) in reports(variant, &candidate, seed) {
        let context =
            format!("{}, {:?}, {controller}, {}", scenario.name, variant.name, end.side.name());
        for report in &reports {
            assert_eq!(report.reading.damage, None, "{context}");
            for finding in &report.findings {
                let is_true = TRUE_FINDINGS
                    .iter()
                    .any(|(name, id, _)| *name == scenario.name && *id == finding.id);
                if !is_true {
                    found.push(format!("{context}: {} {}", finding.id, finding.headline));
                }
            }
        }
    }
    found
}

fn scenarios() -> Vec<Scenario> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files.iter().map(|file| Scenario::load(file).unwrap()).collect()
}

/// Returns whether both endpoints of all flows are Clearway's: other stacks have no observers.
fn is_observable(variant: &Variant) -> bool {
    let mut ends = variant.setup.flows.iter().flat_map(|flow| [&flow.client, &flow.server]);
    ends.all(|end| end.stack == StackKind::Clearway)
}

/// Returns whether the flows carry so few bytes in total that a run is quick.
fn is_small(variant: &Variant) -> bool {
    let bytes = variant.setup.flows.iter().map(|flow| match flow.traffic {
        Traffic::Bulk { .. } => u64::MAX,
        _ => flow.traffic.bytes().unwrap_or(u64::MAX),
    });
    bytes.fold(0, u64::saturating_add) <= 5_000_000
}

/// Runs at most `most` of the selected variants of each scenario, and expects no findings.
fn nothing_is_found(most: usize, is_chosen: impl Fn(&Variant) -> bool) {
    let mut found = Vec::new();
    for scenario in scenarios() {
        let variants = scenario.variants.iter().filter(|it| is_observable(it) && is_chosen(it));
        let (mut runs, before) = (0, found.len());
        for variant in variants.take(most) {
            for controller in &scenario.controllers {
                found.extend(findings(&scenario, variant, controller, 0));
                runs += 1;
            }
        }
        eprintln!("{}: {runs} runs, {} findings", scenario.name, found.len() - before);
    }
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}

#[test]
fn no_findings_in_one_small_variant_of_each_scenario() {
    nothing_is_found(1, is_small);
}

#[test]
#[ignore = "all scenarios: for release builds"]
fn no_findings_in_any_scenario() {
    nothing_is_found(usize::MAX, |_| true);
}
