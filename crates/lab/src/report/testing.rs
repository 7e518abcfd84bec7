//! Hand-written setups and outcomes for tests.

use core::time::Duration;

use clearway_network::LinkConfig;
use clearway_units::Timestamp;

use crate::checker::Violation;
use crate::end::{EndId, Side};
use crate::run::{FlowOutcome, Outcome};
use crate::samples::Sample;
use crate::setup::{EndSetup, Flow, SessionKind, Setup, Traffic};
use crate::stack::Vitals;
use crate::sweep::Run;
use crate::world::Stop;

pub(super) fn flow(name: &str, size: u64) -> Flow {
    Flow {
        name: name.to_owned(),
        group: name.to_owned(),
        start: Duration::ZERO,
        controller: None,
        client: EndSetup::default(),
        server: EndSetup::default(),
        session: SessionKind::Null,
        traffic: Traffic::Download { size },
        is_optional: false,
    }
}

pub(super) fn setup(flows: Vec<Flow>) -> Setup {
    Setup {
        limit: Duration::from_secs(10),
        network: LinkConfig::default(),
        flows,
        properties_off: Vec::new(),
        turns: Default::default(),
    }
}

/// Returns a flow that received `received` bytes in `took`.
pub(super) fn flow_outcome(name: &str, received: u64, took: Option<Duration>) -> FlowOutcome {
    FlowOutcome {
        name: name.to_owned(),
        controller: "reno".to_owned(),
        took,
        first_byte: None,
        received,
        reached_floor: false,
        sender: Vitals::default(),
    }
}

/// Returns a run that finished after `milliseconds`.
pub(super) fn finished(seed: u64, milliseconds: u64) -> Run {
    let at = Duration::from_millis(milliseconds);
    let flows = vec![flow_outcome("download", 1_000_000, Some(at))];
    Run { seed, outcome: Outcome { at, flows, ..Outcome::stopped(Stop::Finished) } }
}

/// Returns a run that did not finish.
pub(super) fn unfinished(seed: u64) -> Run {
    let flows = vec![flow_outcome("download", 5, None)];
    Run { seed, outcome: Outcome { flows, ..Outcome::stopped(Stop::TimeUp) } }
}

/// Returns a run that violated a property.
pub(super) fn violating(seed: u64) -> Run {
    let violation = Violation {
        property: "L1",
        at: Timestamp::from_nanos(1_500_000_000),
        end: EndId { flow: 0, side: Side::Server },
        explanation: "the window stood still".to_owned(),
        last_events: vec!["an event".to_owned()],
    };
    let outcome = Outcome { violation: Some(violation), ..Outcome::stopped(Stop::Violated) };
    Run { seed, outcome }
}

/// Returns a sample of the bytes received after `seconds`.
pub(super) fn sample(seconds: u64, received: &[u64]) -> Sample {
    Sample {
        at: Timestamp::from_nanos(seconds * 1_000_000_000),
        received: received.to_vec(),
        datagrams: [0; 2],
        to_server: Default::default(),
        to_client: Default::default(),
    }
}
