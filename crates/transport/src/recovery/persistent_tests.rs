use clearway_congestion::DeliverySnapshot;

use super::super::packet::PacketState;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn lost(index: u64, second: u64) -> LedgerPacket {
    LedgerPacket {
        number: 0,
        state: PacketState::Outstanding,
        ack_eliciting: true,
        in_flight: true,
        is_exempt: false,
        is_off_path: false,
        is_marked: false,
        path: 0,
        token_count: 0,
        first_token: 0,
        bytes: 1200,
        index: SendIndex(index),
        sent_at: Timestamp::from_origin(SECOND * (second as u32)),
        delivery: DeliverySnapshot::default(),
    }
}

fn sampled() -> PersistentCongestion {
    let mut persistent = PersistentCongestion::new();
    persistent.on_rtt_sample(Timestamp::ORIGIN);
    persistent.begin(None);
    persistent
}

#[test]
fn the_losses_have_to_span_more_than_three_timeouts() {
    for (last, expected) in [(4, false), (5, true)] {
        let mut persistent = sampled();
        persistent.on_lost(&lost(1, 1));
        persistent.on_lost(&lost(2, last));
        assert_eq!(persistent.conclude(SECOND, SendIndex(9)), expected);
        assert_eq!(persistent.total(), u64::from(expected));
    }
}

#[test]
fn one_silence_counts_once() {
    // Gallery row 22: later ACKs reveal more losses of the same period.
    let mut persistent = sampled();
    persistent.on_lost(&lost(1, 1));
    persistent.on_lost(&lost(2, 10));
    assert!(persistent.conclude(SECOND, SendIndex(5)));
    persistent.begin(None);
    persistent.on_lost(&lost(3, 11));
    persistent.on_lost(&lost(4, 20));
    assert!(!persistent.conclude(SECOND, SendIndex(6)));
    persistent.begin(None);
    persistent.on_lost(&lost(6, 30));
    persistent.on_lost(&lost(7, 40));
    assert!(persistent.conclude(SECOND, SendIndex(8)), "the next silence counts again");
}

#[test]
fn probes_of_a_path_are_no_evidence() {
    // Gallery row 137.
    let mut persistent = sampled();
    persistent.on_lost(&LedgerPacket { is_exempt: true, ..lost(1, 1) });
    persistent.on_lost(&lost(2, 9));
    assert!(!persistent.conclude(SECOND, SendIndex(9)));
}

#[test]
fn the_first_sample_has_to_be_older_than_both() {
    let mut persistent = PersistentCongestion::new();
    persistent.on_rtt_sample(Timestamp::from_origin(SECOND * 2));
    persistent.begin(None);
    persistent.on_lost(&lost(1, 1));
    persistent.on_lost(&lost(2, 3));
    persistent.on_lost(&lost(3, 6));
    assert!(!persistent.conclude(SECOND, SendIndex(9)), "3 to 6 is not enough");
}
