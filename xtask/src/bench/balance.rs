//! `cargo xtask bench balance`: what `clearway balance` forwards, beside loops as they are often written and nginx; what
//! routing takes; and what a second thread gains.
//!
//! Clients only send, and servers only count. The proxy has one core for itself, clients and servers share the other one. A
//! proxy that is faster than the clients is not busy all the time: so what counts is how much it forwards with a second of
//! processor time.

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
use super::each_option;
use super::report::Results;
use super::stacks::build;

/// How many runs each round has at most.
const RUNS: u64 = 40;
/// How long a run may take beside what it measures.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Case {
    Forwarding,
    Routing,
    Scaling,
}

const CASES: [(&str, Case); 3] =
    [("forwarding", Case::Forwarding), ("routing", Case::Routing), ("scaling", Case::Scaling)];

#[derive(PartialEq, Debug)]
struct Options {
    /// All if there is none.
    case: Option<Case>,
    rounds: u64,
    seconds: u64,
    /// The file for the picture of what is lost, which is measured instead.
    picture: Option<String>,
    json: bool,
}

pub(super) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = parse(arguments)?;
    let programs = Programs::find(build()?)?;
    let Options { rounds, seconds, .. } = options;
    let runs = u32::try_from(rounds.saturating_mul(RUNS)).unwrap_or(u32::MAX);
    let limit = (Duration::from_secs(seconds) + PATIENCE).saturating_mul(runs);
    let _bounded = Bounded::new("balance", limit);
    let mut results = Results::default();
    if let Some(file) = &options.picture {
        loss::measure(&programs, rounds, seconds, file, &mut results)?;
        return results.print(options.json);
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
    results.print(options.json)
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let mut options = Options { case: None, rounds: 5, seconds: 3, picture: None, json: false };
    each_option("balance", arguments, |option, value| {
        match option {
            "--json" => options.json = true,
            "--rounds" => options.rounds = value.positive()?,
            "--seconds" => options.seconds = value.positive()?,
            "--case" => options.case = Some(case_named(value.text()?)?),
            "--picture" => options.picture = Some(value.text()?.to_owned()),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match (&options.picture, options.case) {
        (Some(_), Some(_)) => Err("--picture measures something else than the cases".to_owned()),
        _ => Ok(options),
    }
}

fn case_named(name: &str) -> Result<Case, String> {
    let found = CASES.into_iter().find(|(known, _)| *known == name);
    let names = CASES.map(|(name, _)| name).join(", ");
    found.map(|(_, case)| case).ok_or_else(|| format!("the cases are {names}, not {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let expected = Options { case: None, rounds: 5, seconds: 3, picture: None, json: false };
        assert_eq!(parse(&[]), Ok(expected));
        let (case, rounds, seconds) = (Some(Case::Scaling), 1, 2);
        let expected = Options { case, rounds, seconds, picture: None, json: true };
        let arguments = ["--rounds", "1", "--seconds", "2", "--case", "scaling", "--json"];
        assert_eq!(parse(&arguments), Ok(expected));
        let picture = parse(&["--picture", "a.svg"]).map(|options| options.picture);
        assert_eq!(picture, Ok(Some("a.svg".to_owned())));
    }

    #[test]
    fn wrong_arguments_are_named() {
        let error = |arguments: &[&str]| parse(arguments).unwrap_err();
        assert_eq!(error(&["--seconds"]), "--seconds needs a value");
        assert_eq!(error(&["--rounds", "0"]), "--rounds: expected a number above 0");
        assert_eq!(error(&["--peer", "nginx"]), "bench balance has no option --peer");
        let cases = "the cases are forwarding, routing, scaling, not loss";
        assert_eq!(error(&["--case", "loss"]), cases);
        assert!(error(&["--case", "routing", "--picture", "a.svg"]).starts_with("--picture"));
    }
}
