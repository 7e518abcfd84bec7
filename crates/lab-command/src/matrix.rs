//! The matrix of all runs: scenarios with their variants, controllers and seeds.

use core::ops::Range;
use std::time::Duration;

use clearway_lab::report::{Row, judge};
use clearway_lab::run::Candidate;
use clearway_lab::scenario::{Reference, Scenario, Variant};
use clearway_lab::setup::StackKind;
use clearway_lab::sweep::{Job, Swept};

use super::selection::Selection;
use clearway_terminal::failure::Failure;
use clearway_terminal::output;

/// The interval at which the received bytes of flows and the queueing delay are sampled, if they
/// are checked.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Scenarios, and the cells to run.
pub(super) struct Matrix {
    scenarios: Vec<Scenario>,
    cells: Vec<Cell>,
}

/// One variant with one controller.
struct Cell {
    scenario: usize,
    variant: usize,
    candidate: Candidate,
    seeds: Range<u64>,
}

/// A cell with its scenario and variant.
pub(super) struct View<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) variant: &'a Variant,
    pub(super) candidate: &'a Candidate,
    pub(super) seeds: Range<u64>,
}

impl Matrix {
    /// Selects the cells of `scenarios` that `selection` includes. There are `count` seeds, or as
    /// many as the scenario specifies, beginning with `first`; a variant gets its share of them.
    ///
    /// # Errors
    ///
    /// Returns an error if no cell is selected.
    pub(super) fn new(
        scenarios: Vec<Scenario>,
        selection: &Selection,
        first: u64,
        count: Option<u64>,
    ) -> Result<Self, Failure> {
        check_variants(&scenarios, selection)?;
        let mut cells = Vec::new();
        for (index, scenario) in scenarios.iter().enumerate() {
            let seeds = count.unwrap_or(scenario.seeds);
            for (variant, it) in scenario.variants.iter().enumerate() {
                if !selection.has_variant(&it.name) || !is_available(scenario, it) {
                    continue;
                }
                let seeds = first..first.saturating_add(it.seeds(seeds));
                let controllers = selection.controllers(&scenario.controllers);
                cells.extend(controllers.into_iter().map(|controller| Cell {
                    scenario: index,
                    variant,
                    candidate: controller.into(),
                    seeds: seeds.clone(),
                }));
            }
        }
        match cells.is_empty() {
            false => Ok(Self { scenarios, cells }),
            true => Err(Failure::new(
                "nothing to run: this program lacks a feature that the scenario needs",
            )),
        }
    }

    /// Returns the cell with the index `index`.
    pub(super) fn view(&self, index: usize) -> Option<View<'_>> {
        let cell = self.cells.get(index)?;
        let scenario = self.scenarios.get(cell.scenario)?;
        let variant = scenario.variants.get(cell.variant)?;
        Some(View { scenario, variant, candidate: &cell.candidate, seeds: cell.seeds.clone() })
    }

    /// Returns all cells.
    pub(super) fn views(&self) -> impl Iterator<Item = View<'_>> {
        (0..self.cells.len()).filter_map(|index| self.view(index))
    }
}

/// Returns whether this program has the QUIC stacks that a variant needs; prints a line if it does
/// not.
fn is_available(scenario: &Scenario, variant: &Variant) -> bool {
    let flows = &variant.setup.flows;
    let mut stacks = flows.iter().flat_map(|flow| [flow.client.stack, flow.server.stack]);
    let is_available = stacks.all(StackKind::is_available);
    if !is_available {
        let (scenario, variant) = (&scenario.name, &variant.name);
        output::status(&format!(
            "skipping {scenario}, {variant:?}: it needs a program built with the cargo feature quinn"
        ));
    }
    is_available
}

/// Returns an error if a selected variant does not exist in any scenario, since its name is
/// probably mistyped.
fn check_variants(scenarios: &[Scenario], selection: &Selection) -> Result<(), Failure> {
    let names = || scenarios.iter().flat_map(|scenario| &scenario.variants).map(|it| &it.name);
    let is_unknown = |asked: &&String| !names().any(|name| name == *asked);
    match selection.variants().iter().find(is_unknown) {
        None => Ok(()),
        Some(unknown) => {
            let known: Vec<_> = names().map(|name| format!("{name:?}")).collect();
            Err(Failure::new(format!("unknown variant {unknown:?}"))
                .advise(format!("choose one of: {}", known.join(", "))))
        }
    }
}

impl<'a> View<'a> {
    /// Returns the job that runs the cell.
    pub(super) fn job(&self) -> Job<'a> {
        let expectations = self.variant.expect(&self.candidate.name);
        let is_sampled = expectations.jain_at_least.is_some()
            || expectations.mean_queue_delay_at_most.is_some()
            || !expectations.shares.is_empty();
        Job {
            setup: &self.variant.setup,
            candidate: self.candidate,
            seeds: self.seeds.clone(),
            sample_every: is_sampled.then_some(SAMPLE_INTERVAL),
            check: true,
            goes_on: false,
        }
    }

    /// Returns the row of the cell, with the results of its runs.
    pub(super) fn row(&self, swept: &Swept) -> Row {
        let expectations = self.variant.expect(&self.candidate.name);
        let expected = self.job().count();
        Row {
            scenario: self.scenario.name.clone(),
            variant: self.variant.name.clone(),
            controller: self.candidate.name.clone(),
            verdicts: judge(&expectations, &self.variant.setup, &swept.runs),
            references: self.references().map(reference_text).collect(),
            ..Row::new(swept, expected)
        }
    }

    /// Returns published results for the cell.
    fn references(&self) -> impl Iterator<Item = &'a Reference> {
        let (variant, controller) = (&self.variant.name, &self.candidate.name);
        self.scenario.references.iter().filter(move |reference| {
            reference.variant.as_ref().is_none_or(|name| name == variant)
                && reference.controller.as_ref().is_none_or(|name| name == controller)
        })
    }

    /// Returns the name of a run's qlog file.
    pub(super) fn file_name(&self, seed: u64) -> String {
        let (scenario, variant) = (&self.scenario.name, &self.variant.name);
        let name = format!("{scenario}-{}-{variant}-{seed}", self.candidate.name);
        let plain = |it: char| if it.is_alphanumeric() || "-_.".contains(it) { it } else { '_' };
        name.chars().map(plain).collect::<String>() + ".sqlog"
    }
}

fn reference_text(reference: &Reference) -> String {
    format!("{} ({})", reference.figure, reference.source)
}
