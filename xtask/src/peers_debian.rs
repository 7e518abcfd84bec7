//! `cargo xtask peers-debian`: tests Clearway with the HTTP/3 programs of Debian sid, in both
//! roles, over loopback.

mod backend;
mod browsers;
mod chroot;
mod curl;
mod files;
mod get;
mod library;
mod owners;
mod problem;
mod report;
mod rows;
mod servers;
mod test;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use self::chroot::Chroot;
use self::files::Files;
use self::report::Cell;
use self::rows::Pair;
use self::test::Test;
use crate::command::{self, cargo, target};
use crate::waiting::{check_interrupt, watch_signals};

/// Time limit of a client in one test.
const LIMIT: Duration = Duration::from_secs(40);

/// The environment that all tests share.
pub(crate) struct Bench {
    chroot: Chroot,
    files: Files,
    /// The path of `clearway`.
    program: PathBuf,
    /// The path of the library's example `peer`.
    example: PathBuf,
    /// The address of the HTTP/1.1 server behind the peers.
    backend: SocketAddr,
    /// The folder for logs and the result matrix.
    folder: PathBuf,
    limit: Duration,
}

#[derive(clap::Args)]
pub(crate) struct PeersDebianOptions {
    /// Run only this pair, peer, test, or PAIR/TEST; can be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only print the names
    #[arg(long)]
    list: bool,
}

/// Runs the selected tests, prints the matrix, and writes it to a file.
pub(crate) fn run(options: &PeersDebianOptions) -> Result<(), String> {
    let chosen = chosen(&options.only)?;
    if options.list {
        chosen.iter().for_each(|(pair, test)| println!("{} {}", pair.name(), report::name(*test)));
        return Ok(());
    }
    watch_signals()?;
    let bench = prepare()?;
    let mut cells = Vec::new();
    for (pair, test) in chosen {
        check_interrupt()?;
        let began = Instant::now();
        let outcome = pair.run(test, &bench);
        let cell = Cell { pair, test, outcome, seconds: began.elapsed().as_secs_f64() };
        println!("{}", cell.line());
        cells.push(cell);
    }
    let (text, open) = report::report(&bench.chroot.versions()?, &cells);
    print!("\n{text}");
    let path = bench.folder.join("matrix.txt");
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    match open {
        0 => Ok(()),
        _ => Err(format!("{open} failures are not known to be the peer's fault")),
    }
}

/// Returns the pairs and tests selected by `--only`. Each value is a pair, one end of a pair, a
/// test, or `PAIR/TEST`.
fn chosen(wanted: &[String]) -> Result<Vec<(Pair, Test)>, String> {
    let mut chosen = Vec::new();
    for pair in Pair::all() {
        for (test, name) in Test::ALL {
            let names = [pair.name(), name.to_owned(), format!("{}/{name}", pair.name())];
            let is_end = |word: &String| pair.name().split('-').any(|end| end == word);
            let is_wanted = |word: &String| names.contains(word) || is_end(word);
            if wanted.is_empty() || wanted.iter().any(is_wanted) {
                chosen.push((pair, test));
            }
        }
    }
    match chosen.is_empty() {
        true => Err("unknown test name; --list prints all".to_owned()),
        false => Ok(chosen),
    }
}

fn prepare() -> Result<Bench, String> {
    let program = command::tested("clearway")?;
    let mut build = cargo(&["build", "-p", "clearway", "--example", "peer"]);
    command::run("building the example peer", &mut build)?;
    let folder = target().join("peers-debian");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let chroot = Chroot::prepare(&folder)?;
    let files = Files::write(&chroot)?;
    let backend = backend::start(files.folder.join("www"))?;
    let example = target().join("debug/examples/peer");
    Ok(Bench { chroot, files, program, example, backend, folder, limit: LIMIT })
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn tests_are_chosen_by_pair_end_or_test() {
        let count = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            chosen(&words).map_or(0, |chosen| chosen.len())
        };
        assert_eq!(count(&["get-nginx"]), 15);
        assert_eq!(count(&["get-nginx/loss"]), 1);
        assert_eq!(count(&["loss"]), count(&[]) / 15);
        assert_eq!(count(&["nobody"]), 0);
    }
}
