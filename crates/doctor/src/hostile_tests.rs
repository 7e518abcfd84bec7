//! Tests with readings that no correct collector produces, and with losses of every kind.

use proptest::prelude::*;

use super::*;
use crate::testing::{KEY, Parts, bump, course, socket};
use crate::{Missing, Reading, SocketKey};

/// Removes one of the parts that are required for a verdict of "no loss".
const NEEDED: [fn(&mut Snapshot); 8] = [
    |it| it.devices = Reading::Missing(Missing::Namespace),
    |it| it.qdiscs = Reading::Missing(Missing::Failed("EPERM".to_owned())),
    |it| it.softnet = Reading::Missing(Missing::Kernel),
    |it| it.protocols = Reading::Missing(Missing::Malformed("?".to_owned())),
    |it| it.sockets = Reading::Missing(Missing::Right("CAP_NET_ADMIN".to_owned())),
    |it| Parts(it).protocols().udp.clear(),
    |it| Parts(it).device().has_xdp = true,
    |it| it.xdp_sockets = Reading::Missing(Missing::Kernel),
];

/// Sets a number in a part of a snapshot.
fn set(it: &mut Snapshot, place: usize, name: usize, value: u64) {
    let mut it = Parts(it);
    let counters = match place {
        0 => &mut it.protocols().ip,
        1 => &mut it.protocols().ip_ext,
        2 => &mut it.protocols().tcp_ext,
        3 => &mut it.protocols().icmp,
        4 => &mut it.protocols().udp,
        5 => it.protocols().ipv6.as_mut().unwrap(),
        6 => &mut it.device().statistics,
        7 => &mut it.conntrack().counters,
        8 => match &mut it.device().driver {
            Reading::Seen(driver) => &mut driver.statistics,
            Reading::Missing(_) => return,
        },
        9 => {
            let socket = it.socket();
            let fields = [&mut socket.drops, &mut socket.receive_queue, &mut socket.send_queue];
            *fields.into_iter().nth(name % 3).unwrap() = value;
            socket.receive_buffer = Some(value);
            return;
        }
        10 => {
            let thread = it.thread();
            let fields = [&mut thread.ran, &mut thread.waited, &mut thread.slices];
            *fields.into_iter().nth(name % 3).unwrap() = value;
            return;
        }
        11 => {
            it.0.taken = value;
            return;
        }
        12 => {
            it.0.sockets = Reading::Seen([(KEY, socket()), (SocketKey(value), socket())].into());
            return;
        }
        _ => {
            it.softnet().dropped = value;
            it.qdisc().drops = value;
            return;
        }
    };
    let key = counters.keys().nth(name % counters.len()).unwrap().clone();
    counters.insert(key, value);
}

/// Counters for which every rise is a loss.
const LOSSES: [(usize, &str); 33] = [
    (0, "InHdrErrors"),
    (0, "InAddrErrors"),
    (0, "InDiscards"),
    (0, "OutDiscards"),
    (0, "OutNoRoutes"),
    (0, "ReasmFails"),
    (0, "FragFails"),
    (1, "InNoRoutes"),
    (1, "InTruncatedPkts"),
    (2, "IPReversePathFilter"),
    (4, "NoPorts"),
    (4, "InErrors"),
    (4, "RcvbufErrors"),
    (4, "SndbufErrors"),
    (4, "InCsumErrors"),
    (4, "MemErrors"),
    (5, "Ip6InHdrErrors"),
    (5, "Ip6InNoRoutes"),
    (5, "Ip6InAddrErrors"),
    (5, "Ip6InDiscards"),
    (5, "Ip6OutDiscards"),
    (5, "Ip6ReasmFails"),
    (5, "Ip6FragFails"),
    (5, "Udp6NoPorts"),
    (5, "Udp6InErrors"),
    (5, "Udp6RcvbufErrors"),
    (6, "rx_errors"),
    (6, "rx_dropped"),
    (6, "rx_missed_errors"),
    (6, "tx_errors"),
    (6, "tx_dropped"),
    (7, "drop"),
    (8, "rx_queue_0_drops"),
];

fn named(it: &mut Snapshot, place: usize, name: &str, by: u64) {
    let mut it = Parts(it);
    match place {
        0 => it.ip(name, by),
        1 => bump(&mut it.protocols().ip_ext, name, by),
        2 => bump(&mut it.protocols().tcp_ext, name, by),
        4 => it.udp(name, by),
        5 => it.ipv6(name, by),
        6 => it.device_counter(name, by),
        7 => bump(&mut it.conntrack().counters, name, by),
        _ => it.driver_counter(name, by),
    }
}

