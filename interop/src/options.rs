//! The command line of `cargo xtask interop`.

use std::num::NonZero;
use std::path::PathBuf;

use crate::catalogue::{self, TESTS, Test};
use crate::cell::Cell;
use crate::stack::{Controller, Stack};

pub(crate) const HELP: &str = "\
The tests and measurements of the public QUIC interop runner, without docker and ns-3.

  cargo xtask interop [OPTION]…

Clearway against itself with each controller, and as client and as server against every peer with CUBIC; the options
choose cells, and may be given several times. Peers meet each other only if client and server are both named.

Tests run several at a time, then the measurements, each alone. On two cores the tests of Clearway with itself take a
minute for each controller, those with a peer one to two minutes for each role; a run of a measurement takes 10 s
(goodput) or 45 s (crosstraffic), and there are five for every pair. Everything together takes about an hour and a
quarter.

  --client STACK       clearway, quinn, tokio-quiche, s2n-quic, quic-go, aioquic
  --server STACK
  --test NAME          a name or a letter of the matrix, such as handshake or H
  --controller NAME    of Clearway's endpoints: reno, cubic, bbr
  --repeat N           how often each test is run (default 1) and each measurement (default 5), each time with another
                       seed; every run of a test has to pass
  --jobs N             how many tests run at the same time (default: two for each core, at most 8); measurements always
                       run alone
  --seed N             of everything that is random in the network (default 1)
  --program FILE       Clearway's program (default: that of the release profile)
  --loopback           do not make network namespaces
  --keep               keep captures, key logs and output of all cells, not only of those that failed
  --qlog               endpoints write qlog files, kept with the rest
  --json               print one object per cell: client, server, test, controller, result (ok, failed, unsupported),
                       detail
  --show FOLDER        print the packets in the records of a cell, decrypted; runs nothing
  --list               print the chosen cells, and do not run them
";

/// Endpoints run in other folders.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// What the user wants.
#[derive(Debug)]
pub(crate) struct Options {
    clients: Vec<Stack>,
    servers: Vec<Stack>,
    tests: Vec<&'static Test>,
    controllers: Vec<Controller>,
    /// How often a cell is run; `None` for once, and five times if it is a measurement.
    pub(crate) repeat: Option<u32>,
    pub(crate) jobs: usize,
    pub(crate) seed: u64,
    pub(crate) loopback: bool,
    pub(crate) keep: bool,
    pub(crate) qlog: bool,
    pub(crate) json: bool,
    pub(crate) action: Action,
    /// The program, and the folders with the peers and for the records.
    pub(crate) program: PathBuf,
    pub(crate) peers: PathBuf,
    pub(crate) folder: PathBuf,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Run,
    /// Print the packets in a cell's records.
    Show(PathBuf),
    Help,
    /// Print the cells.
    List,
    /// Print the names of the peers that have to be built, for xtask.
    ListPeers,
}

