use clearway_congestion::{Phase, Suppressor};
use clearway_network::{Conditions, Ecn, LinkConfig, Probability, Reorder};
use clearway_transport::{ConnectionState, Observation, SendLimit};
use clearway_units::{Rate, Timestamp};
use clearway_wire::{Frame, PacketType, StreamId, VarInt, Writer, frame};

use super::story::{SIZE, Story, ms, respects, violates};
use crate::checker::Property::{
    S1, S2, S3, S5, S7, S8, S9, S10, S11, S12, S13, S16, S17, S18, S19, S25, S27, S28, S29,
};
use crate::end::{EndId, Side};

#[test]
fn s1_bytes_in_flight() {
    let tell = |story: &mut Story, missing: u64| {
        story.send(4);
        story.wait(ms(100));
        story.acknowledge(1, 3);
        story.lose(0);
        story.metrics.bytes_in_flight += missing;
        story.report();
    };
    respects(S1, |story| tell(story, 0));
    // Row 49: lost packets stay in flight.
    violates(S1, |story| tell(story, SIZE));
}

#[test]
fn s1_a_packet_leaves_once() {
    violates(S1, |story| {
        story.send(4);
        story.acknowledge(0, 3);
        story.report();
        story.lose(2);
    });
    violates(S1, |story| {
        story.send(4);
        story.lose(2);
        story.lose(2);
    });
}

#[test]
fn s2_the_window_is_a_limit() {
    respects(S2, |story| story.send(10));
    violates(S2, |story| story.send(11));
}

#[test]
fn s2_two_probes_for_each_timeout() {
    respects(S2, |story| {
        story.send(10);
        story.wait(ms(1500));
        story.expire();
        story.probe();
        story.probe();
    });
    violates(S2, |story| {
        story.send(10);
        story.wait(ms(1500));
        story.expire();
        story.probe();
        story.probe();
        story.probe();
    });
    violates(S2, |story| story.probe());
}

#[test]
fn s3_ranges() {
    respects(S3, |story| {
        story.set_window(2);
        story.set_threshold(2);
        story.report();
    });
    violates(S3, |story| {
        story.set_window(1);
        story.report();
    });
    violates(S3, |story| {
        story.set_threshold(1);
        story.report();
    });
    violates(S3, |story| {
        story.set_window(1 << 40);
        story.report();
    });
    violates(S3, |story| {
        story.metrics.pacing_rate = Some(Rate::ZERO);
        story.report();
    });
}

#[test]
fn s3_bbr_keeps_four_datagrams() {
    let mut story = Story::new("bbr", S3);
    story.set_window(3);
    story.report();
    assert_eq!(story.violation(), Some("S3"));
}

#[test]
fn s5_nothing_is_stored_from_the_future() {
    let tell = |story: &mut Story, round: u64| {
        story.hold();
        story.round(20);
        story.suppress(Suppressor::Recovery, true, round);
        story.report();
    };
    respects(S5, |story| tell(story, 1));
    violates(S5, |story| tell(story, 2));
}

#[test]
fn s5_time_does_not_go_back() {
    violates(S5, |story| {
        story.report();
        story.now = Timestamp::from_origin(ms(999));
        story.report();
    });
}

#[test]
fn s7_only_what_was_sent_is_acknowledged() {
    respects(S7, |story| {
        story.send(3);
        story.acknowledge(0, 2);
    });
    // Row 139: optimistic acknowledgments.
    violates(S7, |story| {
        story.send(3);
        story.acknowledge_only(0, 3);
    });
}

#[test]
fn s7_only_what_arrived_is_acknowledged() {
    violates(S7, |story| {
        story.send(3);
        story.arrive(0);
        story.arrive(2);
        story.acknowledge_only(0, 2);
    });
}

#[test]
fn s8_bursts() {
    // At a hundred datagrams per second, the limit is the burst of ten, one datagram for rounding,
    // and what accumulates in 80 ms at 1.25 times the rate.
    let tell = |story: &mut Story, more: u64| {
        story.set_window(100);
        story.set_rate(100 * SIZE);
        story.report();
        story.send(11);
        story.wait(ms(80));
        story.send(more);
    };
    respects(S8, |story| tell(story, 10));
    // Row 92: the bucket is always full.
    violates(S8, |story| tell(story, 11));
}

