//! The progress of flows, sampled at regular points in time.

use core::time::Duration;

use clearway_network::Way;
use clearway_units::Timestamp;

/// The progress up to a point in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The time.
    pub at: Timestamp,
    /// Bytes of content that each flow has received until then, in the order of the setup.
    pub received: Vec<u64>,
    /// How many datagrams were handed to the network until then: first those to servers, then those to clients.
    pub datagrams: [u64; 2],
    /// How long the datagrams to servers have waited at the bottleneck.
    pub to_server: Queueing,
    /// How long the datagrams to clients have waited at the bottleneck.
    pub to_client: Queueing,
}

impl Sample {
    /// How many datagrams were handed to the network in the direction `way`.
    pub const fn sent(&self, way: Way) -> u64 {
        let [to_server, to_client] = self.datagrams;
        match way {
            Way::ToServer => to_server,
            Way::ToClient => to_client,
        }
    }
}

/// How long datagrams have waited at the bottleneck of a direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Queueing {
    /// How many have left the bottleneck.
    pub datagrams: u64,
    /// The sum of their waiting times.
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
    /// The first sample is taken at the origin of time.
    pub(crate) fn new(interval: Duration) -> Self {
        let interval = interval.max(Duration::from_nanos(1));
        Self { interval, next: Timestamp::ORIGIN, samples: Vec::new() }
    }

    /// Takes the samples that are due before `until`. Nothing happens until then, so all show the present state.
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