/// Returns the verdict on a host whose counter `name` is `by` higher from snapshot `from` on.
fn after_a_rise(count: u64, from: usize, (place, name): (usize, &str), by: u64) -> Verdict {
    let mut snapshots = course(count, |_, _| {});
    for it in &mut snapshots[from..] {
        named(it, place, name, by);
    }
    diagnose(&snapshots)
}

fn is_told(verdict: &Verdict) -> bool {
    !verdict.findings.is_empty() || verdict.unseen.len() > 1
}

#[test]
fn a_loss_counter_that_rises_by_a_few_is_listed() {
    for (loss, count, by) in LOSSES.iter().flat_map(|loss| {
        (2..8_u64).flat_map(move |count| (1..12_u64).map(move |by| (*loss, count, by)))
    }) {
        // A rise in only the last of many snapshots may be due to packets in transit between two
        // counters.
        let verdict = after_a_rise(count, 1, loss, by);
        assert!(is_told(&verdict), "{} by {by} in {count} snapshots: {verdict}", loss.1);
    }
}

proptest! {
    #[test]
    fn hostile_values_never_panic(
        count in 2..14_u64,
        changes in prop::collection::vec(
            (
                any::<prop::sample::Index>(),
                0..14_usize,
                0..40_usize,
                prop_oneof![Just(0), Just(u64::MAX), Just(u64::from(u32::MAX)), any::<u64>(), 0..2_000_u64],
            ),
            0..24,
        ),
    ) {
        let mut snapshots = course(count, |it, step| it.traffic(step));
        for (at, place, name, value) in changes {
            set(at.get_mut(&mut snapshots), place, name, value);
        }
        let verdict = diagnose(&snapshots);
        let text = verdict.to_string();
        prop_assert!(!text.is_empty() && verdict.seconds.is_finite());
        for (heading, is_there) in [
            ("\nElsewhere on this host", !verdict.elsewhere.is_empty()),
            ("\nNot visible:\n", !verdict.unseen.is_empty()),
            ("\nWhat prevents a conclusion:\n", !verdict.oddities.is_empty()),
        ] {
            prop_assert_eq!(text.contains(heading), is_there, "{}", text);
        }
        let decides = |it: &Finding| it.is_above_floor && !it.cause.is_stray();
        prop_assert_eq!(verdict.outcome == Outcome::Loss, verdict.findings.iter().any(decides));
        let place = |it: &Finding| {
            (it.cause.is_stray(), !it.is_above_floor, it.consequence_of.is_some(), u64::MAX - it.lost)
        };
        prop_assert!(verdict.findings.is_sorted_by_key(place));
        for finding in &verdict.findings {
            prop_assert!(finding.lost > 0 && finding.per_second.is_finite());
            prop_assert!(finding.share.is_some_and(|it| (0.0..=1.0).contains(&it)));
        }
    }

    #[test]
    fn a_loss_counter_that_rises_is_listed_and_if_it_rises_much_never_called_healthy(
        count in 2..14_u64,
        which in 0..LOSSES.len(),
        at in any::<prop::sample::Index>(),
        by in prop_oneof![5..2_000_u64, 2_000..100_000_u64],
    ) {
        let (place, name) = LOSSES[which];
        let verdict = after_a_rise(count, 1 + at.index(count as usize - 1), (place, name), by);
        prop_assert!(is_told(&verdict), "{}: {}", name, verdict);
        prop_assert!(by < 2_000 || verdict.outcome != Outcome::NoLoss, "{}: {}", name, verdict);
    }

    #[test]
    fn where_a_needed_part_is_missing_nothing_is_called_healthy(
        count in 2..14_u64,
        which in 0..NEEDED.len(),
        is_first in any::<bool>(),
    ) {
        let mut snapshots = course(count, |it, _| {
            if let Reading::Seen(driver) = &mut it.device().driver {
                driver.statistics.retain(|name, _| !name.contains("xdp"));
            }
        });
        let last = snapshots.len() - 1;
        // XDP may have been attached at any time, so the last snapshot counts.
        let place = if is_first && which != 6 { 0 } else { last };
        NEEDED[which](&mut snapshots[place]);
        if let Reading::Seen(devices) = &mut snapshots[0].devices
            && let Some(device) = devices.get_mut("eth0")
            && let Reading::Seen(driver) = &mut device.driver
        {
            driver.statistics.retain(|name, _| !name.contains("xdp"));
        }
        let verdict = diagnose(&snapshots);
        prop_assert_eq!(verdict.outcome, Outcome::Unknown, "{}", verdict);
        prop_assert!(!verdict.unseen.is_empty());
    }
}
