//! The networks that the tests use, as conditions of the simulated link.

use std::time::Duration;

use clearway_network::{
    Conditions, Corrupt, LinkConfig, LossModel, LossRule, Probability, QueueLimit, Rebind, Window,
};
use clearway_units::Rate;

/// The network between client and server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Network {
    /// A link with 10 Mbit/s, a one-way delay of 15 ms, and a queue of 25 packets. The other
    /// networks are variations of this one.
    PointToPoint,
    /// A one-way delay of 750 ms.
    LongDelay,
    /// All packets are dropped between the fifth and the seventh second.
    Blackhole,
    /// Packets 2 to 7 in the direction of the server are lost.
    ListedLoss,
    /// The given percentage of packets is lost in each direction, at most three in a row.
    Loss { percent: u8 },
    /// The given percentage of packets in each direction is delivered with one corrupted byte, at
    /// most three packets in a row.
    Corruption { percent: u8 },
    /// The client's port changes after one second and then every five seconds.
    RebindPort,
    /// The client's address changes after one second and then every five seconds.
    RebindAddress,
    /// A kernel TCP connection with CUBIC runs at the same time, from the server to the client.
    CrossTraffic,
}

const RATE: u64 = 10_000_000;
const DELAY: Duration = Duration::from_millis(15);
const LONG_DELAY: Duration = Duration::from_millis(750);
const QUEUE: usize = 25;
/// Maximum number of consecutive packets that are lost or corrupted.
const MAXIMUM_RUN: u32 = 3;
/// The corrupted byte is within this many bytes of the beginning of the UDP payload.
const CORRUPT_WITHIN: usize = 50;
const BLACKHOLE: Window = Window::FromFirstDatagram {
    after: Duration::from_secs(5),
    length: Some(Duration::from_secs(2)),
};

impl Network {
    /// Returns the conditions of the link. Each datagram has `overhead` bytes of headers in
    /// addition to its payload.
    pub(crate) fn link(self, overhead: u16, seed: u64) -> LinkConfig {
        let mut conditions = Conditions {
            delay: if self == Self::LongDelay { LONG_DELAY } else { DELAY },
            rate: Some(Rate::from_bits_per_second(RATE)),
            overhead,
            queue: QueueLimit { packets: Some(QUEUE), bytes: None },
            ..Conditions::default()
        };
        match self {
            Self::Blackhole => conditions.loss = vec![LossRule::blackhole(BLACKHOLE)],
            Self::Loss { percent } => {
                let probability = percentage(percent);
                let model = LossModel::RandomCapped { probability, maximum_run: MAXIMUM_RUN };
                conditions.loss = vec![LossRule { model, window: Window::Always }];
            }
            Self::Corruption { percent } => {
                conditions.corrupt = Corrupt {
                    probability: percentage(percent),
                    maximum_run: Some(MAXIMUM_RUN),
                    within: Some(CORRUPT_WITHIN),
                    spare_version_negotiation: true,
                };
            }
            _ => {}
        }
        let mut to_server = conditions.clone();
        if self == Self::ListedLoss {
            let model = LossModel::List { numbers: (2..=7).collect() };
            to_server.loss = vec![LossRule { model, window: Window::Always }];
        }
        let rebinds = matches!(self, Self::RebindPort | Self::RebindAddress);
        let rebind = rebinds.then_some(Rebind {
            first: Duration::from_secs(1),
            every: Some(Duration::from_secs(5)),
            address: self == Self::RebindAddress,
        });
        let to_client = conditions;
        LinkConfig {
            to_server,
            to_client,
            rebind,
            seed,
            record_drops: true,
            ..LinkConfig::default()
        }
    }
}

fn percentage(percent: u8) -> Probability {
    Probability::new(f64::from(percent) / 100.0).unwrap_or(Probability::NEVER)
}
