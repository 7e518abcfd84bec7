//! Runs the probe's checks of servers (`clearway probe conformance`) against `clearway serve` and
//! the peers' servers, and compares the results with docs/probe-results.md.
//!
//! `cargo xtask conformance --write` writes this document and the summary in docs/probe.md, with
//! the explanations in notes.toml.

mod notes;
mod page;
mod results;
mod summary;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::support::Peer;
use notes::Notes;
use page::Expected;
use results::{CheckResult, Endpoint};

/// The peers, in the order of the tables' columns.
const PEERS: [&str; 5] = ["aioquic", "quic-go", "quinn", "s2n-quic", "tokio-quiche"];
/// Number of runs from which the tables are written.
const RUNS: usize = 3;
/// Number of times that a check whose result differs from the table is repeated. The results of
/// some checks depend on timing, and other programs may delay a server for longer than the probe
/// waits.
const REPEATS: usize = 2;
/// Number of differences above which checks are not repeated: timing does not explain so many.
const MAX_REPEATED: usize = 10;

/// Returns a file of the repository.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Starts the server of a peer and compares the results of all checks with the table.
fn compare_peer(name: &str) {
    let Some(peer) = Peer::find(name) else { return };
    let expected = Expected::of_peer(&read(page::FILE), name);
    compare(name, &Endpoint::of_peer(name, &peer), &expected);
}

fn compare(name: &str, endpoint: &Endpoint, expected: &Expected) {
    let results = endpoint.check(None);
    println!("{}", results::totals(&results));
    let is_different = |result: &CheckResult| expected.difference(result).is_some();
    let mut different: Vec<_> = results.iter().filter(|it| is_different(it)).cloned().collect();
    let repeats = if different.len() > MAX_REPEATED { 0 } else { REPEATS };
    for _ in 0..repeats {
        different.retain_mut(|result| {
            *result = endpoint.check_again(result);
            is_different(result)
        });
    }
    let mut lines: Vec<_> = different.iter().filter_map(|it| expected.difference(it)).collect();
    lines.extend(expected.unknown(&results));
    assert!(
        lines.is_empty(),
        "{} results of {name} differ from {}:\n{}\nIf the server or a check was changed, run: \
         cargo xtask conformance --write\nIf a result varies, add it to notes.toml before that",
        lines.len(),
        page::FILE,
        lines.join("\n")
    );
}

#[test]
fn checks_clearway() {
    compare("clearway", &Endpoint::clearway(), &Expected::all_passed());
}

#[test]
fn checks_aioquic() {
    compare_peer("aioquic");
}

#[test]
fn checks_quic_go() {
    compare_peer("quic-go");
}

#[test]
fn checks_quinn() {
    compare_peer("quinn");
}

#[test]
fn checks_s2n_quic() {
    compare_peer("s2n-quic");
}

#[test]
fn checks_tokio_quiche() {
    compare_peer("tokio-quiche");
}

#[test]
fn the_summary_agrees_with_the_tables() {
    let (summary, page) = (read(summary::FILE), read(page::FILE));
    assert!(
        summary::between_markers(&summary) == summary::between_markers(&page),
        "the counts in {} and {} differ; run: cargo xtask conformance --write",
        summary::FILE,
        page::FILE
    );
}

/// Runs all checks against all peers several times, and returns the results of each run.
fn run_all() -> BTreeMap<&'static str, Vec<Vec<CheckResult>>> {
    thread::scope(|scope| {
        let threads = PEERS.map(|name| {
            scope.spawn(move || {
                let peer = Peer::find(name).unwrap_or_else(|| panic!("{name} was not built"));
                let endpoint = Endpoint::of_peer(name, &peer);
                (name, (0..RUNS).map(|_| endpoint.check(None)).collect())
            })
        });
        threads.into_iter().map(|thread| thread.join().expect("results of a peer")).collect()
    })
}

#[test]
#[ignore = "writes the documents: cargo xtask conformance --write"]
fn write_conformance_tables() {
    let notes = Notes::read();
    let tables = page::Tables::new(&run_all(), &notes);
    let counts = summary::table(&tables);
    let document = page::render(&tables, &notes, &counts);
    fs::write(file(page::FILE), document).expect("the tables can be written");
    let text = summary::replace(&read(summary::FILE), &counts);
    fs::write(file(summary::FILE), text).expect("the summary can be written");
    let unexplained = tables.unexplained(&notes);
    assert!(unexplained.is_empty(), "explain these in notes.toml: {unexplained:#?}");
}