#[test]
fn s8_idle_time_saves_no_more_than_a_burst() {
    let tell = |story: &mut Story, more: u64| {
        story.set_window(100);
        story.set_rate(100 * SIZE);
        story.report();
        story.send(11);
        story.wait(ms(10_000));
        story.send(more);
    };
    respects(S8, |story| tell(story, 11));
    violates(S8, |story| tell(story, 12));
}

#[test]
fn s9_samples_are_measured() {
    let tell = |story: &mut Story, wrong: u64| {
        story.send(2);
        story.wait(ms(100));
        story.acknowledge(0, 1);
        if let Some(rtt) = &mut story.metrics.rtt {
            rtt.latest += ms(wrong);
        }
        story.report();
    };
    respects(S9, |story| tell(story, 0));
    // Row 98: the RTT is measured from when the packet might have been sent.
    violates(S9, |story| tell(story, 5));
}

#[test]
fn s9_no_default_is_a_sample() {
    // Row 104.
    violates(S9, |story| {
        story.send(2);
        story.wait(ms(100));
        story.acknowledge(0, 1);
        let rtt = story.metrics.rtt.take();
        story.report();
        story.metrics.rtt = rtt.map(|mut rtt| {
            rtt.minimum = ms(10);
            rtt
        });
        story.report();
    });
    violates(S9, |story| {
        story.send(2);
        story.acknowledge(0, 0);
        let rtt = story.metrics.rtt;
        let mut fresh = Story::new("reno", S9);
        fresh.metrics.rtt = rtt;
        fresh.report();
        assert_eq!(fresh.violation(), Some("S9"));
        story.metrics.rtt = rtt.map(|mut rtt| {
            rtt.smoothed = ms(1);
            rtt.minimum = ms(2);
            rtt
        });
        story.report();
    });
}

fn bottleneck() -> LinkConfig {
    let direction =
        Conditions { rate: Some(Rate::from_bytes_per_second(1_000_000)), ..Conditions::default() };
    LinkConfig { to_client: direction, ..LinkConfig::default() }
}

#[test]
fn s10_no_faster_than_the_bottleneck() {
    let tell = |delivered: u64| {
        let mut story = Story::on(bottleneck(), "reno", S10);
        story.set_sample(delivered, ms(1000));
        story.report();
        story.violation()
    };
    // The tolerance is 2 % and three datagrams.
    assert_eq!(tell(1_023_600), None);
    assert_eq!(tell(1_023_601), Some("S10"));
}

#[test]
fn s11_a_cruising_bbr_builds_no_queue() {
    let tell = |queued: u64| {
        let network = LinkConfig {
            to_client: Conditions { delay: ms(20), ..bottleneck().to_client },
            to_server: Conditions { delay: ms(20), ..Conditions::default() },
            ..LinkConfig::default()
        };
        let mut story = Story::on(network, "bbr", S11);
        story.set_phase(Phase::Other("probe_bw_cruise"));
        story.limit(SendLimit::Window);
        for number in 0..500 {
            story.send(1);
            story.wait(ms(if number == 0 { 20 } else { 20 + queued }));
            story.arrive(number);
            story.wait(ms(20));
            story.acknowledge_only(number, number);
            story.report();
        }
        story.violation()
    };
    assert_eq!(tell(10), None);
    assert_eq!(tell(11), Some("S11"));
}

#[test]
fn s12_amplification() {
    let server = EndId { flow: 0, side: Side::Server };
    let address = "10.0.0.2:5".parse().unwrap();
    let tell = |story: &mut Story, sizes: &[usize]| {
        story.checker().on_delivered(server, address, Ecn::NotEct, &[0; 1200]);
        for size in sizes {
            story.checker().on_submitted(story.now, server, address, Ecn::NotEct, *size);
        }
    };
    respects(S12, |story| tell(story, &[1200, 1200, 1200]));
    violates(S12, |story| tell(story, &[1200, 1200, 1201]));
}

