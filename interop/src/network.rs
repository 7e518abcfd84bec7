//! The networks of the tests, as conditions of the simulated link.

use std::time::Duration;

use clearway_network::{
    Conditions, Corrupt, LinkConfig, LossModel, LossRule, Probability, QueueLimit, Rebind, Window,
};
use clearway_units::Rate;

/// The network between client and server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Network {
    /// 10 Mbit/s, 15 ms one way, a queue of 25 packets. The others are variations of this one.
    PointToPoint,
    /// 750 ms one way.
    LongDelay,
    /// All packets are dropped from the fifth to the seventh second.
    Blackhole,
    /// Packets 2 to 7 to the server are lost.
    ListedLoss,
    /// This percentage of the packets in each direction is lost, at most three in a row.
    Loss { percent: u8 },
    /// This percentage of the packets in each direction is delivered with one byte changed, at most
    /// three in a row.
    Corruption { percent: u8 },
    /// The client's port changes after one second and then every five seconds.
    RebindPort,
    /// The client's address changes at the same times.
    RebindAddress,
    /// A kernel TCP connection with CUBIC runs concurrently, from the server to the client.
    CrossTraffic,
}

const RATE: u64 = 10_000_000;
const DELAY: Duration = Duration::from_millis(15);
const LONG_DELAY: Duration = Duration::from_millis(750);
const QUEUE: usize = 25;
/// Maximum number of consecutive packets that are lost or corrupted.
const MAXIMUM_RUN: u32 = 3;
/// The changed byte is among the first of the UDP payload.
const CORRUPT_WITHIN: usize = 50;
const BLACKHOLE: Window = Window::FromFirstDatagram {
    after: Duration::from_secs(5),
    length: Some(Duration::from_secs(2)),
};

impl Network {
    /// Returns the link, whose datagrams have `overhead` bytes of headers in addition to their
    /// payload.
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
