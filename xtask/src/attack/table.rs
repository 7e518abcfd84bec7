//! The table of attacks and their costs.

use std::time::Duration;

use super::client::Seen;
use super::rows::Bound;
use super::watch::Cost;

/// The header of the table.
pub(super) const HEAD: &str = "\
attack                     sent    datagrams  memory     cpu       speed   fds  disk       client: answers  p50      p95      longest  failed  verdict";

/// The outcome of one attack: a line of the table.
#[derive(Default)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) sent: u64,
    pub(super) datagrams: u64,
    pub(super) cost: Cost,
    /// How many times slower programs were than on the reference machine.
    pub(super) slowness: f64,
    pub(super) seen: Seen,
    pub(super) notes: Vec<String>,
    /// The exceeded bounds and other failures; empty if the attack was repelled.
    pub(super) faults: Vec<String>,
}

/// Formats a byte count with the largest suitable unit.
pub(super) fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{} kB", count / 1_000),
        _ => format!("{} MB", count / 1_000_000),
    }
}

fn time(time: Duration) -> String {
    match time.as_micros() {
        0..1_000 => format!("{} us", time.as_micros()),
        1_000..10_000 => format!("{:.1} ms", time.as_secs_f64() * 1_000.0),
        _ => format!("{} ms", time.as_millis()),
    }
}

/// Returns the costs of a target that exceed the bounds.
pub(super) fn costs(bound: &Bound, cost: &Cost) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |holds: bool, fault: String| {
        if !holds {
            faults.push(fault);
        }
    };
    check(cost.memory <= bound.memory, format!("memory use above {}", bytes(bound.memory)));
    check(cost.cpu <= bound.cpu, format!("more than {:.2} s of CPU time", bound.cpu));
    let descriptors = bound.descriptors;
    check(cost.descriptors <= descriptors, format!("more than {descriptors} file descriptors"));
    check(cost.disk <= bound.disk, format!("more than {} on disk", bytes(bound.disk)));
    faults
}

/// Returns descriptions of everything that exceeds the bounds.
pub(super) fn outcome(bound: &Bound, cost: &Cost, seen: &Seen) -> Vec<String> {
    let mut faults = costs(bound, cost);
    let mut check = |holds: bool, fault: String| {
        if !holds {
            faults.push(fault);
        }
    };
    let latency = seen.percentile(0.95);
    check(latency <= bound.latency, format!("p95 above {}", time(bound.latency)));
    let (count, failures) = (seen.failures.len(), bound.failures);
    let first = seen.failures.first().map_or("", String::as_str);
    check(
        count <= failures,
        format!(
            "{count} requests failed, at most {failures} may fail; the \
        first: {first}"
        ),
    );
    let is_answered = !seen.latencies.is_empty() || bound.is_silent;
    check(is_answered, "the client got no response".to_owned());
    faults
}

impl Line {
    /// Returns a table line without measurements.
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// Returns the text of the table line.
    pub(super) fn text(&self) -> String {
        let (cost, seen) = (&self.cost, &self.seen);
        let verdict = match self.faults.as_slice() {
            [] => "held".to_owned(),
            faults => format!("FAILED: {}", faults.join("; ")),
        };
        let notes = match self.notes.as_slice() {
            [] => String::new(),
            notes => format!(" ({})", notes.join("; ")),
        };
        format!(
            "{:<25}  {:>7} {:>9}  {:>9}  {:>6.2} s  {:>5}  {:>4}  {:>9}  {:>15}  {:>7}  {:>7}  {:>7}  {:>6}  {verdict}{notes}",
            self.name,
            bytes(self.sent),
            self.datagrams,
            bytes(cost.memory),
            cost.cpu,
            format!("1/{:.1}", self.slowness),
            cost.descriptors,
            bytes(cost.disk),
            seen.latencies.len(),
            time(seen.percentile(0.5)),
            time(seen.percentile(0.95)),
            time(seen.gap),
            seen.failures.len(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::rows::USUAL;

    #[test]
    fn each_bound_is_compared() {
        let seen = Seen { latencies: vec![Duration::from_millis(1)], ..Seen::default() };
        assert!(outcome(&USUAL, &Cost::default(), &seen).is_empty());
        let cost = Cost { memory: u64::MAX, cpu: 1e9, descriptors: u64::MAX, disk: u64::MAX };
        assert_eq!(outcome(&USUAL, &cost, &seen).len(), 4);
        let slow = Seen { latencies: vec![Duration::from_secs(9)], ..Seen::default() };
        assert_eq!(outcome(&USUAL, &Cost::default(), &slow).len(), 1);
        // Neither a response nor a failure: the client was inactive.
        assert_eq!(outcome(&USUAL, &Cost::default(), &Seen::default()).len(), 1);
    }
}
