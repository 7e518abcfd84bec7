use super::*;
use crate::actions::actions;
use crate::testing::{BUFFER, CHARGE, LOCAL, Parts, bump, course, host, process, socket};
use crate::{
    Application, Certainty, Memory, Missing, Queue, Reading, RunState, Socket, SocketKey,
    Starvation, Throttling,
};

type Happens = fn(&mut Parts<'_>, u64);
type Is = fn(&Cause) -> bool;

/// Makes a socket overflow while another socket on the same port has room.
fn overflow_beside_room(it: &mut Parts<'_>) {
    it.overflow(900);
    it.reader(80, 0);
    it.socket().receive_queue = BUFFER / CHARGE * CHARGE;
    it.sockets().entry(SocketKey(78)).or_insert_with(socket);
}

/// Faults that one or several counters show, each with the expected diagnosis.
const FAULTS: &[(&str, Happens, Stage, Is)] = &[
    (
        "device",
        |it, _| {
            it.device_counter("rx_missed_errors", 9);
        },
        Stage::Device,
        |it| *it == Cause::DeviceReceive,
    ),
    (
        "XDP",
        |it, _| {
            it.device().has_xdp = true;
            it.driver_counter("rx_queue_0_xdp_drops", 90);
            it.reason("XDP", 90);
        },
        Stage::Xdp,
        |it| *it == Cause::Xdp,
    ),
    (
        "backlog",
        |it, _| {
            it.softnet().dropped += 9;
            it.device_counter("rx_dropped", 9);
        },
        Stage::Softnet,
        |it| *it == Cause::BacklogFull,
    ),
    (
        "header",
        |it, _| {
            it.ip("InReceives", 90);
            it.ip("InHdrErrors", 90);
        },
        Stage::Ip,
        |it| *it == Cause::IpHeader,
    ),
    (
        "reverse path",
        |it, _| {
            it.ip("InReceives", 90);
            bump(&mut it.protocols().tcp_ext, "IPReversePathFilter", 90);
        },
        Stage::Ip,
        |it| *it == Cause::ReversePathFilter,
    ),
    (
        "reassembly",
        |it, _| {
            it.ip("InReceives", 90);
            it.ip("ReasmReqds", 90);
            it.ip("ReasmFails", 90);
        },
        Stage::Ip,
        |it| *it == Cause::Reassembly,
    ),
    (
        "firewall",
        |it, _| {
            it.ip("InReceives", 90);
            it.reason("NETFILTER_DROP", 90);
        },
        Stage::Netfilter,
        |it| *it == Cause::Firewall,
    ),
    (
        "conntrack",
        |it, _| {
            it.ip("InReceives", 50);
            it.conntrack().count = 1_000;
            bump(&mut it.conntrack().counters, "drop", 50);
            it.reason("NETFILTER_DROP", 50);
        },
        Stage::Conntrack,
        |it| *it == Cause::ConntrackFull,
    ),
    (
        "no socket",
        |it, _| {
            it.ip("InReceives", 90);
            it.ip("InDelivers", 90);
            it.udp("NoPorts", 90);
            bump(&mut it.protocols().icmp, "OutDestUnreachs", 1);
        },
        Stage::Udp,
        |it| *it == Cause::NoSocket,
    ),
    (
        "no socket, IPv6",
        |it, _| {
            it.ipv6("Udp6NoPorts", 90);
        },
        Stage::Udp,
        |it| *it == Cause::NoSocket,
    ),
    (
        "checksum",
        |it, _| {
            it.udp("InCsumErrors", 90);
            it.udp("InErrors", 90);
            it.socket().drops += 90;
            it.reason("UDP_CSUM", 90);
        },
        Stage::Udp,
        |it| *it == Cause::BadChecksum,
    ),
    (
        "length",
        |it, _| {
            it.udp("InErrors", 90);
            it.reason("PKT_TOO_SMALL", 90);
        },
        Stage::Udp,
        |it| *it == Cause::BadLength,
    ),
    (
        "filter",
        |it, _| {
            it.udp("InErrors", 90);
            it.socket().drops += 90;
            it.reason("SOCKET_FILTER", 90);
        },
        Stage::Socket,
        |it| *it == Cause::SocketFilter,
    ),
    (
        "memory",
        |it, _| {
            it.udp("InErrors", 9);
            it.udp("MemErrors", 9);
            it.socket().drops += 9;
        },
        Stage::Udp,
        |it| *it == Cause::UdpMemory,
    ),
    (
        "rate",
        |it, _| {
            it.overflow(900);
            it.reader(80, 0);
            it.socket().receive_queue = BUFFER / CHARGE * CHARGE;
        },
        Stage::Socket,
        |it| matches!(it, Cause::Rate(_)),
    ),
    (
        "burst",
        |it, step| {
            if step % 5 == 3 {
                it.overflow(200);
            }
        },
        Stage::Socket,
        |it| matches!(it, Cause::Burst(_)),
    ),
    (
        "CPU pressure",
        |it, step| {
            it.reader(0, 70);
            it.overflow(150);
            it.socket().receive_queue = if step % 3 == 0 { 0 } else { 40 * CHARGE };
        },
        Stage::Socket,
        |it| matches!(it, Cause::Starved(_, Starvation::CpuPressure(_))),
    ),
    (
        "throttled",
        |it, _| {
            let throttled = it.process().throttling.get_or_insert(Throttling {
                periods: 0,
                throttled: 0,
                throttled_microseconds: 0,
            });
            throttled.throttled_microseconds += 70_000;
            it.overflow(150);
            it.socket().receive_queue = BUFFER / CHARGE * CHARGE;
        },
        Stage::Socket,
        |it| matches!(it, Cause::Starved(_, Starvation::Throttled(_))),
    ),
    (
        "hot socket",
        |it, _| {
            overflow_beside_room(it);
            it.sibling().ran += 30_000_000;
        },
        Stage::Socket,
        |it| matches!(it, Cause::HotSocket(_)),
    ),
    (
        "two sockets with one reader",
        |it, _| overflow_beside_room(it),
        Stage::Socket,
        |it| matches!(it, Cause::Rate(_)),
    ),
    (
        "two sockets with a busy reader each",
        |it, _| {
            overflow_beside_room(it);
            it.sibling().ran += 70_000_000;
        },
        Stage::Socket,
        |it| matches!(it, Cause::Rate(_)),
    ),
    (
        "send buffer",
        |it, _| {
            it.udp("SndbufErrors", 9);
            it.socket().send_queue = BUFFER;
        },
        Stage::SendSocket,
        |it| *it == Cause::SendBuffer,
    ),
    (
        "queueing discipline",
        |it, _| {
            it.qdisc().drops += 9;
            it.udp("SndbufErrors", 9);
            it.ip("OutDiscards", 9);
        },
        Stage::SendQdisc,
        |it| *it == Cause::QdiscFull,
    ),
    (
        "no route",
        |it, _| {
            it.ip("OutNoRoutes", 90);
        },
        Stage::SendIp,
        |it| *it == Cause::NoRoute,
    ),
    (
        "path MTU where it is forwarded",
        |it, _| {
            it.ip("InReceives", 9);
            it.ip("FragFails", 9);
        },
        Stage::SendIp,
        |it| *it == Cause::PathMtu,
    ),
    (
        "sending device",
        |it, _| {
            it.device_counter("tx_dropped", 9);
        },
        Stage::SendDevice,
        |it| *it == Cause::DeviceSend,
    ),
];

/// Stray packets have their own outcome.
fn outcome_of(fault: &str) -> Outcome {
    if fault.starts_with("no socket") { Outcome::Stray } else { Outcome::Loss }
}

#[test]
fn a_healthy_host_under_load_loses_nothing() {
    let verdict = diagnose(&course(20, |it, _| it.traffic(5_000)));
    assert_eq!(verdict.outcome, Outcome::NoLoss, "{verdict}");
    assert_eq!(verdict.outcome.exit_status(), 0);
}

#[test]
fn each_fault_is_named() {
    for (name, happens, stage, is_right) in FAULTS {
        let verdict = diagnose(&course(20, happens));
        assert_eq!(verdict.outcome, outcome_of(name), "{name}: {verdict}");
        let first = &verdict.findings[0];
        assert_eq!(first.stage, *stage, "{name}: {verdict}");
        assert!(is_right(&first.cause), "{name}: {verdict}");
        assert_eq!(verdict.findings.len(), 1, "{name}: {verdict}");
        assert!(!first.actions.is_empty() && !first.evidence.is_empty(), "{name}: {verdict}");
        let advice = &first.actions[0].text;
        assert!(!advice.starts_with("Check the counters of the"), "{name}: not of its own");
    }
}

#[test]
fn with_fewer_rights_a_fault_is_named_or_not_certain() {
    for (name, happens, stage, is_right) in FAULTS {
        let mut snapshots = course(20, happens);
        for it in &mut snapshots {
            let right = || Missing::Right("CAP_BPF".to_owned());
            it.drop_reasons = Reading::Missing(right());
            it.processes = Reading::Missing(right());
            if let Reading::Seen(sockets) = &mut it.sockets {
                sockets.values_mut().for_each(|socket| {
                    socket.owners.clear();
                    socket.receive_buffer = None;
                });
            }
        }
        let verdict = diagnose(&snapshots);
        assert_eq!(verdict.outcome, outcome_of(name), "{name}: {verdict}");
        let first = &verdict.findings[0];
        assert_eq!(first.stage, *stage, "{name}: {verdict}");
        assert!(
            is_right(&first.cause) || first.certainty == Certainty::Possible,
            "{name}: {verdict}"
        );
    }
}

#[test]
fn of_two_faults_both_are_named_and_the_larger_is_first() {
    for (name, earlier, stage, is_first) in FAULTS {
        for (other, later, later_stage, is_second) in FAULTS {
            // Only one cause is reported per buffer, and these two faults affect each other's
            // counters.
            let is_shared = stage >= later_stage || (*name, *other) == ("firewall", "conntrack");
            if is_shared || *other == "queueing discipline" {
                continue;
            }
            let verdict = diagnose(&course(20, |it, step| {
                earlier(it, step);
                later(it, step);
            }));
            let found = |stage: &Stage, is: &Is| {
                verdict.findings.iter().any(|it| it.stage == *stage && is(&it.cause))
            };
            let are_found = found(stage, is_first) && found(later_stage, is_second);
            assert!(are_found, "{name} and {other}: {verdict}");
            let [one, next, ..] = &verdict.findings[..] else { panic!("{verdict}") };
            let is_ordered = one.lost >= next.lost || next.cause.is_stray();
            assert!(is_ordered || !next.is_above_floor, "{name} and {other}: {verdict}");
        }
    }
}

#[test]
fn lost_fragments_leave_reassembly_failures_as_a_consequence() {
    let verdict = diagnose(&course(20, |it, _| {
        it.device_counter("rx_missed_errors", 9);
        it.ip("ReasmReqds", 9);
        it.ip("InReceives", 9);
        it.ip("ReasmFails", 5);
    }));
    assert_eq!(verdict.findings[0].cause, Cause::DeviceReceive);
    assert_eq!(verdict.findings[1].cause, Cause::Reassembly);
    assert_eq!(verdict.findings[1].consequence_of, Some(Stage::Device));
}

#[test]
fn the_rate_is_measured_and_no_larger_buffer_advised() {
    let rate = FAULTS.iter().find(|it| it.0 == "rate").unwrap().1;
    let verdict = diagnose(&course(20, |it, step| {
        rate(it, step);
        it.socket().receive_queue = (BUFFER / CHARGE - step % 7) * CHARGE;
    }));
    let finding = &verdict.findings[0];
    let Cause::Rate(queue) = &finding.cause else { panic!("{verdict}") };
    assert_eq!(finding.certainty, Certainty::Certain, "{verdict}");
    assert_eq!(queue.process, Some((500, "server".to_owned())));
    assert_eq!(queue.local, LOCAL);
    assert_eq!(queue.charge, Some(CHARGE as f64));
    assert!((queue.arrival_rate.unwrap() - 10_000.0).abs() < 100.0, "{verdict}");
    assert!((queue.drain_rate.unwrap() - 1_000.0).abs() < 1.0, "{verdict}");
    // 92 datagrams fit, and 9,000 more arrive each second than are read.
    assert!((queue.buffer_seconds.unwrap() - 0.010_2).abs() < 0.000_2, "{verdict}");
    assert_eq!(queue.sufficient_buffer, None);
    assert!(finding.actions.iter().all(|it| !it.text.contains("SO_RCVBUF ")), "{verdict}");
    assert!(verdict.to_string().contains(">> socket"), "{verdict}");
}

/// A reader that hardly reads, or an empty buffer, does not put an infinite number into the advice.
#[test]
fn advice_has_finite_numbers() {
    let advice = |drain_rate: f64, buffer: u64| {
        let queue = Queue {
            local: LOCAL.to_owned(),
            process: None,
            arrival_rate: Some(900.0),
            drain_rate: Some(drain_rate),
            are_rates_exact: true,
            charge: None,
            buffer: Some(buffer),
            buffer_seconds: Some(0.5),
            sufficient_buffer: None,
        };
        let actions = actions(Stage::Socket, &Cause::Rate(queue), &[]);
        actions.into_iter().map(|it| it.text).collect::<Vec<_>>()
    };
    let of_idle = advice(0.4, 0);
    assert!(of_idle[0].ends_with("arrive per second and it does not read any."), "{of_idle:?}");
    assert_eq!(of_idle.len(), 1, "{of_idle:?}");
    let of_slow = advice(1.0, BUFFER);
    assert!(of_slow[0].contains("it reads 1 (900.00 arrive for each"), "{of_slow:?}");
    assert_eq!(of_slow.len(), 2, "{of_slow:?}");
}

#[test]
fn a_burst_is_answered_with_the_buffer_that_would_have_held_it() {
    let verdict = diagnose(&course(40, |it, step| {
        if step % 5 == 3 {
            it.overflow(200);
        }
        // Some snapshots see the queue, which shows the charge per datagram.
        it.socket().receive_queue =
            if step > 38 { 0 } else { (step % 5) % 2 * (step + 1) * CHARGE };
    }));
    let Cause::Burst(queue) = &verdict.findings[0].cause else { panic!("{verdict}") };
    assert_eq!(queue.charge, Some(CHARGE as f64), "{verdict}");
    let held = 2 * queue.sufficient_buffer.unwrap();
    assert!((BUFFER + 200 * CHARGE..BUFFER + 500 * CHARGE).contains(&held), "{verdict}");
}

/// If the snapshots do not show the charge per datagram, the charge of a mean-sized frame is an
/// upper bound.
#[test]
fn without_a_measured_charge_the_advised_buffer_is_computed_from_the_mean_frame() {
    let burst = FAULTS.iter().find(|it| it.0 == "burst").unwrap().1;
    let verdict = diagnose(&course(20, burst));
    let Cause::Burst(queue) = &verdict.findings[0].cause else { panic!("{verdict}") };
    assert_eq!(queue.charge, None, "{verdict}");
    // A frame of 1,242 bytes is charged at most 4,096 bytes plus 576 for the kernel's structures.
    let held = BUFFER + 200 * (4_096 + 576);
    assert_eq!(queue.sufficient_buffer, Some(held / 2), "{verdict}");
}

/// In 70 ms of each 100 ms the reader waits for a CPU; in the other 30 ms it reads 100 datagrams.
/// It could therefore have read 233 more.
#[test]
fn cpu_pressure_is_certain_only_if_it_explains_twice_the_losses() {
    for (lost, certainty) in [(110, Certainty::Certain), (125, Certainty::Possible)] {
        let verdict = diagnose(&course(20, |it, _| {
            it.reader(0, 70);
            it.overflow(lost);
            it.socket().receive_queue = 40 * CHARGE;
        }));
        let first = &verdict.findings[0];
        let is_pressure = matches!(first.cause, Cause::Starved(_, Starvation::CpuPressure(_)));
        assert!(is_pressure, "{lost}: {verdict}");
        assert_eq!(first.certainty, certainty, "{lost}: {verdict}");
    }
}

/// A host with two sockets: one has a full queue, and the other drops datagrams with bad checksums.
#[test]
fn a_socket_with_room_that_drops_bad_checksums_does_not_overflow() {
    let verdict = diagnose(&course(20, |it, _| {
        it.overflow(200);
        it.socket().receive_queue = BUFFER / CHARGE * CHARGE;
        it.udp("InErrors", 90);
        it.udp("InCsumErrors", 90);
        let other = || Socket { local: "0.0.0.0:53".to_owned(), ..socket() };
        it.sockets().entry(SocketKey(78)).or_insert_with(other).drops += 90;
    }));
    let queues = verdict.findings.iter().filter_map(|it| it.cause.queue());
    let overflowing: Vec<_> = queues.map(|queue| queue.local.as_str()).collect();
    assert_eq!(overflowing, [LOCAL], "{verdict}");
    let is_checksum = |it: &Finding| it.cause == Cause::BadChecksum && it.lost == 19 * 90;
    assert!(verdict.findings.iter().any(is_checksum), "{verdict}");
}

#[test]
fn a_stopped_reader_is_told_from_a_slow_one() {
    let mut snapshots = course(20, |it, step| {
        it.overflow(900);
        it.socket().receive_queue = BUFFER;
        it.thread().state = RunState::Stopped;
        it.thread().ran -= if step == 0 { 0 } else { 20_000_000 };
    });
    let verdict = diagnose(&snapshots);
    let is_stopped = matches!(verdict.findings[0].cause, Cause::Starved(_, Starvation::Stopped));
    assert!(is_stopped, "{verdict}");
    assert_eq!(verdict.findings[0].certainty, Certainty::Certain);
    // Another process with the same ID is not the reader.
    for it in &mut snapshots[10..] {
        Parts(it).process().started = 43;
    }
    assert_eq!(diagnose(&snapshots).outcome, Outcome::Loss);
}

#[test]
fn an_application_tells_what_no_counter_of_the_kernel_does() {
    for (truncated, queue_full, cause) in
        [(1, 0, Cause::TruncatedReads), (0, 1, Cause::ApplicationQueue)]
    {
        let mut snapshots = course(20, |_, _| {});
        for (step, it) in (0..).zip(&mut snapshots) {
            let application = Application {
                process: 500,
                truncated: truncated * step,
                queue_full: queue_full * step,
                ..Application::default()
            };
            it.applications = Reading::Seen([("balance".to_owned(), application)].into());
        }
        let verdict = diagnose(&snapshots);
        let first = &verdict.findings[0];
        assert_eq!((&first.cause, first.lost), (&cause, 19), "{verdict}");
        let advice = &first.actions[0].text;
        assert!(!advice.starts_with("Check the counters of the"), "{cause:?}: not of its own");
    }
}

#[test]
fn packets_on_their_way_are_not_lost() {
    let verdict = diagnose(&course(20, |it, step| {
        // Up to 60 packets are counted as received but not yet as delivered.
        let before = [0, 60, 3, 17, 0, 44][(step % 6) as usize];
        let now = [0, 60, 3, 17, 0, 44][((step + 1) % 6) as usize];
        it.ip("InReceives", 100_000 + now);
        it.ip("InDelivers", 100_000 + before);
    }));
    assert_eq!(verdict.outcome, Outcome::NoLoss, "{verdict}");
}

#[test]
fn packets_of_ipv6_that_nobody_misses_are_not_lost() {
    // Multicast that arrives before an address is valid, or any IPv6 packet on a host where IPv6 is
    // disabled.
    let without_route = |it: &mut Parts<'_>| {
        it.ipv6("Ip6InReceives", 2);
        it.ipv6("Ip6InNoRoutes", 2);
        it.ipv6("Ip6OutMcastPkts", 2);
    };
    let switched_off = |it: &mut Parts<'_>| {
        it.ipv6("Ip6InReceives", 2);
        it.ipv6("Ip6InDiscards", 2);
    };
    for happens in [without_route, switched_off] {
        let verdict = diagnose(&course(20, |it, _| {
            it.traffic(5_000);
            happens(it);
        }));
        assert_eq!(verdict.outcome, Outcome::NoLoss, "{verdict}");
    }
}

