//! The number of checks with each result, in docs/probe.md and docs/probe-results.md.

use super::page::{Cell, LAYERS, Row, Tables};
use super::{PEERS, read};

pub(super) const FILE: &str = "docs/probe.md";

const BEGIN: &str = "<!-- conformance: written by cargo xtask conformance --write -->\n";
const END: &str = "<!-- conformance: end -->\n";

/// The libraries of each peer: the peer, the library, the file that pins its version, and the text
/// before the version.
const LIBRARIES: [(&str, &str, &str, &str); 7] = [
    ("aioquic", "aioquic", "aioquic/requirements.txt", "aioquic=="),
    ("quic-go", "quic-go", "quic-go/go.mod", "github.com/quic-go/quic-go v"),
    ("quinn", "quinn", "quinn/Cargo.lock", "name = \"quinn\"\nversion = \""),
    ("quinn", "h3", "quinn/Cargo.lock", "name = \"h3\"\nversion = \""),
    ("s2n-quic", "s2n-quic", "s2n-quic/Cargo.lock", "name = \"s2n-quic\"\nversion = \""),
    ("s2n-quic", "h3", "s2n-quic/Cargo.lock", "name = \"h3\"\nversion = \""),
    (
        "tokio-quiche",
        "tokio-quiche",
        "tokio-quiche/Cargo.lock",
        "name = \"tokio-quiche\"\nversion = \"",
    ),
];

/// Returns the names and versions of a peer's libraries.
fn title(peer: &str) -> String {
    let libraries = LIBRARIES.into_iter().filter(|(of, ..)| *of == peer);
    let versions = libraries.map(|(_, library, file, before)| {
        let text = read(&format!("interop/peers/{file}"));
        let rest = text.split_once(before).unwrap_or_else(|| panic!("{file}: no {before}")).1;
        let version = rest.split(|c: char| c == '"' || c.is_whitespace()).next();
        format!("{library} {}", version.unwrap_or_default())
    });
    versions.collect::<Vec<_>>().join(" with ")
}

/// Returns the table of counts, with its markers.
pub(super) fn table(tables: &Tables) -> String {
    let total = tables.checks;
    let mut text = format!(
        "{BEGIN}| server | passed | failed: QUIC | failed: HTTP/3 | failed: QPACK | not applicable | varies |\n\
         |---|--:|--:|--:|--:|--:|--:|\n| Clearway | {total} | 0 | 0 | 0 | 0 | 0 |\n"
    );
    for (index, peer) in PEERS.into_iter().enumerate() {
        let count = |is: &dyn Fn(&Row, &Cell) -> bool| {
            tables.rows.iter().filter(|row| is(row, &row.cells[index])).count()
        };
        let others = count(&|_, cell| *cell != Cell::Passed);
        let failed = LAYERS.map(|layer| {
            count(&|row, cell| row.layer() == layer && matches!(cell, Cell::Failed(_))).to_string()
        });
        let not_applicable = count(&|_, cell| *cell == Cell::NotApplicable);
        let varies = count(&|_, cell| *cell == Cell::Varies);
        text.push_str(&format!(
            "| {} | {} | {} | {not_applicable} | {varies} |\n",
            title(peer),
            total - others,
            failed.join(" | ")
        ));
    }
    text + END
}

/// Returns the part of a document that this module writes, with its markers.
pub(super) fn between_markers(document: &str) -> &str {
    let start = document.find(BEGIN).expect("the first marker of the counts");
    let end = document.find(END).expect("the last marker of the counts");
    &document[start..end + END.len()]
}

/// Returns the document with another table of counts.
pub(super) fn replace(document: &str, table: &str) -> String {
    document.replace(between_markers(document), table)
}
