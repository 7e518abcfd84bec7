//! Tests the diagnosis of snapshots of real hosts with a fault. `cargo xtask doctor-test --save
//! crates/doctor/tests/fixtures` causes each fault and writes the snapshots; this test needs
//! neither root nor a network.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clearway_doctor::{Cause, Certainty, Outcome, Stage, decode, diagnose};

/// Returns whether a cause is the one that was injected.
type Is = fn(&Cause) -> bool;

/// The worst loss of each file: the stage and the cause, or `None` if nothing is lost.
const FIXTURES: &[(&str, Option<(Stage, Is)>)] = &[
    ("healthy", None),
    ("healthy-ipv4", None),
    ("healthy-router", None),
    ("healthy-sender", None),
    ("sick-neighbour", None),
    // A healthy host with scans, multicast, and programs that fail or lose a few packets.
    ("noisy-healthy", None),
    ("noisy-healthy-sender", None),
    ("noisy-rate", Some((Stage::Socket, is_rate))),
    ("noisy-no-route", Some((Stage::SendIp, |it| *it == Cause::NoRoute))),
    ("truncated-reads", None),
    ("device-mtu", Some((Stage::Device, |it| *it == Cause::DeviceReceive))),
    ("xdp-native", Some((Stage::Xdp, |it| *it == Cause::Xdp))),
    ("xdp-generic", Some((Stage::Xdp, |it| *it == Cause::Xdp))),
    ("backlog", Some((Stage::Softnet, |it| *it == Cause::BacklogFull))),
    ("ip-checksum", Some((Stage::Ip, |it| *it == Cause::IpHeader))),
    ("wrong-address", Some((Stage::Ip, |it| *it == Cause::IpHeader))),
    ("reverse-path", Some((Stage::Ip, |it| *it == Cause::ReversePathFilter))),
    ("fragments", Some((Stage::Ip, |it| *it == Cause::Reassembly))),
    ("firewall", Some((Stage::Netfilter, |it| *it == Cause::Firewall))),
    ("firewall-and-rate", Some((Stage::Socket, is_rate))),
    ("conntrack-full", Some((Stage::Conntrack, |it| *it == Cause::ConntrackFull))),
    ("no-socket", Some((Stage::Udp, |it| *it == Cause::NoSocket))),
    ("no-socket-and-rate", Some((Stage::Socket, is_rate))),
    ("checksum", Some((Stage::Udp, |it| *it == Cause::BadChecksum))),
    ("checksum-and-rate", Some((Stage::Socket, is_rate))),
    ("length", Some((Stage::Udp, |it| *it == Cause::BadLength))),
    ("udp-memory", Some((Stage::Udp, |it| *it == Cause::UdpMemory))),
    ("socket-filter", Some((Stage::Socket, |it| *it == Cause::SocketFilter))),
    ("rate", Some((Stage::Socket, is_rate))),
    ("rate-large-buffer", Some((Stage::Socket, is_rate))),
    ("burst", Some((Stage::Socket, |it| matches!(it, Cause::Burst(_))))),
    ("starved", Some((Stage::Socket, |it| matches!(it, Cause::Starved(..))))),
    // The reader did not run once during the observation, so none of its counters rose.
    ("starved-throughout", Some((Stage::Socket, |it| matches!(it, Cause::Starved(..))))),
    ("stopped", Some((Stage::Socket, |it| matches!(it, Cause::Starved(..))))),
    ("throttled", Some((Stage::Socket, |it| matches!(it, Cause::Starved(..))))),
    ("hot-socket", Some((Stage::Socket, |it| matches!(it, Cause::HotSocket(_))))),
    ("send-buffer", Some((Stage::SendSocket, |it| *it == Cause::SendBuffer))),
    ("no-route", Some((Stage::SendIp, |it| *it == Cause::NoRoute))),
    ("path-mtu", Some((Stage::SendIp, |it| *it == Cause::PathMtu))),
    ("router-mtu", Some((Stage::SendIp, |it| *it == Cause::PathMtu))),
    ("qdisc-full", Some((Stage::SendQdisc, |it| *it == Cause::QdiscFull))),
];

/// Files with two faults, and the smaller fault of each, which must be reported as well.
const SECOND: [(&str, Stage, Cause); 3] = [
    ("firewall-and-rate", Stage::Netfilter, Cause::Firewall),
    ("no-socket-and-rate", Stage::Udp, Cause::NoSocket),
    ("checksum-and-rate", Stage::Udp, Cause::BadChecksum),
];

/// Files of hosts for which no diagnosis is possible.
const UNKNOWN: [&str; 2] = ["idle", "xdp-socket"];

