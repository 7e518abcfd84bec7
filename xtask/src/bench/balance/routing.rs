//! The time that the balancer needs to look up a datagram's server by connection ID.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::super::place::SERVER_CORE;
use super::super::report::{Figure, Results};
use super::super::{median, sorted};
use crate::command::output;

const SERVERS: &str = "200";
const DATAGRAMS: &str = "100000";
/// Maximum lookup time in nanoseconds, by the prefix of the ID format's name.
const LIMITS: [(&str, f64); 2] = [("plain", 150.0), ("encrypted", 250.0)];

pub(super) fn measure(program: &Path, rounds: u64, results: &mut Results) {
    match ask(program, rounds) {
        Ok(figures) => {
            results.failures.extend(figures.iter().filter_map(too_slow));
            results.figures.extend(figures);
        }
        Err(error) => results.failures.push(format!("routing: {error}")),
    }
}

fn ask(program: &Path, rounds: u64) -> Result<Vec<Figure>, String> {
    eprintln!("xtask: routing of {DATAGRAMS} datagrams to {SERVERS} servers");
    let mut command = Command::new("taskset");
    command.arg("--cpu-list").arg(SERVER_CORE.to_string()).arg(program).arg("routing");
    command.args(["--rounds", &rounds.to_string()]);
    command.args(["--servers", SERVERS, "--datagrams", DATAGRAMS]);
    let printed = output("measuring the routing", &mut command)?;
    printed.lines().map(figure).collect()
}

/// Parses a line of the program's output.
fn figure(line: &str) -> Result<Figure, String> {
    let object: Value = serde_json::from_str(line).map_err(|error| format!("{line:?}: {error}"))?;
    let values = object["ns"].as_array().into_iter().flatten().map(Value::as_f64);
    match (object["case"].as_str(), values.collect::<Option<Vec<f64>>>()) {
        (Some(form), Some(values)) if !values.is_empty() => {
            Ok(Figure { case: format!("routing, {form}"), unit: "ns per datagram", values })
        }
        _ => Err(format!("the case or the time is missing in {line}")),
    }
}

fn too_slow(figure: &Figure) -> Option<String> {
    let Figure { case, values, .. } = figure;
    let middle = median(&sorted(values.clone()));
    let is_meant =
        |name: &str| case.strip_prefix("routing, ").is_some_and(|it| it.starts_with(name));
    let limit = LIMITS.into_iter().find(|(name, _)| is_meant(name)).map(|(_, limit)| limit)?;
    let is_too_slow = middle > limit;
    is_too_slow.then(|| format!("{case}: {middle:.0} ns; at most {limit:.0} ns are allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(form: &str, times: &str) -> Option<String> {
        too_slow(&figure(&format!(r#"{{"case":"{form}","ns":{times}}}"#)).unwrap())
    }

    #[test]
    fn each_form_has_its_limit() {
        assert_eq!(said("plain", "[149.5, 900, 20]"), None);
        let expected = "routing, plain: 151 ns; at most 150 ns are allowed".to_owned();
        assert_eq!(said("plain", "[151, 152, 20]"), Some(expected));
        assert_eq!(said("encrypted, one pass", "[249]"), None);
        assert!(said("encrypted, four passes", "[251]").is_some());
    }

    #[test]
    fn lines_without_a_time_are_errors() {
        for line in [r#"{"case":"plain","ns":[]}"#, r#"{"case":"plain"}"#, r#"{"ns":[1]}"#, "1 ns"]
        {
            assert!(figure(line).is_err(), "{line}");
        }
    }
}