#[test]
fn packets_that_may_be_multicast_or_a_firewalls_decide_nothing_while_they_are_few() {
    let with = |packets: u64, reason: Option<u64>| {
        let mut snapshots = course(20, |it, _| {
            it.traffic(5_000);
            it.ipv6("Ip6InReceives", packets);
            it.ipv6("Ip6InMcastPkts", packets);
            it.reason("NETFILTER_DROP", reason.unwrap_or(0));
        });
        if reason.is_none() {
            for it in &mut snapshots {
                it.drop_reasons = Reading::Missing(Missing::Right("CAP_BPF".to_owned()));
            }
        }
        diagnose(&snapshots)
    };
    // A firewall in another namespace drops more packets, or firewall drops are not visible because
    // root is missing.
    for reason in [Some(3_000), None] {
        assert_eq!(with(1, reason).outcome, Outcome::NoLoss, "{}", with(1, reason));
        assert_eq!(with(1_000, reason).outcome, Outcome::Unknown, "{}", with(1_000, reason));
    }
}

#[test]
fn a_router_has_traffic_without_datagrams_of_its_own() {
    let verdict = diagnose(&course(20, |it, _| {
        it.ip("InReceives", 100);
        it.ip("ForwDatagrams", 100);
    }));
    assert_eq!(verdict.outcome, Outcome::NoLoss, "{verdict}");
}