fn is_rate(cause: &Cause) -> bool {
    matches!(cause, Cause::Rate(_))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn verdict(name: &str) -> clearway_doctor::Verdict {
    let path = folder().join(format!("{name}.jsonl"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    diagnose(&decode(&bytes).unwrap())
}

#[test]
fn each_host_has_its_verdict() {
    for (name, expected) in FIXTURES {
        let verdict = verdict(name);
        let first = verdict.findings.first().filter(|finding| finding.is_above_floor);
        match expected {
            None => assert_eq!((verdict.outcome, first), (Outcome::NoLoss, None), "{name}"),
            Some((stage, is)) => {
                let outcome = if *name == "no-socket" { Outcome::Stray } else { Outcome::Loss };
                assert_eq!(verdict.outcome, outcome, "{name}");
                let first = first.unwrap_or_else(|| panic!("{name}: nothing was found"));
                assert!(first.stage == *stage && is(&first.cause), "{name}: {first:?}");
            }
        }
    }
    for name in UNKNOWN {
        assert_eq!(verdict(name).outcome, Outcome::Unknown, "{name}");
    }
}

#[test]
fn the_smaller_fault_is_named_after_the_larger() {
    for (name, stage, cause) in SECOND {
        let verdict = verdict(name);
        let second = verdict.findings.iter().find(|finding| finding.cause == cause);
        let second = second.unwrap_or_else(|| panic!("{name}: {:?}", verdict.findings));
        assert_eq!((second.stage, second.consequence_of), (stage, None), "{name}");
        assert!(second.lost < verdict.findings[0].lost || cause.is_stray(), "{name}");
    }
}

#[test]
fn a_reader_that_is_too_slow_is_certain_with_its_rates() {
    for name in ["rate", "rate-large-buffer"] {
        let verdict = verdict(name);
        let first = &verdict.findings[0];
        assert_eq!(first.certainty, Certainty::Certain, "{name}");
        let Cause::Rate(queue) = &first.cause else { panic!("{name}: {first:?}") };
        assert_eq!(queue.local, "10.0.0.2:4433");
        assert_eq!(queue.process.as_ref().map(|(_, name)| name.as_str()), Some("doctor-reader"));
        // 10,000 datagrams are sent per second, and the reader needs 200 microseconds for each.
        let arrival = queue.arrival_rate.unwrap();
        let drain = queue.drain_rate.unwrap();
        assert!((9_000.0..11_000.0).contains(&arrival), "{name}: {arrival}");
        assert!((3_000.0..5_000.0).contains(&drain), "{name}: {drain}");
        assert!(!first.actions.is_empty());
    }
}

#[test]
fn what_every_host_gets_is_listed_and_decides_nothing() {
    for name in ["noisy-healthy", "noisy-healthy-sender"] {
        let verdict = verdict(name);
        let is_stray = |finding: &clearway_doctor::Finding| finding.cause == Cause::NoSocket;
        assert!(verdict.findings.iter().any(is_stray), "{name}: {:?}", verdict.findings);
        assert!(verdict.findings.iter().all(|finding| !finding.is_above_floor), "{name}");
    }
}

#[test]
fn what_cannot_be_seen_is_named() {
    let verdict = verdict("truncated-reads");
    assert!(verdict.unseen.iter().any(|unseen| unseen.stage == Stage::Application));
}

#[test]
fn each_file_is_looked_at() {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let stem = |path: PathBuf| path.file_stem().map(|it| it.to_string_lossy().into_owned());
    let files: BTreeSet<_> = files.filter_map(stem).collect();
    let known = FIXTURES.iter().map(|(name, _)| *name).chain(UNKNOWN);
    assert_eq!(files, known.map(str::to_owned).collect());
}

#[test]
fn fewer_snapshots_are_never_wrong_and_certain() {
    for (name, expected) in FIXTURES {
        let bytes = std::fs::read(folder().join(format!("{name}.jsonl"))).unwrap();
        let snapshots = decode(&bytes).unwrap();
        for count in 2..=snapshots.len() {
            let verdict = diagnose(&snapshots[..count]);
            match expected {
                None => assert_ne!(verdict.outcome, Outcome::Loss, "{name} {count}"),
                Some((stage, is)) => {
                    for finding in verdict.findings.iter().filter(|it| it.is_above_floor) {
                        let is_second = SECOND.iter().any(|(file, stage, cause)| {
                            file == name && finding.stage == *stage && finding.cause == *cause
                        });
                        let is_right = is_second || (finding.stage == *stage && is(&finding.cause));
                        let is_certain = finding.certainty == Certainty::Certain;
                        assert!(is_right || !is_certain, "{name} {count}: {finding:?}");
                    }
                }
            }
        }
    }
}
