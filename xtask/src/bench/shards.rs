//! `cargo xtask bench shards`: how much a port gains from a second shard.
//!
//! The machine may have only two cores, which the clients need too. So each shard's thread has a fixed share of a core, and the
//! rest is the clients'; what one shard and what two shards do with their shares is compared.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bounded::Bounded;
use super::kernel::socket_drops;
use super::moving;
use super::place::{CLIENT_CORE, Place, SERVER_CORE};
use super::shares::{Shares, pin};
use super::stacks::build;
use super::steered::Steered;
use super::{median, positive, round, sorted, text};
use crate::measure;

/// Which part of a core each shard's thread has.
const PERCENT: u64 = 25;
/// Where the clients are.
const CORES: [usize; 2] = [SERVER_CORE, CLIENT_CORE];
/// What the second shard must gain.
const MIN_GAIN: f64 = 1.8;
/// By how much a request or a byte may need more processor time with two shards, if only that can be measured.
const MAX_COST: f64 = 1.1;
/// Shards that did not use as much of their shares were not what limited the rate.
const BUSY: f64 = 0.9;
/// A thread that used more of a core than this times its share was not kept to it. The handshakes are not part of the time.
const EXCEEDED: f64 = 1.3;
/// If the clients had less of their processor time left, they may have been the limit.
const MIN_IDLE: f64 = 0.05;
/// How long a run may take beside what it measures.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the threads of a server may take to have their names.
const NAMING: Duration = Duration::from_secs(5);

#[derive(PartialEq, Debug)]
struct Options {
    rounds: u64,
    seconds: u64,
    json: bool,
}

