//! 10 MB byte for byte between `clearway` and other stacks, in both roles; and the traces that they write are read.
//!
//! `cargo xtask test --peers` builds what is needed and says where it is. A peer that could not be
//! built (no toolchain) is skipped with a line saying so; in CI that is a failure.

mod support;

use support::{Peer, Workspace};

/// Ten megabytes, as in the main job.
const SIZE: usize = 10_000_000;

fn clearway_downloads_from(name: &str) {
    let Some(peer) = Peer::find(name) else { return };
    let workspace = Workspace::new(&format!("from-{name}"), SIZE);
    let server = peer.serve(&workspace);
    let output = workspace.path("downloaded");
    support::clearway_get(&workspace, &server.address, &output);
    workspace.assert_same(&output);
    drop(server);
    for trace in support::read_traces(&workspace) {
        let events = trace["events"].as_u64();
        assert!(events.is_some_and(|events| events > 1000), "{trace}");
        assert_eq!(trace["vantage_point"], "server", "{trace}");
        let unused = trace["unused"].as_object().expect("names and counts");
        let misread = unused.keys().find(|name| name.contains("not as expected"));
        assert_eq!(misread, None, "{trace}");
    }
}

fn clearway_serves(name: &str) {
    let Some(peer) = Peer::find(name) else { return };
    let workspace = Workspace::new(&format!("to-{name}"), SIZE);
    let server = support::clearway_serve(&workspace);
    let output = workspace.path("downloaded");
    peer.get(&workspace, &server.address, &output);
    workspace.assert_same(&output);
}

#[test]
fn downloads_from_quinn() {
    clearway_downloads_from("quinn");
}

#[test]
fn serves_quinn() {
    clearway_serves("quinn");
}

#[test]
fn downloads_from_tokio_quiche() {
    clearway_downloads_from("tokio-quiche");
}

#[test]
fn serves_tokio_quiche() {
    clearway_serves("tokio-quiche");
}

#[test]
fn downloads_from_quic_go() {
    clearway_downloads_from("quic-go");
}

#[test]
fn serves_quic_go() {
    clearway_serves("quic-go");
}

#[test]
fn downloads_from_aioquic() {
    clearway_downloads_from("aioquic");
}

#[test]
fn serves_aioquic() {
    clearway_serves("aioquic");
}
