//! Order and numbers in reports: simultaneous faults are all reported, each with its own number of
//! packets, and in an order that depends only on the losses.

use std::collections::BTreeMap;

use clearway_units::Random;

use crate::testing::{LOCAL, Parts, bump, course, host, socket};
use crate::{
    Application, Device, Evidence, Finding, Paths, Qdisc, Reading, Snapshot, SocketKey, Stage,
    Verdict, diagnose,
};

/// Number of snapshots in a test sequence: one at the beginning, and one after each step.
const SNAPSHOTS: u64 = 9;
const STEPS: u64 = SNAPSHOTS - 1;

/// Applies one step of a fault, which loses this many packets.
type Fault = fn(&mut Parts<'_>, u64);

/// Adds packets that IP receives.
fn received(parts: &mut Parts<'_>, lost: u64) {
    parts.ip("InReceives", lost);
}

/// Adds packets that IP delivers to UDP.
fn delivered(parts: &mut Parts<'_>, lost: u64) {
    received(parts, lost);
    parts.ip("InDelivers", lost);
}

/// Faults that may occur together, because none of them causes another.
const FAULTS: [(&str, Fault); 16] = [
    ("missed at the device", |it, lost| it.device_counter("rx_missed_errors", lost)),
    ("header", |it, lost| {
        received(it, lost);
        it.ip("InHdrErrors", lost);
    }),
    ("no route", |it, lost| {
        received(it, lost);
        bump(&mut it.protocols().ip_ext, "InNoRoutes", lost);
    }),
    ("discards", |it, lost| {
        received(it, lost);
        it.ip("InDiscards", lost);
    }),
    ("reverse path", |it, lost| {
        received(it, lost);
        bump(&mut it.protocols().tcp_ext, "IPReversePathFilter", lost);
    }),
    ("reassembly", |it, lost| {
        received(it, lost);
        for counter in ["ReasmReqds", "ReasmFails", "ReasmTimeout"] {
            it.ip(counter, lost);
        }
    }),
    ("firewall", |it, lost| {
        received(it, lost);
        it.reason("NETFILTER_DROP", lost);
    }),
    ("no socket", |it, lost| {
        delivered(it, lost);
        it.udp("NoPorts", lost);
    }),
    ("checksum", |it, lost| {
        delivered(it, lost);
        it.udp("InErrors", lost);
        it.udp("InCsumErrors", lost);
        it.socket().drops += lost;
    }),
    ("overflow", |it, lost| it.overflow(lost)),
    ("truncated reads", |it, lost| application(it).truncated += lost),
    ("application's queue", |it, lost| application(it).queue_full += lost),
    ("no route to send", |it, lost| it.ip("OutNoRoutes", lost)),
    ("queueing discipline", |it, lost| it.qdisc().drops += lost),
    ("sending device", |it, lost| it.device_counter("tx_dropped", lost)),
    ("path MTU", |it, lost| {
        received(it, lost);
        it.ip("FragFails", lost);
    }),
];

fn application<'a>(parts: &'a mut Parts<'_>) -> &'a mut Application {
    if matches!(parts.0.applications, Reading::Missing(_)) {
        parts.0.applications = Reading::Seen([("server".to_owned(), none())].into());
    }
    match &mut parts.0.applications {
        Reading::Seen(all) => all.get_mut("server").unwrap(),
        Reading::Missing(_) => unreachable!(),
    }
}

fn none() -> Application {
    Application { process: crate::testing::READER, ..Application::default() }
}

/// Returns the verdict on a host with all of these faults, with application counters from the
/// beginning.
fn verdict(faults: &[(Fault, u64)]) -> Verdict {
    diagnose(&snapshots(|parts, _| {
        for (fault, lost) in faults {
            fault(parts, *lost);
        }
    }))
}

fn snapshots(mut happens: impl FnMut(&mut Parts<'_>, u64)) -> Vec<Snapshot> {
    let mut snapshots = course(SNAPSHOTS, |parts, step| {
        application(parts);
        happens(parts, step);
    });
    application(&mut Parts(&mut snapshots[0]));
    snapshots
}

/// Returns the number of lost packets, by stage and cause.
fn lost(verdict: &Verdict) -> BTreeMap<(Stage, &'static str), u64> {
    let mut sums = BTreeMap::new();
    for finding in &verdict.findings {
        *sums.entry((finding.stage, finding.cause.name())).or_default() += finding.lost;
    }
    sums
}

/// Checks the documented order of findings.
fn check_order(verdict: &Verdict) {
    let rank = |it: &Finding| {
        let is_consequence = it.consequence_of.is_some();
        (it.cause.is_stray(), !it.is_above_floor, is_consequence, u64::MAX - it.lost)
    };
    let ranks: Vec<_> = verdict.findings.iter().map(rank).collect();
    assert!(ranks.is_sorted(), "{ranks:?}");
}

/// Checks that the text contains each finding, and the sum for each stage.
fn check_text(verdict: &Verdict) {
    let text = verdict.to_string();
    for finding in &verdict.findings {
        assert!(text.contains(&finding.to_string()), "{finding} is not in {text}");
    }
}

#[test]
fn two_faults_are_two_findings_with_their_own_numbers() {
    let alone = |fault: Fault| [1, 4, 40].map(|number| lost(&verdict(&[(fault, number)])));
    let alone = FAULTS.map(|(_, fault)| alone(fault));
    for (at, (name, fault)) in FAULTS.into_iter().enumerate() {
        assert_eq!(alone[at][1].values().sum::<u64>(), 4 * STEPS, "{name}: {:?}", alone[at]);
        for (place, (other_name, other)) in FAULTS.into_iter().enumerate() {
            for (own, others) in [(1, 1), (0, 2)] {
                let mut expected = alone[at][own].clone();
                let (own, others) = ([1, 4, 40][own], ([1, 4, 40][others], &alone[place][others]));
                let (others, of_others) = others;
                for (key, lost) in of_others.clone() {
                    *expected.entry(key).or_default() += lost;
                }
                let both = verdict(&[(fault, own), (other, others)]);
                assert_eq!(lost(&both), expected, "{own} of {name} and {others} of {other_name}");
                check_order(&both);
                check_text(&both);
                let turned = verdict(&[(other, others), (fault, own)]);
                assert_eq!(turned.to_string(), both.to_string(), "{name}, {other_name}");
            }
        }
    }
}

/// A single lost packet is reported. Firewall drops are an exception: they have no counter, and
/// cannot be distinguished from a packet in transit.
#[test]
fn a_single_loss_is_reported_alone_and_beside_others() {
    // A queueing discipline's drops are also reported to the application as errors, so the two
    // faults are not independent.
    const SEND_BUFFER: (&str, Fault) = ("send buffer", |it, lost| it.udp("SndbufErrors", lost));
    let counted = FAULTS.into_iter().filter(|(name, _)| *name != "firewall");
    for (name, fault) in counted.chain([SEND_BUFFER]) {
        for (other_name, other) in FAULTS {
            if (name, other_name) == (SEND_BUFFER.0, "queueing discipline") {
                continue;
            }
            for others in [0, 40] {
                let snapshots = snapshots(|parts, step| {
                    other(parts, others);
                    if step == 4 {
                        fault(parts, 1);
                    }
                });
                let found = lost(&diagnose(&snapshots)).values().sum::<u64>();
                assert_eq!(found, 1 + others * STEPS, "one of {name} and {others} of {other_name}");
            }
        }
    }
}

#[test]
fn all_faults_at_once_are_all_reported() {
    let mut random = Random::from_number(1);
    for _ in 0..100 {
        let faults = FAULTS.map(|(_, fault)| (fault, random.below(20)));
        let verdict = verdict(&faults);
        let expected = faults.iter().map(|(_, lost)| lost * STEPS).sum::<u64>();
        assert_eq!(lost(&verdict).values().sum::<u64>(), expected, "{faults:?}\n{verdict}");
        check_order(&verdict);
        check_text(&verdict);
    }
}

/// Returns snapshots of a host on which each of a thousand sockets of one process drops datagrams.
fn many_sockets(order: &[u64], drops: impl Fn(u64) -> u64) -> Vec<Snapshot> {
    course(SNAPSHOTS, |parts, step| {
        if step == 0 {
            parts.sockets().clear();
        }
        for (key, number) in (0..).zip(order) {
            let local = format!("0.0.0.0:{}", 10_000 + number);
            let socket = crate::Socket { local, drops: 0, ..socket() };
            let entry = parts.sockets().entry(SocketKey(key)).or_insert(socket);
            let lost = if step == 0 { 0 } else { drops(*number) };
            entry.drops += lost;
            delivered(parts, lost);
            for counter in ["InErrors", "RcvbufErrors"] {
                parts.udp(counter, lost);
            }
        }
    })
}

#[test]
fn a_thousand_sockets_are_all_listed_in_the_same_order() {
    let mut order: Vec<u64> = (0..1000).collect();
    let drops: [fn(u64) -> u64; 2] = [|_| 2, |number| number % 7];
    for drops in drops {
        let mut texts = Vec::new();
        for seed in 0..2 {
            let snapshots = many_sockets(&order, drops);
            let verdict = diagnose(&snapshots[1..]);
            let expected = (0..1000).map(drops).sum::<u64>() * (STEPS - 1);
            assert_eq!(lost(&verdict).values().sum::<u64>(), expected);
            check_order(&verdict);
            // Only the sockets with the most drops are measured. Ties are broken by their keys.
            let named: Vec<_> = verdict
                .findings
                .iter()
                .map(|it| (it.lost, it.cause.queue().map(|queue| queue.local.clone())))
                .collect();
            let sockets = named.iter().filter(|(_, local)| local.is_some()).count();
            assert_eq!(sockets, (0..1000).filter(|number| drops(*number) > 0).count());
            texts.push(named.into_iter().collect::<std::collections::BTreeSet<_>>());
            let mut random = Random::from_number(seed);
            for at in (1..order.len()).rev() {
                order.swap(at, random.below(at as u64 + 1) as usize);
            }
        }
        assert!(texts.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

/// Returns a host with additional devices that are copies of the first one.
fn with_devices(count: usize) -> Snapshot {
    let mut host = host();
    let Reading::Seen(devices) = &mut host.devices else { unreachable!() };
    let first = devices["eth0"].clone();
    for number in 1..count {
        let device = Device { index: 2 + number as u32, ..first.clone() };
        devices.insert(format!("eth{number}"), device);
    }
    host
}

fn devices(snapshot: &mut Snapshot) -> &mut BTreeMap<String, Device> {
    let Reading::Seen(devices) = &mut snapshot.devices else { unreachable!() };
    devices
}

/// Returns two snapshots: the one before, and another one after `change` and some traffic.
fn before_and_after(before: Snapshot, change: impl FnOnce(&mut Snapshot)) -> Vec<Snapshot> {
    let mut after = before.clone();
    after.taken += 1_000_000_000;
    Parts(&mut after).traffic(100);
    change(&mut after);
    vec![before, after]
}

#[test]
fn equal_losses_of_several_devices_are_listed_by_name() {
    let snapshots = before_and_after(with_devices(20), |after| {
        for device in devices(after).values_mut() {
            bump(&mut device.statistics, "rx_missed_errors", 7);
        }
    });
    let verdict = diagnose(&snapshots);
    let names: Vec<_> = verdict.findings.iter().map(|it| it.evidence[0].counter.clone()).collect();
    assert_eq!(names.len(), 20);
    assert!(names.is_sorted(), "{names:?}");
}

/// Drops that are explained by one device's counters do not also explain another device's drops.
#[test]
fn an_explanation_is_used_once() {
    let dropped = |first, second, unhandled| {
        let snapshots = before_and_after(with_devices(2), |after| {
            for (name, lost) in [("eth0", first), ("eth1", second)] {
                let device = devices(after).get_mut(name).unwrap();
                bump(&mut device.statistics, "rx_dropped", lost);
            }
            Parts(after).reason("UNHANDLED_PROTO", unhandled);
        });
        lost(&diagnose(&snapshots)).values().sum::<u64>()
    };
    for (first, second, unhandled, expected) in
        [(10, 10, 20, 0), (10, 10, 10, 10), (10, 10, 19, 10), (10, 30, 30, 30), (30, 10, 30, 10)]
    {
        assert_eq!(dropped(first, second, unhandled), expected, "{first}, {second}, {unhandled}");
    }
}

/// Fragments lost at two stages leave as many incomplete datagrams as were lost at both stages
/// together.
#[test]
fn two_causes_of_one_consequence_are_added_up() {
    for (device, backlog) in [(100, 0), (0, 100), (60, 60), (50, 50), (10, 90)] {
        let snapshots = before_and_after(host(), |after| {
            let mut parts = Parts(after);
            parts.device_counter("rx_missed_errors", device);
            parts.device_counter("rx_dropped", backlog);
            parts.softnet().dropped += backlog;
            parts.ip("InReceives", 100);
            for counter in ["ReasmReqds", "ReasmFails", "ReasmTimeout"] {
                parts.ip(counter, 100);
            }
        });
        let verdict = diagnose(&snapshots);
        let consequence = verdict.findings.iter().find(|it| it.cause.name() == "reassembly");
        let worst = if device >= backlog { Stage::Device } else { Stage::Softnet };
        assert_eq!(consequence.unwrap().consequence_of, Some(worst), "{device}, {backlog}");
    }
}

/// Entries that do not fit into a list are counted.
#[test]
fn what_is_left_out_of_a_list_is_counted() {
    // Devices appear and disappear.
    let snapshots = before_and_after(with_devices(200), |after| {
        devices(after).retain(|name, _| name == "eth0");
    });
    let verdict = diagnose(&snapshots);
    let of_devices = verdict.unseen.iter().filter(|it| it.stage == Stage::Device);
    let listed: Vec<_> = of_devices.map(|it| it.why.clone()).collect();
    let more = |why: &String| why.strip_suffix(" more of the same kind")?.parse::<usize>().ok();
    let unlisted: usize = listed.iter().filter_map(more).sum();
    let one_by_one = listed.iter().filter(|why| more(why).is_none()).count();
    assert_eq!(one_by_one + unlisted, 199, "{listed:?}");

    // Learned path MTUs.
    let snapshots = before_and_after(host(), |after| {
        let path_mtus = (0..30).map(|number| (format!("192.0.2.{number}"), 1300)).collect();
        after.paths = Reading::Seen(Paths { path_mtus });
    });
    let verdict = diagnose(&snapshots);
    let finding = verdict.findings.iter().find(|it| it.cause.name() == "path_mtu").unwrap();
    let learned = |it: &&Evidence| it.counter.contains("learned");
    let sum: u64 = finding.evidence.iter().filter(learned).map(|it| it.rise).sum();
    assert_eq!((finding.lost, sum), (30, 30), "{:?}", finding.evidence);
}

/// Parts that would only have added detail must not displace a part that may hide losses.
#[test]
fn a_part_where_losses_may_hide_replaces_an_explanation_in_a_full_list() {
    let snapshots = before_and_after(with_devices(100), |after| {
        for device in devices(after).values_mut() {
            bump(&mut device.statistics, "rx_dropped", 10);
        }
        Parts(after).reason("UNHANDLED_PROTO", 1_000);
        after.sockets = Reading::Missing(crate::Missing::Kernel);
    });
    let verdict = diagnose(&snapshots);
    let explanations = verdict.unseen.iter().filter(|it| it.stage == Stage::Device).count();
    assert!(explanations > 60, "{:?}", verdict.unseen);
    let is_listed = verdict.unseen.iter().any(|it| it.why.starts_with("sockets: "));
    assert!(is_listed, "{:?}", verdict.unseen);
}

/// An XDP program whose drops are counted by its driver does not hide that another device's drops
/// are not counted.
#[test]
fn a_program_that_is_seen_does_not_hide_one_that_is_not() {
    for counted in [0, 50] {
        let mut before = with_devices(2);
        for device in devices(&mut before).values_mut() {
            device.has_xdp = true;
        }
        let second = devices(&mut before).get_mut("eth1").unwrap();
        second.driver = Reading::Missing(crate::Missing::Kernel);
        let snapshots = before_and_after(before, |after| {
            Parts(after).driver_counter("rx_queue_0_xdp_drops", counted);
        });
        let verdict = diagnose(&snapshots);
        let is_told = verdict.unseen.iter().any(|it| it.why.starts_with("eth1"));
        assert!(is_told, "{counted}: {:?}", verdict.unseen);
    }
}

/// Queueing disciplines of two devices; one device has two of them, one of which includes the drops
/// of the other.
#[test]
fn queueing_disciplines_are_counted_by_device() {
    let snapshots = before_and_after(
        {
            let mut before = host();
            let Reading::Seen(all) = &mut before.qdiscs else { unreachable!() };
            let first = all[0].clone();
            all.push(Qdisc { handle: 0x20000, parent: 0x10001, ..first.clone() });
            all.push(Qdisc { device: "eth1".to_owned(), ..first });
            before
        },
        |after| {
            let Reading::Seen(all) = &mut after.qdiscs else { unreachable!() };
            for (qdisc, lost) in all.iter_mut().zip([30, 30, 30]) {
                qdisc.drops += lost;
            }
        },
    );
    let verdict = diagnose(&snapshots);
    let of_qdiscs: Vec<_> =
        verdict.findings.iter().filter(|it| it.stage == Stage::SendQdisc).collect();
    assert_eq!(of_qdiscs.iter().map(|it| it.lost).collect::<Vec<_>>(), [30, 30]);
    assert!(of_qdiscs[0].evidence[0].counter < of_qdiscs[1].evidence[0].counter);
    assert!(verdict.to_string().contains(LOCAL) || !verdict.findings.is_empty());
}
