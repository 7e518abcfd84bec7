//! M2: with larger datagrams, everything is larger.
//!
//! The handshake's messages do not scale, nor what a packet costs beside its content; both are little of a
//! transfer that takes many round trips.

use core::time::Duration;

use clearway_congestion::ControllerParameters;
use clearway_network::Window;

use super::twin::ways;
use super::{NotComparable, Property, Verdict};
use crate::run::{Candidate, Extras, run};
use crate::setup::{EndSetup, Setup, Traffic};

/// M2.
pub const PROPERTY: Property = Property {
    id: "M2",
    meaning: "with datagrams, content, rates and queues multiplied by one factor, completion takes as \
              long, within 5 %",
};

/// Runs `setup`, and its twin in which all sizes are `factor` times as large.
///
/// # Errors
/// If it cannot be run, or cannot be scaled.
pub fn check(
    setup: &Setup,
    candidate: &Candidate,
    seed: u64,
    factor: u16,
) -> Result<Verdict, NotComparable> {
    let time = |setup: &Setup| -> Result<_, NotComparable> {
        Ok(run(setup, candidate, seed, Extras::default())?.flows[0].took)
    };
    // The standard initial window does not scale (RFC 9002, Section 7.2): both have one that does.
    Ok(judge(time(&larger(setup, 1)?)?, time(&larger(setup, factor)?)?))
}

/// Judges the times to completion of the first flow in both runs; `None` did not finish.
pub fn judge(time: Option<Duration>, larger: Option<Duration>) -> Verdict {
    let is_near = |time: Duration, larger: Duration| larger.abs_diff(time) <= time / 20;
    Verdict {
        property: PROPERTY,
        holds: time.zip(larger).is_some_and(|(time, larger)| is_near(time, larger)),
        figures: format!("{time:?}, with larger datagrams {larger:?}"),
    }
}

/// `setup` with everything larger.
fn larger(setup: &Setup, factor: u16) -> Result<Setup, NotComparable> {
    let mut twin = setup.clone();
    let times = u64::from(factor);
    for conditions in ways(&mut twin.network) {
        if conditions.trace.is_some() || conditions.policer.is_some() {
            return Err(NotComparable::Inapplicable("a part of the network has sizes of its own"));
        }
        conditions.rate = conditions.rate.map(|rate| rate.scaled(times, 1));
        for step in &mut conditions.rate_steps {
            step.value = step.value.map(|rate| rate.scaled(times, 1));
        }
        conditions.queue.bytes = conditions.queue.bytes.map(|bytes| bytes * times);
        conditions.overhead *= factor;
        conditions.mtu = conditions.mtu.map(|mtu| mtu * usize::from(factor));
        for rule in &mut conditions.loss {
            if let Window::AfterBytes { bytes, .. } = &mut rule.window {
                *bytes *= times;
            }
        }
    }
    for flow in &mut twin.flows {
        enlarge(&mut flow.client, factor);
        enlarge(&mut flow.server, factor);
        match &mut flow.traffic {
            Traffic::Download { size } | Traffic::Upload { size } => *size *= times,
            Traffic::Requests { size, .. } | Traffic::Parallel { size, .. } => *size *= times,
            Traffic::Bulk { .. } => {}
            Traffic::Paced { rate, chunk, size } => {
                *rate = rate.scaled(times, 1);
                *chunk *= times;
                *size *= times;
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
    fn what_does_not_scale_is_seen() {
        let ms = |milliseconds| Some(Duration::from_millis(milliseconds));
        assert!(judge(ms(1000), ms(1050)).holds);
        assert!(!judge(ms(1000), ms(1051)).holds);
        assert!(!judge(ms(1000), ms(949)).holds);
        assert!(!judge(ms(1000), None).holds);
    }
}
