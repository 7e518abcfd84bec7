//! The target values for Clearway's measurements.

use std::time::Duration;

use crate::cell::{Cell, Outcome, Verdict};
use crate::network::Network;
use crate::stack::{Controller, Stack};

/// Minimum goodput in kilobits per second without cross traffic, with CUBIC and with BBR.
const LEAST_ALONE: f64 = 9400.0;
/// Allowed goodput of Clearway's CUBIC next to a TCP connection with CUBIC, in kilobits per second.
const BESIDE_TCP: std::ops::RangeInclusive<f64> = 4200.0..=6200.0;
/// Delay of the relay above which it may have affected a measurement.
const LATE: Duration = Duration::from_millis(5);

/// Returns the target range for the mean of a measurement; `None` if the mean is only printed.
fn target(cell: &Cell) -> Option<std::ops::RangeInclusive<f64>> {
    let is_ours = cell.client == Stack::Clearway && cell.server == Stack::Clearway;
    match (is_ours, cell.test.network, cell.controller) {
        (true, Network::CrossTraffic, Controller::Cubic) => Some(BESIDE_TCP),
        (true, Network::PointToPoint, Controller::Cubic | Controller::Bbr) => {
            Some(LEAST_ALONE..=f64::INFINITY)
        }
        _ => None,
    }
}

/// Returns the outcome of a measurement. With cross traffic, every run must be in the target range;
/// otherwise only the mean must be.
pub(crate) fn judge(cell: &Cell, goodputs: &[f64], others: &[f64], lateness: Duration) -> Outcome {
    let mean = mean(goodputs);
    let mut detail = format!(
        "{mean:.0} ± {:.0} kbit/s in {} runs ({:.0} to {:.0})",
        deviation(goodputs),
        goodputs.len(),
        goodputs.iter().copied().fold(f64::INFINITY, f64::min),
        goodputs.iter().copied().fold(0.0, f64::max),
    );
    if !others.is_empty() {
        detail.push_str(&format!(", TCP {:.0}", self::mean(others)));
    }
    if lateness > LATE {
        detail.push_str(&format!(", network up to {} ms late", lateness.as_millis()));
    }
    let is_met = target(cell).is_none_or(|range| match cell.test.network {
        Network::CrossTraffic => goodputs.iter().all(|goodput| range.contains(goodput)),
        _ => range.contains(&mean),
    });
    if let Some(range) = target(cell).filter(|_| !is_met) {
        detail.push_str(&format!(", not in {:.0} to {:.0}", range.start(), range.end()));
    }
    let result = if is_met { Verdict::Ok } else { Verdict::Failed };
    Outcome { kilobits_per_second: Some(mean), ..Outcome::new(result, detail) }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the sample standard deviation of the values.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / values.len().saturating_sub(1).max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::find;

    #[test]
    fn a_slow_download_alone_fails_and_a_peer_is_only_printed() {
        let mut cell = Cell {
            client: Stack::Clearway,
            server: Stack::Clearway,
            test: find("G").unwrap(),
            controller: Controller::Bbr,
        };
        let judged = |cell: &Cell, values: &[f64]| judge(cell, values, &[], Duration::ZERO);
        assert_eq!(judged(&cell, &[9500.0, 9310.0]).result, Verdict::Ok);
        let slow = judged(&cell, &[9500.0, 9290.0]);
        assert_eq!(slow.result, Verdict::Failed, "{slow:?}");
        assert_eq!(slow.kilobits_per_second, Some(9395.0));
        cell.server = Stack::Aioquic;
        assert_eq!(judged(&cell, &[100.0]).result, Verdict::Ok);
    }

    #[test]
    fn beside_tcp_every_run_counts() {
        let cell = Cell {
            client: Stack::Clearway,
            server: Stack::Clearway,
            test: find("C").unwrap(),
            controller: Controller::Cubic,
        };
        let judged = |values: &[f64]| judge(&cell, values, &[], Duration::ZERO).result;
        assert_eq!(judged(&[4300.0, 6100.0]), Verdict::Ok);
        assert_eq!(judged(&[4100.0, 6100.0]), Verdict::Failed);
    }
}
