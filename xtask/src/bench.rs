//! `cargo xtask bench`: Clearway's speed beside other stacks, and beside what the machine can do.

mod balance;
mod bounded;
mod bulk;
mod connections;
mod handshakes;
mod kernel;
mod limits;
mod measured;
mod memory;
mod moving;
mod overload;
mod pairs;
mod place;
mod replacing;
mod report;
mod requests;
mod shards;
mod shares;
mod stacks;
mod steered;
mod threads;

use std::path::Path;
use std::process::Command;

use self::report::Results;
use self::stacks::{PEERS, build, peer_named};
use crate::command::run as show;

const NAMES: &str = "balance, bulk, connections, handshakes, limits, memory, moving, overload, \
                     qpack, replacing, requests, shards";

/// Runs the benchmark that the first argument names, or all that compare.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        ["balance", rest @ ..] => balance::run(rest),
        ["bulk", rest @ ..] => bulk::run(rest),
        ["connections", rest @ ..] => connections::run(rest),
        ["handshakes", rest @ ..] => handshakes::run(rest),
        ["limits", rest @ ..] => limits::run(rest),
        ["memory", rest @ ..] => memory::run(rest),
        ["moving", rest @ ..] => moving::run(rest),
        ["overload", rest @ ..] => overload::run(rest),
        ["qpack", rest @ ..] => qpack(rest),
        ["replacing", rest @ ..] => replacing::run(rest),
        ["requests", rest @ ..] => requests::run(rest),
        ["shards", rest @ ..] => shards::run(rest),
        [name, ..] if !name.starts_with("--") => {
            Err(format!("there is no benchmark {name}, but {NAMES}"))
        }
        options => all(&parse(options)?),
    }
}

/// The options of a run of all.
#[derive(PartialEq, Debug)]
struct Options {
    peers: Vec<&'static str>,
    rounds: usize,
    json: bool,
}

type Benchmark = fn(&Options) -> Result<Results, String>;

/// With the titles of their tables.
const ALL: [(&str, Benchmark); 5] = [
    ("Bulk transfers", |&Options { ref peers, rounds, json }| {
        let peers = peers.clone();
        bulk::results(&bulk::Options { peers, rounds, json, ..Default::default() })
    }),
    ("Requests", |&Options { ref peers, rounds, json }| {
        let (peers, latency) = (peers.clone(), true);
        requests::results(&requests::Options { peers, rounds, json, latency, ..Default::default() })
    }),
    ("Handshakes", |&Options { ref peers, rounds, json }| {
        let peers = peers.clone();
        handshakes::results(&handshakes::Options { peers, rounds, json, ..Default::default() })
    }),
    ("Memory", |&Options { ref peers, json, .. }| {
        let peers = peers.clone();
        memory::results(&memory::Options { peers, json, ..Default::default() })
    }),
    ("Limits of the machine", |&Options { rounds, json, .. }| {
        limits::results(&limits::Options { rounds, json, ..Default::default() })
    }),
];

/// Runs one benchmark after the other. What has failed is said at the end, after the results of everything else.
fn all(options: &Options) -> Result<(), String> {
    let (mut text, mut failures) = (String::new(), Vec::new());
    for (index, (title, benchmark)) in ALL.into_iter().enumerate() {
        eprintln!("xtask: benchmark {} of {}: {title}", index + 1, ALL.len());
        let results = benchmark(options).unwrap_or_else(|error| Results {
            failures: vec![format!("{title}: {error}")],
            ..Results::default()
        });
        let outcome = match options.json {
            true => results.print(true),
            false => results.verdict(),
        };
        failures.extend(outcome.err());
        text += &format!("### {title}\n\n{}\n", results.markdown());
    }
    if !options.json {
        println!(
            "{text}Each cell: Clearway, the peer, and the ratio with its spread over the rounds."
        );
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let mut options = Options { peers: Vec::new(), rounds: 5, json: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().copied().ok_or(format!("{argument} needs a value"));
        match *argument {
            "--json" => options.json = true,
            "--rounds" => options.rounds = positive(value()?)? as usize,
            "--peer" => options.peers.push(peer_named(value()?)?),
            other => return Err(format!("bench has no option {other} for all of {NAMES}")),
        }
    }
    if options.peers.is_empty() {
        options.peers = PEERS.to_vec();
    }
    Ok(options)
}

/// Header compression on the requests of a browser; the program takes the options.
fn qpack(arguments: &[&str]) -> Result<(), String> {
    let program = build()?;
    show("measuring QPACK", Command::new(program).arg("qpack").args(arguments))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a whole number"))
}

fn positive(text: &str) -> Result<u64, String> {
    match number(text)? {
        0 => Err("expected a number above 0".to_owned()),
        number => Ok(number),
    }
}

/// The arguments after an option: where its value is.
struct Following<'a, 'r> {
    option: &'a str,
    rest: &'r mut std::slice::Iter<'a, &'a str>,
}

impl<'a> Following<'a, '_> {
    /// The option's value.
    fn text(&mut self) -> Result<&'a str, String> {
        self.rest.next().copied().ok_or(format!("{} needs a value", self.option))
    }

    /// The option's value, a number above 0.
    fn positive(&mut self) -> Result<u64, String> {
        positive(self.text()?).map_err(|error| format!("{}: {error}", self.option))
    }
}

/// Has `take` take each option of the benchmark `name`: it says whether there is one of that name.
fn each_option<'a>(
    name: &str,
    arguments: &'a [&'a str],
    mut take: impl FnMut(&str, &mut Following<'a, '_>) -> Result<bool, String>,
) -> Result<(), String> {
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        if !take(option, &mut Following { option, rest: &mut rest })? {
            return Err(format!("bench {name} has no option {option}"));
        }
    }
    Ok(())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn median(values: &[f64]) -> f64 {
    values[values.len() / 2]
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_benchmarks_have_common_options() {
        let expected = Options { peers: PEERS.to_vec(), rounds: 5, json: false };
        assert_eq!(parse(&[]), Ok(expected));
        let expected = Options { peers: vec!["quinn"], rounds: 3, json: true };
        assert_eq!(parse(&["--peer", "quinn", "--rounds", "3", "--json"]), Ok(expected));
        assert!(parse(&["--size", "5"]).is_err());
    }

    #[test]
    fn a_wrong_name_is_told_the_right_ones() {
        assert!(run(&["speed"]).is_err_and(|error| error.contains(NAMES)));
    }
}
