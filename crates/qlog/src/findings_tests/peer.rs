use core::time::Duration;

use super::story::{DATAGRAM, ROUND_TRIP, Story, ms};
use crate::findings::FindingId::{
    AckStarvation, AmplificationStall, ClosedWithError, DeadPeerKept, FlowControlStall,
    LateAcknowledgements, NotWoken, PeerStoppedReading, TimedOutWithData,
};
use crate::read::{Blocked, Close, EventKind, Frame, Metrics};

/// Builds a connection that reaches its flow control limit. Before the limit is raised, there is a
/// pause in which `each` is called four times.
fn stalls(pause: u64, mut each: impl FnMut(&mut Story)) -> Story {
    let mut story = Story::begin(20 * DATAGRAM);
    story.round();
    story.send_frames(vec![Frame::DataBlocked { limit: 50_000 }], 40);
    let blocked = story.next - 1;
    story.now += ROUND_TRIP;
    story.acknowledge(blocked, blocked, ms(0));
    for _ in 0..4 {
        story.now += ms(pause / 4);
        each(&mut story);
    }
    story.receive(vec![Frame::MaxData { maximum: 100_000 }]);
    story.round();
    story
}

#[test]
fn limits_that_are_not_raised() {
    assert_eq!(
        stalls(4000, |story| story.receive(vec![Frame::Ping])).finds(),
        [PeerStoppedReading]
    );
    assert_eq!(stalls(4000, |_| ()).finds(), [FlowControlStall]);
    assert_eq!(stalls(400, |_| ()).finds(), []);
}

/// While the queue at the bottleneck is full, the peer's limit costs no time.
#[test]
fn flow_control_limits_with_a_standing_queue() {
    let holds = |round_trip: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        let rtt = Some(ms(round_trip));
        story.metrics(Metrics { smoothed_rtt: rtt, latest_rtt: rtt, ..Metrics::default() });
        story.send();
        for _ in 0..12 {
            story.send();
            story.blocked(Blocked::ConnectionFlowControl);
            story.now += ms(400);
            story.acknowledge(story.next - 2, story.next - 2, ms(0));
            story.receive(vec![Frame::MaxData { maximum: 1 << 40 }]);
            story.blocked(Blocked::Pacing);
        }
        story.finds()
    };
    assert_eq!(holds(10), [FlowControlStall]);
    assert_eq!(holds(100), []);
}

#[test]
fn a_raised_limit_after_which_nothing_is_sent() {
    let sleeps = |pause: u64| {
        let mut story = stalls(100, |_| ());
        let written = |length| EventKind::StreamDataMoved {
            stream: 0,
            offset: 0,
            length,
            from_application: true,
            to_application: false,
        };
        story.event(written(1_000_000));
        story.send_frames(vec![Frame::DataBlocked { limit: 100_000 }], 40);
        let blocked = story.next - 1;
        story.receive(vec![Frame::MaxData { maximum: 200_000 }]);
        story.acknowledge(blocked, blocked, ms(0));
        story.now += ms(pause);
        story.round();
        story.finds()
    };
    assert_eq!(sleeps(300), [NotWoken]);
    assert_eq!(sleeps(30), []);
}

#[test]
fn a_server_without_credit() {
    let waits = |seconds: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        story.blocked(Blocked::Amplification);
        story.now += Duration::from_secs(seconds);
        story.blocked(Blocked::Application);
        story.finds()
    };
    assert_eq!(waits(8), [AmplificationStall]);
    assert_eq!(waits(3), []);
}

#[test]
fn a_peer_that_sends_and_does_not_acknowledge() {
    let sends = |with_acks: bool| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        let first = story.next;
        story.fill();
        for _ in 0..40 {
            story.now += ms(50);
            story.send_frames(vec![Frame::Ping], 40);
            story.receive(vec![Frame::Ping]);
            if with_acks {
                story.acknowledge(first, first, ms(0));
            }
        }
        story.finds()
    };
    assert_eq!(sends(false), [AckStarvation]);
    assert_eq!(sends(true), []);
}

#[test]
fn acknowledgements_that_are_held_back() {
    let holds = |delay: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        for _ in 0..50 {
            let first = story.next;
            story.fill();
            story.now += ms(10 + delay);
            story.acknowledge(first, story.next - 1, ms(delay));
        }
        story.finds()
    };
    assert_eq!(holds(90), [LateAcknowledgements]);
    assert_eq!(holds(25), []);
}

fn closed_by_idle_timeout() -> EventKind {
    let trigger = Some("idle_timeout".into());
    EventKind::Closed(Box::new(Close { is_local: Some(true), trigger, ..Close::default() }))
}

#[test]
fn a_connection_that_times_out() {
    let ends = |has_data: bool| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        if has_data {
            story.send();
        }
        for pause in (0..9).map(|doublings| ms(40 << doublings)) {
            story.now += pause;
            if has_data {
                story.send_frames(vec![Frame::Ping], 40);
            }
        }
        story.now += Duration::from_secs(10);
        story.event(closed_by_idle_timeout());
        story.finds()
    };
    assert_eq!(ends(true), [TimedOutWithData]);
    assert_eq!(ends(false), []);
}

/// quiche's event has no reason, so the idle timeout must be inferred from the absence of received
/// packets.
#[test]
fn a_connection_that_ends_after_the_idle_timeout_without_a_reason() {
    let ends = |silence: u64, error: Option<&str>| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        story.fill();
        for probe in 0..8 {
            story.now += ms(40 << probe);
            story.send_frames(vec![Frame::Ping], 40);
        }
        story.now += ms(silence);
        let error = error.map(Into::into);
        story.event(EventKind::Closed(Box::new(Close { error, ..Close::default() })));
        story.finds()
    };
    // The idle timeout is 30 s, of which 10.2 s have passed.
    assert_eq!(ends(20_000, None), [TimedOutWithData]);
    assert_eq!(ends(20_000, Some("internal_error")), [ClosedWithError]);
    assert_eq!(ends(5_000, None), []);
}

#[test]
fn a_dead_peer_that_is_not_given_up() {
    let goes_on = |seconds: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        for _ in 0..seconds * 2 {
            story.now += ms(500);
            story.send_frames(vec![Frame::Ping], 40);
        }
        story.finds()
    };
    assert_eq!(goes_on(60), [DeadPeerKept]);
    assert_eq!(goes_on(30), []);
}
