//! `cargo xtask balance-test`: `clearway balance` in front of two kinds of servers, over real
//! sockets in network namespaces. Clients download while they change their addresses and connection
//! IDs. At the same time, servers and the balancer are stopped, added and replaced.

mod fleet;
mod judge;
mod play;
mod servers;
mod site;
mod strays;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clearway_namespaces::{Namespace, become_root};

use self::servers::Programs;
use self::table::Row;
use crate::command::{self, cargo, root, target};
use crate::waiting::{check_interrupt, watch_signals};

/// The servers behind the balancer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stack {
    /// `clearway serve` with encrypted QUIC-LB connection IDs, and a preface with the client's
    /// address before each datagram.
    Clearway,
    /// quic-go with unencrypted QUIC-LB connection IDs.
    QuicGo,
    /// quic-go without a server ID in the balancer's file. The balancer must learn connection IDs,
    /// so a client must not change its address and its connection ID at the same time, unless the
    /// balancer already knows the ID. The clients are behind a NAT.
    QuicGoOpaque,
}

/// The event that occurs while clients download.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// No event, apart from the clients' migrations.
    Moves,
    /// A server is drained: it gets no new clients.
    Drain,
    /// A server is killed.
    Kill,
    /// A server is added.
    Add,
    /// The balancer is stopped and restarted.
    Restart,
    /// Another balancer with the same file takes over the traffic.
    Second,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Scenario {
    stack: Stack,
    event: Event,
}

impl Stack {
    const ALL: [Self; 3] = [Self::Clearway, Self::QuicGo, Self::QuicGoOpaque];

    fn name(self) -> &'static str {
        match self {
            Self::Clearway => "clearway",
            Self::QuicGo => "quic-go",
            Self::QuicGoOpaque => "quic-go-opaque",
        }
    }
}

impl Event {
    const ALL: [Self; 6] =
        [Self::Moves, Self::Drain, Self::Kill, Self::Add, Self::Restart, Self::Second];

    fn name(self) -> &'static str {
        match self {
            Self::Moves => "moves",
            Self::Drain => "drain",
            Self::Kill => "kill",
            Self::Add => "add",
            Self::Restart => "restart",
            Self::Second => "second",
        }
    }
}

impl Scenario {
    /// Returns all possible scenarios. When a balancer exits, it loses what it has learned about
    /// opaque IDs, so nothing is guaranteed for these afterwards.
    fn all() -> impl Iterator<Item = Self> {
        let of = |stack| Event::ALL.into_iter().map(move |event| Self { stack, event });
        Stack::ALL.into_iter().flat_map(of).filter(|it| {
            it.stack != Stack::QuicGoOpaque || !matches!(it.event, Event::Restart | Event::Second)
        })
    }

    fn name(self) -> String {
        format!("{}/{}", self.stack.name(), self.event.name())
    }

