//! Tests of the algorithm alone, with the examples of RFC 6937 §3.1, on which RFC 9937 is based: 20
//! datagrams in flight, and a threshold of 10.

use clearway_units::Timestamp;

use super::Prr;
use crate::testing::SIZE;
use crate::{Acknowledgement, DeliverySnapshot, SendIndex, SentPacket};

/// A flight of datagrams that are acknowledged one by one; all numbers are in datagrams.
struct Flight {
    prr: Option<Prr>,
    in_flight: u64,
    threshold: u64,
    marked: u64,
    index: u64,
    largest: Option<SendIndex>,
}

fn packet(index: u64) -> SentPacket {
    let (sent_at, delivery) = (Timestamp::from_nanos(1), DeliverySnapshot::default());
    SentPacket { index: SendIndex(index), bytes: SIZE, sent_at, delivery }
}

impl Flight {
    fn new(in_flight: u64, threshold: u64) -> Self {
        Self { prr: None, in_flight, threshold, marked: 0, index: 0, largest: None }
    }

    /// Reports an event that acknowledges `acked` and declares lost `lost` datagrams. Returns how
    /// many whole datagrams may then be sent.
    fn event(&mut self, acked: u64, lost: u64, leads_on: bool) -> u64 {
        let from = self.index;
        let acked: Vec<_> = (from..from + acked).map(packet).collect();
        let lost: Vec<_> = (from..from + lost).map(packet).collect();
        self.index += acked.len() as u64;
        if leads_on {
            self.largest = acked.last().map(|packet| packet.index).or(self.largest);
        } else {
            self.largest = Some(SendIndex(u64::MAX));
        }
        let prior = self.in_flight;
        self.in_flight -= (acked.len() + lost.len()) as u64;
        let event = Acknowledgement {
            now: Timestamp::from_nanos(1),
            acked: &acked,
            lost: &lost,
            next_index: SendIndex(1000),
            largest_acked: self.largest,
            rtt: None,
            prior_in_flight: prior * SIZE,
            bytes_in_flight: self.in_flight * SIZE,
            persistent_congestion: false,
            newly_ce_marked: self.marked,
            rate_sample: None,
            total_delivered: 0,
            total_lost: 0,
            round: 1,
            was_limited: true,
            was_window_limited: true,
            limited_time: core::time::Duration::ZERO,
        };
        let threshold = self.threshold * SIZE;
        match &mut self.prr {
            Some(prr) => prr.on_acknowledgement(&event, threshold, SIZE),
            empty => *empty = Some(Prr::begin(&event, threshold, SIZE)),
        }
        self.room()
    }

    fn window(&self) -> u64 {
        self.prr.unwrap().window()
    }

    fn room(&self) -> u64 {
        self.window().saturating_sub(self.in_flight * SIZE) / SIZE
    }

    fn send(&mut self, datagrams: u64) {
        self.in_flight += datagrams;
        for _ in 0..datagrams {
            self.prr.as_mut().unwrap().on_sent(SIZE);
        }
    }

    /// Like [`event`](Self::event), but also sends the allowed datagrams.
    fn event_and_send(&mut self, acked: u64, lost: u64, leads_on: bool) -> u64 {
        let room = self.event(acked, lost, leads_on);
        self.send(room);
        room
    }
}

#[test]
fn after_a_single_loss_one_datagram_is_sent_per_two_delivered() {
    let mut flight = Flight::new(20, 10);
    // The first packet is lost; the acknowledgment of the fourth reveals the loss. Two more
    // packets had been sent on the acknowledgments of the second and the third.
    let mut sent = vec![flight.event_and_send(1, 1, true)];
    let mut in_flight = vec![18];
    for _ in 0..18 {
        sent.push(flight.event_and_send(1, 0, true));
        in_flight.push(flight.in_flight - sent.last().unwrap());
    }
    // "R" and then "N" on every second acknowledgment, until the flight is at the threshold and
    // stays there. The RFC's example counts segments and rounds half a segment up; half a datagram
    // cannot be sent, so the first "N" comes one acknowledgment later here.
    assert_eq!(sent, [1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1]);
    let expected = [18, 18, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 9, 9, 9];
    assert_eq!(in_flight, expected);
    assert_eq!((flight.in_flight, sent.iter().sum()), (10, 10_u64), "as much as the threshold");
}

