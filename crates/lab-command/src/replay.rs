//! `clearway lab replay`.

use std::path::PathBuf;

use clap::Args;
use clearway_lab::end::EndId;
use clearway_lab::log::{main_end, sending_end};
use clearway_lab::report::{Verdict, judge_run, seconds_text};
use clearway_lab::run::{Extras, FlowOutcome, run as run_once};
use clearway_lab::sweep::Run;

use super::library::Library;
use super::matrix::{Matrix, View};
use super::selection::Selection;
use super::violation::{name, record, text};
use clearway_terminal::failure::Failure;
use clearway_terminal::output;

/// Repeat one seed of a scenario.
///
/// The same seed gives the same datagrams at the same times, every time and on every machine; a
/// digest of all of them is printed. (If a scenario uses real TLS, which has its own source of
/// randomness, the digest covers only times and sizes.) The exit status is 0 only if the run
/// finished, no property was violated, and the run met those of the scenario's expectations that
/// apply to each run. `lab run` also checks those about all seeds together: the median, the 99th
/// percentile, means, and how often the window falls to its floor.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ReplayCommand {
    /// A scenario: its name, as listed by lab list, or a file.
    #[arg(value_name = "SCENARIO")]
    scenario: String,
    /// The seed.
    #[arg(long, value_name = "NUMBER")]
    seed: u64,
    /// Write the qlog of the sending end of a flow to this file.
    ///
    /// The run continues after a violation.
    #[arg(long, value_name = "FILE")]
    qlog: Option<PathBuf>,
    /// The flow to log, counted from 0 [default: the first that has to finish].
    #[arg(long, value_name = "NUMBER", requires = "qlog")]
    flow: Option<usize>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    library: Library,
}

const AFTER_HELP: &str = "\
Without --controller and --variant, the scenario's first controller and first variant are used.

Example:
  clearway lab replay collapse --controller cubic --variant base --seed 4711 --qlog run.sqlog";

/// Runs the command.
pub(super) fn run(command: &ReplayCommand) -> Result<(), Failure> {
    let scenario = command.library.find(&command.scenario)?;
    let matrix = Matrix::new(vec![scenario], &command.selection, command.seed, Some(1))?;
    let Some(view) = matrix.view(0) else { return Ok(()) };
    let sample_every = view.job().sample_every;
    let extras = Extras { digest: true, check: true, sample_every, ..Extras::default() };
    let outcome = match &command.qlog {
        Some(path) => record(&view, command.seed, command.logged(&view)?, path, extras)?,
        None => run_once(&view.variant.setup, view.candidate, command.seed, extras)
            .map_err(|error| Failure::new(error.to_string()))?,
    };
    output::result(&name(&view, command.seed))?;
    show(&view, &Run { seed: command.seed, outcome })
}

impl ReplayCommand {
    /// Returns the endpoint whose qlog is written.
    fn logged(&self, view: &View<'_>) -> Result<Option<EndId>, Failure> {
        let setup = &view.variant.setup;
        let Some(flow) = self.flow else { return Ok(main_end(setup)) };
        let end = sending_end(setup, flow).ok_or_else(|| {
            Failure::new(format!("flow {flow} does not exist"))
                .advise(format!("the last flow is {}", setup.flows.len().saturating_sub(1)))
        })?;
        Ok(Some(end))
    }
}

fn show(view: &View<'_>, run: &Run) -> Result<(), Failure> {
    let outcome = &run.outcome;
    let datagrams = outcome.network.to_server.received + outcome.network.to_client.received;
    output::result(&format!("{} after {}", outcome.stop, seconds_text(outcome.at)))?;
    for flow in &outcome.flows {
        output::result(&flow_text(flow))?;
    }
    if let Some(digest) = &outcome.digest {
        output::result(&format!("{datagrams} datagrams, SHA-256 {digest}"))?;
    }
    let expectations = view.variant.expect(&view.candidate.name);
    let verdicts = judge_run(&expectations, &view.variant.setup, run);
    let unmet: Vec<_> = verdicts.iter().filter_map(Verdict::unmet).collect();
    for text in &unmet {
        output::result(&format!("not as expected: {text}"))?;
    }
    for (what, limit) in
        [("median", expectations.median_within), ("99th percentile", expectations.p99_within)]
    {
        if let Some(limit) = limit.filter(|limit| outcome.took().is_some_and(|took| took > *limit))
        {
            output::result(&format!(
                "longer than {}, the bound of the {what} of all seeds (see `lab run`)",
                seconds_text(limit)
            ))?;
        }
    }
    match (&outcome.violation, outcome.took(), unmet.as_slice()) {
        (Some(violation), _, _) => {
            output::result(&text(violation))?;
            Err(Failure::new(format!("property {} was violated", violation.property)))
        }
        (None, None, _) => Err(Failure::new(format!("the run did not finish: {}", outcome.stop))),
        (None, Some(_), [_]) => Err(Failure::new("an expectation was not met")),
        (None, Some(_), unmet @ [_, ..]) => {
            Err(Failure::new(format!("{} expectations were not met", unmet.len())))
        }
        (None, Some(_), []) => Ok(()),
    }
}

fn flow_text(flow: &FlowOutcome) -> String {
    let took = flow.took.map_or_else(|| "not finished".to_owned(), seconds_text);
    let floor = if flow.reached_floor { ", window at its floor" } else { "" };
    format!(
        "flow {}: {}, {} bytes, {took}, {} congestion events, {} packets lost{floor}",
        flow.name,
        flow.controller,
        flow.received,
        flow.sender.congestion_events,
        flow.sender.packets_lost
    )
}
