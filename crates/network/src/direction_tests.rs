use clearway_units::Rate;

use super::*;
use crate::testing::{at_ms, datagram, drain, flows, likely, link_to_client, ms, passes, stream};
use crate::{
    Corrupt, EcnTreatment, Jitter, Link, LinkConfig, LossModel, LossRule, Outcome, Probability,
    QueueLimit, Reorder, Step, Window,
};

const RATE: Option<Rate> = Some(Rate::from_bits_per_second(10_000_000));

fn always_corrupt() -> Corrupt {
    Corrupt { probability: Probability::ALWAYS, ..Corrupt::default() }
}

#[test]
fn a_perfect_wire_changes_nothing() {
    let mut link = link_to_client(Conditions::default());
    let deliveries = stream(&mut link, 100, 1200, ms(1));
    assert_eq!(flows(&deliveries), (0..100).collect::<Vec<_>>());
    for delivery in &deliveries {
        assert_eq!(delivery.at, at_ms(delivery.datagram.flow.into()));
        assert_eq!(delivery.datagram, datagram(delivery.datagram.flow, 1200));
        assert_eq!((delivery.way, delivery.binding), (Way::ToClient, 0));
    }
}

#[test]
fn the_buffer_is_moved() {
    let mut link = link_to_client(Conditions { delay: ms(1), rate: RATE, ..Conditions::default() });
    let datagram = datagram(0, 1200);
    let buffer = datagram.payload.as_ptr();
    link.submit(at_ms(0), Way::ToClient, datagram);
    assert_eq!(drain(&mut link)[0].datagram.payload.as_ptr(), buffer);
}

#[test]
fn delay_is_exact_and_behind_the_bottleneck() {
    let mut link = link_to_client(Conditions { delay: ms(15), rate: RATE, ..Default::default() });
    link.submit(at_ms(3), Way::ToClient, datagram(0, 1250));
    assert_eq!(link.deadline(), Some(at_ms(19)));
    link.submit(at_ms(3), Way::ToClient, datagram(1, 1250));
    assert_eq!(link.deadline(), Some(at_ms(19)));
    assert_eq!(link.poll(Timestamp::from_nanos(18_999_999)), None);
    let times: Vec<_> = drain(&mut link).iter().map(|delivery| delivery.at).collect();
    assert_eq!(times, [at_ms(19), at_ms(20)]);
}

