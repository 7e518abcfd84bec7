//! S20, S21, L12: losses, probes, and what is sent again.

use clearway_transport::SendLimit;
use clearway_wire::{Direction, Frame, StreamId, VarInt, Writer, frame};

use super::story::{Story, ms, respects, violates};
use crate::checker::Property::{L3, L12, S5, S9, S20, S21};

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
    // 112.5 ms.
    respects(S20, |story| tell(story, 13));
    violates(S20, |story| tell(story, 12));
}

#[test]
fn s20_time_alone_is_no_loss() {
    violates(S20, |story| {
        story.send(1);
        story.wait(ms(1000));
        story.acknowledge(0, 0);
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
            story.send(1);
            story.wait(ms(100 + 100 * number));
            story.acknowledge(number, number);
            if number > 0 {
                story.metrics.rtt.as_mut().unwrap().smoothed =
                    core::time::Duration::from_micros(smoothed);
            }
            story.report();
        }
    };
    // 7/8 of 100 ms and 1/8 of 200: no delay is stated.
    respects(S9, |story| tell(story, 112_500));
    violates(S9, |story| tell(story, 109_000));
}

/// A sample of 100 ms: the probe timeout is 100 + 4 x 50 + 25 ms.
fn measured(story: &mut Story) {
    story.send(1);
    story.wait(ms(100));
    story.acknowledge(0, 0);
    story.report();
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
        measured(story);
        story.send(1);
        story.wait(ms(325));
        story.expire();
        story.probe();
        story.wait(ms(wait));
        story.expire();
    };
    respects(S21, |story| tell(story, 650));
    violates(S21, |story| tell(story, 649));
}

#[test]
fn s21_a_sign_of_life_spares_one_doubling() {
    let tell = |story: &mut Story, second: u64| {
        measured(story);
        story.send(1);
        story.wait(ms(325));
        story.expire();
        story.probe();
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
        measured(story);
        story.send(1);
        story.wait(ms(325));
        story.expire();
        story.probe();
        story.wait(ms(325));
        story.receive(&Frame::Ping);
        story.expire();
    });
}

/// A client in its handshake has sent a Handshake packet, and then has no deadline.
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

/// Every frame that has to arrive, of each kind one.
fn frames() -> Vec<Frame<'static>> {
    let value = VarInt::saturating;
    let stream = |offset, data, fin| {
        Frame::Stream(frame::Stream { stream_id: id(0), offset: value(offset), data, fin })
    };
    let connection_id = clearway_wire::ConnectionId::new(&[7; 8]).unwrap();
    vec![
        stream(0, b"abc", false),
        stream(0, b"abc", true),
        stream(3, b"", true),
        Frame::Crypto(frame::Crypto { offset: value(0), data: b"ticket" }),
        Frame::ResetStream(frame::ResetStream {
            stream_id: id(0),
            error_code: value(1),
            final_size: value(3),
        }),
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
        Frame::NewConnectionId(frame::NewConnectionId {
            sequence: value(2),
            retire_prior_to: VarInt::ZERO,
            id: connection_id,
            reset_token: clearway_wire::ResetToken::new([1; 16]),
        }),
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

/// `frame` is sent in packet 0, which is lost.
fn lose(story: &mut Story, frame: &Frame<'_>) {
    send(story, frame);
    story.send(3);
    story.wait(ms(100));
    story.acknowledge(1, 3);
    story.lose(0);
    story.report();
}

fn rest(story: &mut Story) {
    story.limit(SendLimit::Application);
    story.settle(Some(ms(100)));
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
            story.limit(SendLimit::Window);
            story.settle(Some(ms(100)));
        });
    }
}

#[test]
fn l12_each_part_of_what_was_lost() {
    let value = VarInt::saturating;
    let stream = |offset, data, fin| {
        Frame::Stream(frame::Stream { stream_id: id(0), offset: value(offset), data, fin })
    };
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
            story.send(3);
            story.wait(ms(100));
            story.acknowledge(5, 7);
            story.lose(4);
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
    let end = frame::Stream { stream_id: id(0), offset: value(3), data: b"", fin: true };
    let useless: [(Frame<'_>, Frame<'_>); 3] = [
        (
            Frame::MaxStreamData(frame::MaxStreamData { stream_id: id(0), maximum: value(9) }),
            Frame::Stream(end),
        ),
        (
            Frame::StopSending(frame::StopSending { stream_id: id(0), error_code: value(1) }),
            Frame::Stream(end),
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
    // What was reset is not sent any more, but that it was reset is.
    let reset = Frame::ResetStream(frame::ResetStream {
        stream_id: id(0),
        error_code: value(1),
        final_size: value(3),
    });
    let data = frame::Stream { stream_id: id(0), offset: value(0), data: b"abc", fin: false };
    respects(L12, |story| {
        lose(story, &Frame::Stream(data));
        send(story, &reset);
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
        story.limit(SendLimit::Window);
        story.settle(Some(ms(100)));
    };
    respects(L12, |story| tell(story, 64));
    violates(L12, |story| tell(story, 65));
}
