//! Tests traces with two simultaneous causes: both are found, with separate numbers, in the
//! documented order.

use core::time::Duration;

use super::story::{DATAGRAM, ROUND_TRIP, Story, metric, ms};
use crate::findings::FindingId::{
    AmplificationStall, FlowControlStall, IdleWithData, PacketsDropped, PeerStoppedReading,
};
use crate::findings::{Finding, FindingId};
use crate::read::{Blocked, EventKind, Frame, PacketType};

/// Adds a flow control stall during which the peer sends packets from time to time, or nothing.
fn stall(story: &mut Story, pause: u64, is_heard: bool, limit: u64) {
    story.send_frames(vec![Frame::DataBlocked { limit }], 40);
    let blocked = story.next - 1;
    story.now += ROUND_TRIP;
    story.acknowledge(blocked, blocked, ms(0));
    for _ in 0..4 {
        story.now += ms(pause / 4);
        if is_heard {
            story.receive(vec![Frame::Ping]);
        }
    }
    story.receive(vec![Frame::MaxData { maximum: 2 * limit }]);
    story.round();
}

/// Like [`stall`], in a trace that logs the reason why nothing is sent.
fn explained_stall(story: &mut Story, seconds: u64, is_heard: bool) {
    story.blocked(Blocked::ConnectionFlowControl);
    for _ in 0..8 {
        story.now += Duration::from_secs(seconds) / 8;
        if is_heard {
            story.receive(vec![Frame::Ping]);
        }
    }
    story.blocked(Blocked::Application);
}

fn dropped(story: &mut Story, count: u64) {
    for _ in 0..count {
        story.now += ms(10);
        story.event(EventKind::PacketDropped {
            packet_type: PacketType::OneRtt,
            length: Some(100),
            reason: Some("decryption_failure".into()),
        });
    }
}

fn ids(findings: &[Finding]) -> Vec<FindingId> {
    findings.iter().map(|finding| finding.id).collect()
}

fn find(findings: &[Finding], id: FindingId) -> &Finding {
    let found = findings.iter().find(|finding| finding.id == id);
    found.unwrap_or_else(|| panic!("no {id:?} in {findings:#?}"))
}

/// Checks the documented order: by severity, then by start time.
fn check_order(findings: &[Finding]) {
    let is_sorted = findings.is_sorted_by(|one, other| {
        one.severity > other.severity || one.severity == other.severity && one.begin <= other.begin
    });
    assert!(is_sorted, "{findings:#?}");
}

/// A peer that stops reading does not hide a flow control stall at another time, no matter which
/// takes longer.
#[test]
fn two_kinds_of_stalls_are_two_findings() {
    for (stopped, stalled) in [(8000, 4000), (4000, 8000), (4000, 4000)] {
        for stopped_first in [false, true] {
            let mut story = Story::begin(20 * DATAGRAM);
            story.round();
            for is_stopped in [stopped_first, !stopped_first] {
                let (pause, limit) = if is_stopped { (stopped, 50_000) } else { (stalled, 60_000) };
                stall(&mut story, pause, is_stopped, limit);
            }
            let findings = story.finish();
            check_order(&findings);
            let mut expected = [PeerStoppedReading, FlowControlStall];
            if stalled > stopped {
                expected.reverse();
            }
            let mut found = ids(&findings);
            if stalled == stopped {
                found.sort();
                expected.sort();
            }
            assert_eq!(found, expected, "{stopped}, {stalled}, {stopped_first}");
            let of = |id: FindingId| {
                let finding = find(&findings, id);
                (finding.begin, finding.end)
            };
            let (one, other) = (of(PeerStoppedReading), of(FlowControlStall));
            assert!(one.1 <= other.0 || other.1 <= one.0, "{one:?}, {other:?}");
        }
    }
}

/// Each finding sums up only its own stalls.
#[test]
fn each_finding_adds_up_its_own_stalls() {
    let mut story = Story::begin(20 * DATAGRAM);
    story.round();
    for (number, is_heard) in [(1, true), (2, false), (3, false), (4, true), (5, false)] {
        stall(&mut story, 4000, is_heard, number * 50_000);
    }
    let findings = story.finish();
    let stalls = find(&findings, FlowControlStall);
    assert_eq!(metric(stalls, "stalls"), "3");
    let stopped = find(&findings, PeerStoppedReading);
    assert_eq!(metric(stopped, "waits"), "2");
    assert!((11.9..12.2).contains(&stalls.severity), "{stalls:?}");
    assert!((7.9..8.1).contains(&stopped.severity), "{stopped:?}");
}

/// The worst of several runs of dropped packets is described, and all are counted.
#[test]
fn runs_of_dropped_packets_are_all_counted() {
    for runs in [&[20, 10][..], &[10, 20], &[12, 30, 9]] {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        for count in runs {
            dropped(&mut story, *count);
            for _ in 0..8 {
                story.receive(vec![Frame::Ping]);
            }
        }
        let findings = story.finish();
        let finding = find(&findings, PacketsDropped);
        let worst = runs.iter().max().unwrap().to_string();
        assert_eq!(metric(finding, "packets dropped"), worst);
        assert_eq!(metric(finding, "number of such runs"), runs.len().to_string());
        let all = runs.iter().sum::<u64>().to_string();
        assert_eq!(metric(finding, "packets dropped in all such runs"), all);
    }
}

/// Two simultaneous causes are ordered by their severities, and neither affects the other's
/// numbers.
#[test]
fn pairs_of_causes_are_ordered_by_severity() {
    type Cause = (FindingId, fn(&mut Story, u64));
    let causes: [Cause; 4] = [
        (PeerStoppedReading, |story, seconds| explained_stall(story, seconds, true)),
        (FlowControlStall, |story, seconds| explained_stall(story, seconds, false)),
        (AmplificationStall, |story, seconds| {
            story.blocked(Blocked::Amplification);
            story.now += Duration::from_secs(seconds);
            story.blocked(Blocked::Application);
        }),
        (IdleWithData, |story, seconds| {
            for _ in 0..4 {
                story.blocked(Blocked::Pacing);
                story.now += Duration::from_secs(seconds) / 4;
                story.round();
            }
            story.blocked(Blocked::Application);
        }),
    ];
    let finds = |causes: &[(Cause, u64)]| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        for ((_, cause), seconds) in causes {
            cause(&mut story, *seconds);
            story.round();
        }
        story.finish()
    };
    for one in causes {
        for other in causes.iter().filter(|other| other.0 != one.0) {
            let findings = finds(&[(one, 8), (*other, 16)]);
            check_order(&findings);
            for (cause, seconds) in [(one, 8), (*other, 16)] {
                let alone = finds(&[(cause, seconds)]);
                let (alone, found) = (find(&alone, cause.0), find(&findings, cause.0));
                assert_eq!(found.metrics.first(), alone.metrics.first());
                assert!((found.severity - alone.severity).abs() < 0.1, "{found:?}, {alone:?}");
            }
            assert_eq!(findings[0].id, other.0, "{:?}, {:?}", one.0, other.0);
        }
    }
}