/// Returns a datagram with a short header and this connection ID.
fn short(id: u8) -> [u8; 30] {
    let mut datagram = [id; 30];
    datagram[0] = 0x40;
    datagram
}

#[test]
fn s28_early_data_comes_first_and_in_its_frames() {
    let (early, application) = (PacketType::ZeroRtt, PacketType::OneRtt);
    let (ping, ack): (&[u8], &[u8]) = (&[1], &[2, 0, 0, 0, 0]);
    respects(S28, |story| {
        story.client_sends(early, 0, ping);
        story.client_sends(PacketType::Initial, 0, ping);
        story.client_sends(early, 1, ping);
        story.client_sends(application, 2, ack);
    });
    violates(S28, |story| {
        story.client_sends(application, 0, ping);
        story.client_sends(early, 1, ping);
    });
    // These frames are ACK, CRYPTO, NEW_TOKEN, RETIRE_CONNECTION_ID, PATH_RESPONSE and
    // HANDSHAKE_DONE.
    for forbidden in [ack, &[6, 0, 1, 7], &[7, 1, 9], &[25, 0], &[27; 9], &[30]] {
        violates(S28, |story| story.client_sends(early, 0, &[ping, forbidden].concat()));
    }
}

#[test]
fn s27_a_connection_id_belongs_to_a_path() {
    let [server, client] = [Side::Server, Side::Client].map(|side| EndId { flow: 0, side });
    let (one, other) = ("10.0.0.2:5".parse().unwrap(), "10.0.0.3:6".parse().unwrap());
    let send = |story: &mut Story, end, socket, to, id| {
        story.checker().on_path_used(story.now, end, socket, to, &short(id));
    };
    let receive = |story: &mut Story, from, id| {
        story.checker().on_delivered(server, from, Ecn::NotEct, &short(id));
    };
    respects(S27, |story| {
        send(story, client, 0, one, 1);
        send(story, client, 1, one, 2);
        send(story, client, 0, one, 1);
    });
    violates(S27, |story| {
        send(story, client, 0, one, 1);
        send(story, client, 1, one, 1);
    });
    // A NAT changes the client's address, and neither endpoint changes its connection ID.
    for (second, is_right) in [(7, true), (8, false)] {
        let tell = |story: &mut Story| {
            receive(story, one, 7);
            send(story, server, 0, one, 1);
            receive(story, other, second);
            send(story, server, 0, other, 1);
        };
        if is_right { respects(S27, tell) } else { violates(S27, tell) }
    }
}

/// Lets the window grow to 14 datagrams, takes an RTT sample, and changes the client's address.
fn moved(story: &mut Story, remote: &str, is_new_path: bool) {
    story.send(4);
    story.wait(ms(100));
    story.acknowledge(0, 3);
    story.set_window(14);
    story.report();
    story.move_to(remote, is_new_path);
}

fn restart(story: &mut Story) {
    story.set_window(10);
    story.metrics.rtt = None;
}

#[test]
fn s29_another_address_of_the_peer_begins_with_the_initial_values() {
    let (other_port, other_host) = ("10.0.0.1:2", "10.0.0.2:1");
    respects(S29, |story| {
        moved(story, other_host, true);
        restart(story);
        story.report();
        story.set_window(14);
        story.report();
    });
    respects(S29, |story| {
        moved(story, other_port, false);
        story.report();
    });
    // The first report comes with an acknowledgment.
    for (datagrams, is_right) in [(12, true), (13, false)] {
        let tell = |story: &mut Story| {
            moved(story, other_host, true);
            restart(story);
            story.send(2);
            story.wait(ms(100));
            story.acknowledge(4, 5);
            story.set_window(datagrams);
            story.report();
        };
        if is_right { respects(S29, tell) } else { violates(S29, tell) }
    }
    // All state is kept, whether or not the endpoint reports a new path.
    for is_new_path in [true, false] {
        violates(S29, |story| {
            moved(story, other_host, is_new_path);
            story.report();
        });
    }
    // The window, the threshold or the RTT estimate is kept.
    type Change = fn(&mut Story);
    let changes: [Change; 4] = [
        |story| story.set_window(14),
        |story| story.set_window(9),
        |story| story.set_threshold(20),
        |story| story.sample(ms(100)),
    ];
    for change in changes {
        violates(S29, |story| {
            moved(story, other_host, true);
            restart(story);
            change(story);
            story.report();
        });
    }
}

