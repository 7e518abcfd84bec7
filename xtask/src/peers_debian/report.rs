//! The matrix of pairs and tests, with the endpoint at fault for each failure.

use std::fmt::Write;

use super::owners::{self, Owner};
use super::problem::Problem;
use super::rows::Pair;
use super::servers::NOT_STARTED;
use super::test::Test;

/// The result of running one test with one pair.
pub(crate) struct Cell {
    pub(crate) pair: Pair,
    pub(crate) test: Test,
    pub(crate) outcome: Result<(), Problem>,
    pub(crate) seconds: f64,
}

/// Maximum number of characters to report of a failure.
const LINE: usize = 400;

pub(crate) fn name(test: Test) -> &'static str {
    Test::ALL.iter().find(|(other, _)| *other == test).map_or("", |(_, name)| name)
}

impl Cell {
    /// Returns the result as one line for the reader.
    pub(crate) fn line(&self) -> String {
        let outcome = match &self.outcome {
            Ok(()) => "ok".to_owned(),
            Err(Problem::Unsupported(why)) => format!("not supported: {why}"),
            Err(Problem::Failed(text)) => format!("failed: {text}"),
        };
        let (pair, test) = (self.pair.name(), name(self.test));
        format!("{pair:<17} {test:<13} {:>6.1} s  {outcome}", self.seconds)
    }

    fn failure(&self) -> Option<&str> {
        match &self.outcome {
            Err(Problem::Failed(text)) => Some(text),
            _ => None,
        }
    }
}

/// Returns the endpoint at fault for a failure, and the reason for that judgment.
fn owner(cell: &Cell, text: &str, cells: &[Cell]) -> (Owner, String) {
    if text.starts_with(NOT_STARTED) {
        return (Owner::Ours, "the test itself; the peer was not tested".to_owned());
    }
    if cell.pair.is_control() {
        return (Owner::Peers, "neither endpoint is Clearway".to_owned());
    }
    if let Some((owner, why)) = owners::known(cell.pair, cell.test, text) {
        return (owner, why.to_owned());
    }
    // The same test with the same peer, but without Clearway.
    let is_client = cell.pair.server.is_ours();
    let controls = cells.iter().filter(|control| {
        let is_same_peer = match is_client {
            true => control.pair.client == cell.pair.client,
            false => control.pair.server == cell.pair.server,
        };
        let is_run = !matches!(control.outcome, Err(Problem::Unsupported(_)));
        control.pair.is_control() && control.test == cell.test && is_same_peer && is_run
    });
    let (failed, passed): (Vec<&Cell>, Vec<&Cell>) =
        controls.partition(|control| control.failure().is_some());
    if is_client && passed.is_empty() && failed.len() > 1 {
        return (Owner::Peers, "it also fails with every other server".to_owned());
    }
    let names =
        |cells: &[&Cell]| cells.iter().map(|cell| cell.pair.name()).collect::<Vec<_>>().join(", ");
    let compared = match (failed.as_slice(), passed.as_slice()) {
        ([], []) => "no pair without Clearway ran it".to_owned(),
        ([], passed) => format!("passes: {}", names(passed)),
        (failed, []) => format!("also fails: {}", names(failed)),
        (failed, passed) => format!("also fails: {}; passes: {}", names(failed), names(passed)),
    };
    (Owner::Unknown, compared)
}

/// Returns the report, and the number of failures for which a peer is not at fault.
pub(crate) fn report(versions: &str, cells: &[Cell]) -> (String, usize) {
    let mut text = matrix(cells);
    text.push_str("\nok: passed; failed: see below; -: not supported; blank: not run\n");
    let (mut failures, mut open) = (String::new(), 0);
    for cell in cells {
        if let Some(problem) = cell.failure() {
            let (owner, why) = owner(cell, problem, cells);
            open += usize::from(owner != Owner::Peers);
            let (pair, test) = (cell.pair.name(), name(cell.test));
            let problem: String = problem.chars().take(LINE).collect();
            let _ = writeln!(failures, "{pair} {test}: {}: {why}\n    {problem}", owner.name());
        }
    }
    if !failures.is_empty() {
        let _ = write!(text, "\nFailures, with their causes\n\n{failures}");
    }
    let _ = write!(text, "\nNot supported\n\n{}", unsupported(cells));
    let _ = write!(text, "\nVersions\n\n{versions}");
    (text, open)
}

fn matrix(cells: &[Cell]) -> String {
    let mut text = format!("{:<17}", "client-server");
    for (_, name) in Test::ALL {
        let _ = write!(text, "  {name}");
    }
    text.push('\n');
    for pair in Pair::all() {
        let row: Vec<&Cell> = cells.iter().filter(|cell| cell.pair == pair).collect();
        if row.is_empty() {
            continue;
        }
        let mut line = format!("{:<17}", pair.name());
        for (test, name) in Test::ALL {
            let cell = row.iter().find(|cell| cell.test == test);
            let word = cell.map_or("", |cell| match cell.outcome {
                Ok(()) => "ok",
                Err(Problem::Failed(_)) => "failed",
                Err(Problem::Unsupported(_)) => "-",
            });
            let _ = write!(line, "  {word:<0$}", name.len());
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn unsupported(cells: &[Cell]) -> String {
    let mut text = String::new();
    for cell in cells {
        if let Err(Problem::Unsupported(why)) = cell.outcome {
            let _ = writeln!(text, "{} {}: {why}", cell.pair.name(), name(cell.test));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::servers::Server;
    use super::super::test::{Client, Test};
    use super::{Cell, Owner, owner};
    use crate::peers_debian::problem::Problem;
    use crate::peers_debian::rows::Pair;

    fn cell(client: Client, server: Server, outcome: Result<(), Problem>) -> Cell {
        Cell { pair: Pair { client, server }, test: Test::Loss, outcome, seconds: 0.0 }
    }

    fn failed() -> Result<(), Problem> {
        Err(Problem::Failed("no answer".to_owned()))
    }

    #[test]
    fn a_client_that_fails_with_every_other_server_is_to_blame() {
        let [nginx, caddy] = [Server::Nginx, Server::Caddy]
            .map(|server| move |outcome| cell(Client::Curl, server, outcome));
        let owner = |controls: [Cell; 2]| {
            let [first, second] = controls;
            let cells = [cell(Client::Curl, Server::Serve, failed()), first, second];
            owner(&cells[0], "no answer", &cells).0
        };
        assert_eq!(owner([nginx(failed()), caddy(failed())]), Owner::Peers);
        assert_eq!(owner([nginx(failed()), caddy(Ok(()))]), Owner::Unknown);
    }

    #[test]
    fn a_server_is_not_blamed_because_another_client_fails_too() {
        let control = cell(Client::Curl, Server::Nginx, failed());
        let cells = [cell(Client::Get, Server::Nginx, failed()), control];
        let (owner, why) = owner(&cells[0], "no answer", &cells);
        assert_eq!((owner, why.as_str()), (Owner::Unknown, "also fails: curl-nginx"));
    }
}
