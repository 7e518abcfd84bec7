//! Tests of S20 to S23 and L12: losses, probes, slow start, validation, and retransmission.

use clearway_congestion::Phase;
use clearway_network::Ecn;
use clearway_transport::{ConnectionError, Observation, SendLimit};
use clearway_wire::{Direction, Frame, StreamId, VarInt, Writer, frame};

use super::story::{Story, ms, respects, violates};
use crate::checker::Property::{L3, L12, S5, S9, S20, S21, S22, S23};

#[test]
fn s20_three_packets_overtake_a_lost_one() {
    let tell = |story: &mut Story, count: u64| {
        story.send(10);
        story.wait(ms(100));
        story.acknowledge(1, count);
        story.lose(0);
    };
    respects(S20, |story| tell(story, 3));
    violates(S20, |story| tell(story, 2));
}

#[test]
fn s20_or_nine_eighths_of_a_round_trip_have_passed() {
    let tell = |story: &mut Story, more: u64| {
        story.send(2);
        story.wait(ms(100));
        story.acknowledge(1, 1);
        story.report();
        story.wait(ms(more));
        story.lose(0);
    };
    // The time threshold is 112.5 ms.
    respects(S20, |story| tell(story, 13));
    violates(S20, |story| tell(story, 12));
}

#[test]
fn s20_time_alone_is_no_loss() {
    violates(S20, |story| {
        measure(story, 0, 1000);
        story.report();
        story.send(1);
        story.wait(ms(5000));
        story.lose(1);
    });
}

#[test]
fn s9_no_more_than_the_promised_delay_is_taken_off() {
    let tell = |story: &mut Story, smoothed: u64| {
        for number in 0..2 {
            measure(story, number, 100 + 100 * number);
            if number > 0 {
                story.metrics.rtt.as_mut().unwrap().smoothed =
                    core::time::Duration::from_micros(smoothed);
            }
            story.report();
        }
    };
    // The smoothed RTT is 7/8 of 100 ms plus 1/8 of 200 ms, because the ACK Delay is zero.
    respects(S9, |story| tell(story, 112_500));
    violates(S9, |story| tell(story, 109_000));
}

/// Sends packet `number`, and acknowledges it after `milliseconds`.
fn measure(story: &mut Story, number: u64, milliseconds: u64) {
    story.send(1);
    story.wait(ms(milliseconds));
    story.acknowledge(number, number);
}

/// Takes an RTT sample of 100 ms, so that the probe timeout is 100 + 4 x 50 + 25 ms.
fn measured(story: &mut Story) {
    measure(story, 0, 100);
    story.report();
}

/// Lets the probe timeout of a packet expire for the first time, and sends a probe.
fn probed(story: &mut Story) {
    measured(story);
    story.send(1);
    story.wait(ms(325));
    story.expire();
    story.probe();
}

#[test]
fn s21_a_probe_waits_for_its_timeout() {
    let tell = |story: &mut Story, wait: u64| {
        measured(story);
        story.send(1);
        story.wait(ms(wait));
        story.expire();
    };
    respects(S21, |story| tell(story, 325));
    violates(S21, |story| tell(story, 324));
}

#[test]
fn s21_since_the_last_packet() {
    violates(S21, |story| {
        measured(story);
        story.send(1);
        story.wait(ms(100));
        story.send(1);
        story.wait(ms(225));
        story.expire();
    });
}

#[test]
fn s21_the_timeout_doubles() {
    let tell = |story: &mut Story, wait: u64| {
        probed(story);
        story.wait(ms(wait));
        story.expire();
    };
    respects(S21, |story| tell(story, 650));
    violates(S21, |story| tell(story, 649));
}

#[test]
fn s21_a_sign_of_life_spares_one_doubling() {
    let tell = |story: &mut Story, second: u64| {
        probed(story);
        story.wait(ms(325));
        story.receive_ping_with_ack();
        story.expire();
        story.probe();
        story.wait(ms(second));
        story.expire();
    };
    respects(S21, |story| tell(story, 650));
    violates(S21, |story| tell(story, 649));
}