#[test]
fn a_send_buffer_that_is_full_counts_as_discarded_by_ip_too() {
    let verdict = diagnose(&course(20, |it, _| {
        it.traffic(5_000);
        it.udp("SndbufErrors", 50);
        it.ip("OutDiscards", 50);
        it.socket().send_queue = BUFFER;
    }));
    assert_eq!(verdict.findings[0].stage, Stage::SendSocket, "{verdict}");
    assert_eq!(verdict.findings.len(), 1, "{verdict}");
}

#[test]
fn drops_of_a_socket_with_room_that_nothing_else_counts_are_for_want_of_memory() {
    for (by_reason, certainty) in [(50, Certainty::Certain), (0, Certainty::Possible)] {
        let verdict = diagnose(&course(20, |it, _| {
            it.traffic(5_000);
            it.socket().drops += 50;
            it.reason("PROTO_MEM", by_reason);
        }));
        let first = &verdict.findings[0];
        let is_memory = by_reason > 0;
        assert_eq!(first.cause == Cause::UdpMemory, is_memory, "{verdict}");
        assert_eq!(first.certainty, certainty, "{verdict}");
    }
}

#[test]
fn udps_memory_errors_are_certain_if_a_reason_or_the_memory_in_use_confirms_them() {
    for (by_reason, used, certainty) in
        [(9, 1, Certainty::Certain), (0, 200, Certainty::Certain), (0, 199, Certainty::Possible)]
    {
        let mut snapshots = course(20, |it, _| {
            it.udp("InErrors", 9);
            it.udp("MemErrors", 9);
            it.socket().drops += 9;
            it.reason("PROTO_MEM", by_reason);
        });
        for it in &mut snapshots {
            let limits = Some([100, 200, 300]);
            it.memory = Reading::Seen(Memory { used, limits, receive_buffer_max: None });
        }
        let verdict = diagnose(&snapshots);
        let first = &verdict.findings[0];
        assert_eq!(first.cause, Cause::UdpMemory, "{verdict}");
        assert_eq!(first.certainty, certainty, "{by_reason}, {used}: {verdict}");
    }
}

