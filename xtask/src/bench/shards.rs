//! `cargo xtask bench shards`: the gain from a second shard on the same port.
//!
//! The machine may have only two cores, which the clients need too. So each shard's thread gets a
//! fixed share of a core, and the clients have the rest. The throughput of one shard is compared
//! with that of two shards.
//!
//! One shard with all connections has different batches than two shards with half of the
//! connections each, and its clients are less busy. So two shards are also compared with two
//! single-shard servers that have the same shares of the same cores. If the shards reach less
//! throughput, the cause is what they share.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::bounded::Bounded;
use super::kernel::socket_drops;
use super::moving;
use super::place::{CLIENT_CORE, Place, SERVER_CORE};
use super::shares::{Shares, pin};
use super::stacks::build;
use super::steered::Steered;
use super::{median, round, sorted, text, threads};
use crate::measure::Process;
use crate::options::positive;

/// Share of a core that each shard's thread gets, in percent.
const PERCENT: u64 = 25;
/// The cores on which the clients run.
const CORES: [usize; 2] = [SERVER_CORE, CLIENT_CORE];
/// Minimum throughput of two shards, relative to one shard.
const MIN_GAIN: f64 = 1.8;
/// Minimum throughput of two shards, relative to two servers: half of the minimum gain.
const MIN_PART: f64 = MIN_GAIN / 2.0;
/// Maximum CPU time per request or byte with two shards, relative to two servers, if only that can
/// be measured.
const MAX_COST: f64 = 1.1;
/// Minimum fraction of its share that a shard must use. If it uses less, the shard did not limit
/// the rate.
const BUSY: f64 = 0.9;
/// A thread that used more than its share times this factor was not limited to its share.
/// Handshakes are not part of the measured time.
const EXCEEDED: f64 = 1.3;
/// Minimum unused fraction of the clients' CPU time. If less is unused, the clients may have
/// limited the rate.
const MIN_IDLE: f64 = 0.05;
/// Time limit of a run, in addition to the measurement time.
const MARGIN: Duration = Duration::from_secs(30);
/// The name of the threads that run shards.
const THREAD: &str = "clearway-shard";

#[derive(clap::Args)]
pub(super) struct ShardsOptions {
    /// Number of measurements of each case
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = positive::<u64>())]
    rounds: u64,
    /// Duration of a run
    #[arg(long, default_value_t = 5, value_parser = positive::<u64>())]
    seconds: u64,
}

/// The load that the clients generate.
struct Case {
    name: &'static str,
    connections: u64,
    /// Number of local ports per core, each with its own process. A hash of the port selects the
    /// shard of a new connection.
    ports: u64,
    streams: u64,
    /// Size of each response in bytes.
    size: u64,
    /// The unit of the rate, and the client's result field that counts it.
    unit: &'static str,
    field: &'static str,
    scale: f64,
    /// The unit to which the reported CPU time refers.
    cost_unit: &'static str,
}

const CASES: [Case; 2] = [
    Case {
        name: "requests",
        connections: 64,
        ports: 8,
        streams: 100,
        size: 1024,
        unit: "requests/s",
        field: "requests",
        scale: 1.0,
        cost_unit: "us per request",
    },
    Case {
        name: "bulk",
        connections: 8,
        ports: 4,
        streams: 1,
        size: 4 << 20,
        unit: "MB/s",
        field: "bytes",
        scale: 1e-6,
        cost_unit: "us per MB",
    },
];

/// The results of one run.
struct Run {
    /// Rate in units per second.
    rate: f64,
    /// CPU microseconds that the server used per unit.
    cost: f64,
    /// The fraction of a core that each shard used.
    used: Vec<f64>,
    /// Unused fraction of the CPU time that the server left to the clients.
    idle: f64,
    drops: u64,
    steered: Steered,
}

/// The runs of a case in one round.
struct Round {
    /// The run with one server that has one shard.
    one: Run,
    /// The run with one server that has two shards.
    two: Run,
    /// The run with two servers that have one shard each, and half of the clients each.
    apart: Run,
}

