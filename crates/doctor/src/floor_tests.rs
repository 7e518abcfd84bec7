//! Tests the ranking of findings, and losses that are too small to affect a verdict.

use crate::testing::{BUFFER, CHARGE, KEY, Parts, READER, bump, course, process, socket};
use crate::{
    Application, Cause, Outcome, Reading, Scope, Snapshot, SocketKey, Stage, diagnose, diagnose_for,
};

/// Adds two stray packets per second, as from a port scan.
fn scan(it: &mut Parts<'_>, step: u64) {
    if step % 10 < 2 {
        stray(it, 1);
    }
}

fn stray(it: &mut Parts<'_>, packets: u64) {
    it.ip("InReceives", packets);
    it.ip("InDelivers", packets);
    it.udp("NoPorts", packets);
    bump(&mut it.protocols().icmp, "OutDestUnreachs", packets);
}

fn slow_reader(it: &mut Parts<'_>, step: u64) {
    it.overflow(200);
    it.reader(80, 0);
    it.socket().receive_queue = (BUFFER / CHARGE - step % 7) * CHARGE;
}

#[test]
fn a_stray_packet_does_not_outrank_an_overflow() {
    let verdict = diagnose(&course(60, |it, step| {
        slow_reader(it, step);
        scan(it, step);
    }));
    assert_eq!(verdict.outcome, Outcome::Loss, "{verdict}");
    let first = &verdict.findings[0];
    assert!(matches!(first.cause, Cause::Rate(_)), "{verdict}");
    assert_eq!(first.lost, 59 * 200, "{verdict}");
    let headline = verdict.headline();
    let begin = "Loss at the socket: 11,800 packets in 5.9 s (2,000/s, 67 % of what arrived there). Certain:";
    assert!(headline.starts_with(begin), "{headline}");
    let last = verdict.findings.last().unwrap();
    assert_eq!((&last.cause, last.is_above_floor), (&Cause::NoSocket, false), "{verdict}");
    let text = verdict.to_string();
    assert!(text.contains(">> socket              11,800 lost\n"), "{text}");
    assert!(text.contains(" > UDP                 12 stray (below the floor)\n"), "{text}");
    // This holds regardless of the number of scans.
    let verdict = diagnose(&course(60, |it, step| {
        slow_reader(it, step);
        stray(it, 5_000);
    }));
    assert!(matches!(verdict.findings[0].cause, Cause::Rate(_)), "{verdict}");
}

#[test]
fn a_healthy_host_that_is_scanned_loses_nothing() {
    let verdict = diagnose(&course(60, scan));
    assert_eq!((verdict.outcome, verdict.outcome.exit_status()), (Outcome::NoLoss, 0));
    assert_eq!(verdict.headline(), "No loss in 5.9 s: 12 packets were stray.");
    let verdict = diagnose(&course(60, |it, step| stray(it, u64::from(step == 7))));
    assert_eq!(verdict.headline(), "No loss in 5.9 s: 1 packet was stray.");
    assert!(verdict.to_string().contains("1 stray packet (0.2/s, 0.02 % of what arrived there;"));
}

#[test]
fn strays_are_an_outcome_of_their_own_and_no_failure() {
    let verdict = diagnose(&course(60, |it, _| stray(it, 100)));
    assert_eq!((verdict.outcome, verdict.outcome.exit_status()), (Outcome::Stray, 0));
    let headline = "Stray packets, but no loss: 5,900 packets in 5.9 s (1,000/s, 50 % of what arrived there) \
                    arrived at ports without a socket.";
    assert_eq!(verdict.headline(), headline);
}

#[test]
fn at_a_port_without_a_socket_strays_are_loss_and_silence_is_no_health() {
    let closed = Scope::Sockets { process: None, port: Some(9) };
    let open = Scope::Sockets { process: None, port: Some(4433) };
    let scanned = course(60, |it, _| stray(it, 100));
    assert_eq!(diagnose_for(&scanned, closed).outcome, Outcome::Loss);
    let verdict = diagnose_for(&scanned, open);
    assert_eq!((verdict.outcome, verdict.findings.len()), (Outcome::NoLoss, 0), "{verdict}");
    assert_eq!(verdict.elsewhere[0].cause, Cause::NoSocket, "{verdict}");
    let verdict = diagnose_for(&course(60, scan), closed);
    assert_eq!(verdict.outcome, Outcome::Unknown, "{verdict}");
    assert!(verdict.to_string().contains("no UDP socket is bound to port 9"), "{verdict}");
}