/// A host that sends no datagrams cannot lose any in its queueing disciplines.
#[test]
fn unseen_queueing_disciplines_matter_only_where_datagrams_are_sent() {
    for (is_sending, outcome) in [(true, Outcome::Unknown), (false, Outcome::NoLoss)] {
        let mut snapshots = course(20, |_, _| {});
        for it in &mut snapshots {
            it.qdiscs = Reading::Missing(Missing::Kernel);
            if !is_sending {
                Parts(it).protocols().udp.insert("OutDatagrams".to_owned(), 0);
            }
        }
        let verdict = diagnose(&snapshots);
        assert_eq!(verdict.outcome, outcome, "{is_sending}: {verdict}");
    }
}

#[test]
fn one_path_mtu_that_is_learned_is_no_loss_and_many_refused_packets_are() {
    let learn = |it: &mut Parts<'_>, step: u64, told: u64| {
        it.traffic(500);
        bump(&mut it.protocols().icmp, "InDestUnreachs", told);
        if let Reading::Seen(paths) = &mut it.0.paths
            && step == 3
        {
            paths.path_mtus.insert("192.0.2.1".to_owned(), 1_280);
        }
    };
    // Each connection over a path with a smaller MTU causes this finding once.
    let verdict = diagnose(&course(20, |it, step| learn(it, step, 0)));
    assert_eq!(verdict.outcome, Outcome::NoLoss, "{verdict}");
    assert_eq!(verdict.findings[0].cause, Cause::PathMtu, "{verdict}");
    let verdict = diagnose(&course(20, |it, step| learn(it, step, 50)));
    assert_eq!(verdict.outcome, Outcome::Loss, "{verdict}");
}

