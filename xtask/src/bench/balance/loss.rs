//! The loss rate at increasing load, for three proxies: a loop that spends some time on each
//! datagram, the same loop with a larger receive buffer, and the balancer.

use std::fs;

use super::super::report::{Figure, Results};
use super::super::{median, sorted};
use super::forwarding::once;
use super::picture::{self, Line};
use super::proxy::{Kind, Loop, Programs};
use super::traffic::{Run, Traffic};

/// Offered rates in datagrams per second.
const OFFERED: [f64; 10] = [10e3, 20e3, 30e3, 40e3, 60e3, 100e3, 200e3, 400e3, 800e3, 1600e3];
/// Number of datagrams that a client sends together.
const BATCH: usize = 16;
/// Additional work of the loop per datagram, in microseconds.
const WORK_US: u64 = 20;
/// Ratio of the larger receive buffer to the default one.
const TIMES: u64 = 4;
/// The kernel's default receive buffer size.
const DEFAULT_BUFFER: &str = "/proc/sys/net/core/rmem_default";

/// One proxy, measured at each rate.
struct Series {
    name: String,
    kind: Kind,
    /// For each rate, the offered rate and the fraction of lost datagrams in each round.
    points: Vec<Vec<(f64, f64)>>,
}

/// Measures the loss of all proxies, and draws the chart to `file`.
pub(super) fn measure(
    programs: &Programs,
    rounds: u64,
    seconds: u64,
    file: &str,
    results: &mut Results,
) -> Result<(), String> {
    let mut all = all(default_buffer()?);
    for round in 1..=rounds {
        for (index, rate) in OFFERED.into_iter().enumerate() {
            for series in &mut all {
                let traffic = Traffic { batch: BATCH, rate: Some(rate), seconds };
                let run = once(programs, series.kind, traffic)
                    .map_err(|error| format!("{}, {rate:.0} datagrams/s: {error}", series.name))?;
                let Run { offered, .. } = run;
                let (name, loss) = (&series.name, run.loss());
                eprintln!("xtask: {name}: {offered:.0} datagrams/s offered; {loss}; round {round}");
                series.points[index].push((run.offered, run.lost));
            }
        }
    }
    results.figures.extend(all.iter().flat_map(figures));
    let drawn = picture::draw(&[line(&all[0]), line(&all[1]), line(&all[2])]);
    fs::write(file, drawn).map_err(|error| format!("{file}: {error}"))
}

fn all(buffer: u64) -> [Series; 3] {
    let with = |receive_buffer| Loop { method: "recvfrom", work_us: WORK_US, receive_buffer };
    let series =
        |name: String, kind| Series { name, kind, points: vec![Vec::new(); OFFERED.len()] };
    let name = format!("one thread, {WORK_US} µs for each datagram");
    let larger = format!("the same with {TIMES} times its receive buffer");
    let balancer = Kind::Balancer { has_preface: true, threads: 1 };
    [
        series(name, Kind::Loop(with(Some(buffer)))),
        series(larger, Kind::Loop(with(Some(TIMES * buffer)))),
        series("clearway balance, one thread".to_owned(), balancer),
    ]
}

fn default_buffer() -> Result<u64, String> {
    let text = fs::read_to_string(DEFAULT_BUFFER);
    let text = text.map_err(|error| format!("{DEFAULT_BUFFER}: {error}"))?;
    text.trim().parse().map_err(|_| format!("{DEFAULT_BUFFER} is not a number: {text}"))
}

fn figures(series: &Series) -> Vec<Figure> {
    let figure = |(rate, points): (f64, &Vec<(f64, f64)>)| Figure {
        case: format!("{}, {rate:.0} datagrams/s", series.name),
        unit: "% lost",
        values: points.iter().map(|(_, lost)| lost * 100.0).collect(),
    };
    OFFERED.into_iter().zip(&series.points).map(figure).collect()
}

/// Returns the chart line of the medians.
fn line(series: &Series) -> Line {
    let middle = |points: &Vec<(f64, f64)>| {
        let (offered, lost): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
        (median(&sorted(offered)), median(&sorted(lost)))
    };
    Line { name: series.name.clone(), points: series.points.iter().map(middle).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_medians() {
        let mut series = all(1000).into_iter().next().unwrap();
        for (points, rate) in series.points.iter_mut().zip(OFFERED) {
            *points = vec![(rate, 0.1), (rate * 0.9, 0.3), (rate * 1.1, 0.2)];
        }
        let Line { points, .. } = line(&series);
        assert_eq!(points, OFFERED.map(|rate| (rate, 0.2)));
        let figures = figures(&series);
        assert_eq!(figures[3].case, "one thread, 20 µs for each datagram, 40000 datagrams/s");
        assert_eq!(figures[3].values, [10.0, 30.0, 20.0]);
    }

    #[test]
    fn the_loops_differ_in_their_buffers() {
        let buffers = all(1000).map(|series| match series.kind {
            Kind::Loop(it) => it.receive_buffer,
            _ => None,
        });
        assert_eq!(buffers, [Some(1000), Some(4000), None]);
        assert!(default_buffer().is_ok_and(|bytes| bytes > 0));
    }
}