impl Options {
    /// Parses the arguments.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or_else(|| PathBuf::from("target"), PathBuf::from);
        let target = absolute(target);
        let mut options = Self {
            clients: Vec::new(),
            servers: Vec::new(),
            tests: Vec::new(),
            controllers: Vec::new(),
            repeat: None,
            jobs: default_jobs(),
            seed: 1,
            loopback: false,
            keep: false,
            qlog: false,
            json: false,
            action: Action::Run,
            program: target.join("release/clearway"),
            peers: target.join("peers"),
            folder: target.join("interop"),
        };
        let mut arguments = arguments.iter().map(String::as_str);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument {
                "--client" => options.clients.push(stack(value()?)?),
                "--server" => options.servers.push(stack(value()?)?),
                "--test" => options.tests.push(test(value()?)?),
                "--controller" => options.controllers.push(controller(value()?)?),
                "--repeat" => options.repeat = Some(number(argument, value()?)?),
                "--jobs" => options.jobs = number(argument, value()?)?,
                "--seed" => options.seed = number(argument, value()?)?,
                "--program" => options.program = absolute(value()?.into()),
                "--loopback" => options.loopback = true,
                "--keep" => options.keep = true,
                "--qlog" => options.qlog = true,
                "--json" => options.json = true,
                "--show" => options.action = Action::Show(value()?.into()),
                "--list" => options.action = Action::List,
                "--list-peers" => options.action = Action::ListPeers,
                "--help" | "-h" => options.action = Action::Help,
                other => return Err(format!("unknown option {other}\n\n{HELP}")),
            }
        }
        match options.repeat == Some(0) || options.jobs == 0 {
            true => Err("--repeat and --jobs have to be at least 1".to_owned()),
            false => Ok(options),
        }
    }

    /// The chosen cells: Clearway against itself, then as client, then as server of each peer, as far as they are chosen.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (client, server) in self.pairs() {
            let ours = [client, server].iter().filter(|it| **it == Stack::Clearway).count();
            for controller in Controller::ALL {
                let is_default = ours == 2 || controller == Controller::Cubic;
                let is_chosen = match self.controllers.is_empty() {
                    true => is_default,
                    false => self.controllers.contains(&controller),
                };
                let tests = TESTS.iter().filter(|test| {
                    self.tests.is_empty() || self.tests.iter().any(|it| it.name == test.name)
                });
                let cell = |test| Cell { client, server, test, controller };
                cells.extend(tests.filter(|_| is_chosen).map(cell));
            }
        }
        cells
    }

    /// The chosen pairs of client and server. At least one of them is Clearway, unless both were named.
    fn pairs(&self) -> Vec<(Stack, Stack)> {
        let all = |named: &[Stack]| match named.is_empty() {
            true => Stack::ALL.to_vec(),
            false => named.to_vec(),
        };
        let (clients, servers) = (all(&self.clients), all(&self.servers));
        let named = !self.clients.is_empty() && !self.servers.is_empty();
        let product = clients.iter().flat_map(|client| servers.iter().map(|it| (*client, *it)));
        let has_clearway = |(client, server): &(Stack, Stack)| {
            [*client, *server].contains(&Stack::Clearway) || named
        };
        product.filter(has_clearway).collect()
    }

    /// The other stacks in the chosen cells.
    pub(crate) fn peers(&self) -> Vec<Stack> {
        let stacks = self.cells().into_iter().flat_map(|cell| [cell.client, cell.server]);
        let mut peers: Vec<Stack> = stacks.filter(|stack| *stack != Stack::Clearway).collect();
        peers.sort();
        peers.dedup();
        peers
    }
}

/// Cells wait most of the time: for a link of 10 Mbit/s, and for round trips.
fn default_jobs() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    cores.saturating_mul(2).min(8)
}

fn stack(name: &str) -> Result<Stack, String> {
    let names = || Stack::ALL.map(Stack::name).join(", ");
    Stack::find(name).ok_or_else(|| format!("there is no stack {name}; there are {}", names()))
}

fn test(name: &str) -> Result<&'static Test, String> {
    let names = || TESTS.iter().map(|test| test.name).collect::<Vec<_>>().join(", ");
    catalogue::find(name).ok_or_else(|| format!("there is no test {name}; there are {}", names()))
}

fn controller(name: &str) -> Result<Controller, String> {
    Controller::find(name)
        .ok_or_else(|| format!("there is no controller {name}; there are reno, cubic, bbr"))
}

fn number<T: std::str::FromStr>(option: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{option} takes a number, not {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&arguments)
    }

    #[test]
    fn without_options_all_cells_are_chosen() {
        let options = parse("").unwrap();
        // 24 with three controllers, and with five peers in two roles.
        assert_eq!(options.cells().len(), 24 * 3 + 24 * 5 * 2);
        assert_eq!(options.peers().len(), 5);
    }

    #[test]
    fn options_choose_cells() {
        let options =
            parse("--client clearway --server clearway --test H --test transfer --controller bbr");
        let cells = options.unwrap().cells();
        let names: Vec<String> = cells.iter().map(Cell::name).collect();
        assert_eq!(names, ["clearway-clearway-handshake-bbr", "clearway-clearway-transfer-bbr"]);
        let cells = parse("--server quinn --test H").unwrap().cells();
        assert_eq!(cells.len(), 1);
        let cells = parse("--client aioquic --server quinn --test H").unwrap().cells();
        assert_eq!(cells.len(), 1);
    }

    #[test]
    fn wrong_options_are_explained() {
        for (line, expected) in [
            ("--client nginx", "tokio-quiche"),
            ("--test Q", "amplificationlimit"),
            ("--controller vegas", "reno, cubic, bbr"),
            ("--jobs many", "takes a number"),
            ("--jobs 0", "at least 1"),
            ("--repeat 0", "at least 1"),
            ("--client", "needs a value"),
            ("--fast", "unknown option"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