/// The number of servers, and the number of shards in each.
type Setup = (usize, usize);

/// A server whose threads are limited to their shares.
struct Served {
    server: Process,
    threads: Vec<u32>,
    /// The cgroups of the shards, removed after the server has exited.
    _shares: Option<Shares>,
}

impl Served {
    /// Starts server `number`, with each thread limited to its share if `has_shares` is true.
    fn start(
        number: usize,
        shards: usize,
        has_shares: bool,
        program: &Path,
        place: &Place,
    ) -> Result<Self, String> {
        let shares = has_shares.then(|| Shares::new(&number.to_string(), shards, PERCENT));
        let shares = shares.transpose()?;
        let server = moving::serve(program, place, &shards.to_string())?;
        let threads = threads::named(server.id(), THREAD, shards)?;
        if let Some(shares) = &shares {
            shares.give(server.id(), &threads)?;
        }
        pin(&threads, number)?;
        Ok(Self { server, threads, _shares: shares })
    }
}

pub(super) fn run(options: &ShardsOptions, json: bool) -> Result<(), String> {
    let ours = build()?;
    let place = Place::new(&ours)?;
    let runs = u32::try_from(options.rounds * 3 * CASES.len() as u64).unwrap_or(u32::MAX);
    let limit = (Duration::from_secs(options.seconds) + MARGIN).saturating_mul(runs);
    let _bounded = Bounded::new("shards", limit);
    let has_shares = match Shares::new("trial", 2, PERCENT) {
        Ok(_) => true,
        Err(error) => {
            eprintln!(
                "xtask: cannot limit threads to a share of a core: {error}; only the CPU time is \
                 compared, which must not be higher with two shards"
            );
            false
        }
    };
    let mut failures = Vec::new();
    for case in &CASES {
        let mut rounds = Vec::new();
        for round in 1..=options.rounds {
            eprintln!("xtask: {}, round {round} of {}", case.name, options.rounds);
            let run = |setup| measure(options, case, setup, has_shares, &ours, &place);
            rounds.push(Round { one: run((1, 1))?, two: run((1, 2))?, apart: run((2, 1))? });
        }
        report(json, case, &rounds, has_shares);
        failures.extend(verdict(case, &rounds, has_shares).err());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

fn measure(
    options: &ShardsOptions,
    case: &Case,
    (servers, shards): Setup,
    has_shares: bool,
    program: &Path,
    place: &Place,
) -> Result<Run, String> {
    let serve = |number| Served::start(number, shards, has_shares, program, place);
    let mut servers: Vec<Served> = (0..servers).map(serve).collect::<Result<_, _>>()?;
    let addresses: Vec<&str> = servers.iter().map(|it| it.server.said()).collect();
    let clients = open(options, case, program, place, &addresses)?;
    let before = cpu_of(&servers)?;
    let clients = make_requests(clients)?;
    let after = cpu_of(&servers)?;
    let spent: Vec<f64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    let (mut rate, mut amount, mut clients_cpu, mut elapsed) = (0.0, 0.0, 0.0, 0.0_f64);
    for (result, cpu) in clients {
        let value = |name: &str| result[name].as_f64();
        let (done, seconds) = value(case.field)
            .zip(value("seconds"))
            .filter(|(done, seconds)| *done > 0.0 && *seconds > 0.0)
            .ok_or_else(|| format!("a client failed: {result}"))?;
        rate += done * case.scale / seconds;
        amount += done * case.scale;
        clients_cpu += cpu;
        elapsed = elapsed.max(seconds);
    }
    let total: f64 = spent.iter().sum();
    let left = CORES.len() as f64 * elapsed - total;
    let used: Vec<f64> = spent.iter().map(|seconds| seconds / elapsed).collect();
    if has_shares {
        check_shares(&used)?;
    }
    let drops = servers.iter().map(|it| socket_drops(it.server.id()));
    let drops = drops.sum::<Result<u64, String>>()?;
    let counted = servers.iter_mut().map(|it| Steered::ask(&mut it.server));
    let steered = Steered::sum(counted.collect::<Result<_, _>>()?);
    Ok(Run {
        rate,
        cost: total * 1e6 / amount,
        used,
        idle: 1.0 - clients_cpu / left,
        drops,
        steered,
    })
}

/// Checks that the kernel has limited the shards to their shares.
fn check_shares(used: &[f64]) -> Result<(), String> {
    let most = used.iter().copied().fold(0.0, f64::max);
    match most > PERCENT as f64 / 100.0 * EXCEEDED {
        false => Ok(()),
        true => Err(format!(
            "a thread used {:.0} % of a core although its cgroup allows {PERCENT} %: the kernel \
             does not enforce the limit here",
            most * 100.0
        )),
    }
}

/// Starts clients on each core, equally many for each server, and waits until all clients have
/// opened their connections. Otherwise the measurement would include that time on slow cores.
fn open(
    options: &ShardsOptions,
    case: &Case,
    program: &Path,
    place: &Place,
    addresses: &[&str],
) -> Result<Vec<Process>, String> {
    let connections = (case.connections / (CORES.len() as u64 * case.ports)).to_string();
    let [streams, size, seconds] =
        [case.streams, case.size, options.seconds].map(|it| it.to_string());
    let arguments =
        ["load", "--attached", "--ca", text(&place.authority), "--connections", &connections];
    let more = ["--streams", &streams, "--size", &size, "--seconds", &seconds, "--connect"];
    let arguments = [&arguments[..], &more].concat();
    // Each server gets clients on each core.
    let ports = addresses.iter().cycle().take(case.ports as usize);
    let clients = ports.flat_map(|address| CORES.map(|core| (address, core)));
    std::thread::scope(|scope| {
        let all: Vec<_> = clients
            .map(|(address, core)| {
                let arguments = [&arguments[..], &[address]].concat();
                scope.spawn(move || Process::start(program, &arguments, core, "opened"))
            })
            .collect();
        let opened = all.into_iter().map(|client| match client.join() {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err("a thread that waits for a client panicked".to_owned()),
        });
        opened.collect()
    })
}

/// Makes all clients send requests at the same time. Returns each client's results, and the CPU
/// seconds that it used.
fn make_requests(mut clients: Vec<Process>) -> Result<Vec<(Value, f64)>, String> {
    let before: Vec<f64> = clients.iter().map(Process::cpu_seconds).collect::<Result<_, _>>()?;
    clients.iter_mut().try_for_each(Process::go_on)?;
    let ended = clients.iter_mut().zip(before).map(|(client, before)| {
        let result = client.answer()?;
        Ok((result, client.cpu_seconds()? - before))
    });
    ended.collect()
}

/// Returns the CPU seconds used so far by each shard's thread.
fn cpu_of(servers: &[Served]) -> Result<Vec<f64>, String> {
    let all = servers.iter().flat_map(|Served { server, threads, .. }| {
        threads.iter().map(|thread| (server.id(), *thread))
    });
    all.map(|(process, thread)| threads::cpu_seconds(process, thread)).collect()
}

/// Returns the median, minimum and maximum of a value over the rounds.
fn spread(rounds: &[Round], value: impl Fn(&Round) -> f64) -> [f64; 3] {
    let all = sorted(rounds.iter().map(value).collect());
    [median(&all), all[0], all[all.len() - 1]]
}

/// Returns the throughput of two shards relative to one.
fn gain(rounds: &[Round]) -> [f64; 3] {
    spread(rounds, |round| round.two.rate / round.one.rate)
}

/// Returns the throughput of two shards relative to two servers.
fn part(rounds: &[Round]) -> [f64; 3] {
    spread(rounds, |round| round.two.rate / round.apart.rate)
}

/// Returns the CPU time of two shards relative to two servers.
fn cost(rounds: &[Round]) -> [f64; 3] {
    spread(rounds, |round| round.two.cost / round.apart.cost)
}

/// Selects the run of a setup.
type Find = fn(&Round) -> &Run;

/// The setups, with the names used in the output.
const SETUPS: [(&str, Find); 3] = [
    ("1 shard", |round| &round.one),
    ("2 shards", |round| &round.two),
    ("2 servers", |round| &round.apart),
];

fn report(json: bool, case: &Case, rounds: &[Round], has_shares: bool) {
    if json {
        println!("{}", object(case, rounds, has_shares));
        return;
    }
    let Case { name, connections, streams, size, .. } = case;
    println!("{name}: {connections} connections with {streams} requests of {size} bytes in flight");
    for (setup, run) in SETUPS {
        report_setup(case, rounds, setup, run);
    }
    let times =
        |[middle, least, most]: [f64; 3]| format!("{middle:.2} times ({least:.2} to {most:.2})");
    if has_shares {
        println!(
            "  two shards with {PERCENT} % of a core each reach {} of the rate of one shard, and \
             {} of that of two servers",
            times(gain(rounds)),
            times(part(rounds))
        );
    }
    println!("  they need {} the CPU time of two servers", times(cost(rounds)));
}

/// Prints the results of one setup: the medians, and the counters of the last run.
fn report_setup(case: &Case, rounds: &[Round], setup: &str, run: Find) {
    let Some(Run { used, drops, steered, .. }) = rounds.last().map(run) else { return };
    let middle = |value: fn(&Run) -> f64| spread(rounds, |round| value(run(round)))[0];
    let used: Vec<String> = used.iter().map(|part| format!("{:.1} %", part * 100.0)).collect();
    println!(
        "  {setup:9} {:.0} {}; {:.2} {}; each shard used {} of a core; clients were idle for \
         {:.0} % of their CPU time",
        middle(|run| run.rate),
        case.unit,
        middle(|run| run.cost),
        case.cost_unit,
        used.join(" and "),
        middle(|run| run.idle) * 100.0
    );
    let connections: Vec<String> = steered.accepted.iter().map(u64::to_string).collect();
    println!(
        "            datagrams: {}; {drops} dropped by sockets; connections: {}",
        steered.text(),
        connections.join(" and ")
    );
    let work = &steered.work;
    println!(
        "            calls: {:.1} datagrams per receive call, {:.1} per send call; {} wake-ups, \
         {} packets lost, {} probe timeouts",
        work.received_at_once(),
        work.sent_at_once(),
        work.wakeups,
        work.lost,
        work.probe_timeouts
    );
}

fn object(case: &Case, rounds: &[Round], has_shares: bool) -> Value {
    let side = |run: Find| {
        let middle = |value: fn(&Run) -> f64| round(spread(rounds, |round| value(run(round)))[0]);
        let last = rounds.last().map(run)?;
        let (steered, work) = (&last.steered, &last.steered.work);
        Some(json!({
            "rate": middle(|run| run.rate),
            "cost": middle(|run| run.cost),
            "clients_idle": middle(|run| run.idle),
            "cores_used": last.used.iter().copied().map(round).collect::<Vec<_>>(),
            "steering": steered.method,
            "connections": steered.accepted,
            "datagrams_steered_right": steered.right,
            "datagrams_handed_over": steered.handed_over,
            "datagrams_dropped": steered.dropped,
            "socket_drops": last.drops,
            "datagrams_received_at_once": round(work.received_at_once()),
            "datagrams_sent_at_once": round(work.sent_at_once()),
            "wakeups": work.wakeups,
            "packets_lost": work.lost,
            "probe_timeouts": work.probe_timeouts,
        }))
    };
    let [one, two, apart] = SETUPS.map(|(_, run)| side(run));
    json!({
        "case": format!("shards {}", case.name),
        "rounds": rounds.len(),
        "unit": case.unit,
        "cost_unit": case.cost_unit,
        "share_percent": has_shares.then_some(PERCENT),
        "one": one,
        "two": two,
        "two_servers": apart,
        "gain": has_shares.then(|| gain(rounds).map(round)),
        "beside_two_servers": has_shares.then(|| part(rounds).map(round)),
        "cost_beside_two_servers": cost(rounds).map(round),
    })
}

/// Checks that the required results were measured and reach the minimum values.
fn verdict(case: &Case, rounds: &[Round], has_shares: bool) -> Result<(), String> {
    let name = case.name;
    if !has_shares {
        return match cost(rounds)[0] {
            ratio if ratio <= MAX_COST => Ok(()),
            ratio => Err(format!(
                "bench shards, {name}: two shards need {ratio:.2} times the CPU time of two \
                 servers; at most {MAX_COST} times is allowed"
            )),
        };
    }
    let (gain, part) = (gain(rounds)[0], part(rounds)[0]);
    if gain >= MIN_GAIN && part >= MIN_PART {
        return Ok(());
    }
    let needed = PERCENT as f64 / 100.0 * BUSY;
    let limiting = |run: &Run| run.used.iter().all(|used| *used >= needed) && run.idle >= MIN_IDLE;
    let mut runs = rounds.iter().flat_map(|round| [&round.one, &round.two, &round.apart]);
    let why = match runs.all(limiting) {
        true => "",
        false => {
            "; the shards did not get their full shares, or the clients were the bottleneck: \
             measure again on an idle machine"
        }
    };
    Err(format!(
        "bench shards, {name}: two shards reach {gain:.2} times the rate of one, and {part:.2} \
         times the rate of two servers; expected at least {MIN_GAIN} and {MIN_PART} times{why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rate: f64, cost: f64, used: &[f64]) -> Run {
        let steered = Steered::sum(Vec::new());
        Run { rate, cost, used: used.to_vec(), idle: 0.5, drops: 0, steered }
    }

    fn round_of(gain: f64, part: f64, cost: f64, used: &[f64]) -> Round {
        Round {
            one: run(100.0, 10.0, &[0.25]),
            two: run(100.0 * gain, cost, used),
            apart: run(100.0 * gain / part, 10.0, &[0.25, 0.25]),
        }
    }

    #[test]
    fn the_median_gain_counts() {
        let rounds = |gains: [f64; 3], part: f64| {
            gains.map(|gain| round_of(gain, part, 10.0, &[0.25, 0.25]))
        };
        let good = rounds([1.9, 1.2, 2.0], 1.0);
        assert_eq!(gain(&good), [1.9, 1.2, 2.0]);
        assert_eq!(verdict(&CASES[0], &good, true), Ok(()));
        let bad = verdict(&CASES[0], &rounds([1.7, 1.2, 2.0], 1.0), true).unwrap_err();
        assert!(bad.ends_with("expected at least 1.8 and 0.9 times"), "{bad}");
        let shared = verdict(&CASES[0], &rounds([2.7, 2.5, 2.6], 0.8), true).unwrap_err();
        assert!(shared.contains("0.80 times the rate of two servers"), "{shared}");
    }

    #[test]
    fn a_limit_elsewhere_is_named() {
        let error = verdict(&CASES[1], &[round_of(1.2, 0.6, 10.0, &[0.25, 0.1])], true);
        assert!(error.as_ref().is_err_and(|it| it.contains("measure again")), "{error:?}");
    }

    #[test]
    fn without_shares_the_processor_time_counts() {
        let rounds = |cost: f64| [round_of(1.0, 1.0, cost, &[0.5, 0.4])];
        assert_eq!(verdict(&CASES[0], &rounds(10.5), false), Ok(()));
        assert!(verdict(&CASES[0], &rounds(11.5), false).is_err());
        assert_eq!(object(&CASES[0], &rounds(10.5), false)["gain"], Value::Null);
    }
}