#[test]
fn a_sender_that_knows_the_path_mtu_and_exceeds_it_is_told_each_time() {
    let verdict = diagnose(&course(20, |it, _| {
        it.traffic(5_000);
        bump(&mut it.protocols().icmp, "InDestUnreachs", 9);
        if let Reading::Seen(paths) = &mut it.0.paths {
            paths.path_mtus.insert("192.0.2.1".to_owned(), 1_280);
        }
    }));
    // The first snapshot has no learned path MTU, so it was learned and reported afterward.
    assert_eq!(verdict.findings[0].cause, Cause::PathMtu, "{verdict}");
}

#[test]
fn snapshots_that_cannot_be_compared_are_said_and_never_healthy() {
    assert_eq!(diagnose(&[]).outcome, Outcome::Unknown);
    assert_eq!(diagnose(&[host()]).outcome, Outcome::Unknown);
    let healthy = course(20, |_, _| {});
    let changes: [fn(&mut Snapshot); 6] = [
        |it| it.namespace = Reading::Seen(1),
        |it| it.boot = Reading::Seen("another boot".to_owned()),
        |it| it.taken = 5,
        |it| it.taken = 1_000_000_000,
        |it| Parts(it).device().index = 9,
        |it| Parts(it).protocols().udp.values_mut().for_each(|counter| *counter = 0),
    ];
    for change in changes {
        let mut snapshots = healthy.clone();
        change(&mut snapshots[19]);
        let verdict = diagnose(&snapshots);
        assert_eq!(verdict.outcome, Outcome::Unknown, "{verdict}");
        assert!(!verdict.oddities.is_empty(), "{verdict}");
    }
}

