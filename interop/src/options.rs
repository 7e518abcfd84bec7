//! Command-line options of `cargo xtask interop`.

use std::num::NonZero;
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{ValueEnum, value_parser};

use crate::catalogue::{self, TESTS, Test};
use crate::cell::Cell;
use crate::stack::{Controller, Stack};

/// The tests and measurements of the public QUIC interop runner, without docker and ns-3
///
/// Runs Clearway against itself with each controller, and as client and as server against every
/// peer with CUBIC. Options that select cells can be repeated. Two peers run against each other
/// only if client and server are both named.
///
/// Tests run several at a time, then the measurements, one at a time. On two cores, the tests of
/// Clearway with itself take a minute for each controller, and those with a peer one to two minutes
/// for each role; a run of a measurement takes 10 s (goodput) or 45 s (crosstraffic), with five
/// runs for every pair. Everything together takes about 75 minutes.
#[derive(clap::Parser, Debug)]
#[command(name = "cargo xtask interop", bin_name = "cargo xtask interop")]
pub(crate) struct InteropOptions {
    /// The client's stack
    #[arg(long = "client", value_name = "STACK", value_enum)]
    clients: Vec<Stack>,
    /// The server's stack
    #[arg(long = "server", value_name = "STACK", value_enum)]
    servers: Vec<Stack>,
    /// A test: its name or its letter in the matrix, such as handshake or H
    #[arg(long = "test", value_name = "NAME", value_parser = test)]
    tests: Vec<&'static Test>,
    /// The congestion controller of Clearway's endpoints
    #[arg(long = "controller", value_name = "NAME", value_enum)]
    controllers: Vec<Controller>,
    /// Number of runs of each test (default 1) and measurement (default 5), each with another seed
    ///
    /// Every run of a test must pass.
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u32).range(1..))]
    pub(crate) repeat: Option<u32>,
    /// Number of tests that run at the same time; measurements always run alone
    #[arg(long, value_name = "COUNT", default_value_t = default_jobs(), value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) jobs: usize,
    /// Seed of everything that is random in the network
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Path of Clearway's program (default: the one built with the release profile)
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Do not create network namespaces
    #[arg(long)]
    pub(crate) loopback: bool,
    /// Keep captures, key logs and output of all cells, not only of failed ones
    #[arg(long)]
    pub(crate) keep: bool,
    /// Let endpoints write qlog files, which are kept with the other records
    #[arg(long)]
    pub(crate) qlog: bool,
    /// Print one JSON object per cell: client, server, test, controller, result (ok, failed, unsupported), detail
    #[arg(long)]
    pub(crate) json: bool,
    /// Decrypt and print the packets in the records of a cell, without running anything
    #[arg(long, value_name = "FOLDER")]
    pub(crate) show: Option<PathBuf>,
    /// Print the selected cells without running them
    #[arg(long)]
    pub(crate) list: bool,
    /// Print the names of the peers that must be built, for xtask
    #[arg(long, hide = true)]
    pub(crate) list_peers: bool,
}

/// Returns the absolute path of a file in cargo's target folder. Endpoints run in other folders, so
/// relative paths would not work.
pub(crate) fn built(path: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    absolute(PathBuf::from(target).join(path))
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

impl InteropOptions {
    pub(crate) fn program(&self) -> PathBuf {
        self.program.clone().map_or_else(|| built("release/clearway"), absolute)
    }

    /// Returns the selected cells: Clearway with itself, then as the client and as the server with
    /// each peer.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (client, server) in self.pairs() {
            let ours = [client, server].iter().filter(|it| **it == Stack::Clearway).count();
            for &controller in Controller::value_variants() {
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

    /// Returns the selected pairs of client and server. At least one of the two is Clearway, unless
    /// both were given by name.
    fn pairs(&self) -> Vec<(Stack, Stack)> {
        let all = |named: &[Stack]| match named.is_empty() {
            true => Stack::value_variants().to_vec(),
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

    /// Returns the peers in the selected cells.
    pub(crate) fn peers(&self) -> Vec<Stack> {
        let stacks = self.cells().into_iter().flat_map(|cell| [cell.client, cell.server]);
        let mut peers: Vec<Stack> = stacks.filter(|stack| *stack != Stack::Clearway).collect();
        peers.sort();
        peers.dedup();
        peers
    }
}

/// Returns the default number of concurrent cells. Cells spend most of their time waiting for a 10
/// Mbit/s link and for round trips.
fn default_jobs() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    cores.saturating_mul(2).min(8)
}

fn test(name: &str) -> Result<&'static Test, String> {
    let names = || TESTS.iter().map(|test| test.name).collect::<Vec<_>>().join(", ");
    catalogue::find(name).ok_or_else(|| format!("unknown test {name}: expected one of {}", names()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn parse(line: &str) -> Result<InteropOptions, clap::Error> {
        InteropOptions::try_parse_from(std::iter::once("").chain(line.split_whitespace()))
    }

    #[test]
    fn without_options_all_cells_are_chosen() {
        let options = parse("").unwrap();
        // 24 tests with three controllers, and with five peers in two roles.
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
            ("--jobs many", "invalid"),
            ("--jobs 0", "1.."),
            ("--repeat 0", "1.."),
            ("--client", "a value is required"),
            ("--fast", "unexpected argument"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
