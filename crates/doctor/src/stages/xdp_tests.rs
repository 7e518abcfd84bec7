//! Tests XDP programs, AF_XDP sockets, and the driver counters of XDP drops and of the drivers' own
//! drops.

use crate::testing::{Parts, course};
use crate::{Cause, Certainty, Missing, Outcome, Reading, Stage, diagnose};

#[test]
fn a_program_of_xdp_whose_drops_have_no_reason_is_found() {
    let happens = |it: &mut Parts<'_>, dropped: u64| {
        it.device().has_xdp = true;
        it.device().driver = Reading::Missing(Missing::NotAsked);
        it.device_counter("rx_packets", 100);
        it.reason("NOT_SPECIFIED", dropped);
    };
    let verdict = diagnose(&course(20, |it, _| happens(it, 100)));
    assert_eq!(verdict.findings[0].cause, Cause::Xdp, "{verdict}");
    assert_eq!(verdict.findings[0].certainty, Certainty::Possible);
    // Packets that the program redirects or passes to AF_XDP are not dropped.
    let verdict = diagnose(&course(20, |it, _| happens(it, 0)));
    assert_eq!(verdict.outcome, Outcome::Unknown, "{verdict}");
}

#[test]
fn a_program_of_xdp_outside_of_the_driver_is_not_counted_by_that() {
    let happens = |it: &mut Parts<'_>, dropped: u64| {
        it.device().has_xdp = true;
        it.device().has_generic_xdp = true;
        it.device_counter("rx_packets", dropped);
        it.reason("XDP", dropped);
    };
    let verdict = diagnose(&course(20, |it, _| happens(it, 9)));
    assert_eq!(verdict.findings[0].cause, Cause::Xdp, "{verdict}");
    let verdict = diagnose(&course(20, |it, _| happens(it, 0)));
    assert_eq!(verdict.outcome, Outcome::Unknown, "{verdict}");
}

/// virtio_net also counts XDP drops as dropped by the device, both in its own statistics and in the
/// kernel's.
#[test]
fn what_xdp_drops_is_no_loss_of_the_device_that_counts_it_twice() {
    let verdict = diagnose(&course(20, |it, _| {
        it.device().has_xdp = true;
        it.driver_counter("rx0_xdp_drops", 9);
        it.driver_counter("rx0_drops", 9);
        it.driver_counter("rx_drops", 9);
        it.device_counter("rx_dropped", 9);
        it.reason("XDP", 9);
    }));
    let first = &verdict.findings[0];
    assert_eq!((first.stage, first.lost), (Stage::Xdp, 9 * 18), "{verdict}");
    assert_eq!((first.certainty, verdict.findings.len()), (Certainty::Certain, 1), "{verdict}");
}

#[test]
fn the_same_frame_in_several_statistics_of_a_driver_is_one() {
    let verdict = diagnose(&course(20, |it, _| {
        for name in ["rx_queue_0_drops", "rx_queue_1_drops", "rx_dropped", "port.rx_dropped"] {
            it.driver_counter(name, 9);
        }
        it.device_counter("rx_dropped", 18);
    }));
    let first = &verdict.findings[0];
    assert_eq!((first.stage, first.lost), (Stage::Device, 18 * 19), "{verdict}");
    assert_eq!(first.certainty, Certainty::Certain, "{verdict}");
}

#[test]
fn a_statistic_of_a_driver_that_nobody_knows_is_no_certain_loss_and_not_healthy() {
    let verdict = diagnose(&course(20, |it, _| it.driver_counter("rx_fancy_dropped", 9)));
    assert_eq!(verdict.outcome, Outcome::Unknown, "{verdict}");
    let verdict = diagnose(&course(20, |it, _| it.driver_counter("rx_no_buffer_count", 9)));
    assert_eq!(verdict.outcome, Outcome::NoLoss, "{verdict}");
}

#[test]
fn a_socket_of_af_xdp_without_room_is_named() {
    for (by_reason, certainty) in [(9, Certainty::Certain), (0, Certainty::Possible)] {
        // A driver such as veth's counts XDP drops as dropped frames, too, and so does the device.
        let verdict = diagnose(&course(20, |it, _| {
            it.xdp_socket("rx_dropped", 9);
            it.xdp_socket("fill_ring_empty", 9);
            it.driver_counter("rx_queue_0_drops", 9);
            it.device_counter("rx_dropped", 9);
            it.reason("XDP", by_reason);
        }));
        let first = &verdict.findings[0];
        assert_eq!((&first.cause, first.lost), (&Cause::XdpSocket, 9 * 18), "{verdict}");
        assert_eq!((first.certainty, verdict.findings.len()), (certainty, 1), "{verdict}");
        let named = "the AF_XDP socket at eth0, queue 0: rx_dropped";
        assert_eq!(first.evidence[0].counter, named);
    }
}

#[test]
fn where_sockets_of_af_xdp_cannot_be_seen_nothing_is_called_healthy() {
    let with = |missing: Missing| {
        let mut snapshots = course(20, |_, _| {});
        for it in &mut snapshots {
            it.xdp_sockets = Reading::Missing(missing.clone());
        }
        diagnose(&snapshots)
    };
    let verdict = with(Missing::Kernel);
    assert_eq!(verdict.outcome, Outcome::Unknown, "{verdict}");
    assert!(verdict.to_string().contains("XDP_SOCKETS_DIAG"), "{verdict}");
    // Snapshots saved by earlier versions are interpreted as before.
    assert_eq!(with(Missing::NotAsked).outcome, Outcome::NoLoss);
    // A kernel before 5.9 lists the sockets without their drop counters.
    let verdict = diagnose(&course(20, |it, _| {
        it.xdp_socket("rx_dropped", 0);
        let Reading::Seen(sockets) = &mut it.0.xdp_sockets else { return };
        for socket in sockets.values_mut() {
            socket.statistics = Reading::Missing(Missing::Kernel);
        }
    }));
    assert_eq!(verdict.outcome, Outcome::Unknown, "{verdict}");
}
