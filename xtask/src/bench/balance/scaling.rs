//! The gain from a second thread of the balancer. As in `shards.rs`, the machine may have only two
//! cores, which clients and servers need too. So each thread gets a fixed share of a core, and the
//! throughput with one thread is compared with that of two threads, and with that of two
//! single-threaded balancers.

use super::super::place::{CLIENT_CORE, SERVER_CORE};
use super::super::report::{Ratio, Results, Row};
use super::super::shares::{Shares, pin};
use super::super::{median, sorted, threads};
use super::forwarding::check;
use super::proxy::{Kind, Programs, Proxy, THREAD};
use super::traffic::{self, Run, SIZE, Servers, Traffic};

/// Share of a core that each thread gets, in percent.
const PERCENT: u64 = 25;
/// Minimum fraction of its share that a thread must use. If it uses less, the thread did not limit
/// the rate.
const BUSY: f64 = 0.9;
/// A thread that used more than its share times this factor was not limited to its share.
const EXCEEDED: f64 = 1.3;
/// Minimum throughput of two threads, relative to one thread.
const MIN_GAIN: f64 = 1.7;
/// Maximum CPU time per datagram with two threads, relative to one thread, if only that can be
/// measured.
const MAX_COST: f64 = 2.0 / MIN_GAIN;
const BATCH: usize = 64;
/// The CPU cores to which clients, servers and threads are pinned.
const CORES: [usize; 2] = [SERVER_CORE, CLIENT_CORE];

/// The number of balancers, and the number of threads in each.
#[derive(Clone, Copy)]
struct Setup {
    name: &'static str,
    balancers: usize,
    threads: usize,
}

const SETUPS: [Setup; 3] = [
    Setup { name: "one thread", balancers: 1, threads: 1 },
    Setup { name: "two threads", balancers: 1, threads: 2 },
    Setup { name: "two balancers", balancers: 2, threads: 1 },
];

/// The runs of one setup, one per round.
type Series = Vec<Run>;

pub(super) fn measure(programs: &Programs, rounds: u64, seconds: u64, results: &mut Results) {
    let has_shares = match Shares::new("trial", 2, PERCENT) {
        Ok(_) => true,
        Err(error) => {
            results.conclusions.push(format!(
                "cannot limit threads to a share of a core: {error}; only the CPU time of one and \
                 two threads is compared"
            ));
            false
        }
    };
    match all(programs, rounds, seconds, has_shares) {
        Ok(all) => report(&all, has_shares, results),
        Err(error) => results.failures.push(format!("two threads: {error}")),
    }
}

fn all(
    programs: &Programs,
    rounds: u64,
    seconds: u64,
    has_shares: bool,
) -> Result<[Series; 3], String> {
    let mut all: [Series; 3] = Default::default();
    for round in 1..=rounds {
        for (setup, series) in SETUPS.into_iter().zip(&mut all) {
            let run = once(programs, setup, seconds, has_shares)?;
            let (name, reached) = (setup.name, run.reached);
            eprintln!("xtask: {name}: {reached:.0} datagrams/s; round {round}");
            series.push(run);
        }
    }
    Ok(all)
}

fn once(programs: &Programs, setup: Setup, seconds: u64, has_shares: bool) -> Result<Run, String> {
    let kind = Kind::Balancer { has_preface: true, threads: setup.threads };
    let mut servers = Servers::start(&programs.bench, &CORES)?;
    let (mut proxies, mut shares) = (Vec::new(), Vec::new());
    for number in 0..setup.balancers {
        let cores = CORES.map(|core| core.to_string()).join(",");
        let name = format!("scaling-{number}");
        let mut proxy = Proxy::start(kind, programs, &servers.addresses, &name, &cores)?;
        proxy.threads = threads::named(proxy.id(), THREAD, setup.threads)?;
        if has_shares {
            let given = Shares::new(&number.to_string(), setup.threads, PERCENT)?;
            given.give(proxy.id(), &proxy.threads)?;
            shares.push(given);
        }
        pin(&proxy.threads, number)?;
        proxies.push(proxy);
    }
    let traffic = Traffic { batch: BATCH, rate: None, seconds };
    let run = traffic::send(&programs.bench, traffic, &proxies, &mut servers, &CORES)?;
    // A cgroup can be removed once it contains no process.
    drop(proxies);
    drop(shares);
    check(kind, &run)?;
    if has_shares {
        check_shares(&run.used)?;
    }
    Ok(run)
}

