//! Decides whether runs meet their expectations. No other code makes this decision.

use core::time::Duration;

use clearway_units::Rate;

use super::Statistics;
use super::measure::Measured;
use super::statistics::Violated;
use super::text::{percent_text, rate_text, seconds_text, seeds_text, time_or_never};
use crate::checker::Property;
use crate::scenario::{Expectations, ShareBound};
use crate::setup::Setup;
use crate::sweep::Run;

/// One expectation, and whether it was met.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// The expectation, in words.
    pub expected: String,
    /// The result that does not meet the expectation, in words; `None` if the expectation is met.
    pub shortfall: Option<String>,
    /// The properties that the result violates.
    pub violated: Vec<Violated>,
}

impl Verdict {
    /// Creates a verdict on an expectation that does not correspond to a property.
    fn new(expected: String, shortfall: Option<String>) -> Self {
        Self { expected, shortfall, violated: Vec::new() }
    }

    /// Returns whether the expectation is met.
    pub const fn is_met(&self) -> bool {
        self.shortfall.is_none()
    }
}

/// Compares the runs of a variant with its expectations. In addition, no run may violate a
/// property.
pub fn judge(expectations: &Expectations, setup: &Setup, runs: &[Run]) -> Vec<Verdict> {
    let judge = Judge { setup, runs, statistics: Statistics::new(runs) };
    let mut verdicts = vec![judge.properties()];
    judge.times(expectations, &mut verdicts);
    judge.goodputs(expectations, &mut verdicts);
    judge.network(expectations, &mut verdicts);
    judge.fairness(expectations, &mut verdicts);
    verdicts
}

struct Judge<'a> {
    setup: &'a Setup,
    runs: &'a [Run],
    statistics: Statistics,
}

impl Judge<'_> {
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
        Verdict { expected: "no property is violated".to_owned(), shortfall, violated }
    }

    fn times(&self, expectations: &Expectations, verdicts: &mut Vec<Verdict>) {
        if expectations.finished {
            verdicts.push(self.finished());
        }
        let statistics = &self.statistics;
        // L9: the scenario specifies how long its transfer may take.
        let mut bound = |what: &str, limit: Option<Duration>, time: Option<Duration>| {
            let Some(limit) = limit else { return };
            let is_met = time.is_some_and(|time| time <= limit);
            verdicts.push(Verdict {
                expected: format!("{what} within {}", seconds_text(limit)),
                shortfall: (!is_met).then(|| time_or_never(time)),
                violated: if is_met { Vec::new() } else { self.later_than(limit) },
            });
        };
        bound("every run", expectations.within, statistics.longest);
        bound("the median", expectations.median_within, statistics.median);
        bound("the 99th percentile", expectations.p99_within, statistics.p99);
        if let Some(least) = expectations.floor_reached {
            let share = statistics.floor_reached;
            let expected =
                format!("the window reaches its floor in at least {} of runs", percent_text(least));
            let shortfall = (share < least).then(|| percent_text(share));
            verdicts.push(Verdict::new(expected, shortfall));
        }
    }

    /// Checks L9 for runs whose violation is not visible in any single event.
    fn finished(&self) -> Verdict {
        let statistics = &self.statistics;
        let unfinished = statistics.runs - statistics.finished;
        let first = self.runs.iter().find(|run| run.outcome.took().is_none());
        let shortfall = first.map(|run| {
            format!(
                "{} did not finish ({}); the first {}",
                of(unfinished, statistics.runs),
                seeds_text(&statistics.unfinished_seeds, unfinished),
                run.outcome.stop,
            )
        });
        let violated = self.of_runs(Property::L9, |run| run.outcome.took().is_none());
        Verdict { expected: "every run finishes".to_owned(), shortfall, violated }
    }

    /// Returns the L9 violations: runs that took longer than `limit`, or never finished.
    fn later_than(&self, limit: Duration) -> Vec<Violated> {
        self.of_runs(Property::L9, |run| run.outcome.took().is_none_or(|took| took > limit))
    }

    /// Returns the violations of `property` in the runs selected by `is_one`. A run that ended with
    /// a violation counts only for the property of that violation.
    fn of_runs(&self, property: Property, is_one: impl Fn(&Run) -> bool) -> Vec<Violated> {
        let is_one = |run: &&Run| run.outcome.violation.is_none() && is_one(run);
        let Some(first) = self.runs.iter().find(is_one) else { return Vec::new() };
        let runs = self.runs.iter().filter(is_one).count();
        let at_s = first.outcome.at.as_secs_f64();
        vec![Violated { property: property.id(), runs, seed: first.seed, at_s }]
    }

    fn goodputs(&self, expectations: &Expectations, verdicts: &mut Vec<Verdict>) {
        for (limit, bound) in [
            (expectations.goodput_at_least, Bound::AtLeast),
            (expectations.goodput_at_most, Bound::AtMost),
        ] {
            let Some(limit) = limit else { continue };
            let culprit = self.measured().find_map(|(seed, run)| {
                let miss = |(_, rate): &(_, Rate)| !bound.admits(&limit, rate);
                run.goodputs().find(miss).map(|(flow, rate)| {
                    format!("{} in {} of seed {seed}", rate_text(rate), flow.name)
                })
            });
            let expected = format!("every goodput {} {}", bound.text(), rate_text(limit));
            verdicts.push(Verdict::new(expected, culprit));
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
            verdicts.push(Verdict::new(expected, shortfall));
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
                verdicts.push(Verdict::new(expected, shortfall));
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
        let violated = self.of_runs(property, |run| {
            misses(Measured { setup: self.setup, outcome: &run.outcome }).is_some()
        });
        Verdict { expected, shortfall: culprit, violated }
    }

    fn measured(&self) -> impl Iterator<Item = (u64, Measured<'_>)> {
        let setup = self.setup;
        self.runs.iter().map(move |run| (run.seed, Measured { setup, outcome: &run.outcome }))
    }
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