#[test]
fn s21_a_ping_alone_spares_nothing() {
    violates(S21, |story| {
        probed(story);
        story.wait(ms(325));
        story.receive(&Frame::Ping);
        story.expire();
    });
}

/// Returns the verdict on a client that has sent a Handshake packet and then has no deadline set.
fn client_without_timer(is_acknowledged: bool) -> Option<&'static str> {
    let mut story = Story::handshaking(L3);
    story.client_sends_handshake_packet();
    if is_acknowledged {
        story.server_acknowledges_handshake_packet();
    }
    story.settle_client(None);
    story.violation()
}

#[test]
fn l3_a_client_whose_handshake_packet_was_acknowledged_needs_no_timer() {
    assert_eq!(client_without_timer(true), None);
    assert_eq!(client_without_timer(false), Some("L3"));
}

#[test]
fn s5_a_path_may_take_no_time() {
    let tell = |story: &mut Story, nanoseconds: u64| {
        story.now = clearway_units::Timestamp::ORIGIN;
        let rtt = core::time::Duration::from_nanos(nanoseconds);
        story.metrics.rtt = Some(clearway_congestion::RttSnapshot {
            latest: rtt,
            smoothed: rtt,
            minimum: rtt,
            variation: rtt,
            is_new: false,
        });
        story.report();
    };
    respects(S5, |story| tell(story, 1000));
    violates(S5, |story| tell(story, 1001));
}

fn id(number: u64) -> StreamId {
    StreamId::from_varint(VarInt::saturating(number))
}

/// Returns a STREAM frame for the first stream.
fn stream(offset: u64, data: &'static [u8], fin: bool) -> Frame<'static> {
    let offset = VarInt::saturating(offset);
    Frame::Stream(frame::Stream { stream_id: id(0), offset, data, fin })
}

fn reset_stream() -> Frame<'static> {
    let (error_code, final_size) = (VarInt::saturating(1), VarInt::saturating(3));
    Frame::ResetStream(frame::ResetStream { stream_id: id(0), error_code, final_size })
}

fn new_connection_id(sequence: u64) -> Frame<'static> {
    Frame::NewConnectionId(frame::NewConnectionId {
        sequence: VarInt::saturating(sequence),
        retire_prior_to: VarInt::ZERO,
        id: clearway_wire::ConnectionId::new(&[7; 8]).unwrap(),
        reset_token: clearway_wire::ResetToken::new([1; 16]),
    })
}

/// Returns one frame of each kind that requires reliable delivery.
fn frames() -> Vec<Frame<'static>> {
    let value = VarInt::saturating;
    vec![
        stream(0, b"abc", false),
        stream(0, b"abc", true),
        stream(3, b"", true),
        Frame::Crypto(frame::Crypto { offset: value(0), data: b"ticket" }),
        reset_stream(),
        Frame::StopSending(frame::StopSending { stream_id: id(0), error_code: value(1) }),
        Frame::NewToken(frame::NewToken { token: b"token" }),
        Frame::MaxData(frame::MaxData { maximum: value(9) }),
        Frame::MaxStreamData(frame::MaxStreamData { stream_id: id(0), maximum: value(9) }),
        Frame::MaxStreams(frame::MaxStreams {
            direction: Direction::Bidirectional,
            maximum: value(9),
        }),
        Frame::DataBlocked(frame::DataBlocked { limit: value(9) }),
        Frame::StreamDataBlocked(frame::StreamDataBlocked { stream_id: id(0), limit: value(9) }),
        Frame::StreamsBlocked(frame::StreamsBlocked {
            direction: Direction::Unidirectional,
            limit: value(9),
        }),
        new_connection_id(2),
        Frame::RetireConnectionId(frame::RetireConnectionId { sequence: value(0) }),
        Frame::HandshakeDone,
    ]
}

fn send(story: &mut Story, frame: &Frame<'_>) {
    let mut buffer = [0; 64];
    let mut writer = Writer::new(&mut buffer);
    frame.encode(&mut writer).unwrap();
    let length = writer.written();
    story.send_payload(&buffer[..length], false);
}

