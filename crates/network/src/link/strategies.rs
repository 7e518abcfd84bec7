//! Strategies that generate links of all kinds.

use core::time::Duration;

use clearway_units::{Rate, Timestamp};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::{
    AckFilter, CoDel, Conditions, Corrupt, Discipline, DualPi2, EcnTreatment, FlowDelay, Freezes,
    Host, Jitter, LinkConfig, LossModel, LossRule, Policer, Probability, QueueLimit, Rebind,
    Reorder, Step, Trace, Way, Window,
};

fn probability() -> BoxedStrategy<Probability> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..1.0]
        .prop_map(|value| Probability::new(value).unwrap())
        .boxed()
}

/// Generates durations: usually up to 20 ms, sometimes any value.
pub(super) fn duration() -> BoxedStrategy<Duration> {
    prop_oneof![
        1 => Just(Duration::ZERO),
        8 => (0..20_000_000u64).prop_map(Duration::from_nanos),
        1 => any::<Duration>(),
    ]
    .boxed()
}

fn rate() -> BoxedStrategy<Option<Rate>> {
    let bytes = prop_oneof![1 => Just(0), 8 => 1_000..10_000_000u64, 1 => any::<u64>()];
    option::of(bytes.prop_map(Rate::from_bytes_per_second)).boxed()
}

pub(super) fn way() -> BoxedStrategy<Way> {
    prop_oneof![Just(Way::ToServer), Just(Way::ToClient)].boxed()
}

fn window() -> BoxedStrategy<Window> {
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
    .boxed()
}

fn loss_rule() -> BoxedStrategy<LossRule> {
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
    (model, window()).prop_map(|(model, window)| LossRule { model, window }).boxed()
}

fn freezes() -> BoxedStrategy<Freezes> {
    (duration(), duration(), duration(), option::of(0..5u64), duration())
        .prop_map(|(start, period, length, count, spread)| Freezes {
            start,
            period,
            length,
            count,
            spread,
        })
        .boxed()
}

fn queue_limit() -> BoxedStrategy<QueueLimit> {
    (option::of(0..5usize), option::of(0..5000u64))
        .prop_map(|(packets, bytes)| QueueLimit { packets, bytes })
        .boxed()
}

fn discipline() -> BoxedStrategy<Discipline> {
    let codel = (duration(), duration(), any::<bool>()).prop_map(|(target, interval, ecn)| CoDel {
        target,
        interval,
        ecn,
    });
    let dual = (duration(), duration(), duration(), 0.0..4.0, 0.0..9.0, 0.0..90.0).prop_map(
        |(target, step, update_interval, coupling, alpha, beta)| DualPi2 {
            target,
            step,
            update_interval,
            coupling,
            alpha,
            beta,
        },
    );
    prop_oneof![
        Just(Discipline::DropTail),
        codel.prop_map(Discipline::CoDel),
        dual.prop_map(Discipline::DualPi2),
    ]
    .boxed()
}

fn trace() -> BoxedStrategy<Trace> {
    vec(0..30u64, 1..20)
        .prop_map(|mut times| {
            times.sort_unstable();
            times.push(30);
            let lines: Vec<_> = times.iter().map(u64::to_string).collect();
            Trace::parse(&lines.join("\n")).unwrap()
        })
        .boxed()
}

fn policer() -> BoxedStrategy<Policer> {
    let rate = (0..3_000_000u64).prop_map(Rate::from_bytes_per_second);
    (rate, 0..5000u64).prop_map(|(rate, bucket)| Policer { rate, bucket }).boxed()
}

fn ack_filter() -> BoxedStrategy<AckFilter> {
    (0..5u32, 0..1500usize)
        .prop_map(|(keep_one_of, smaller_than)| AckFilter { keep_one_of, smaller_than })
        .boxed()
}

fn host() -> BoxedStrategy<Host> {
    (queue_limit(), duration(), duration(), 0..4usize)
        .prop_map(|(buffer, service, batch_service, batch)| Host {
            buffer,
            service,
            batch_service,
            batch,
        })
        .boxed()
}

pub(super) fn conditions() -> BoxedStrategy<Conditions> {
    let times = (
        duration(),
        vec((duration(), duration()).prop_map(|(after, value)| Step { after, value }), 0..3),
        (duration(), any::<bool>())
            .prop_map(|(range, reorder_by_jitter)| Jitter { range, reorder_by_jitter }),
        option::of(duration()),
        option::of(freezes()),
    );
    let bottleneck = (
        rate(),
        vec((duration(), rate()).prop_map(|(after, value)| Step { after, value }), 0..3),
        any::<u16>(),
        queue_limit(),
        option::of(duration()),
        discipline(),
        option::weighted(0.2, trace()),
        option::of(policer()),
        option::of(ack_filter()),
    );
    let impairments = (
        vec(loss_rule(), 0..3),
        (probability(), duration()).prop_map(|(probability, by)| Reorder { probability, by }),
        probability(),
        (probability(), option::of(0..5u32), option::of(0..50usize)).prop_map(
            |(probability, maximum_run, within)| Corrupt {
                probability,
                maximum_run,
                within,
                spare_version_negotiation: false,
            },
        ),
        (option::of(0..1500usize), vec(mtu_step(), 0..3)),
        (ecn_treatment(), vec(ecn_step(), 0..3)),
        option::of(host()),
    );
    (times, bottleneck, impairments)
        .prop_map(|(times, bottleneck, impairments)| {
            let (delay, delay_steps, jitter, tick, freezes) = times;
            let (
                rate,
                rate_steps,
                overhead,
                queue,
                mark_above,
                discipline,
                trace,
                policer,
                ack_filter,
            ) = bottleneck;
            let (loss, reorder, duplicate, corrupt, (mtu, mtu_steps), (ecn, ecn_steps), host) =
                impairments;
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
                mtu_steps,
                ecn,
                ecn_steps,
                freezes,
                discipline,
                trace,
                policer,
                ack_filter,
                host,
            }
        })
        .boxed()
}

fn ecn_treatment() -> impl Strategy<Value = EcnTreatment> {
    proptest::sample::select(vec![
        EcnTreatment::Kept,
        EcnTreatment::Cleared,
        EcnTreatment::ToEct1,
        EcnTreatment::ToCe,
        EcnTreatment::Dropped,
    ])
}

fn ecn_step() -> impl Strategy<Value = Step<EcnTreatment>> {
    (duration(), ecn_treatment()).prop_map(|(after, value)| Step { after, value })
}

fn mtu_step() -> impl Strategy<Value = Step<Option<usize>>> {
    (duration(), option::of(0..1500usize)).prop_map(|(after, value)| Step { after, value })
}

fn flow_delay() -> BoxedStrategy<FlowDelay> {
    (0..8u32, duration(), duration())
        .prop_map(|(flow, to_server, to_client)| FlowDelay { flow, to_server, to_client })
        .boxed()
}

pub(super) fn config() -> BoxedStrategy<LinkConfig> {
    let rebind = (duration(), option::of(duration()), any::<bool>())
        .prop_map(|(first, every, address)| Rebind { first, every, address });
    let flows = vec(flow_delay(), 0..4);
    (conditions(), conditions(), flows, option::of(rebind), any::<u64>())
        .prop_map(|(to_server, to_client, flows, rebind, seed)| LinkConfig {
            to_server,
            to_client,
            flows,
            rebind,
            disturbances: Vec::new(),
            seed,
            record_drops: true,
        })
        .boxed()
}