#[test]
fn s12_datagrams_with_initial_packets_are_padded() {
    let server = EndId { flow: 0, side: Side::Server };
    let tell = |story: &mut Story, size: usize| {
        let address = "10.0.0.1:1".parse().unwrap();
        story.checker().on_delivered(server, address, Ecn::NotEct, &[0; 1200]);
        story.send_initial(size);
    };
    respects(S12, |story| tell(story, 1200));
    // Row 62.
    violates(S12, |story| tell(story, 1199));
}

#[test]
fn s12_a_path_response_validates() {
    let server = EndId { flow: 0, side: Side::Server };
    let address = "10.0.0.2:5".parse().unwrap();
    let tell = |story: &mut Story, answer: [u8; 8]| {
        story.checker().on_delivered(server, address, Ecn::NotEct, &[0; 1200]);
        let mut buffer = [0; 16];
        let mut writer = Writer::new(&mut buffer);
        Frame::PathChallenge(frame::PathChallenge { data: [7; 8] }).encode(&mut writer).unwrap();
        story.send_payload(&buffer[..9], false);
        story.checker().on_submitted(story.now, server, address, Ecn::NotEct, 1200);
        story.receive(&Frame::PathResponse(frame::PathResponse { data: answer }));
        story.checker().on_submitted(story.now, server, address, Ecn::NotEct, 12_000);
    };
    respects(S12, |story| tell(story, [7; 8]));
    violates(S12, |story| tell(story, [8; 8]));
}

#[test]
fn s13_no_spin() {
    let tell = |story: &mut Story, turns: u32| {
        (0..turns).for_each(|_| story.settle(Some(ms(0))));
        story.wait(ms(1));
        (0..turns).for_each(|_| story.settle(Some(ms(0))));
    };
    respects(S13, |story| tell(story, 64));
    violates(S13, |story| tell(story, 65));
}

/// A run that continues after a violation would never end if time stood still.
#[test]
fn s13_ends_every_run() {
    let story = Story::new("reno", S13);
    story.checker().go_on();
    let server = EndId { flow: 0, side: Side::Server };
    let settle = || story.checker().on_settled(story.now, server, None, 0);
    assert!((0..64).all(|_| !settle()));
    assert!(settle());
}

#[test]
fn s16_only_what_is_newest_moves_the_path() {
    respects(S16, |story| {
        story.move_with(0, 2);
        story.wait(ms(10));
        story.move_with(2, 1);
        // Path validation is reported together with the event that proves it.
        story.wait(ms(10));
        story.move_with(1, 1);
    });
    // Row 148: a late packet from the previous address.
    violates(S16, |story| {
        story.move_with(2, 2);
        story.wait(ms(10));
        story.move_with(1, 1);
    });
}

#[test]
fn s17_timeouts_back_off() {
    let tell = |story: &mut Story, factor: u64| {
        story.send(1);
        let mut wait = 300;
        for _ in 0..12 {
            story.wait(ms(wait));
            story.expire();
            wait *= factor;
        }
    };
    respects(S17, |story| tell(story, 2));
    violates(S17, |story| tell(story, 1));
}

#[test]
fn s17_a_sign_of_life_hastens_one_timeout() {
    let tell = |story: &mut Story, signs: u32| {
        story.send(1);
        story.wait(ms(300));
        story.expire();
        for sign in 0..12 {
            story.wait(ms(300));
            if sign < signs {
                story.receive(&Frame::Ping);
            }
            story.expire();
        }
    };
    respects(S17, |story| tell(story, 12));
    violates(S17, |story| tell(story, 2));
}

#[test]
fn s17_spurious_losses_are_rare() {
    let tell = |story: &mut Story, every: u64| {
        story.set_window(100);
        for number in 0..3000 {
            story.send(1);
            if number % every == 0 {
                story.lose(number);
            }
            story.acknowledge(number, number);
            story.report();
        }
    };
    respects(S17, |story| tell(story, 100));
    violates(S17, |story| tell(story, 50));
}