#[test]
fn loss_is_1_in_1_000_and_1_per_second() {
    let of = |count: u64, lost: fn(u64) -> u64| {
        diagnose(&course(count, |it, step| it.device_counter("rx_missed_errors", lost(step))))
            .outcome
    };
    // 1,000 packets arrive each second.
    assert_eq!(of(101, |step| u64::from(step % 10 == 0)), Outcome::NoLoss, "0.99 in 1,000");
    assert_eq!(of(101, |step| u64::from(step % 9 == 0)), Outcome::Loss, "1.1 in 1,000");
    let rare = diagnose(&course(101, |it, step| {
        it.udp("InDatagrams", 0);
        it.device_counter("rx_missed_errors", u64::from(step % 50 == 0));
    }));
    assert_eq!(rare.outcome, Outcome::NoLoss, "2 in 10 s: {rare}");
    let text =
        "No loss above the floor in 10.0 s: 2 packets were lost or refused, too few to count.";
    assert_eq!(rare.headline(), text);
}

#[test]
fn small_losses_of_one_kind_are_added_up() {
    let verdict = diagnose(&course(101, |it, step| {
        let one = u64::from(step % 12 == 0);
        it.device_counter("rx_missed_errors", one);
        it.udp("InErrors", 0);
        it.softnet().dropped += one;
        it.device_counter("rx_dropped", one);
    }));
    assert_eq!(verdict.outcome, Outcome::Loss, "{verdict}");
}

#[test]
fn what_is_refused_counts_from_1_in_10_and_10_per_second() {
    let of = |refused: u64| {
        diagnose(&course(60, |it, _| {
            it.ip("InReceives", refused);
            it.ip("InHdrErrors", refused);
        }))
        .outcome
    };
    assert_eq!((of(9), of(20)), (Outcome::NoLoss, Outcome::Loss));
}

/// A socket loses every arriving datagram, on a host with much traffic elsewhere.
#[test]
fn a_small_socket_that_loses_everything_is_not_hidden_by_a_busy_host() {
    let verdict = diagnose(&course(60, |it, _| {
        it.traffic(100_000);
        it.overflow(2);
        it.socket().receive_queue = BUFFER / CHARGE * CHARGE;
        it.thread().state = crate::RunState::Stopped;
        it.thread().ran -= 20_000_000;
        // Other processes read the datagrams of their own sockets.
        it.sockets().entry(SocketKey(78)).or_insert_with(|| {
            let mut other = socket();
            (other.local, other.owners) = ("0.0.0.0:53".to_owned(), vec![600]);
            other
        });
    }));
    assert_eq!((verdict.outcome, verdict.findings[0].lost), (Outcome::Loss, 59 * 2), "{verdict}");
}

#[test]
fn findings_of_one_size_have_an_order() {
    let many = |keys: &[u64]| {
        let mut snapshots = course(20, |it, _| {
            for name in ["InErrors", "RcvbufErrors"] {
                it.udp(name, 300);
            }
            for key in keys {
                let socket = it.sockets().entry(SocketKey(*key)).or_insert_with(|| {
                    let mut socket = socket();
                    socket.local = format!("127.0.0.1:{key}");
                    socket
                });
                socket.drops += 100;
            }
        });
        snapshots.remove(0);
        let findings = diagnose(&snapshots).findings;
        findings.iter().filter_map(|it| Some(it.cause.queue()?.local.clone())).collect::<Vec<_>>()
    };
    let expected = ["127.0.0.1:1001", "127.0.0.1:1002", "127.0.0.1:1003"];
    assert_eq!(many(&[1003, 1001, 1002]), expected);
    assert_eq!(many(&[1001, 1002, 1003]), expected);
}

/// Returns the verdict on a server that examines itself.
fn own(snapshots: &[Snapshot]) -> crate::Verdict {
    diagnose_for(snapshots, Scope::Own { process: READER })
}

