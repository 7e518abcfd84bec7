//! M2: if datagrams are larger, everything scales with their size.
//!
//! Handshake messages and packet overhead do not scale; both are a small part of a transfer that
//! takes many round trips.

use core::time::Duration;

use clearway_congestion::ControllerParameters;
use clearway_network::{LossModel, Window};

use super::twin::{deviation, text, time, ways};
use super::{Bound, Comparison, Inapplicable, Subject, Unit, Verdict};
use crate::checker::Property;
use crate::setup::{EndSetup, Setup, Traffic};

const BOUND: Bound = Bound::at_most(0.05, Unit::Share);

/// Compares a setup with its twin in which all sizes are `factor` times as large, seed by seed.
///
/// # Errors
/// Returns an error if the setup cannot be scaled.
pub fn comparison(subject: Subject<'_>, factor: u16) -> Result<Comparison, Inapplicable> {
    // The standard initial window does not scale (RFC 9002, Section 7.2), so both runs use an
    // initial window that does.
    let setups = [larger(subject.setup, 1)?, larger(subject.setup, factor)?];
    let plans = setups.into_iter().map(|setup| subject.plan(setup)).collect();
    let compared = format!("sizes times {factor}");
    Ok(Comparison::new(Property::M2, compared, plans, |runs| {
        let pairs = runs[0].iter().zip(&runs[1]);
        let verdicts = pairs.map(|(run, larger)| judge(time(run, 0), time(larger, 0)));
        Verdict::worst(verdicts).unwrap_or_else(|| judge(None, None))
    }))
}

/// Judges the times to completion of the first flow in both runs; `None` if it did not finish.
fn judge(time: Option<Duration>, larger: Option<Duration>) -> Verdict {
    Verdict {
        property: Property::M2,
        figure: deviation(larger, time),
        bound: BOUND,
        details: format!("{}; with larger datagrams: {}", text(time), text(larger)),
    }
}

/// Returns `setup` with all sizes scaled.
fn larger(setup: &Setup, factor: u16) -> Result<Setup, Inapplicable> {
    let mut twin = setup.clone();
    let times = u64::from(factor);
    if setup.flows.iter().any(|flow| flow.client.discovers_mtu || flow.server.discovers_mtu) {
        return Err(Inapplicable("path MTU discovery is on, and its steps cannot be scaled"));
    }
    for conditions in ways(&mut twin.network) {
        if conditions.trace.is_some() || conditions.policer.is_some() {
            return Err(Inapplicable("the network settings include sizes that cannot be scaled"));
        }
        conditions.rate = conditions.rate.map(|rate| rate.scaled(times, 1));
        for step in &mut conditions.rate_steps {
            step.value = step.value.map(|rate| rate.scaled(times, 1));
        }
        conditions.queue.bytes = conditions.queue.bytes.map(|bytes| bytes * times);
        conditions.overhead *= factor;
        conditions.mtu = conditions.mtu.map(|mtu| mtu * usize::from(factor));
        for step in &mut conditions.mtu_steps {
            step.value = step.value.map(|mtu| mtu * usize::from(factor));
        }
        for rule in &mut conditions.loss {
            if let LossModel::RandomLarge { larger_than, .. } = &mut rule.model {
                *larger_than *= usize::from(factor);
            }
            if let Window::AfterBytes { bytes, .. } = &mut rule.window {
                *bytes *= times;
            }
        }
    }
    for flow in &mut twin.flows {
        enlarge(&mut flow.client, factor);
        enlarge(&mut flow.server, factor);
        for part in flow.traffic.all_mut() {
            match part {
                Traffic::Download { size } | Traffic::Upload { size } => *size *= times,
                Traffic::Requests { size, .. }
                | Traffic::Parallel { size, .. }
                | Traffic::Cancelled { size, .. } => *size *= times,
                Traffic::Bulk { .. }
                | Traffic::Idle { .. }
                | Traffic::Together { .. }
                | Traffic::Sequence { .. } => {}
                Traffic::Paced { rate, chunk, size } => {
                    *rate = rate.scaled(times, 1);
                    *chunk *= times;
                    *size *= times;
                }
            }
        }
    }
    Ok(twin)
}

fn enlarge(end: &mut EndSetup, factor: u16) {
    let parameters = ControllerParameters {
        max_datagram_size: u64::from(end.max_datagram_size),
        initial_window: end.initial_window,
        maximum_window: u64::MAX,
        seed: 0,
    };
    let times = u64::from(factor);
    end.initial_window = Some(parameters.initial_window() * times);
    end.max_datagram_size *= factor;
    end.max_stream_receive_window *= times;
    end.max_connection_receive_window *= times;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_does_not_scale_is_detected() {
        let ms = |milliseconds| Some(Duration::from_millis(milliseconds));
        assert!(judge(ms(1000), ms(1049)).holds());
        assert!(!judge(ms(1000), ms(1051)).holds());
        assert!(!judge(ms(1000), ms(949)).holds());
        assert!(!judge(ms(1000), None).holds());
    }
}