/// Checks that the kernel has limited the threads to their shares.
fn check_shares(used: &[f64]) -> Result<(), String> {
    let most = used.iter().copied().fold(0.0, f64::max) * 100.0;
    match most > PERCENT as f64 * EXCEEDED {
        false => Ok(()),
        true => Err(format!(
            "a thread used {most:.0} % of a core although its cgroup allows {PERCENT} %: the \
             kernel does not enforce the limit here"
        )),
    }
}

fn report(all: &[Series; 3], has_shares: bool, results: &mut Results) {
    let [one, two, apart] = all;
    let rows = [(one, SETUPS[0].name), (apart, SETUPS[2].name)];
    let rows = rows.map(|(peer, name)| row([two, peer], name, has_shares));
    let ratio = rows[0].ratio.median;
    results.rows.extend(rows);
    if has_shares && ratio < MIN_GAIN {
        let needed = PERCENT as f64 / 100.0 * BUSY;
        let is_busy = |run: &Run| run.used.iter().all(|used| *used >= needed);
        let why = match all.iter().flatten().all(is_busy) {
            true => "",
            false => {
                "; the threads did not use their full shares: measure again on an idle machine"
            }
        };
        results.failures.push(format!(
            "two threads forward {ratio:.2} times as much as one; expected at least {MIN_GAIN} \
             times{why}"
        ));
    }
    if !has_shares && ratio > MAX_COST {
        results.failures.push(format!(
            "two threads need {ratio:.2} times the CPU time of one; at most {MAX_COST:.2} times \
             are allowed"
        ));
    }
}

/// Returns a table row that compares the two-thread setup with another one.
fn row(all: [&Series; 2], peer: &'static str, has_shares: bool) -> Row {
    let (value, unit, digits): (fn(&Run) -> f64, _, _) = match has_shares {
        true => (|run| run.reached, "datagrams/s", 0),
        false => (|run| 1e9 / run.per_cpu_second, "ns of CPU time per datagram", 1),
    };
    let values = |series: &Series| series.iter().map(value).collect::<Vec<f64>>();
    let note = |series: &Series| {
        let used = series.last().map(|run| run.used.clone()).unwrap_or_default();
        let used: Vec<String> = used.iter().map(|part| format!("{:.1} %", part * 100.0)).collect();
        format!("{} of a core", used.join(" and "))
    };
    let shares = if has_shares { format!(", {PERCENT} % of a core each") } else { String::new() };
    Row {
        case: format!("forwarding of {SIZE} bytes in batches{shares}"),
        place: String::new(),
        face: SETUPS[1].name,
        peer,
        unit: unit.to_owned(),
        values: all.map(|series| median(&sorted(values(series)))),
        ratio: Ratio::of(&values(all[0]), &values(all[1])),
        digits,
        notes: all.map(note),
        more: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::traffic::tests::run;
    use super::*;

    fn found(rates: [f64; 3], used: f64, has_shares: bool) -> Results {
        let series = |rate| vec![Run { used: vec![used], ..run(rate) }; 3];
        let mut results = Results::default();
        report(&rates.map(series), has_shares, &mut results);
        results
    }

    #[test]
    fn the_second_thread_must_gain() {
        let good = found([100.0, 175.0, 180.0], 0.25, true);
        assert!(good.failures.is_empty());
        let ratios: Vec<_> = good.rows.iter().map(|row| (row.peer, row.ratio.median)).collect();
        assert_eq!(ratios, [("one thread", 1.75), ("two balancers", 175.0 / 180.0)]);
        assert_eq!(good.rows[0].notes[1], "25.0 % of a core");
        let bad = found([100.0, 165.0, 170.0], 0.25, true).failures;
        assert!(bad[0].ends_with("expected at least 1.7 times"), "{bad:?}");
        let idle = found([100.0, 165.0, 170.0], 0.2, true).failures;
        assert!(idle[0].ends_with("measure again on an idle machine"), "{idle:?}");
    }

    #[test]
    fn without_shares_the_processor_time_counts() {
        let good = found([100.0, 90.0, 90.0], 0.5, false);
        assert!(good.failures.is_empty());
        assert!(good.rows[0].unit.starts_with("ns"));
        let bad = found([100.0, 80.0, 90.0], 0.5, false).failures;
        assert!(bad[0].contains("1.25 times the CPU time of one"), "{bad:?}");
    }

    #[test]
    fn threads_are_kept_to_their_shares() {
        assert_eq!(check_shares(&[0.25, 0.3]), Ok(()));
        assert!(check_shares(&[0.25, 0.6]).is_err());
    }
}