/// Returns one snapshot per step, including a server's own counters.
fn served(mut happens: impl FnMut(&mut Parts<'_>, u64)) -> Vec<Snapshot> {
    course(60, |it, step| {
        let told = Application { process: READER, received: 100 * step, ..Application::default() };
        it.0.applications = Reading::Seen([("server".to_owned(), told)].into());
        happens(it, step);
    })
    .split_off(1)
}

#[test]
fn what_other_processes_lose_is_no_loss_of_a_server() {
    let happens: [fn(&mut Parts<'_>, u64); 5] = [
        |it, _| {
            it.ip("OutNoRoutes", 500);
        },
        |it, _| stray(it, 500),
        // A socket overflows that is not seen by a collector for a single process.
        |it, _| {
            for name in ["InErrors", "RcvbufErrors"] {
                it.udp(name, 500);
            }
        },
        |it, _| {
            it.qdisc().drops += 500;
            it.udp("SndbufErrors", 500);
        },
        |it, _| {
            it.ip("InReceives", 500);
            it.reason("NETFILTER_DROP", 500);
        },
    ];
    for (place, happens) in happens.into_iter().enumerate() {
        let snapshots = served(happens);
        assert!(diagnose(&snapshots).findings[0].is_above_floor, "{place}");
        let verdict = own(&snapshots);
        assert_eq!((verdict.outcome, verdict.findings.len()), (Outcome::NoLoss, 0), "{verdict}");
        assert!(!verdict.elsewhere.is_empty(), "{place}: it is context: {verdict}");
        let text = verdict.to_string();
        assert!(text.contains("Elsewhere on this host (not part of the verdict):"), "{text}");
    }
}

#[test]
fn what_a_servers_own_sockets_lose_is_its_loss_beside_what_others_lose() {
    let verdict = own(&served(|it, step| {
        slow_reader(it, step);
        for name in ["InErrors", "RcvbufErrors"] {
            it.udp(name, 5_000);
        }
        it.ip("OutNoRoutes", 500);
    }));
    assert_eq!(verdict.outcome, Outcome::Loss, "{verdict}");
    assert_eq!((verdict.findings.len(), verdict.findings[0].lost), (1, 58 * 200), "{verdict}");
}

#[test]
fn a_filter_and_a_full_queue_of_its_own_are_a_servers_loss() {
    let filtered = |packets: u64| {
        own(&served(|it, _| {
            it.udp("InErrors", packets);
            it.socket().drops += packets;
            it.reason("SOCKET_FILTER", packets);
        }))
    };
    for (packets, outcome) in [(90, Outcome::Loss), (5, Outcome::NoLoss)] {
        let verdict = filtered(packets);
        assert_eq!(verdict.findings[0].cause, Cause::SocketFilter, "{verdict}");
        assert_eq!(verdict.outcome, outcome, "{packets} beside 100 that it received: {verdict}");
    }
    let verdict = own(&served(|it, step| {
        if let Reading::Seen(applications) = &mut it.0.applications {
            applications.values_mut().for_each(|it| it.queue_full = step * 20);
        }
    }));
    assert_eq!(verdict.outcome, Outcome::Loss, "{verdict}");
    assert_eq!(verdict.findings[0].stage, Stage::Application, "{verdict}");
}

/// Unreadable parts elsewhere do not affect the verdict on a server; unreadable sockets of its own
/// do.
#[test]
fn a_server_is_sure_of_itself_while_it_sees_its_own_sockets() {
    let mut snapshots = served(|_, _| {});
    for it in &mut snapshots {
        let sandbox = || crate::Missing::Sandbox("AF_NETLINK".to_owned());
        it.devices = Reading::Missing(sandbox());
        it.qdiscs = Reading::Missing(sandbox());
    }
    let verdict = diagnose(&snapshots);
    assert_eq!(verdict.outcome, Outcome::Unknown);
    let said = verdict.to_string();
    assert!(
        said.contains("devices: not permitted here (a sandbox?) (needed: AF_NETLINK"),
        "{said}"
    );
    assert!(!said.contains("not supported by this kernel"), "{said}");
    assert_eq!(own(&snapshots).outcome, Outcome::NoLoss, "{}", own(&snapshots));
    for it in &mut snapshots {
        it.sockets = Reading::Seen(
            [(KEY, {
                let mut it = socket();
                it.owners.clear();
                it
            })]
            .into(),
        );
        it.processes = Reading::Seen([(READER, process())].into());
    }
    assert_eq!(own(&snapshots).outcome, Outcome::Unknown, "{}", own(&snapshots));
}