#[test]
fn cubic_sends_seven_datagrams_for_ten_delivered() {
    let mut flight = Flight::new(100, 70);
    let mut sent = flight.event_and_send(1, 1, true);
    for delivered in 2..=99_u64 {
        sent += flight.event_and_send(1, 0, true);
        if flight.in_flight > 71 {
            assert!(sent * 10 <= delivered * 7 + 10, "{delivered}: {sent}");
            assert!(sent * 10 + 10 >= delivered * 7, "{delivered}: {sent}");
        }
    }
    assert_eq!(flight.in_flight, 70);
}

#[test]
fn after_a_burst_loss_sending_matches_delivery() {
    // PRR-CRB: the first 15 of 20 datagrams are lost; "R R R".
    let mut flight = Flight::new(20, 10);
    assert_eq!((flight.event(1, 15, false), flight.in_flight), (1, 4));
    flight.send(1);
    for _ in 0..3 {
        assert_eq!((flight.event(1, 0, false), flight.in_flight), (1, 4));
        flight.send(1);
    }
}

#[test]
fn after_a_burst_loss_a_safe_acknowledgement_sends_one_more() {
    // PRR-SSRB: "2R 2R 2R", once no more losses are indicated.
    let mut flight = Flight::new(20, 10);
    assert_eq!((flight.event_and_send(1, 15, true), flight.in_flight), (1, 5));
    for expected in 6..=10 {
        assert_eq!(flight.event_and_send(1, 0, true), 2);
        assert_eq!(flight.in_flight, expected);
    }
    // Growth ends at the threshold.
    assert_eq!(flight.event_and_send(1, 0, true), 1);
    assert_eq!(flight.in_flight, 10);
}

#[test]
fn an_acknowledgement_that_brings_losses_or_marks_or_fills_a_gap_is_not_safe() {
    for (lost, marked, leads_on) in [(1, 0, true), (0, 1, true), (0, 0, false)] {
        let mut flight = Flight::new(20, 10);
        flight.event_and_send(1, 12, true);
        flight.marked = marked;
        assert_eq!(flight.event(1, lost, leads_on), 1, "{lost} {marked} {leads_on}");
    }
}

#[test]
fn the_proportion_is_rounded_up() {
    // §6.2: CEIL(prr_delivered x ssthresh / RecoverFS), to the byte.
    let prr = Prr { recover_fs: 30, prr_delivered: 10, prr_out: 2, window: 0 };
    for (threshold, send_count) in [(15, 3), (16, 4), (18, 4), (19, 5)] {
        assert_eq!(prr.proportion(threshold), send_count, "{threshold}");
    }
}

#[test]
fn losses_alone_permit_only_the_first_datagram() {
    // The loss timer expires repeatedly: the lost data is not all retransmitted in one burst.
    let mut flight = Flight::new(20, 10);
    assert_eq!(flight.event_and_send(0, 3, true), 1);
    for _ in 0..4 {
        assert_eq!(flight.event_and_send(0, 3, true), 0);
    }
    assert_eq!(flight.in_flight, 6);
    // The repair continues with the next delivery.
    assert_eq!(flight.event_and_send(1, 0, true), 2);
}

#[test]
fn the_first_datagram_stays_permitted_until_it_is_sent() {
    let mut flight = Flight::new(20, 10);
    for _ in 0..4 {
        assert_eq!(flight.event(0, 1, true), 1);
    }
    flight.send(1);
    assert_eq!(flight.event(0, 1, true), 0);
}

