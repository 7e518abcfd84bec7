//! Tests downloads of 10 MB between `clearway` and other stacks in both roles, compares the files
//! byte for byte, and checks that `clearway` can read the traces written by these stacks. The
//! module `masque` tests tunnels, and the module `dns` tests `clearway dns`.
//!
//! `cargo xtask test --peers` builds the peers and passes their location. A peer that could not be
//! built (no toolchain) is skipped with a message; in CI, a missing peer is a failure.

mod conformance;
mod dns;
mod masque;
mod support;

use support::{Peer, Workspace};

/// Size of each download: ten megabytes.
const SIZE: usize = 10_000_000;

/// The link options of a bottleneck with 40 Mbit/s, a round-trip time of 30 ms, and a queue of
/// about one bandwidth-delay product.
const BOTTLENECK: [&str; 6] =
    ["--delay", "15ms", "--to-client-rate", "40mbit", "--to-client-queue", "110"];
/// The link options of the lab's scenario `collapse`: 30 % of the packets are lost in both
/// directions for two seconds after the handshake.
const COLLAPSE: [&str; 8] =
    ["--delay", "5ms", "--loss", "30%", "--loss-after-bytes", "6kB", "--loss-for", "2s"];

fn clearway_downloads_from(name: &str) {
    let Some(peer) = Peer::find(name) else { return };
    let workspace = Workspace::new(&format!("from-{name}"), SIZE);
    let server = peer.serve(&workspace);
    let output = workspace.path("downloaded");
    support::clearway_get(&workspace, &server.address, &output);
    workspace.assert_same(&output);
    drop(server);
    assert_traces_are_read(&workspace, "server");
}

/// Downloads from a peer through an emulated network, and reads the traces that the peer wrote.
fn traces_of(name: &str, network: &str, conditions: &[&str]) {
    let Some(peer) = Peer::find(name) else { return };
    let workspace = Workspace::new(&format!("{network}-{name}"), SIZE);
    let server = peer.serve(&workspace);
    let relay = support::clearway_link(&server.address, conditions);
    let output = workspace.path("downloaded");
    support::clearway_get(&workspace, &relay.address, &output);
    workspace.assert_same(&output);
    drop((relay, server));
    assert_traces_are_read(&workspace, "server");
}

/// Checks that all events have a known format: the name of any other event is followed by a remark
/// in parentheses. Findings are only printed, because they depend on the machine.
fn assert_traces_are_read(workspace: &Workspace, vantage_point: &str) {
    for trace in support::read_traces(workspace) {
        let events = trace["events"].as_u64();
        assert!(events.is_some_and(|events| events > 1000), "{trace}");
        assert_eq!(trace["vantage_point"], vantage_point, "{trace}");
        let unused = trace["unused"].as_object().expect("`unused` has names and counts");
        assert_eq!(unused.keys().find(|name| name.contains('(')), None, "{trace}");
        println!("{trace}");
    }
}

fn clearway_serves(name: &str) {
    let Some(peer) = Peer::find(name) else { return };
    let workspace = Workspace::new(&format!("to-{name}"), SIZE);
    let server = support::clearway_serve(&workspace);
    let output = workspace.path("downloaded");
    peer.get(&workspace, &server.address, &output);
    workspace.assert_same(&output);
    assert_traces_are_read(&workspace, "client");
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

const VERSION_1: &str = "00000001";
const VERSION_2: &str = "6b3343cf";

fn clearway_downloads_in(name: &str, options: &[&str], version: &str) {
    let Some(peer) = Peer::find(name) else { return };
    let workspace = Workspace::new(&format!("from-{name}-{version}{}", options.concat()), SIZE);
    let server = peer.serve(&workspace);
    let output = workspace.path("downloaded");
    support::clearway_get_with(&workspace, &server.address, &output, options);
    workspace.assert_same(&output);
    assert_eq!(support::version_used(&workspace), version);
}

fn clearway_serves_in(name: &str, versions: &str, version: &str) {
    let Some(peer) = Peer::find(name) else { return };
    let workspace = Workspace::new(&format!("to-{name}-{versions}"), SIZE);
    let server = support::clearway_serve_with(&workspace, &["--quic-versions", versions]);
    let output = workspace.path("downloaded");
    peer.get(&workspace, &server.address, &output);
    workspace.assert_same(&output);
    drop(server);
    assert_eq!(support::version_used(&workspace), version);
}

#[test]
fn downloads_in_version_2() {
    for name in ["quic-go", "aioquic"] {
        clearway_downloads_in(name, &["--quic-version", "2"], VERSION_2);
    }
}

/// If a client offers version 2, aioquic's server always switches to it.
#[test]
fn stays_in_version_1_if_nothing_else_is_offered() {
    clearway_downloads_in("aioquic", &["--quic-versions", "1"], VERSION_1);
}

/// quinn supports version 1 only, and responds with a Version Negotiation packet. tokio-quiche
/// 0.20.1 does not respond: it interprets the type of a version 2 Initial packet as 0-RTT before it
/// checks the version (RFC 9369 §3.2).
#[test]
fn falls_back_to_version_1() {
    clearway_downloads_in("quinn", &["--quic-version", "2"], VERSION_1);
}

/// Clients that offer version 2 are switched by compatible version negotiation; the others stay in
/// version 1.
#[test]
fn serves_in_version_2_if_the_client_offers_it() {
    clearway_serves_in("aioquic", "2,1", VERSION_2);
    for name in ["quinn", "tokio-quiche"] {
        clearway_serves_in(name, "2,1", VERSION_1);
    }
}

/// Version Negotiation packets make clients switch to version 2.
#[test]
fn serves_only_version_2() {
    for name in ["quic-go", "aioquic"] {
        clearway_serves_in(name, "2", VERSION_2);
    }
}

#[test]
fn reads_traces_of_quinn_from_a_bottleneck() {
    traces_of("quinn", "bottleneck", &BOTTLENECK);
}

#[test]
fn reads_traces_of_quinn_from_the_collapse() {
    traces_of("quinn", "collapse", &COLLAPSE);
}

#[test]
fn reads_traces_of_tokio_quiche_from_a_bottleneck() {
    traces_of("tokio-quiche", "bottleneck", &BOTTLENECK);
}

#[test]
fn reads_traces_of_tokio_quiche_from_the_collapse() {
    traces_of("tokio-quiche", "collapse", &COLLAPSE);
}

#[test]
fn reads_traces_of_quic_go_from_a_bottleneck() {
    traces_of("quic-go", "bottleneck", &BOTTLENECK);
}

#[test]
fn reads_traces_of_quic_go_from_the_collapse() {
    traces_of("quic-go", "collapse", &COLLAPSE);
}

#[test]
fn reads_traces_of_aioquic_from_a_bottleneck() {
    traces_of("aioquic", "bottleneck", &BOTTLENECK);
}

#[test]
fn reads_traces_of_aioquic_from_the_collapse() {
    traces_of("aioquic", "collapse", &COLLAPSE);
}