/// What the clients do.
struct Case {
    name: &'static str,
    connections: u64,
    /// On how many local ports of each core, with a process each: a hash of it finds the shard of a new connection.
    ports: u64,
    streams: u64,
    /// Bytes in each response.
    size: u64,
    /// What a rate counts, and how many of the client's units that is.
    unit: &'static str,
    field: &'static str,
    scale: f64,
    /// What processor time is counted for.
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

/// One run.
struct Run {
    /// Units per second.
    rate: f64,
    /// Processor microseconds of the server for each unit.
    cost: f64,
    /// Which part of a core each shard used.
    used: Vec<f64>,
    /// Which part of the processor time that the server left the clients did not use.
    idle: f64,
    drops: u64,
    steered: Steered,
}

/// The runs of a case: of each round that with one shard, and that with two.
type Rounds = Vec<[Run; 2]>;

pub(super) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = parse(arguments)?;
    let ours = build()?;
    let place = Place::new(&ours)?;
    let runs = u32::try_from(options.rounds * 2 * CASES.len() as u64).unwrap_or(u32::MAX);
    let limit = (Duration::from_secs(options.seconds) + PATIENCE).saturating_mul(runs);
    let _bounded = Bounded::new("shards", limit);
    let has_shares = match Shares::new(2, PERCENT) {
        Ok(_) => true,
        Err(error) => {
            eprintln!(
                "xtask: threads cannot be given a share of a core: {error}. So only the processor \
                 time is compared, which must not be more with two shards"
            );
            false
        }
    };
    let mut failures = Vec::new();
    for case in &CASES {
        let mut rounds = Rounds::new();
        for round in 1..=options.rounds {
            eprintln!("xtask: {}, round {round} of {}", case.name, options.rounds);
            let one = measure(&options, case, 1, has_shares, &ours, &place)?;
            let two = measure(&options, case, 2, has_shares, &ours, &place)?;
            rounds.push([one, two]);
        }
        report(&options, case, &rounds, has_shares);
        failures.extend(verdict(case, &rounds, has_shares).err());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

fn measure(
    options: &Options,
    case: &Case,
    shards: usize,
    has_shares: bool,
    program: &Path,
    place: &Place,
) -> Result<Run, String> {
    // Removed after the server has ended.
    let shares = has_shares.then(|| Shares::new(shards, PERCENT)).transpose()?;
    let mut server = moving::serve(program, place, &shards.to_string())?;
    let threads = shard_threads(server.id(), shards)?;
    match &shares {
        Some(shares) => shares.give(server.id(), &threads)?,
        None => pin(&threads)?,
    }
    let before = cpu_of(server.id(), &threads)?;
    let clients = ask(options, case, program, place, server.said())?;
    let after = cpu_of(server.id(), &threads)?;
    let spent: Vec<f64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    let (mut rate, mut amount, mut clients_cpu, mut elapsed) = (0.0, 0.0, 0.0, 0.0_f64);
    for (result, cpu) in clients {
        let value = |name: &str| result[name].as_f64();
        let (done, seconds) = value(case.field)
            .zip(value("seconds"))
            .filter(|(done, seconds)| *done > 0.0 && *seconds > 0.0)
            .ok_or_else(|| format!("a client has not ended well: {result}"))?;
        rate += done * case.scale / seconds;
        amount += done * case.scale;
        clients_cpu += cpu;
        elapsed = elapsed.max(seconds);
    }
    let total: f64 = spent.iter().sum();
    let left = CORES.len() as f64 * elapsed - total;
    let used: Vec<f64> = spent.iter().map(|seconds| seconds / elapsed).collect();
    let most = used.iter().copied().fold(0.0, f64::max);
    if has_shares && most > PERCENT as f64 / 100.0 * EXCEEDED {
        return Err(format!(
            "a thread used {:.0} % of a core, though its cgroup permits {PERCENT} %: the kernel \
             does not limit them here",
            most * 100.0
        ));
    }
    Ok(Run {
        rate,
        cost: total * 1e6 / amount,
        used,
        idle: 1.0 - clients_cpu / left,
        drops: socket_drops(server.id())?,
        steered: Steered::ask(&mut server)?,
    })
}

/// Has clients on each core make requests: what they print, and their CPU seconds.
fn ask(
    options: &Options,
    case: &Case,
    program: &Path,
    place: &Place,
    address: &str,
) -> Result<Vec<(Value, f64)>, String> {
    let connections = (case.connections / (CORES.len() as u64 * case.ports)).to_string();
    let [streams, size, seconds] =
        [case.streams, case.size, options.seconds].map(|it| it.to_string());
    let arguments = ["load", "--ca", text(&place.certificate), "--connect", address];
    let more = ["--connections", &connections, "--streams", &streams, "--size", &size];
    let arguments = [&arguments[..], &more, &["--seconds", &seconds]].concat();
    std::thread::scope(|scope| {
        let arguments = &arguments;
        let cores = CORES.into_iter().cycle().take(CORES.len() * case.ports as usize);
        let all: Vec<_> = cores
            .map(|core| scope.spawn(move || measure::client(program, arguments, core)))
            .collect();
        let ended = all.into_iter().map(|client| match client.join() {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err("a thread that waits for a client has ended".to_owned()),
        });
        ended.collect()
    })
}

/// The threads of a server that run its shards. Each gives itself its name, maybe after the server has said that it listens.
fn shard_threads(process: u32, count: usize) -> Result<Vec<u32>, String> {
    let began = Instant::now();
    loop {
        let threads = threads_named_for_shards(process)?;
        if threads.len() == count {
            return Ok(threads);
        }
        if began.elapsed() > NAMING {
            let found = threads.len();
            return Err(format!("the server has {found} threads for {count} shards"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn threads_named_for_shards(process: u32) -> Result<Vec<u32>, String> {
    let folder = format!("/proc/{process}/task");
    let all = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let mut threads: Vec<u32> = all
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = fs::read_to_string(path.join("comm")).ok()?;
            let is_shard = name.trim() == "clearway-shard";
            path.file_name()?.to_str()?.parse().ok().filter(|_| is_shard)
        })
        .collect();
    threads.sort_unstable();
    Ok(threads)
}

/// The CPU seconds of each thread so far (`/proc/…/schedstat`: the first field, in nanoseconds).
fn cpu_of(process: u32, threads: &[u32]) -> Result<Vec<f64>, String> {
    let read = |thread: &u32| {
        let path = format!("/proc/{process}/task/{thread}/schedstat");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let first = text.split_whitespace().next().and_then(|it| it.parse::<f64>().ok());
        first.map(|it| it / 1e9).ok_or_else(|| format!("{path} is not as expected: {text}"))
    };
    threads.iter().map(read).collect()
}

/// The median over the rounds, the least and the most.
fn spread(rounds: &Rounds, value: impl Fn(&[Run; 2]) -> f64) -> [f64; 3] {
    let all = sorted(rounds.iter().map(value).collect());
    [median(&all), all[0], all[all.len() - 1]]
}

fn gain(rounds: &Rounds) -> [f64; 3] {
    spread(rounds, |[one, two]| two.rate / one.rate)
}

fn cost(rounds: &Rounds) -> [f64; 3] {
    spread(rounds, |[one, two]| two.cost / one.cost)
}

fn report(options: &Options, case: &Case, rounds: &Rounds, has_shares: bool) {
    if options.json {
        println!("{}", object(case, rounds, has_shares));
        return;
    }
    let Case { name, connections, streams, unit, cost_unit, .. } = case;
    println!(
        "{name}: {connections} connections with {streams} requests of {} bytes in flight",
        case.size
    );
    for (index, shards) in ["1 shard", "2 shards"].into_iter().enumerate() {
        let middle = |value: fn(&Run) -> f64| spread(rounds, |runs| value(&runs[index]))[0];
        let last = &rounds[rounds.len() - 1][index];
        let used: Vec<String> =
            last.used.iter().map(|part| format!("{:.1} %", part * 100.0)).collect();
        println!(
            "  {shards:8} {:.0} {unit}; {:.2} {cost_unit}; each shard had {} of a core; clients idle for {:.0} % of theirs",
            middle(|run| run.rate),
            middle(|run| run.cost),
            used.join(" and "),
            middle(|run| run.idle) * 100.0
        );
        println!(
            "           datagrams: {}; {} dropped by sockets",
            last.steered.text(),
            last.drops
        );
    }
    let [cost, least_cost, most_cost] = cost(rounds);
    if has_shares {
        let [gain, least, most] = gain(rounds);
        println!(
            "  two shards with {PERCENT} % of a core each do {gain:.2} times ({least:.2} to {most:.2}) as much as one"
        );
    }
    println!(
        "  the processor time is {cost:.2} times ({least_cost:.2} to {most_cost:.2}) that with one"
    );
}

fn object(case: &Case, rounds: &Rounds, has_shares: bool) -> Value {
    let side = |index: usize| {
        let middle = |value: fn(&Run) -> f64| round(spread(rounds, |runs| value(&runs[index]))[0]);
        let last = &rounds[rounds.len() - 1][index];
        json!({
            "rate": middle(|run| run.rate),
            "cost": middle(|run| run.cost),
            "clients_idle": middle(|run| run.idle),
            "cores_used": last.used.iter().copied().map(round).collect::<Vec<_>>(),
            "steering": last.steered.method,
            "datagrams_steered_right": last.steered.right,
            "datagrams_handed_over": last.steered.handed_over,
            "datagrams_dropped": last.steered.dropped,
            "socket_drops": last.drops,
        })
    };
    json!({
        "case": format!("shards {}", case.name),
        "rounds": rounds.len(),
        "unit": case.unit,
        "cost_unit": case.cost_unit,
        "share_percent": has_shares.then_some(PERCENT),
        "one": side(0),
        "two": side(1),
        "gain": has_shares.then(|| gain(rounds).map(round)),
        "cost_ratio": cost(rounds).map(round),
    })
}

/// What is too little, or was not measured.
fn verdict(case: &Case, rounds: &Rounds, has_shares: bool) -> Result<(), String> {
    let name = case.name;
    if !has_shares {
        return match cost(rounds)[0] {
            ratio if ratio <= MAX_COST => Ok(()),
            ratio => Err(format!(
                "bench shards, {name}: two shards need {ratio:.2} times the processor time; \
                 {MAX_COST} times is permitted"
            )),
        };
    }
    let needed = PERCENT as f64 / 100.0 * BUSY;
    let limiting = |run: &Run| run.used.iter().all(|used| *used >= needed) && run.idle >= MIN_IDLE;
    let gain = gain(rounds)[0];
    if gain >= MIN_GAIN {
        return Ok(());
    }
    let why = match rounds.iter().flatten().all(limiting) {
        true => "",
        false => {
            "; the shards did not have their shares, or the clients were the limit: measure again \
             while nothing else runs"
        }
    };
    Err(format!(
        "bench shards, {name}: two shards do {gain:.2} times as much as one; {MIN_GAIN} times is \
         expected{why}"
    ))
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let mut options = Options { rounds: 5, seconds: 5, json: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || {
            let text = rest.next().ok_or(format!("{argument} needs a value"))?;
            positive(text).map_err(|error| format!("{argument}: {error}"))
        };
        match *argument {
            "--json" => options.json = true,
            "--rounds" => options.rounds = value()?,
            "--seconds" => options.seconds = value()?,
            other => return Err(format!("bench shards has no option {other}")),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rate: f64, cost: f64, used: &[f64]) -> Run {
        let steered = Steered {
            method: String::new(),
            right: 1,
            handed_over: 0,
            dropped: 0,
            connections: vec![1],
        };
        Run { rate, cost, used: used.to_vec(), idle: 0.5, drops: 0, steered }
    }

    #[test]
    fn wrong_arguments_are_named() {
        let error = |arguments: &[&str]| parse(arguments).unwrap_err();
        assert_eq!(error(&["--rounds"]), "--rounds needs a value");
        assert_eq!(error(&["--seconds", "0"]), "--seconds: expected a number above 0");
        assert_eq!(error(&["--shards", "2"]), "bench shards has no option --shards");
        assert_eq!(parse(&[]), Ok(Options { rounds: 5, seconds: 5, json: false }));
        let options = Options { rounds: 1, seconds: 2, json: true };
        assert_eq!(parse(&["--rounds", "1", "--seconds", "2", "--json"]), Ok(options));
    }

    #[test]
    fn the_median_gain_counts() {
        let rounds = |gains: [f64; 3]| -> Rounds {
            gains
                .map(|gain| [run(100.0, 10.0, &[0.25]), run(100.0 * gain, 10.0, &[0.25, 0.25])])
                .into()
        };
        let good = rounds([1.9, 1.2, 2.0]);
        assert_eq!(gain(&good), [1.9, 1.2, 2.0]);
        assert_eq!(verdict(&CASES[0], &good, true), Ok(()));
        let bad = verdict(&CASES[0], &rounds([1.7, 1.2, 2.0]), true).unwrap_err();
        assert!(bad.ends_with("1.8 times is expected"), "{bad}");
    }

    #[test]
    fn a_limit_elsewhere_is_named() {
        let rounds = vec![[run(100.0, 10.0, &[0.25]), run(120.0, 10.0, &[0.25, 0.1])]];
        let error = verdict(&CASES[1], &rounds, true).unwrap_err();
        assert!(error.contains("measure again"), "{error}");
    }

    #[test]
    fn without_shares_the_processor_time_counts() {
        let rounds = |cost: f64| vec![[run(100.0, 10.0, &[0.9]), run(100.0, cost, &[0.5, 0.4])]];
        assert_eq!(verdict(&CASES[0], &rounds(10.5), false), Ok(()));
        assert!(verdict(&CASES[0], &rounds(11.5), false).is_err());
        assert_eq!(object(&CASES[0], &rounds(10.5), false)["gain"], Value::Null);
    }
}