    /// Returns whether this word of `--only` selects the scenario: the word is its name, or either
    /// half of the name.
    fn is_meant_by(self, word: &str) -> bool {
        self.name() == word || self.stack.name() == word || self.event.name() == word
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct BalanceTestOptions {
    /// Run only this scenario, or all scenarios with this stack or event; can be repeated
    #[arg(long, value_name = "NAME", value_parser = scenario_name)]
    only: Vec<String>,
    /// Only print the names
    #[arg(long)]
    list: bool,
    /// Print one JSON object per scenario
    #[arg(long)]
    json: bool,
}

impl BalanceTestOptions {
    fn scenarios(&self) -> Vec<Scenario> {
        let is_chosen = |scenario: &Scenario| {
            self.only.is_empty() || self.only.iter().any(|word| scenario.is_meant_by(word))
        };
        Scenario::all().filter(is_chosen).collect()
    }
}

fn scenario_name(word: &str) -> Result<String, String> {
    let is_known = Scenario::all().any(|scenario| scenario.is_meant_by(word));
    is_known.then(|| word.to_owned()).ok_or("unknown scenario name; --list prints all".to_owned())
}

/// Runs the scenarios sequentially.
pub(crate) fn run(options: &BalanceTestOptions) -> Result<(), String> {
    let scenarios = options.scenarios();
    if options.list {
        scenarios.iter().for_each(|scenario| println!("{}", scenario.name()));
        return Ok(());
    }
    become_root();
    Namespace::create().map_err(|error| {
        format!(
            "balance-test needs network namespaces (run it as root, or as a user who may create \
             user namespaces) and the programs unshare, nsenter and setpriv (util-linux) and ip \
             (iproute2): {error}"
        )
    })?;
    let programs = build(scenarios.iter().any(|it| it.stack != Stack::Clearway))?;
    watch_signals()?;
    let folder = Folder::create()?;
    let began = Instant::now();
    let mut rows = Vec::new();
    for scenario in scenarios {
        let logs = folder.path.join(scenario.name().replace('/', "-"));
        let row = match play::run(scenario, &programs, &logs) {
            Ok(row) => row,
            Err(error) => Row::failed(scenario, error),
        };
        check_interrupt()?;
        if options.json {
            println!("{}", row.json());
        } else {
            eprintln!("xtask: {}", row.progress());
        }
        rows.push(row);
    }
    if !options.json {
        print!("{}", table::text(&rows));
        println!("{} scenarios in {:.0} s", rows.len(), began.elapsed().as_secs_f64());
    }
    verdict(&rows).map_err(|failed| match folder.keep() {
        Some(path) => format!("{failed}; the output of the programs is in {}", path.display()),
        None => failed,
    })
}

fn verdict(rows: &[Row]) -> Result<(), String> {
    let failed: Vec<_> = rows.iter().filter(|row| !row.faults.is_empty()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = failed.iter().map(|row| row.scenario.name()).collect();
    Err(format!("balance-test: {} of {} failed: {}", failed.len(), rows.len(), names.join(", ")))
}

/// Builds the programs with the release profile.
fn build(with_quic_go: bool) -> Result<Programs, String> {
    // Built together: each build alone would enable other features of shared dependencies and
    // rebuild them.
    let packages = ["--package", "clearway-cli", "--package", "clearway-bench"];
    let mut ours = cargo(&[&["build", "--release"], &packages[..]].concat());
    command::run("building clearway and the clients", &mut ours)?;
    let clearway = target().join("release/clearway");
    let peers = target().join("peers");
    let quic_go = peers.join("quic-go");
    if with_quic_go {
        let mut build = Command::new("sh");
        build.arg(root().join("interop/peers/build.sh")).arg("quic-go").env("PEERS_OUT", &peers);
        command::run("building quic-go's server", &mut build)?;
        if !quic_go.exists() {
            return Err(
                "quic-go could not be built (the reason is above); --only clearway skips it"
                    .to_owned(),
            );
        }
    }
    Ok(Programs { clearway, fleet: target().join("release/clearway-bench"), quic_go })
}

/// The folder for the programs' input and output, which is removed at the end.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn create() -> Result<Self, String> {
        let path = target().join(format!("balance-test/{}", std::process::id()));
        create(&path)?;
        Ok(Self { path })
    }

    /// Keeps the folder, unless the user has interrupted the run.
    fn keep(self) -> Option<PathBuf> {
        check_interrupt().ok()?;
        let path = self.path.clone();
        std::mem::forget(self);
        Some(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn create(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn write(file: &Path, content: impl AsRef<[u8]>) -> Result<(), String> {
    std::fs::write(file, content).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    fn names(only: &[&str]) -> Vec<String> {
        let words: Vec<&str> = only.iter().flat_map(|name| ["--only", name]).collect();
        let options: BalanceTestOptions = parse(&words).unwrap();
        options.scenarios().iter().map(|it| it.name()).collect()
    }

    #[test]
    fn scenarios_are_chosen_by_their_names_and_halves_of_them() {
        assert_eq!(names(&[]).len(), 16);
        assert_eq!(names(&["quic-go/kill"]), ["quic-go/kill"]);
        let expected = [
            "clearway/moves",
            "quic-go/moves",
            "quic-go-opaque/moves",
            "quic-go-opaque/drain",
            "quic-go-opaque/kill",
            "quic-go-opaque/add",
        ];
        assert_eq!(names(&["moves", "quic-go-opaque"]), expected);
        let wrong = parse::<BalanceTestOptions>(&["--only", "quic-go-opaque/restart"]);
        assert!(wrong.unwrap_err().to_string().contains("--list prints all"));
    }

    #[test]
    fn one_scenario_with_a_fault_fails_all() {
        let scenario = Scenario { stack: Stack::QuicGo, event: Event::Kill };
        let mut good = Row::failed(scenario, String::new());
        good.faults.clear();
        assert_eq!(verdict(&[good.clone()]), Ok(()));
        let bad = Row::failed(scenario, "no server".to_owned());
        let said = "balance-test: 1 of 2 failed: quic-go/kill";
        assert_eq!(verdict(&[good, bad]), Err(said.to_owned()));
    }
}