#[test]
fn small_acknowledgements_add_up_to_a_datagram() {
    // A whole datagram is lost, and then 100 bytes at a time.
    let mut prr =
        Prr { recover_fs: 20 * SIZE, prr_delivered: SIZE, prr_out: SIZE, window: 18 * SIZE };
    let mut room = 0;
    for _ in 0..12 {
        prr.prr_delivered += 100;
        room = prr.reduction_bound(100, false, SIZE);
    }
    assert_eq!(room, SIZE);
}

#[test]
fn a_stalled_application_may_catch_up_but_not_beyond_the_threshold() {
    // The sender sends nothing for eight acknowledgments, and then everything that it could have
    // sent.
    let mut flight = Flight::new(20, 10);
    flight.event_and_send(1, 1, true);
    for _ in 0..6 {
        flight.event(1, 0, true);
    }
    // This is half of the seven delivered datagrams, less one sent.
    assert_eq!((flight.in_flight, flight.room()), (13, 2));
    // The pause lasts so long that the flight falls below the threshold.
    let rooms = [(); 4].map(|()| flight.event(1, 0, true));
    assert_eq!((flight.in_flight, rooms), (9, [3, 3, 0, 1]));
    for _ in 0..5 {
        flight.event(1, 0, true);
    }
    assert_eq!((flight.in_flight, flight.room()), (4, 6), "up to the threshold, and no more");
}

#[test]
fn one_acknowledgement_of_everything_permits_the_whole_threshold() {
    // The last ACK is followed by an aggregated one.
    let mut flight = Flight::new(20, 10);
    assert_eq!(flight.event_and_send(19, 1, true), 10);
    let mut flight = Flight::new(20, 10);
    flight.event_and_send(1, 1, true);
    assert_eq!(flight.event_and_send(18, 0, true), 9);
    assert_eq!(flight.in_flight, 10);
}

#[test]
fn aggregation_does_not_change_how_much_is_sent() {
    let totals = [1, 2, 3, 6, 18].map(|batch| {
        let mut flight = Flight::new(20, 10);
        let mut sent = flight.event_and_send(1, 1, true);
        for _ in 0..18 / batch {
            sent += flight.event_and_send(batch, 0, true);
        }
        (sent, flight.in_flight)
    });
    assert_eq!(totals, [(10, 10); 5]);
}

#[test]
fn probes_count_as_sent() {
    let mut flight = Flight::new(20, 10);
    flight.event_and_send(1, 1, true);
    // Two probes are sent although the window is full; the next deliveries compensate for them.
    flight.send(2);
    let rooms: Vec<_> = (0..8).map(|_| flight.event_and_send(1, 0, true)).collect();
    assert_eq!(rooms, [0, 0, 0, 0, 0, 0, 1, 0], "eight delivered, three sent");
}

#[test]
fn nothing_overflows() {
    // These subtractions have crashed other implementations: more was sent than allowed, or more is
    // in flight than ever before.
    for in_flight in [0, 1, u64::MAX] {
        for threshold in [0, 1, u64::MAX] {
            let mut prr =
                Prr { recover_fs: 1, prr_delivered: u64::MAX, prr_out: u64::MAX, window: u64::MAX };
            prr.on_sent(u64::MAX);
            let acked = [SentPacket { bytes: u64::MAX, ..packet(1) }; 2];
            let event = Acknowledgement {
                now: Timestamp::from_nanos(1),
                acked: &acked,
                lost: &[],
                next_index: SendIndex(2),
                largest_acked: Some(SendIndex(1)),
                rtt: None,
                prior_in_flight: 0,
                bytes_in_flight: in_flight,
                persistent_congestion: false,
                newly_ce_marked: 0,
                rate_sample: None,
                total_delivered: 0,
                total_lost: 0,
                round: 0,
                was_limited: false,
                was_window_limited: false,
                limited_time: core::time::Duration::ZERO,
            };
            prr.on_acknowledgement(&event, threshold, u64::MAX);
            assert!(prr.window() >= in_flight);
            let begun = Prr::begin(&event, threshold, u64::MAX);
            assert!(begun.window() >= in_flight);
        }
    }
}
