//! What holds on every link.

use core::time::Duration;

use clearway_units::Rate;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::{
    Corrupt, Ecn, Jitter, LossModel, LossRule, Probability, QueueLimit, Reorder, Step, Window,
};

fn probability() -> impl Strategy<Value = Probability> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..1.0].prop_map(|value| Probability::new(value).unwrap())
}

/// Mostly up to some milliseconds; sometimes anything.
fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        1 => Just(Duration::ZERO),
        8 => (0..20_000_000u64).prop_map(Duration::from_nanos),
        1 => any::<Duration>(),
    ]
}

fn rate() -> impl Strategy<Value = Option<Rate>> {
    let bytes = prop_oneof![1 => Just(0), 8 => 1_000..10_000_000u64, 1 => any::<u64>()];
    option::of(bytes.prop_map(Rate::from_bytes_per_second))
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![Just(Way::ToServer), Just(Way::ToClient)]
}

fn window() -> impl Strategy<Value = Window> {
    prop_oneof![
        Just(Window::Always),
        (duration(), option::of(duration()))
            .prop_map(|(after, length)| Window::FromFirstDatagram { after, length }),
        (way(), 0..5000u64, option::of(duration()))
            .prop_map(|(way, bytes, length)| Window::AfterBytes { way, bytes, length }),
        (duration(), duration()).prop_map(|(from, until)| Window::Absolute {
            from: Timestamp::from_origin(from),
            until: Timestamp::from_origin(until),
        }),
    ]
}

fn loss_rule() -> impl Strategy<Value = LossRule> {
    let model = prop_oneof![
        probability().prop_map(|probability| LossModel::Random { probability }),
        (probability(), 0..5u32).prop_map(|(probability, maximum_run)| {
            LossModel::RandomCapped { probability, maximum_run }
        }),
        (probability(), 0..5u32)
            .prop_map(|(start, maximum_run)| LossModel::Burst { start, maximum_run }),
        [probability(), probability(), probability(), probability()].prop_map(
            |[good_to_bad, bad_to_good, loss_in_good, loss_in_bad]| LossModel::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_in_good,
                loss_in_bad,
            }
        ),
        vec(0..40u64, 0..10).prop_map(|numbers| LossModel::List { numbers }),
    ];
    (model, window()).prop_map(|(model, window)| LossRule { model, window })
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let times = (
        duration(),
        vec((duration(), duration()).prop_map(|(after, value)| Step { after, value }), 0..3),
        (duration(), any::<bool>())
            .prop_map(|(range, reorder_by_jitter)| Jitter { range, reorder_by_jitter }),
        option::of(duration()),
    );
    let bottleneck = (
        rate(),
        vec((duration(), rate()).prop_map(|(after, value)| Step { after, value }), 0..3),
        any::<u16>(),
        (option::of(0..5usize), option::of(0..5000u64))
            .prop_map(|(packets, bytes)| QueueLimit { packets, bytes }),
        option::of(duration()),
    );
    let impairments = (
        vec(loss_rule(), 0..3),
        (probability(), duration()).prop_map(|(probability, by)| Reorder { probability, by }),
        probability(),
        (probability(), option::of(0..5u32), option::of(0..50usize)).prop_map(
            |(probability, maximum_run, within)| Corrupt { probability, maximum_run, within },
        ),
        option::of(0..1500usize),
        any::<bool>(),
    );
    (times, bottleneck, impairments).prop_map(|(times, bottleneck, impairments)| {
        let (delay, delay_steps, jitter, tick) = times;
        let (rate, rate_steps, overhead, queue, mark_above) = bottleneck;
        let (loss, reorder, duplicate, corrupt, mtu, bleach) = impairments;
        Conditions {
            delay,
            delay_steps,
            jitter,
            tick,
            rate,
            rate_steps,
            overhead,
            queue,
            mark_above,
            loss,
            reorder,
            duplicate,
            corrupt,
            mtu,
            bleach,
        }
    })
}

fn config() -> impl Strategy<Value = LinkConfig> {
    let rebind = (duration(), option::of(duration()), any::<bool>())
        .prop_map(|(first, every, address)| Rebind { first, every, address });
    (conditions(), conditions(), option::of(rebind), any::<u64>()).prop_map(
        |(to_server, to_client, rebind, seed)| LinkConfig { to_server, to_client, rebind, seed },
    )
}

