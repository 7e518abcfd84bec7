use super::super::testing::{Bench, SIZE, at, ms};
use super::*;

/// Returns a sender whose RTT has been `rtt` for some time, with a window of `window` packets.
fn settled(window: u64, rtt: u64) -> Bench {
    let mut sender = Bench::new();
    sender.record.lock().unwrap().window = window * SIZE;
    for round in 0..60 {
        let number = sender.send(at(round * rtt));
        sender.ack(at((round + 1) * rtt), &[(number, number)]);
    }
    sender
}

fn number(value: u64) -> PacketNumber {
    PacketNumber::new(value).unwrap()
}

/// A packet that arrives just before its loss record is dropped is still recognized, although many
/// windows were sent in the meantime.
#[test]
fn a_late_packet_is_recognized_as_long_as_it_is_of_use() {
    for window in [4, 20, 40, 400, 10_000, 1_000_000] {
        for rtt in [1, 30, 600] {
            let mut sender = settled(window, rtt);
            let room = sender.recovery.number_room(SpaceId::Application);
            let late = sender.send(at(60 * rtt));
            let recovery = &sender.recovery;
            let useful = recovery.loss_thresholds().time + recovery.lost_remembered();
            let overtaken_by = window * useful.as_micros() as u64 / (rtt * 1000);
            let mut bytes = [0; 4];
            let (bytes, _) = bytes.split_at_mut(room.encoded_len(number(late)));
            number(late).encode_truncated(bytes);
            let expanded = PacketNumber::decode_truncated(bytes, Some(number(late + overtaken_by)));
            assert_eq!(expanded, number(late), "{window} packets in {rtt} ms: {bytes:?}");
        }
    }
}

/// Numbers stay short if only a few packets can overtake another.
#[test]
fn small_windows_have_short_numbers() {
    for (window, length) in [(10, 1), (25, 1), (26, 2), (6000, 2), (7000, 3)] {
        let sender = settled(window, 100);
        let next = number(60);
        let room = sender.recovery.number_room(SpaceId::Application);
        assert_eq!(room.encoded_len(next), length, "{window} packets");
    }
}

/// Unacknowledged packets count if there are more of them than full datagrams allowed by the
/// window.
#[test]
fn small_packets_count_as_packets() {
    let mut sender = settled(4, 100);
    for _ in 0..40 {
        sender.stage(SpaceId::Application, |packet| packet.bytes = 40);
    }
    sender.recovery.transmitted(at(6000)).unwrap();
    let room = sender.recovery.number_room(SpaceId::Application);
    assert_eq!(room.encoded_len(number(64)), 1);
    assert_eq!(room.encoded_len(number(100)), 2);
    assert_eq!(sender.recovery.loss_thresholds().time, ms(100).mul_f64(1.125));
}
