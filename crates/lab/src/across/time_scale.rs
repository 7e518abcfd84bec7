//! M1: a network in slow motion results in the same run in slow motion.
//!
//! Constants that the RFCs define in seconds do not scale, so they must have no effect in the
//! compared setups: the loss detection granularity of 1 ms (RFC 9002, Section 6.1.2), HyStart++'s 4
//! and 16 ms (RFC 9406; no effect between round-trip times of 32 and 128 ms), the pacer's
//! millisecond (no effect below ten datagrams per millisecond), the constant C of CUBIC's curve (no
//! effect in the Reno-friendly region), the first probe timeout's 333 ms, and all of BBR's seconds.
//! The settings of the endpoints scale.

use core::time::Duration;

use clearway_network::{Conditions, Window};
use clearway_units::Timestamp;

use super::twin::{deviation, text, time, ways};
use super::{Bound, Comparison, Inapplicable, Subject, Unit, Verdict};
use crate::checker::Property;
use crate::setup::{EndSetup, Setup, Traffic};

const BOUND: Bound = Bound::at_most(0.05, Unit::Share);

/// Compares a setup with its twin in which everything takes `factor` times as long, seed by seed.
///
/// # Errors
/// Returns an error if the setup cannot be scaled.
pub fn comparison(subject: Subject<'_>, factor: u32) -> Result<Comparison, Inapplicable> {
    let twin = slower(subject.setup, factor)?;
    let plans = vec![subject.plan(subject.setup.clone()), subject.plan(twin)];
    let compared = format!("{factor} times slower");
    Ok(Comparison::new(Property::M1, compared, plans, move |runs| {
        let pairs = runs[0].iter().zip(&runs[1]);
        let verdicts = pairs.map(|(run, slower)| judge(factor, time(run, 0), time(slower, 0)));
        Verdict::worst(verdicts).unwrap_or_else(|| judge(factor, None, None))
    }))
}

/// Judges the times to completion of the first flow in both runs; `None` if it did not finish.
fn judge(factor: u32, time: Option<Duration>, slower: Option<Duration>) -> Verdict {
    Verdict {
        property: Property::M1,
        figure: deviation(slower, time.map(|time| time * factor)),
        bound: BOUND,
        details: format!("{}; {factor} times slower: {}", text(time), text(slower)),
    }
}

/// Returns `setup` in slow motion.
fn slower(setup: &Setup, factor: u32) -> Result<Setup, Inapplicable> {
    let mut twin = setup.clone();
    twin.limit *= factor;
    for conditions in ways(&mut twin.network) {
        slow_down(conditions, factor)?;
    }
    for flow in &mut twin.network.flows {
        flow.to_server *= factor;
        flow.to_client *= factor;
    }
    for flow in &mut twin.flows {
        flow.start *= factor;
        for EndSetup { max_ack_delay, max_idle_timeout, .. } in [&mut flow.client, &mut flow.server]
        {
            *max_ack_delay *= factor;
            *max_idle_timeout = max_idle_timeout.map(|timeout| timeout * factor);
        }
        for part in flow.traffic.all_mut() {
            match part {
                Traffic::Requests { every: Some(every), .. }
                | Traffic::Cancelled { every: Some(every), .. } => *every *= factor,
                Traffic::Idle { length } => *length *= factor,
                Traffic::Paced { rate, .. } => *rate = rate.scaled(1, u64::from(factor)),
                _ => {}
            }
        }
    }
    Ok(twin)
}

fn slow_down(conditions: &mut Conditions, factor: u32) -> Result<(), Inapplicable> {
    let Conditions { trace, freezes, policer, host, discipline, .. } = conditions;
    let has_times = trace.is_some() || freezes.is_some() || policer.is_some() || host.is_some();
    if has_times || *discipline != Default::default() {
        return Err(Inapplicable("the network settings include durations that cannot be scaled"));
    }
    conditions.delay *= factor;
    conditions.jitter.range *= factor;
    conditions.reorder.by *= factor;
    conditions.tick = conditions.tick.map(|tick| tick * factor);
    conditions.mark_above = conditions.mark_above.map(|wait| wait * factor);
    conditions.rate = conditions.rate.map(|rate| rate.scaled(1, u64::from(factor)));
    for step in &mut conditions.delay_steps {
        step.after *= factor;
        step.value *= factor;
    }
    for step in &mut conditions.rate_steps {
        step.after *= factor;
        step.value = step.value.map(|rate| rate.scaled(1, u64::from(factor)));
    }
    for step in &mut conditions.mtu_steps {
        step.after *= factor;
    }
    for step in &mut conditions.ecn_steps {
        step.after *= factor;
    }
    for rule in &mut conditions.loss {
        rule.window = slower_window(rule.window, factor);
    }
    Ok(())
}

fn slower_window(window: Window, factor: u32) -> Window {
    let later = |at: Timestamp| Timestamp::from_origin(at.since_origin() * factor);
    let longer = |length: Option<Duration>| length.map(|length| length * factor);
    match window {
        Window::Always => Window::Always,
        Window::FromFirstDatagram { after, length } => {
            Window::FromFirstDatagram { after: after * factor, length: longer(length) }
        }
        Window::AfterBytes { way, bytes, length } => {
            Window::AfterBytes { way, bytes, length: longer(length) }
        }
        Window::Absolute { from, until } => {
            Window::Absolute { from: later(from), until: later(until) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_does_not_scale_is_detected() {
        let ms = |milliseconds| Some(Duration::from_millis(milliseconds));
        assert!(judge(3, ms(1000), ms(3150)).holds());
        assert!(!judge(3, ms(1000), ms(3151)).holds());
        assert!(!judge(3, ms(1000), ms(1000)).holds());
        assert!(!judge(3, ms(1000), None).holds());
        assert!(!judge(3, None, None).holds());
    }
}
