//! Decides whether runs meet their expectations. No other code makes this decision.

use core::time::Duration;

use clearway_units::Rate;

use super::Statistics;
use super::measure::Measured;
use super::statistics::{NAMED, Violated, percentile};
use super::text::{percent_text, rate_text, seconds_text, seeds_text, time_or_never};
use crate::checker::Property;
use crate::run::FlowOutcome;
use crate::scenario::{Expectations, ShareBound};
use crate::setup::Setup;
use crate::sweep::Run;
use crate::world::Stop;

/// One expectation, and whether it was met.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// The expectation, in words.
    pub expected: String,
    /// The result that does not meet the expectation, in words; `None` if the expectation is met.
    pub shortfall: Option<String>,
    /// The properties that the result violates.
    pub violated: Vec<Violated>,
    /// The seeds of the first few runs that do not meet the expectation; empty if the expectation
    /// is about all runs together.
    pub seeds: Vec<u64>,
    /// Whether the runs show if the expectation is met: `false` if that depends on runs that ended
    /// early, because they violated a property.
    pub is_checked: bool,
}

impl Verdict {
    /// Returns whether the expectation is met.
    pub const fn is_met(&self) -> bool {
        self.shortfall.is_none() && self.is_checked
    }

    /// Describes the expectation and the result that does not meet it; `None` if there is no such
    /// result.
    pub fn unmet(&self) -> Option<String> {
        let shortfall = self.shortfall.as_ref()?;
        Some(format!("{}: {shortfall}", self.expected))
    }
}

/// Compares the runs of a variant with its expectations. In addition, no run may violate a
/// property.
pub fn judge(expectations: &Expectations, setup: &Setup, runs: &[Run]) -> Vec<Verdict> {
    let judge = Judge { setup, runs, statistics: Statistics::new(runs) };
    let mut verdicts = vec![judge.properties()];
    if expectations.finished {
        verdicts.push(judge.finished());
    }
    judge.bounds(expectations, &mut verdicts);
    verdicts
}

/// Compares one run with the expectations that apply to each run on its own, except that it
/// finishes.
pub fn judge_run(expectations: &Expectations, setup: &Setup, run: &Run) -> Vec<Verdict> {
    let runs = core::slice::from_ref(run);
    let judge = Judge { setup, runs, statistics: Statistics::new(runs) };
    let mut verdicts = Vec::new();
    judge.bounds(&expectations.of_one_run(), &mut verdicts);
    verdicts
}

struct Judge<'a> {
    setup: &'a Setup,
    runs: &'a [Run],
    statistics: Statistics,
}