/// Lets three more packets overtake packet `number`, which was sent last, and declares it lost.
fn overtake(story: &mut Story, number: u64) {
    story.send(3);
    story.wait(ms(100));
    story.acknowledge(number + 1, number + 3);
    story.lose(number);
}

/// Sends `frame` in packet 0, which is lost.
fn lose(story: &mut Story, frame: &Frame<'_>) {
    send(story, frame);
    overtake(story, 0);
    story.report();
}

/// Ends the server's turn with sending stopped by `limit`.
fn stop(story: &mut Story, limit: SendLimit) {
    story.limit(limit);
    story.settle(Some(ms(100)));
}

fn rest(story: &mut Story) {
    stop(story, SendLimit::Application);
}

#[test]
fn l12_every_kind_of_frame_is_sent_again() {
    for frame in frames() {
        violates(L12, |story| {
            lose(story, &frame);
            rest(story);
        });
        respects(L12, |story| {
            lose(story, &frame);
            send(story, &frame);
            rest(story);
        });
    }
}

#[test]
fn l12_whatever_waits_for_the_window_may_wait() {
    for frame in frames() {
        respects(L12, |story| {
            lose(story, &frame);
            stop(story, SendLimit::Window);
        });
    }
}

#[test]
fn l12_each_part_of_what_was_lost() {
    violates(L12, |story| {
        lose(story, &stream(0, b"abc", true));
        send(story, &stream(0, b"abc", false));
        rest(story);
    });
    violates(L12, |story| {
        lose(story, &stream(0, b"abc", false));
        send(story, &stream(0, b"a", false));
        send(story, &stream(2, b"c", false));
        rest(story);
    });
    respects(L12, |story| {
        lose(story, &stream(0, b"abc", true));
        send(story, &stream(0, b"a", false));
        send(story, &stream(1, b"bc", true));
        rest(story);
    });
}

#[test]
fn l12_and_again() {
    for frame in frames() {
        violates(L12, |story| {
            lose(story, &frame);
            send(story, &frame);
            overtake(story, 4);
            rest(story);
        });
    }
}

#[test]
fn l12_what_arrived_after_all_is_not_owed() {
    for frame in frames() {
        respects(L12, |story| {
            lose(story, &frame);
            story.acknowledge(0, 0);
            rest(story);
        });
    }
}

#[test]
fn l12_what_is_of_no_use_is_not_owed() {
    let value = VarInt::saturating;
    let useless: [(Frame<'_>, Frame<'_>); 3] = [
        (
            Frame::MaxStreamData(frame::MaxStreamData { stream_id: id(0), maximum: value(9) }),
            stream(3, b"", true),
        ),
        (
            Frame::StopSending(frame::StopSending { stream_id: id(0), error_code: value(1) }),
            stream(3, b"", true),
        ),
        (
            Frame::DataBlocked(frame::DataBlocked { limit: value(9) }),
            Frame::MaxData(frame::MaxData { maximum: value(10) }),
        ),
    ];
    for (lost, received) in &useless {
        respects(L12, |story| {
            lose(story, lost);
            story.receive(received);
            rest(story);
        });
    }
    // Data of a stream that was reset is not retransmitted, but the RESET_STREAM frame is.
    respects(L12, |story| {
        lose(story, &stream(0, b"abc", false));
        send(story, &reset_stream());
        rest(story);
    });
}

#[test]
fn l12_a_control_frame_does_not_wait_for_ever() {
    let max = frame::MaxData { maximum: VarInt::saturating(9) };
    let tell = |story: &mut Story, packets: u64| {
        story.set_window(1000);
        lose(story, &Frame::MaxData(max));
        story.send(packets);
        stop(story, SendLimit::Window);
    };
    respects(L12, |story| tell(story, 64));
    violates(L12, |story| tell(story, 65));
}

