//! The progress of flows, sampled at regular points in time.

use core::time::Duration;

use clearway_network::Way;
use clearway_units::Timestamp;

/// The progress up to a point in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The time.
    pub at: Timestamp,
    /// Bytes of content that each flow has received up to this time, in setup order.
    pub received: Vec<u64>,
    /// The number of datagrams submitted to the network up to this time: first the datagrams to
    /// servers, then those to clients.
    pub datagrams: [u64; 2],
    /// The queueing delay of the datagrams to servers at the bottleneck.
    pub to_server: Queueing,
    /// The queueing delay of the datagrams to clients at the bottleneck.
    pub to_client: Queueing,
}

impl Sample {
    /// Returns how many datagrams were submitted to the network in the direction `way`.
    pub const fn sent(&self, way: Way) -> u64 {
        let [to_server, to_client] = self.datagrams;
        match way {
            Way::ToServer => to_server,
            Way::ToClient => to_client,
        }
    }
}

/// The queueing delay at the bottleneck in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Queueing {
    /// The number of datagrams that have left the bottleneck.
    pub datagrams: u64,
    /// The total queueing delay of the datagrams that have left the bottleneck.
    pub waited: Duration,
}

/// Takes samples at regular points in time.
#[derive(Debug)]
pub(crate) struct Sampler {
    interval: Duration,
    next: Timestamp,
    samples: Vec<Sample>,
}

impl Sampler {
    /// Creates a sampler that takes its first sample at time zero.
    pub(crate) fn new(interval: Duration) -> Self {
        let interval = interval.max(Duration::from_nanos(1));
        Self { interval, next: Timestamp::ORIGIN, samples: Vec::new() }
    }

    /// Takes the samples that are due before `until`. Nothing happens before that time, so all
    /// samples contain the present state.
    pub(crate) fn advance(&mut self, until: Timestamp, present: impl Fn(Timestamp) -> Sample) {
        while self.next < until {
            self.samples.push(present(self.next));
            self.next += self.interval;
        }
    }

    pub(crate) fn into_samples(self) -> Vec<Sample> {
        self.samples
    }
}