/// How long the driver waits first, in which direction it sends, how much, and whether it polls then.
type Action = (u64, Way, usize, bool);

fn actions() -> impl Strategy<Value = Vec<Action>> {
    vec((0..3_000_000u64, way(), 0..1500usize, any::<bool>()), 1..60)
}

/// Asserts what must hold after each call.
fn check(link: &Link) {
    for way in [Way::ToServer, Way::ToClient] {
        let counters = link.counters().of(way);
        assert_eq!(
            counters.received + counters.duplicated,
            counters.delivered + counters.dropped() + counters.in_pipe,
            "{way:?}: {counters}"
        );
    }
}

fn run(config: LinkConfig, actions: &[Action]) -> (Vec<Delivery>, Counters) {
    let mut link = Link::new(config);
    let mut deliveries = Vec::new();
    let mut now = Timestamp::ORIGIN;
    for (number, (wait, way, length, polls)) in (0u32..).zip(actions) {
        now += Duration::from_nanos(*wait);
        let payload = vec![0; *length];
        let outcome = link.submit(now, *way, Datagram { payload, ecn: Ecn::Ect1, flow: number });
        assert!(!matches!(outcome, Outcome::Passes(at) if at < now), "{outcome:?} at {now:?}");
        check(&link);
        while *polls && let Some(delivery) = link.poll(now) {
            assert!(delivery.at <= now);
            deliveries.push(delivery);
            check(&link);
        }
    }
    while let Some(at) = link.deadline() {
        deliveries.extend(core::iter::from_fn(|| link.poll(at)));
        check(&link);
        assert!(link.deadline().is_none_or(|next| next > at));
    }
    (deliveries, link.counters().clone())
}

proptest! {
    #[test]
    fn nothing_is_lost_or_invented(config in config(), actions in actions()) {
        let (deliveries, counters) = run(config.clone(), &actions);
        prop_assert!(deliveries.is_sorted_by_key(|delivery| delivery.at));
        let mut seen = vec![0; actions.len()];
        for delivery in &deliveries {
            let flow = usize::try_from(delivery.datagram.flow).unwrap();
            let (_, way, length, _) = actions[flow];
            prop_assert_eq!(delivery.way, way);
            prop_assert_eq!(delivery.datagram.payload.len(), length);
            let changed = delivery.datagram.payload.iter().filter(|byte| **byte != 0).count();
            prop_assert!(changed <= 1);
            seen[flow] += 1;
        }
        prop_assert!(seen.iter().all(|count| *count <= 2));
        let copies = u64::try_from(seen.iter().filter(|count| **count == 2).count()).unwrap();
        prop_assert!(copies <= counters.to_server.duplicated + counters.to_client.duplicated);
        // And again.
        prop_assert_eq!(run(config, &actions), (deliveries, counters));
    }

    #[test]
    fn order_is_kept_unless_something_may_change_it(
        mut conditions in conditions(),
        actions in actions(),
    ) {
        conditions.jitter.reorder_by_jitter = false;
        conditions.reorder = Reorder::default();
        let config = LinkConfig {
            to_server: conditions.clone(),
            to_client: conditions,
            ..LinkConfig::default()
        };
        let (deliveries, counters) = run(config, &actions);
        for way in [Way::ToServer, Way::ToClient] {
            let one = deliveries.iter().filter(|delivery| delivery.way == way);
            prop_assert!(one.is_sorted_by_key(|delivery| delivery.datagram.flow));
            prop_assert_eq!(counters.of(way).reordered, 0);
        }
    }

    #[test]
    fn the_bottleneck_is_never_faster_than_its_rate(
        actions in actions(),
        bytes_per_second in 1_000..10_000_000u64,
    ) {
        let rate = Rate::from_bytes_per_second(bytes_per_second);
        let to_client = Conditions { rate: Some(rate), ..Conditions::default() };
        let config = LinkConfig { to_client, ..LinkConfig::default() };
        let (deliveries, _) = run(config, &actions);
        let one: Vec<_> =
            deliveries.iter().filter(|delivery| delivery.way == Way::ToClient).collect();
        for pair in one.windows(2) {
            let bytes = u64::try_from(pair[1].datagram.payload.len()).unwrap();
            let apart = pair[1].at.checked_since(pair[0].at).unwrap();
            prop_assert!(apart >= rate.time_for(bytes).unwrap());
        }
    }
}
