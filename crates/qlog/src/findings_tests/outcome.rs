use super::story::{DATAGRAM, Story, metric, ms};
use crate::findings::FindingId::{
    ClosedWithError, HandshakeIncomplete, OwnFlowControlStall, PacketsDropped, SlowStartEndedEarly,
    StandingQueue, WindowAtFloor,
};
use crate::findings::{EndingKind, FindingsBuilder, Report};
use crate::read::{
    Blocked, Close, CongestionState, Event, EventKind, Frame, Metrics, Packet, PacketType, Reading,
    VantagePoint,
};

fn packet(packet_type: PacketType, number: u64, frames: Vec<Frame>) -> Packet {
    let (number, length, frames) = (Some(number), Some(1200), Some(frames));
    Packet { packet_type, number, length, frames, ..Packet::default() }
}

/// Returns the report of a client whose Initial packet at 0 ms is followed by these events, at
/// these times in ms.
fn client(events: Vec<(u64, EventKind)>) -> Report {
    let mut builder = FindingsBuilder::default();
    let hello = vec![Frame::Crypto { offset: 0, length: Some(300) }];
    let hello = EventKind::PacketSent(packet(PacketType::Initial, 0, hello));
    for (at, kind) in core::iter::once((0, hello)).chain(events) {
        builder.on_event(&Event { at: ms(at), kind });
    }
    builder.finish(Reading { vantage_point: VantagePoint::Client, ..Reading::default() })
}

fn received(packet_type: PacketType, frames: Vec<Frame>) -> EventKind {
    EventKind::PacketReceived(packet(packet_type, 0, frames))
}

fn close_frame(close: Close) -> Frame {
    Frame::ConnectionClose(Box::new(close))
}

fn ids(report: &Report) -> Vec<crate::findings::FindingId> {
    report.findings.iter().map(|finding| finding.id).collect()
}

#[test]
fn a_handshake_that_fails_says_who_closed_it_and_why() {
    let close = close_frame(Close {
        is_of_application: Some(false),
        error: Some("298".into()),
        code: Some(298),
        reason: Some("unable to get local issuer certificate".into()),
        ..Close::default()
    });
    let sent = EventKind::PacketSent(packet(PacketType::Handshake, 1, vec![close]));
    let report = client(vec![(20, received(PacketType::Handshake, vec![])), (53, sent)]);
    assert_eq!(
        report.ending.to_string(),
        "closed by the client (this endpoint) after 53.0 ms: CRYPTO_ERROR 0x12a (TLS alert bad_certificate), \
         reason: \"unable to get local issuer certificate\"; the handshake was not complete"
    );
    assert!(report.ending.is_failure());
    assert_eq!(ids(&report), [ClosedWithError, HandshakeIncomplete]);
    let headline = "Closed by this endpoint with an error: CRYPTO_ERROR 0x12a";
    assert_eq!(report.findings[0].headline, headline);
}

#[test]
fn a_connection_that_is_no_longer_needed_has_no_findings() {
    for (code, error) in [(Some(0), "0"), (Some(0x100), "h3_no_error"), (None, "unknown")] {
        let close = Close {
            is_of_application: Some(true),
            error: Some(error.into()),
            code,
            ..Close::default()
        };
        let report = client(vec![(90, received(PacketType::OneRtt, vec![close_frame(close)]))]);
        let text = "closed by the server (the peer) after 90.0 ms without an error";
        assert_eq!(report.ending.to_string(), text, "{error}");
        assert_eq!(ids(&report), [], "{error}");
    }
    let text = client(vec![(5, received(PacketType::OneRtt, vec![]))]).ending.to_string();
    assert_eq!(text, "still open at the end of the log (5.0 ms)");
}