#[test]
fn without_traffic_nothing_is_known() {
    let snapshots: Vec<_> = [host(), host()]
        .into_iter()
        .zip([1, 2])
        .map(|(mut it, at)| {
            it.taken = at;
            it
        })
        .collect();
    assert_eq!(diagnose(&snapshots).outcome, Outcome::Unknown);
}

/// Adds a second socket in the namespace. Its process runs for `milliseconds` in each step.
fn with_another(milliseconds: u64, owners: Vec<u32>) -> Vec<Snapshot> {
    course(20, |it, step| {
        it.overflow(900);
        it.reader(80, 0);
        it.socket().receive_queue = (BUFFER / CHARGE - step % 7) * CHARGE;
        let mut other = socket();
        (other.local, other.owners) = ("0.0.0.0:53".to_owned(), owners.clone());
        it.sockets().insert(SocketKey(78), other);
        if let Reading::Seen(processes) = &mut it.0.processes {
            let other = processes.entry(600).or_insert_with(process);
            other.threads.values_mut().for_each(|it| it.ran += milliseconds * 1_000_000);
        }
    })
    .split_off(1)
}

#[test]
fn rates_are_a_sockets_own_if_no_other_can_have_read_many_and_else_bounds() {
    let of = |milliseconds, owners| {
        let verdict = diagnose(&with_another(milliseconds, owners));
        let Cause::Rate(queue) = &verdict.findings[0].cause else { panic!("{verdict}") };
        assert!(queue.buffer_seconds.is_some(), "the drops tell how long it lasts: {verdict}");
        (queue.arrival_rate.map(|_| queue.are_rates_exact), verdict.findings[0].certainty)
    };
    assert_eq!(of(0, vec![600]), (Some(true), Certainty::Certain));
    assert_eq!(of(50, vec![600]), (Some(false), Certainty::Certain), "it may have read them all");
    assert_eq!(of(0, vec![]), (Some(false), Certainty::Certain), "nobody knows who reads it");
    assert_eq!(of(0, vec![500]), (None, Certainty::Possible), "the reader has two");
    // A datagram that is queued in another socket was not read by an owner that never ran.
    let used = |milliseconds| {
        let mut snapshots = with_another(milliseconds, vec![600]);
        for it in &mut snapshots {
            Parts(it).sockets().get_mut(&SocketKey(78)).unwrap().receive_queue = CHARGE;
        }
        let verdict = diagnose(&snapshots);
        let Cause::Rate(queue) = &verdict.findings[0].cause else { panic!("{verdict}") };
        (queue.arrival_rate.map(|_| queue.are_rates_exact), verdict.findings[0].certainty)
    };
    assert_eq!(used(0), (Some(true), Certainty::Certain));
    assert_eq!(used(50), (None, Certainty::Possible));
}