#[test]
fn s17_spurious_losses_become_rare_where_there_is_reordering() {
    let tell = |every: u64| {
        let reorder = Reorder { probability: Probability::new(0.3).unwrap(), by: ms(5) };
        let to_client = Conditions { reorder, ..Conditions::default() };
        let network = LinkConfig { to_client, ..LinkConfig::default() };
        let mut story = Story::on(network, "reno", S17);
        story.set_window(100);
        for number in 0..3000 {
            story.send(1);
            if number % every == 0 {
                story.lose(number);
            }
            story.acknowledge(number, number);
            story.report();
        }
        story.violation()
    };
    assert_eq!(tell(15), None, "5 % of 3000 packets are 150, and 100 more may be");
    assert_eq!(tell(4), Some("S17"));
}

#[test]
fn s18_flow_control() {
    let tell = |story: &mut Story, offset: u64| {
        let mut buffer = [0; 64];
        let mut writer = Writer::new(&mut buffer);
        let stream = frame::Stream {
            stream_id: StreamId::from_varint(VarInt::ZERO),
            offset: VarInt::saturating(offset),
            fin: false,
            data: &[1],
        };
        Frame::Stream(stream).encode(&mut writer).unwrap();
        let length = writer.written();
        story.send_payload(&buffer[..length], false);
    };
    respects(S18, |story| tell(story, (1 << 40) - 1));
    violates(S18, |story| tell(story, 1 << 40));
    respects(S18, |story| {
        let max = frame::MaxStreamData {
            stream_id: StreamId::from_varint(VarInt::ZERO),
            maximum: VarInt::saturating(1 << 41),
        };
        story.receive(&Frame::MaxStreamData(max));
        story.receive(&Frame::MaxData(frame::MaxData { maximum: VarInt::saturating(1 << 41) }));
        tell(story, 1 << 40);
    });
}

#[test]
fn s19_acknowledgements_are_not_late() {
    let tell = |story: &mut Story, waits: u64| {
        story.receive(&Frame::Ping);
        story.wait(ms(waits));
        story.settle(Some(ms(100)));
    };
    respects(S19, |story| tell(story, 24));
    // Row 87: the ACK is due at 25 ms, when the endpoint last had its turn.
    violates(S19, |story| tell(story, 25));
    respects(S19, |story| {
        story.receive(&Frame::Ping);
        story.tell(&Observation::StateUpdated(ConnectionState::Draining));
        story.wait(ms(100));
        story.settle(None);
    });
}

#[test]
fn s25_no_datagram_is_larger_than_one_that_passed() {
    respects(S25, |story| {
        story.probe_mtu(1472);
        story.wait(ms(100));
        story.acknowledge_only(0, 0);
        story.use_mtu(1472);
        story.send_large(1472);
        story.report();
        story.use_mtu(1200);
        story.send(1);
    });
    violates(S25, |story| story.send_large(1472));
    violates(S25, |story| {
        story.probe_mtu(1472);
        story.use_mtu(1472);
    });
    // After an MTU black hole is detected, the size must be validated again.
    violates(S25, |story| {
        story.probe_mtu(1472);
        story.wait(ms(100));
        story.acknowledge_only(0, 0);
        story.use_mtu(1472);
        story.use_mtu(1200);
        story.use_mtu(1472);
    });
}

#[test]
fn s25_one_probe_at_a_time() {
    respects(S25, |story| {
        story.probe_mtu(1472);
        story.send(3);
        story.wait(ms(100));
        story.acknowledge_only(1, 3);
        story.lose(0);
        story.probe_mtu(1472);
    });
    violates(S25, |story| {
        story.probe_mtu(1472);
        story.probe_mtu(1472);
    });
}

#[test]
fn s25_a_controller_does_not_calculate_with_a_size_that_is_only_probed() {
    violates(S25, |story| {
        story.send(1);
        story.probe_mtu(1472);
        story.metrics.congestion.minimum_window = 2 * 1472;
        story.wait(ms(100));
        story.acknowledge(0, 0);
        story.report();
    });
}
