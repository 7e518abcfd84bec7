//! The setups of the standard comparisons.

use core::time::Duration;

use clearway_network::{
    Conditions, Jitter, LinkConfig, LossModel, LossRule, Probability, QueueLimit, Window,
};
use clearway_units::{Rate, Timestamp};

use crate::setup::{EndSetup, Flow, SessionKind, Setup, Traffic, Turns};

/// The time for which flows share a bottleneck, and the initial period that is excluded from the
/// comparison.
pub(super) const LENGTH: Duration = Duration::from_secs(70);
pub(super) const SETTLED: Duration = Duration::from_secs(10);

pub(super) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(super) fn flow(index: usize, traffic: Traffic) -> Flow {
    let end = EndSetup { max_idle_timeout: None, ..EndSetup::default() };
    Flow {
        group: format!("flow {index}"),
        name: format!("flow {index}"),
        start: Duration::ZERO,
        controller: None,
        client: end.clone(),
        server: end,
        session: SessionKind::Null,
        traffic,
        is_optional: false,
    }
}

fn both_ways(conditions: Conditions) -> LinkConfig {
    LinkConfig { to_server: conditions.clone(), to_client: conditions, ..LinkConfig::default() }
}

/// Returns a setup with one flow on a path without a bottleneck.
pub(super) fn wire(round_trip: Duration, traffic: Traffic) -> Setup {
    let conditions = Conditions { delay: round_trip / 2, ..Conditions::default() };
    Setup {
        limit: Duration::from_secs(600),
        network: both_ways(conditions),
        flows: vec![flow(0, traffic)],
        properties_off: Vec::new(),
        turns: Turns::default(),
    }
}

/// Returns a setup with one flow over a bottleneck. The path and the queue hold `path` datagrams
/// each.
pub(super) fn bottleneck(round_trip: Duration, path: u64, traffic: Traffic) -> Setup {
    let mut setup = wire(round_trip, traffic);
    for conditions in [&mut setup.network.to_server, &mut setup.network.to_client] {
        conditions.rate = Rate::from_transfer(path * 1200, round_trip);
        conditions.queue = QueueLimit { packets: Some(path as usize), bytes: None };
    }
    setup
}

/// Adds the loss of the datagram with the given number.
pub(super) fn one_loss(mut setup: Setup, number: u64) -> Setup {
    let model = LossModel::List { numbers: vec![number] };
    setup.network.to_client.loss = vec![LossRule { model, window: Window::Always }];
    setup
}

/// Adds random loss towards the client, until the given time, or for the whole run.
pub(super) fn random_loss(mut setup: Setup, share: f64, until: Option<Duration>) -> Setup {
    let probability = Probability::new(share).unwrap_or_default();
    let window = until.map_or(Window::Always, |until| Window::Absolute {
        from: Timestamp::ORIGIN,
        until: Timestamp::from_origin(until),
    });
    let model = LossModel::Random { probability };
    setup.network.to_client.loss = vec![LossRule { model, window }];
    setup
}

pub(super) const fn download(size: u64) -> Traffic {
    Traffic::Download { size }
}

/// A bottleneck shared by several flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bottleneck {
    pub(super) megabits: u64,
    pub(super) round_trip: Duration,
    /// The queue size in bandwidth-delay products.
    pub(super) queue: f64,
}

impl Bottleneck {
    /// Returns a setup with one flow for each of the given controllers; the flows start a tenth of
    /// a second apart.
    pub(super) fn shared_by(self, controllers: &[Option<&str>]) -> Setup {
        let rate = Rate::from_bits_per_second(self.megabits * 1_000_000);
        let path = rate.bytes_in(self.round_trip) as f64;
        let conditions = Conditions {
            delay: self.round_trip / 2,
            rate: Some(rate),
            queue: QueueLimit { packets: None, bytes: Some((path * self.queue) as u64) },
            overhead: 28,
            // If flows ran in lockstep, the same flow would always find the queue full.
            jitter: Jitter { range: Duration::from_micros(100), reorder_by_jitter: false },
            ..Conditions::default()
        };
        let flows = controllers.iter().enumerate().map(|(index, controller)| {
            let start = ms(100) * index as u32;
            let flow = flow(index, Traffic::Bulk { length: LENGTH - start });
            Flow { start, controller: controller.map(str::to_owned), ..flow }
        });
        Setup {
            limit: LENGTH + Duration::from_secs(1),
            network: both_ways(conditions),
            flows: flows.collect(),
            properties_off: Vec::new(),
            turns: Turns::default(),
        }
    }
}