impl Judge<'_> {
    fn bounds(&self, expectations: &Expectations, verdicts: &mut Vec<Verdict>) {
        self.times(expectations, verdicts);
        self.goodputs(expectations, verdicts);
        self.network(expectations, verdicts);
        self.fairness(expectations, verdicts);
    }

    /// Creates a verdict on an expectation that does not correspond to a property. Without a
    /// shortfall, the expectation is met unless runs ended early.
    fn verdict(&self, expected: String, shortfall: Option<String>) -> Verdict {
        let is_checked = shortfall.is_some() || self.statistics.ended_early == 0;
        Verdict { expected, shortfall, violated: Vec::new(), seeds: Vec::new(), is_checked }
    }

    /// Creates a verdict on an expectation about the mean of all runs.
    fn mean_verdict(&self, expected: String, shortfall: Option<String>) -> Verdict {
        self.verdict(expected, shortfall.filter(|_| self.statistics.ended_early == 0))
    }

    fn properties(&self) -> Verdict {
        let statistics = &self.statistics;
        let first = self.runs.iter().find_map(|run| run.outcome.violation.as_ref());
        let shortfall = first.map(|violation| {
            format!(
                "{} violated a property ({}); the first: {}: {}",
                of(statistics.violations, statistics.runs),
                seeds_text(&statistics.violating_seeds, statistics.violations),
                violation.property,
                violation.explanation,
            )
        });
        let violated = statistics.violated.clone();
        let seeds = statistics.violating_seeds.clone();
        let expected = "no property is violated".to_owned();
        Verdict { expected, shortfall, violated, seeds, is_checked: true }
    }

    fn times(&self, expectations: &Expectations, verdicts: &mut Vec<Verdict>) {
        if let Some(limit) = expectations.within {
            let expected = format!("every run within {}", seconds_text(limit));
            verdicts.push(self.on_time(expected, self.late_text(limit), limit));
        }
        for (what, percent, limit) in [
            ("the median", 50, expectations.median_within),
            ("the 99th percentile", 99, expectations.p99_within),
        ] {
            let Some(limit) = limit else { continue };
            let expected = format!("{what} within {}", seconds_text(limit));
            verdicts.push(self.on_time(expected, self.slow_text(percent, limit), limit));
        }
        if let Some(least) = expectations.floor_reached {
            let share = self.statistics.floor_reached;
            let expected =
                format!("the window reaches its floor in at least {} of runs", percent_text(least));
            let shortfall = (share < least).then(|| percent_text(share));
            verdicts.push(self.mean_verdict(expected, shortfall));
        }
    }

    /// Checks L9: the scenario specifies how long its transfer may take.
    fn on_time(&self, expected: String, shortfall: Option<String>, limit: Duration) -> Verdict {
        match shortfall.is_some() {
            true => {
                self.verdict(expected, shortfall).in_runs(self.of_runs(Property::L9, late(limit)))
            }
            false => self.verdict(expected, shortfall),
        }
    }

    /// Describes the runs that took longer than `limit`, or never finished.
    fn late_text(&self, limit: Duration) -> Option<String> {
        let is_late = late(limit);
        let late: Vec<&Run> = self.completed().filter(|run| is_late(run)).collect();
        let time = |run: &Run| time_or_never(run.outcome.took());
        let longest = late.iter().max_by_key(|run| longer(run.outcome.took()))?;
        Some(match late.as_slice() {
            [run] if self.runs.len() == 1 => format!("{} with seed {}", time(run), run.seed),
            [run] => {
                let of = of(1, self.runs.len());
                format!("{of} was late (seed {}: {})", run.seed, time(run))
            }
            _ => format!(
                "{} were late ({}; the longest: {})",
                of(late.len(), self.runs.len()),
                seeds_text(&seeds(late.iter().copied()), late.len()),
                time(longest)
            ),
        })
    }

    /// Describes the time of the slowest of `percent` percent of the runs, if it exceeds `limit`.
    fn slow_text(&self, percent: usize, limit: Duration) -> Option<String> {
        // The time of a run that ended early is unknown, and not negative.
        let time = |run: &Run| match run.outcome.stop {
            Stop::Violated => Some(Duration::ZERO),
            _ => run.outcome.took(),
        };
        let mut times: Vec<_> = self.runs.iter().map(time).collect();
        times.sort_unstable_by_key(|time| longer(*time));
        let time = percentile(&times, percent);
        if time.is_some_and(|time| time <= limit) {
            return None;
        }
        let is_late = late(limit);
        let late = || self.completed().filter(|run| is_late(run));
        let least = if self.statistics.ended_early > 0 { "at least " } else { "" };
        Some(format!(
            "{least}{}; {} took longer ({})",
            time_or_never(time),
            of(late().count(), self.runs.len()),
            seeds_text(&seeds(late()), late().count())
        ))
    }

    /// Checks L9 for runs whose violation is not visible in any single event.
    fn finished(&self) -> Verdict {
        let unfinished = || self.completed().filter(|run| run.outcome.took().is_none());
        let shortfall = unfinished().next().map(|run| {
            format!(
                "{} did not finish ({}); the first {}",
                of(unfinished().count(), self.runs.len()),
                seeds_text(&seeds(unfinished()), unfinished().count()),
                run.outcome.stop,
            )
        });
        let violating = self.of_runs(Property::L9, |run| run.outcome.took().is_none());
        self.verdict("every run finishes".to_owned(), shortfall).in_runs(violating)
    }

    /// Returns the violations of `property` in the runs selected by `is_one`, and the seeds of the
    /// first few of these runs. A run that ended with a violation counts only for the property of
    /// that violation.
    fn of_runs(
        &self,
        property: Property,
        is_one: impl Fn(&Run) -> bool,
    ) -> (Vec<Violated>, Vec<u64>) {
        let is_one = |run: &&Run| run.outcome.violation.is_none() && is_one(run);
        let all = || self.runs.iter().filter(is_one);
        let violated = all().next().map(|first| Violated {
            property: property.id(),
            runs: all().count(),
            seed: first.seed,
            at_s: first.outcome.at.as_secs_f64(),
        });
        (violated.into_iter().collect(), seeds(all()))
    }

    fn goodputs(&self, expectations: &Expectations, verdicts: &mut Vec<Verdict>) {
        for (limit, bound) in [
            (expectations.goodput_at_least, Bound::AtLeast),
            (expectations.goodput_at_most, Bound::AtMost),
        ] {
            let Some(limit) = limit else { continue };
            let culprit = self.measured().find_map(|(seed, run)| {
                let miss = |(_, rate): &(_, Rate)| !bound.admits(&limit, rate);
                let text = |(flow, rate): (&FlowOutcome, _)| {
                    format!("{} in {} of seed {seed}", rate_text(rate), flow.name)
                };
                run.goodputs().find(miss).map(|it| (seed, text(it)))
            });
            let (seed, shortfall) = culprit.unzip();
            let expected = format!("every goodput {} {}", bound.text(), rate_text(limit));
            let violating = (Vec::new(), seed.into_iter().collect());
            verdicts.push(self.verdict(expected, shortfall).in_runs(violating));
        }
        for (limit, bound) in [
            (expectations.mean_goodput_at_least, Bound::AtLeast),
            (expectations.mean_goodput_at_most, Bound::AtMost),
        ] {
            let Some(limit) = limit else { continue };
            let rates: Vec<u64> = self
                .measured()
                .flat_map(|(_, run)| run.goodputs().map(|(_, rate)| rate.bytes_per_second()))
                .collect();
            let sum = rates.iter().fold(0, |sum: u128, rate| sum + u128::from(*rate));
            let mean = sum.checked_div(rates.len() as u128).unwrap_or(0);
            let mean = Rate::from_bytes_per_second(u64::try_from(mean).unwrap_or(u64::MAX));
            let expected = format!("the mean goodput {} {}", bound.text(), rate_text(limit));
            let shortfall = (!bound.admits(&limit, &mean)).then(|| rate_text(mean));
            verdicts.push(self.mean_verdict(expected, shortfall));
        }
    }

    fn network(&self, expectations: &Expectations, verdicts: &mut Vec<Verdict>) {
        if let Some(least) = expectations.utilisation_at_least {
            let expected = Bounded::at_least("the utilization", least, percent_text);
            verdicts.push(self.every(Property::L2, expected, |run| run.utilisation()));
        }
        if let Some(most) = expectations.loss_at_most {
            let expected = Bounded::at_most("the loss", most, percent_text);
            verdicts.push(self.every(Property::S11, expected, |run| Some(run.loss())));
        }
        if let Some(most) = expectations.mean_queue_delay_at_most {
            let settled = expectations.settled_after;
            let expected = Bounded::at_most("the mean queue delay", most, seconds_text);
            verdicts.push(self.every(Property::S11, expected, |run| run.queue_delay(settled)));
        }
    }

    fn fairness(&self, expectations: &Expectations, verdicts: &mut Vec<Verdict>) {
        let settled = expectations.settled_after;
        if let Some(least) = expectations.jain_at_least {
            let expected = Bounded::at_least("Jain's index", least, percent_text);
            verdicts.push(self.every(Property::Fa, expected, |run| run.jain(settled)));
        }
        for share in &expectations.shares {
            let of_group = |run: Measured<'_>| run.share_of(&share.group, settled);
            let what = format!("the share of {}", share.group);
            if share.at_least > 0.0 {
                let expected = Bounded::at_least(&what, share.at_least, percent_text);
                verdicts.push(self.every(Property::Fd, expected, of_group));
            }
            if share.at_most < 1.0 {
                let expected = Bounded::at_most(&what, share.at_most, percent_text);
                verdicts.push(self.every(Property::Fd, expected, of_group));
            }
            self.mean_share(share, settled, verdicts);
        }
    }

    fn mean_share(&self, share: &ShareBound, settled: Duration, verdicts: &mut Vec<Verdict>) {
        let of_group = |(_, run): (_, Measured<'_>)| run.share_of(&share.group, settled);
        let shares: Vec<f64> = self.measured().filter_map(of_group).collect();
        let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
        for (limit, bound, is_given) in [
            (share.mean_at_least, Bound::AtLeast, share.mean_at_least > 0.0),
            (share.mean_at_most, Bound::AtMost, share.mean_at_most < 1.0),
        ] {
            if is_given {
                let group = &share.group;
                let limit_text = percent_text(limit);
                let expected = format!("the mean share of {group} {} {limit_text}", bound.text());
                let shortfall = (!bound.admits(&limit, &mean)).then(|| percent_text(mean));
                verdicts.push(self.mean_verdict(expected, shortfall));
            }
        }
    }

    /// Checks that a value is within a limit in every run; otherwise `property` is violated.
    fn every<T: PartialOrd + Copy>(
        &self,
        property: Property,
        expected: Bounded<'_, T>,
        figure: impl Fn(Measured<'_>) -> Option<T>,
    ) -> Verdict {
        let Bounded { what, bound, limit, text } = expected;
        let misses = |run: Measured<'_>| match figure(run) {
            Some(value) if bound.admits(&limit, &value) => None,
            Some(value) => Some(text(value)),
            None => Some("the value cannot be measured".to_owned()),
        };
        let culprit = self
            .measured()
            .find_map(|(seed, run)| misses(run).map(|value| format!("{value} with seed {seed}")));
        let expected = format!("{what} {} {} in every run", bound.text(), text(limit));
        let violating = self.of_runs(property, |run| {
            misses(Measured { setup: self.setup, outcome: &run.outcome }).is_some()
        });
        self.verdict(expected, culprit).in_runs(violating)
    }

    fn measured(&self) -> impl Iterator<Item = (u64, Measured<'_>)> {
        let setup = self.setup;
        self.completed().map(move |run| (run.seed, Measured { setup, outcome: &run.outcome }))
    }

    /// Returns the runs that did not end early because of a violation.
    fn completed(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.outcome.stop != Stop::Violated)
    }
}