#[test]
fn errors_have_their_names_in_all_dialects() {
    let of = |is_of_application: bool, error: &str, code: Option<u64>| {
        let close = Close {
            is_of_application: Some(is_of_application),
            error: Some(error.into()),
            code,
            ..Close::default()
        };
        let report = client(vec![(90, received(PacketType::OneRtt, vec![close_frame(close)]))]);
        report.ending.error.unwrap()
    };
    assert_eq!(of(false, "protocol_violation", None), "PROTOCOL_VIOLATION (0xa)");
    assert_eq!(of(false, "PROTOCOL_VIOLATION", Some(10)), "PROTOCOL_VIOLATION (0xa)");
    assert_eq!(
        of(false, "crypto_error_0x178", None),
        "CRYPTO_ERROR 0x178 (TLS alert no_application_protocol)"
    );
    assert_eq!(of(true, "http_frame_error", None), "H3_FRAME_ERROR (0x106)");
    assert_eq!(of(true, "unknown", Some(7)), "application error 0x7");
    assert_eq!(of(false, "Peer is angry", None), "Peer is angry");
}

#[test]
fn the_first_close_counts_and_later_events_add_to_it() {
    let frame = close_frame(Close { code: Some(10), ..Close::default() });
    let answer = close_frame(Close { code: Some(0), ..Close::default() });
    let answer = EventKind::PacketSent(packet(PacketType::OneRtt, 1, vec![answer]));
    let event = EventKind::Closed(Box::new(Close {
        is_local: Some(false),
        reason: Some("a bad frame".into()),
        trigger: Some("error".into()),
        ..Close::default()
    }));
    let report =
        client(vec![(9, received(PacketType::OneRtt, vec![frame])), (9, answer), (10, event)]);
    assert_eq!(
        report.ending.to_string(),
        "closed by the server (the peer) after 9.0 ms: PROTOCOL_VIOLATION (0xa), reason: \"a bad frame\""
    );
}

#[test]
fn a_peer_that_does_not_respond_is_a_finding_once_it_has_taken_long() {
    let probes = |seconds: u64| {
        let probe = || EventKind::PacketSent(packet(PacketType::Initial, 1, vec![Frame::Ping]));
        client((1..=seconds).map(|second| (second * 1000, probe())).collect())
    };
    let report = probes(6);
    assert_eq!(ids(&report), [HandshakeIncomplete]);
    assert_eq!(report.findings[0].headline, "Handshake not complete: no response in 6.0 s");
    assert_eq!(ids(&probes(3)), [], "the log may just have ended");
}

#[test]
fn the_idle_timeout_and_a_stateless_reset_have_kinds_of_their_own() {
    for (trigger, kind, text) in [
        ("idle_timeout", EndingKind::IdleTimeout, "ended by the idle timeout after 30.0 s"),
        ("stateless_reset", EndingKind::StatelessReset, "reset by the peer after 30.0 s"),
    ] {
        let trigger = Some(trigger.into());
        let closed = EventKind::Closed(Box::new(Close { trigger, ..Close::default() }));
        let report = client(vec![(5, received(PacketType::OneRtt, vec![])), (30_000, closed)]);
        assert_eq!((report.ending.kind, report.ending.to_string().as_str()), (kind, text));
        assert_eq!(ids(&report), []);
    }
}

/// Returns the report of a receiver whose peer reaches a limit that is raised after `pause` ms.
fn limits_raised_after(pause: u64) -> Report {
    let data = || vec![Frame::Stream { stream: 0, offset: 0, length: Some(1000), is_last: false }];
    let blocked = vec![Frame::StreamDataBlocked { stream: 0, limit: 65_536 }];
    let raise = vec![Frame::MaxStreamData { stream: 0, maximum: 131_072 }];
    client(vec![
        (50, received(PacketType::OneRtt, data())),
        (60, received(PacketType::OneRtt, blocked)),
        (70, received(PacketType::OneRtt, data())),
        (70 + pause, EventKind::PacketSent(packet(PacketType::OneRtt, 1, raise))),
        (130 + pause, received(PacketType::OneRtt, data())),
    ])
}

#[test]
fn a_receiver_that_raises_a_limit_late() {
    let report = limits_raised_after(4000);
    assert_eq!(ids(&report), [OwnFlowControlStall]);
    let headline = "This endpoint's flow control blocked the peer for 4.0 s";
    assert_eq!(report.findings[0].headline, headline);
    assert_eq!(metric(&report.findings[0], "limit"), "65,536 bytes");
    assert_eq!(ids(&limits_raised_after(300)), []);
}

