//! `cargo xtask bench balance`: compares the forwarding rate of `clearway balance` with typical
//! simple loops and nginx, and measures the cost of routing and the gain from a second thread.
//!
//! Clients only send, and servers only count. The proxy has one core to itself, and clients and
//! servers share the other one. A proxy that is faster than the clients is not always busy, so the
//! result is the number of datagrams forwarded per second of CPU time.

mod forwarding;
mod loss;
mod picture;
mod proxy;
mod routing;
mod scaling;
mod traffic;

use std::time::Duration;

use self::proxy::Programs;
use super::bounded::Bounded;
use super::report::Results;
use super::stacks::build;
use crate::options::positive;

/// Maximum number of runs per round.
const RUNS: u64 = 40;
/// Time limit of a run, in addition to the measurement time.
const MARGIN: Duration = Duration::from_secs(20);

/// The case to measure.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Case {
    Forwarding,
    Routing,
    Scaling,
}

#[derive(clap::Args)]
pub(super) struct BalanceOptions {
    /// Measure only this case
    #[arg(long, value_enum)]
    case: Option<Case>,
    /// Number of measurements of each case
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = positive::<u64>())]
    rounds: u64,
    /// Duration of a run
    #[arg(long, default_value_t = 3, value_parser = positive::<u64>())]
    seconds: u64,
    /// Draw the fraction of offered datagrams that is lost at several rates
    ///
    /// Compares a loop that works on each datagram for 20 us, the same loop with 4 times its
    /// buffer, and the balancer. Measures nothing else.
    #[arg(long, value_name = "FILE", conflicts_with = "case")]
    picture: Option<String>,
}

pub(super) fn run(options: &BalanceOptions, json: bool) -> Result<(), String> {
    let programs = Programs::find(build()?)?;
    let BalanceOptions { rounds, seconds, .. } = *options;
    let runs = u32::try_from(rounds.saturating_mul(RUNS)).unwrap_or(u32::MAX);
    let limit = (Duration::from_secs(seconds) + MARGIN).saturating_mul(runs);
    let _bounded = Bounded::new("balance", limit);
    let mut results = Results::default();
    if let Some(file) = &options.picture {
        loss::measure(&programs, rounds, seconds, file, &mut results)?;
        return results.print(json);
    }
    let is_wanted = |case| options.case.is_none_or(|only| only == case);
    if is_wanted(Case::Routing) {
        routing::measure(&programs.bench, rounds, &mut results);
    }
    if is_wanted(Case::Forwarding) {
        forwarding::measure(&programs, rounds, seconds, &mut results);
    }
    if is_wanted(Case::Scaling) {
        scaling::measure(&programs, rounds, seconds, &mut results);
    }
    results.print(json)
}