impl Verdict {
    /// Adds the properties that the result violates, and the runs that violate them.
    fn in_runs(self, (violated, seeds): (Vec<Violated>, Vec<u64>)) -> Self {
        Self { violated, seeds, ..self }
    }
}

/// Returns whether a run took longer than `limit`, or never finished.
fn late(limit: Duration) -> impl Fn(&Run) -> bool {
    move |run| run.outcome.took().is_none_or(|took| took > limit)
}

/// Returns the key by which times are sorted: a run that did not finish comes last.
fn longer(took: Option<Duration>) -> (bool, Option<Duration>) {
    (took.is_none(), took)
}

/// Returns the seeds of the first few runs.
fn seeds<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<u64> {
    runs.map(|run| run.seed).take(NAMED).collect()
}

/// The name of a value and its bound.
struct Bounded<'a, T> {
    what: &'a str,
    bound: Bound,
    limit: T,
    /// Formats the value.
    text: fn(T) -> String,
}

impl<'a, T> Bounded<'a, T> {
    fn at_least(what: &'a str, limit: T, text: fn(T) -> String) -> Self {
        Self { what, bound: Bound::AtLeast, limit, text }
    }

    fn at_most(what: &'a str, limit: T, text: fn(T) -> String) -> Self {
        Self { what, bound: Bound::AtMost, limit, text }
    }
}

#[derive(Clone, Copy)]
enum Bound {
    AtLeast,
    AtMost,
}

impl Bound {
    fn admits<T: PartialOrd>(self, limit: &T, value: &T) -> bool {
        match self {
            Self::AtLeast => value >= limit,
            Self::AtMost => value <= limit,
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::AtLeast => "at least",
            Self::AtMost => "at most",
        }
    }
}

fn of(part: usize, whole: usize) -> String {
    format!("{part} of {whole} runs")
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