#[test]
fn delay_steps_apply_from_their_time_and_preserve_order() {
    let delay_steps =
        vec![Step { after: ms(40), value: ms(10) }, Step { after: ms(20), value: ms(50) }];
    let mut link =
        link_to_client(Conditions { delay: ms(5), delay_steps, ..Conditions::default() });
    let deliveries = stream(&mut link, 8, 100, ms(10));
    let times: Vec<_> = deliveries.iter().map(|delivery| delivery.at).collect();
    // Datagrams sent at 40, 50 and 60 ms wait for the one that was sent at 30 ms.
    assert_eq!(times, [5, 15, 70, 80, 80, 80, 80, 80].map(at_ms));
    assert_eq!(flows(&deliveries), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn jitter_is_uniform_and_keeps_the_order() {
    let jitter = Jitter { range: ms(4), reorder_by_jitter: false };
    let mut link = link_to_client(Conditions { delay: ms(10), jitter, ..Conditions::default() });
    // The datagrams are far enough apart that none waits for another.
    let deliveries = stream(&mut link, 10_000, 100, ms(20));
    let mut sum = Duration::ZERO;
    let mut seen = (ms(100), ms(0));
    for delivery in &deliveries {
        let sent = at_ms(20 * u64::from(delivery.datagram.flow));
        let delay = delivery.at.checked_since(sent).unwrap();
        seen = (seen.0.min(delay), seen.1.max(delay));
        sum += delay;
    }
    assert!(seen.0 >= ms(6) && seen.1 <= ms(14), "{seen:?}");
    assert!(seen.0 < Duration::from_micros(6010) && seen.1 > Duration::from_micros(13_990));
    let mean = sum / 10_000;
    assert!(Duration::from_micros(9900) < mean && mean < Duration::from_micros(10_100), "{mean:?}");

    let mut link = link_to_client(Conditions { delay: ms(10), jitter, ..Conditions::default() });
    let deliveries = stream(&mut link, 1000, 100, ms(1));
    assert!(flows(&deliveries).is_sorted());
    assert_eq!(link.counters().to_client.reordered, 0);
}

#[test]
fn jitter_reorders_if_permitted() {
    let jitter = Jitter { range: ms(4), reorder_by_jitter: true };
    let mut link = link_to_client(Conditions { delay: ms(10), jitter, ..Conditions::default() });
    let deliveries = stream(&mut link, 1000, 100, ms(1));
    assert!(!flows(&deliveries).is_sorted());
    assert!(link.counters().to_client.reordered > 100);
}

#[test]
fn a_delay_is_never_negative() {
    let jitter = Jitter { range: ms(4), reorder_by_jitter: true };
    let mut link = link_to_client(Conditions { jitter, ..Conditions::default() });
    let mut at_once = 0;
    for delivery in stream(&mut link, 1000, 100, ms(10)) {
        let sent = at_ms(10 * u64::from(delivery.datagram.flow));
        at_once += u32::from(delivery.at == sent);
        assert!(delivery.at >= sent);
    }
    assert!((450..550).contains(&at_once), "{at_once}");
}

#[test]
fn ticks_round_up() {
    let tick = Some(ms(4));
    let mut link = link_to_client(Conditions { delay: ms(1), tick, ..Conditions::default() });
    let times: Vec<_> =
        stream(&mut link, 9, 100, ms(1)).iter().map(|delivery| delivery.at).collect();
    assert_eq!(times, [4, 4, 4, 4, 8, 8, 8, 8, 12].map(at_ms));
}

#[test]
fn a_tick_of_zero_is_none() {
    let tick = Some(Duration::ZERO);
    let mut link = link_to_client(Conditions { delay: ms(1), tick, ..Conditions::default() });
    link.submit(at_ms(2), Way::ToClient, datagram(0, 1));
    assert_eq!(link.deadline(), Some(at_ms(3)));
}

#[test]
fn the_queue_is_counted() {
    let queue = QueueLimit { packets: Some(25), bytes: None };
    let mut link = link_to_client(Conditions { rate: RATE, queue, ..Conditions::default() });
    let deliveries = stream(&mut link, 40, 1250, Duration::ZERO);
    assert_eq!(flows(&deliveries), (0..26).collect::<Vec<_>>());
    assert_eq!(link.counters().to_client.dropped_queue, 14);
}

#[test]
fn a_lost_datagram_has_used_the_bottleneck() {
    let loss =
        vec![LossRule { model: LossModel::List { numbers: vec![1] }, window: Window::Always }];
    let mut link = link_to_client(Conditions { rate: RATE, loss, ..Conditions::default() });
    let deliveries = stream(&mut link, 2, 1250, Duration::ZERO);
    assert_eq!(flows(&deliveries), [1]);
    assert_eq!(deliveries[0].at, at_ms(2));
}

#[test]
fn a_loss_is_counted_under_the_first_rule_that_applies() {
    let list = LossModel::List { numbers: vec![1, 2] };
    let loss = vec![
        LossRule { model: list, window: Window::Always },
        LossRule::blackhole(Window::FromFirstDatagram { after: ms(1), length: Some(ms(3)) }),
    ];
    let mut link = link_to_client(Conditions { loss, ..Conditions::default() });
    let passed = passes(&mut link, Way::ToClient, 6);
    assert_eq!(passed, [false, false, false, false, true, true]);
    let counters = &link.counters().to_client;
    assert_eq!((counters.lost_listed, counters.lost_random), (2, 2));
}

#[test]
fn loss_in_both_directions_after_the_first_byte_of_the_answer() {
    let window = Window::AfterBytes { way: Way::ToClient, bytes: 1, length: Some(ms(20)) };
    let conditions =
        || Conditions { loss: vec![LossRule::blackhole(window)], ..Conditions::default() };
    let mut link = Link::new(LinkConfig {
        to_server: conditions(),
        to_client: conditions(),
        ..Default::default()
    });
    let mut passes = |now: u64, way| {
        let now = Timestamp::from_nanos(now);
        link.submit(now, way, datagram(0, 100)).has_entered()
    };
    assert!(passes(0, Way::ToServer));
    assert!(passes(5_000_000, Way::ToServer));
    // The response begins: its first datagram passes, and no later one does.
    assert!(passes(7_000_000, Way::ToClient));
    assert!(!passes(7_000_000, Way::ToClient));
    assert!(!passes(7_000_000, Way::ToServer));
    assert!(!passes(26_999_999, Way::ToServer));
    assert!(!passes(26_999_999, Way::ToClient));
    assert!(passes(27_000_000, Way::ToServer));
    assert!(passes(27_000_000, Way::ToClient));
}

#[test]
fn dropped_datagrams_do_not_open_a_window() {
    let window = Window::AfterBytes { way: Way::ToClient, bytes: 200, length: None };
    let lost = LossRule { model: LossModel::List { numbers: vec![1, 2] }, window: Window::Always };
    let loss = vec![lost, LossRule::blackhole(window)];
    let mut link = link_to_client(Conditions { loss, ..Conditions::default() });
    let passed = passes(&mut link, Way::ToClient, 6);
    assert_eq!(passed, [false, false, true, true, false, false]);
}

#[test]
fn held_back_datagrams_are_overtaken() {
    let reorder = Reorder { probability: likely(0.1), by: ms(5) };
    let mut link = link_to_client(Conditions { delay: ms(10), reorder, ..Conditions::default() });
    let deliveries = stream(&mut link, 10_000, 100, ms(1));
    let mut held_back = 0;
    for delivery in &deliveries {
        let sent = at_ms(delivery.datagram.flow.into());
        let delay = delivery.at.checked_since(sent).unwrap();
        assert!(delay == ms(10) || delay == ms(15), "{delay:?}");
        held_back += u64::from(delay == ms(15));
    }
    assert!((900..1100).contains(&held_back), "{held_back}");
    // A datagram is not overtaken if the next five are all delayed too, which hardly ever happens.
    let reordered = link.counters().to_client.reordered;
    assert!(reordered <= held_back && held_back - reordered < 5, "{reordered} of {held_back}");
}

#[test]
fn duplicates_arrive_with_their_original() {
    let duplicate = likely(0.2);
    let mut link = link_to_client(Conditions { delay: ms(3), duplicate, ..Conditions::default() });
    let deliveries = stream(&mut link, 1000, 100, ms(1));
    let copies = deliveries.len() - 1000;
    assert!((150..250).contains(&copies), "{copies}");
    assert_eq!(usize::try_from(link.counters().to_client.duplicated), Ok(copies));
    assert_eq!(link.counters().to_client.reordered, 0);
    let is_twice = |pair: &&[Delivery]| pair[1] == Delivery { is_copy: true, ..pair[0].clone() };
    let twice = deliveries.windows(2).filter(is_twice).count();
    assert_eq!(twice, copies);
}

#[test]
fn a_corrupt_datagram_arrives_with_one_byte_changed() {
    let corrupt = Corrupt { probability: likely(0.3), ..Corrupt::default() };
    let mut link = link_to_client(Conditions { corrupt, ..Conditions::default() });
    let deliveries = stream(&mut link, 5000, 40, ms(1));
    assert_eq!(deliveries.len(), 5000);
    let mut positions = [0; 40];
    let mut corrupted = 0;
    for delivery in &deliveries {
        let payload = &delivery.datagram.payload;
        let changed: Vec<usize> = (0..40).filter(|position| payload[*position] != 0).collect();
        assert!(payload.len() == 40 && changed.len() <= 1);
        for position in changed {
            positions[position] += 1;
            corrupted += 1;
        }
    }
    assert!((1400..1600).contains(&corrupted), "{corrupted}");
    assert_eq!(link.counters().to_client.corrupted, corrupted);
    assert!(positions.iter().all(|count| *count > 10), "{positions:?}");
}

#[test]
fn corruption_stays_within_its_bounds() {
    let corrupt = Corrupt { maximum_run: Some(3), within: Some(5), ..always_corrupt() };
    let mut link = link_to_client(Conditions { corrupt, ..Conditions::default() });
    let deliveries = stream(&mut link, 400, 40, ms(1));
    let mut positions = [false; 5];
    for (index, delivery) in deliveries.iter().enumerate() {
        let (head, tail) = delivery.datagram.payload.split_at(5);
        assert!(tail.iter().all(|byte| *byte == 0));
        assert_eq!(head.iter().any(|byte| *byte != 0), index % 4 != 3, "datagram {index}");
        for (position, byte) in positions.iter_mut().zip(head) {
            *position |= *byte != 0;
        }
    }
    assert_eq!(positions, [true; 5]);
    assert_eq!(link.counters().to_client.corrupted, 300);
}

#[test]
fn corruption_spares_version_negotiation_if_asked_to() {
    let version_negotiation = [&[0x80, 0, 0, 0, 0, 8][..], &[7; 30]].concat();
    let initial = [&[0xc0, 0, 0, 0, 1, 8][..], &[7; 30]].concat();
    for spare_version_negotiation in [false, true] {
        let corrupt = Corrupt { spare_version_negotiation, ..always_corrupt() };
        let mut link = link_to_client(Conditions { corrupt, ..Conditions::default() });
        for payload in [&version_negotiation, &initial] {
            let datagram = Datagram { payload: payload.clone(), ..datagram(0, 36) };
            link.submit(at_ms(0), Way::ToClient, datagram);
        }
        let delivered = drain(&mut link);
        let intact = delivered.iter().filter(|delivery| {
            [&version_negotiation, &initial].contains(&&delivery.datagram.payload)
        });
        assert_eq!(intact.count(), usize::from(spare_version_negotiation));
    }
}

#[test]
fn an_empty_datagram_has_nothing_to_corrupt() {
    let corrupt = always_corrupt();
    let mut link = link_to_client(Conditions { corrupt, ..Conditions::default() });
    assert_eq!(stream(&mut link, 3, 0, ms(1)).len(), 3);
    assert_eq!(link.counters().to_client.corrupted, 0);
}

#[test]
fn only_what_fits_passes() {
    let mut link = link_to_client(Conditions { mtu: Some(1400), ..Conditions::default() });
    let fits = link.submit(at_ms(0), Way::ToClient, datagram(0, 1400));
    let too_large = link.submit(at_ms(0), Way::ToClient, datagram(1, 1401));
    assert_eq!(fits, Outcome::Entered { number: 0 });
    assert_eq!(too_large, Outcome::Dropped { number: 1, reason: DropReason::TooLarge });
    assert_eq!(link.counters().to_client.too_large, 1);
}

#[test]
fn what_fits_may_change() {
    let step = |at, value| Step { after: ms(at), value };
    let mtu_steps = vec![step(20, None), step(10, Some(1300))];
    let mut link =
        link_to_client(Conditions { mtu: Some(1400), mtu_steps, ..Conditions::default() });
    let mut passes = |at, length| {
        let outcome = link.submit(at_ms(at), Way::ToClient, datagram(0, length));
        matches!(outcome, Outcome::Entered { .. })
    };
    // Times are counted from the first datagram.
    assert_eq!(
        [(5, 1400), (14, 1400), (14, 1401)].map(|(at, len)| passes(at, len)),
        [true, true, false]
    );
    assert_eq!(
        [(15, 1301), (15, 1300), (24, 1400)].map(|(at, len)| passes(at, len)),
        [false, true, false]
    );
    assert!(passes(25, 9000));
}

#[test]
fn the_ecn_field_is_kept_or_changed_as_told() {
    use Ecn::{Ce, Ect0, Ect1, NotEct};
    let codepoints = [NotEct, Ect0, Ect1, Ce];
    for (ecn, expected, [bleached, remarked, dropped]) in [
        (EcnTreatment::Kept, &codepoints[..], [0, 0, 0]),
        (EcnTreatment::Cleared, &[NotEct; 4], [3, 0, 0]),
        (EcnTreatment::ToEct1, &[NotEct, Ect1, Ect1, Ce], [0, 1, 0]),
        (EcnTreatment::ToCe, &[NotEct, Ce, Ce, Ce], [0, 2, 0]),
        (EcnTreatment::Dropped, &[NotEct], [0, 0, 3]),
    ] {
        // From 10 ms on, the field is kept.
        let ecn_steps = vec![Step { after: ms(10), value: EcnTreatment::Kept }];
        let mut link = link_to_client(Conditions { ecn, ecn_steps, ..Conditions::default() });
        for at in [0, 10] {
            for ecn in codepoints {
                link.submit(at_ms(at), Way::ToClient, Datagram { ecn, ..datagram(0, 10) });
            }
        }
        let seen: Vec<_> = drain(&mut link).iter().map(|delivery| delivery.datagram.ecn).collect();
        assert_eq!(seen, [expected, &codepoints].concat(), "{ecn:?}");
        let counters = &link.counters().to_client;
        assert_eq!(
            [counters.bleached, counters.remarked, counters.dropped_ecn],
            [bleached, remarked, dropped]
        );
    }
}

#[test]
fn a_long_wait_marks_ecn_capable_datagrams() {
    let mark_above = Some(ms(2));
    let mut link = link_to_client(Conditions { rate: RATE, mark_above, ..Conditions::default() });
    let codepoints = [Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct, Ecn::Ce];
    for ecn in codepoints {
        link.submit(at_ms(0), Way::ToClient, Datagram { ecn, ..datagram(0, 1250) });
    }
    let seen: Vec<_> = drain(&mut link).iter().map(|delivery| delivery.datagram.ecn).collect();
    // The datagrams wait 0, 1, 2, 3 … ms.
    assert_eq!(seen, [Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::NotEct, Ecn::Ce]);
    assert_eq!(link.counters().to_client.marked, 2);
}

/// Fills the pipe with datagrams of `size` bytes and returns how many fit.
fn fill(link: &mut Link, now: Timestamp, size: usize) -> usize {
    let mut taken = 0;
    while link.submit(now, Way::ToClient, datagram(0, size)).has_entered() {
        taken += 1;
    }
    taken
}

#[test]
fn the_pipe_is_bounded() {
    let mut link = link_to_client(Conditions { delay: ms(1000), ..Conditions::default() });
    let size = 64 << 10;
    let places = PIPE_LIMIT / (size + DATAGRAM_COST);
    assert_eq!(fill(&mut link, at_ms(0), size), places);
    assert_eq!(link.counters().to_client.dropped_pipe, 1);
    assert_eq!(drain(&mut link).len(), places);
    // All of the space is available again.
    assert_eq!(fill(&mut link, at_ms(5000), size), places);
}

#[test]
fn a_datagram_costs_at_most_what_is_counted() {
    let places = size_of::<Transit>() + size_of::<Due>() + size_of::<QueuedDatagram>();
    assert!(places + 2 * size_of::<usize>() <= DATAGRAM_COST, "{places}");
}

#[test]
fn overhead_takes_time_and_room() {
    let queue = QueueLimit { packets: None, bytes: Some(1250) };
    let conditions = Conditions { rate: RATE, overhead: 28, queue, ..Conditions::default() };
    let mut link = link_to_client(conditions);
    let deliveries = stream(&mut link, 3, 1222, Duration::ZERO);
    let times: Vec<_> = deliveries.iter().map(|delivery| delivery.at).collect();
    assert_eq!(times, [at_ms(1), at_ms(2)]);
}

#[test]
fn copies_take_their_place_in_the_pipe() {
    let duplicate = Probability::ALWAYS;
    let mut link =
        link_to_client(Conditions { delay: ms(1000), duplicate, ..Conditions::default() });
    let size = 1 << 20;
    let places = PIPE_LIMIT / (size + DATAGRAM_COST);
    // The capacity is odd, so there is no room for the last datagram's copy.
    assert_eq!(places, 63);
    assert_eq!(fill(&mut link, at_ms(0), size), 32);
    assert_eq!(link.counters().to_client.duplicated, 31);
    assert_eq!(drain(&mut link).len(), places);
}

#[test]
fn a_queue_of_lost_datagrams_is_bounded() {
    let loss = vec![LossRule::random(Probability::ALWAYS)];
    let rate = Some(Rate::ZERO);
    let mut link = link_to_client(Conditions { rate, loss, ..Conditions::default() });
    let mut enter = || link.submit(at_ms(0), Way::ToClient, datagram(0, 0));
    let mut remembered = 0u64;
    let end = loop {
        match enter() {
            Outcome::Dropped { reason: DropReason::Random, .. } => remembered += 1,
            other => break other,
        }
    };
    assert_eq!(end, Outcome::Dropped { number: remembered, reason: DropReason::Pipe });
    let remembered = usize::try_from(remembered).unwrap();
    assert!(remembered <= PIPE_LIMIT / DATAGRAM_COST);
}