/// Adds rounds of eight packets with the given RTTs in milliseconds, and reports the given phase
/// after each round.
fn slow_start(story: &mut Story, rounds: &[(u64, Phase)]) {
    story.set_window(100);
    for (round, (milliseconds, phase)) in (0..).zip(rounds) {
        story.send(8);
        story.wait(ms(*milliseconds));
        for number in 8 * round..8 * round + 8 {
            story.acknowledge(number, number);
            if number == 8 * round + 7 {
                story.set_phase(*phase);
            }
            story.report();
        }
    }
}

#[test]
fn s22_a_round_trip_that_grows_by_an_eighth_is_suspicious() {
    let conservative = Phase::ConservativeSlowStart;
    // An eighth of 80 ms is 10 ms, which is the RTT threshold.
    respects(S22, |story| slow_start(story, &[(80, Phase::SlowStart), (89, Phase::SlowStart)]));
    violates(S22, |story| slow_start(story, &[(80, Phase::SlowStart), (89, conservative)]));
    respects(S22, |story| slow_start(story, &[(80, Phase::SlowStart), (90, conservative)]));
    violates(S22, |story| slow_start(story, &[(80, Phase::SlowStart), (90, Phase::SlowStart)]));
    // The RTT threshold is at least 4 ms and at most 16 ms.
    violates(S22, |story| slow_start(story, &[(8, Phase::SlowStart), (11, conservative)]));
    violates(S22, |story| slow_start(story, &[(800, Phase::SlowStart), (816, Phase::SlowStart)]));
}

#[test]
fn s22_conservative_slow_start_ends_with_its_rounds_or_the_delay() {
    let conservative = (90, Phase::ConservativeSlowStart);
    let begin = [(80, Phase::SlowStart), conservative];
    let with = |more: &[(u64, Phase)]| [&begin[..], more].concat();
    violates(S22, |story| slow_start(story, &with(&[(90, Phase::CongestionAvoidance)])));
    violates(S22, |story| slow_start(story, &with(&[(89, Phase::ConservativeSlowStart)])));
    respects(S22, |story| slow_start(story, &with(&[(89, Phase::SlowStart)])));
    // The end of the fifth round ends conservative slow start.
    violates(S22, |story| slow_start(story, &with(&[conservative; 5])));
    respects(S22, |story| slow_start(story, &with(&[conservative; 4])));
}

/// Changes the client's port, answers a challenge that was sent to `challenged`, and lets the
/// server report that the new address is validated.
fn validated_after_a_challenge_to(challenged: u16) -> Option<&'static str> {
    let mut story = Story::new("reno", S23);
    let address = |port: u16| ([10, 0, 0, 1], port).into();
    for port in [1, 2] {
        story.checker().on_delivered(Story::SERVER, address(port), Ecn::NotEct, &[0; 1200]);
    }
    let data = [7; 8];
    send(&mut story, &Frame::PathChallenge(frame::PathChallenge { data }));
    story.checker().on_submitted(story.now, Story::SERVER, address(challenged), Ecn::NotEct, 1200);
    story.receive(&Frame::PathResponse(frame::PathResponse { data }));
    story.tell(&Observation::PathUpdated {
        socket: clearway_transport::SocketIndex(0),
        remote: address(2),
        is_validated: true,
        is_new_path: false,
    });
    story.violation()
}

#[test]
fn s23_an_answer_validates_what_was_challenged() {
    assert_eq!(validated_after_a_challenge_to(2), None);
    assert_eq!(validated_after_a_challenge_to(1), Some("S23"));
}

#[test]
fn s23_a_reset_needs_a_token_that_was_given() {
    let told = |last: u8| {
        let mut story = Story::new("reno", S23);
        story.receive(&new_connection_id(1));
        let mut datagram = [1; 40];
        datagram[39] = last;
        let from = ([10, 0, 0, 1], 1).into();
        story.checker().on_delivered(Story::SERVER, from, Ecn::NotEct, &datagram);
        story.tell(&Observation::Closed(&ConnectionError::Reset));
        story.violation()
    };
    assert_eq!(told(1), None);
    assert_eq!(told(2), Some("S23"));
}