/// The limit was raised before the peer's frame arrived: the frame was in flight.
#[test]
fn a_limit_that_is_already_raised_blocks_nobody() {
    let raise = vec![Frame::MaxData { maximum: 200 }];
    let blocked = vec![Frame::DataBlocked { limit: 100 }];
    let report = client(vec![
        (50, EventKind::PacketSent(packet(PacketType::OneRtt, 1, raise))),
        (60, received(PacketType::OneRtt, blocked)),
        (9000, received(PacketType::OneRtt, vec![Frame::Ping])),
    ]);
    assert_eq!(ids(&report), []);
}

#[test]
fn packets_that_are_dropped_after_a_key_update_are_the_cause_of_the_rest() {
    let drops = |packets: u64, reason: &str, packet_type: PacketType| {
        let mut story = Story::begin(2 * DATAGRAM);
        story.receive(vec![Frame::Ping]);
        story.event(EventKind::KeyUpdated { is_local: Some(true) });
        for round in 0..40 {
            story.round();
            if round < packets {
                let reason = Some(reason.into());
                story.event(EventKind::PacketDropped { packet_type, length: Some(40), reason });
            }
        }
        story.finish()
    };
    let findings = drops(20, "decryption_failure", PacketType::OneRtt);
    assert_eq!(findings[0].id, PacketsDropped);
    assert_eq!(
        findings[0].headline,
        "20 received packets dropped after a key update: decryption failure"
    );
    assert!(findings.iter().any(|finding| finding.id == WindowAtFloor));
    let has_it = |findings: Vec<crate::findings::Finding>| {
        findings.iter().any(|finding| finding.id == PacketsDropped)
    };
    assert!(has_it(drops(20, "key_unavailable", PacketType::OneRtt)));
    assert!(!has_it(drops(5, "decryption_failure", PacketType::OneRtt)));
    assert!(!has_it(drops(20, "duplicate", PacketType::OneRtt)));
    let late = "the keys of the handshake are discarded";
    assert!(!has_it(drops(20, "key_unavailable", PacketType::Handshake)), "{late}");
}

#[test]
fn corrupt_packets_among_many_good_ones_are_no_run() {
    let mut story = Story::begin(20 * DATAGRAM);
    for _ in 0..100 {
        let (packet_type, reason) = (PacketType::OneRtt, Some("decryption_failure".into()));
        story.event(EventKind::PacketDropped { packet_type, length: Some(40), reason });
        (0..3).for_each(|_| story.receive(vec![Frame::Ping]));
        story.round();
    }
    assert_eq!(story.finds(), []);
}

#[test]
fn a_slow_start_that_ends_for_no_reason() {
    let ends = |rtt: u64, is_lossy: bool| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.state(CongestionState::SlowStart);
        story.round();
        let rtt = Some(ms(rtt));
        story.metrics(Metrics { smoothed_rtt: rtt, latest_rtt: rtt, ..Metrics::default() });
        if is_lossy {
            story.lose(0);
        }
        story.state(CongestionState::CongestionAvoidance);
        for _ in 0..300 {
            story.round();
            story.set_window(story.window + 120);
        }
        story.finds()
    };
    assert_eq!(ends(10, false), [SlowStartEndedEarly]);
    assert_eq!(ends(15, false), [], "there is a queue");
    assert_eq!(ends(10, true), [], "something was lost");
}

#[test]
fn a_queue_of_the_senders_own_packets() {
    let fills = |rtt: u64, blocked: Blocked| {
        let mut story = Story::begin(200 * DATAGRAM);
        let rtt = ms(rtt);
        let (smoothed_rtt, latest_rtt) = (Some(rtt), Some(rtt));
        story.metrics(Metrics { smoothed_rtt, latest_rtt, ..Metrics::default() });
        story.blocked(blocked);
        for _ in 0..6 {
            let first = story.next;
            story.fill();
            story.now += rtt;
            story.acknowledge(first, story.next - 1, ms(0));
        }
        story.finish()
    };
    let findings = fills(3000, Blocked::CongestionControl);
    assert_eq!(findings[0].id, StandingQueue);
    let headline = "Sender's own queue delays packets: round-trip time 3.0 s (minimum 10.0 ms)";
    assert_eq!(findings[0].headline, headline);
    assert!(fills(300, Blocked::CongestionControl).iter().all(|it| it.id != StandingQueue));
    assert!(fills(3000, Blocked::Application).iter().all(|it| it.id != StandingQueue));
}
