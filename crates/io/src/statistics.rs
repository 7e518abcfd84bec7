use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a shard so far. When a peer receives a datagram, everything that happened before it was sent has been counted.
/// Sent datagrams are counted when the shard has sent all that it can.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ShardStatistics {
    /// Connections that currently exist.
    pub connections: u64,
    /// UDP payloads received.
    pub datagrams_received: u64,
    /// Calls to the kernel that received at least one.
    pub batches_received: u64,
    /// UDP payloads handed to the kernel.
    pub datagrams_sent: u64,
    /// Batches handed to the kernel.
    pub batches_sent: u64,
    /// Batches that the kernel refused, all of whose datagrams are lost.
    pub batches_failed: u64,
    /// How many times the socket had no room and the shard waited for it.
    pub send_blocked: u64,
    /// Clients that were turned away or ignored.
    pub incoming_refused: u64,
    /// How many times the shard woke up.
    pub wakeups: u64,
    /// Panics of applications and acceptors. Each ended one connection, or refused one client.
    pub panics: u64,
    /// How many attempts to receive from the socket failed.
    pub receive_failures: u64,
    /// UDP payloads received that were given to another shard of the group, whose connection ID they have.
    pub handed_over: u64,
    /// UDP payloads that other shards have given to this one.
    pub handed_in: u64,
    /// UDP payloads received that another shard should have had, for which too many waited already. They are lost.
    pub hand_over_dropped: u64,
    /// UDP payloads that were given to the other process during a hot restart: by the new one those of the connections that
    /// the old one has, by the old one those of clients that begin.
    pub forwarded: u64,
    /// UDP payloads that the other process of a hot restart has given to this shard.
    pub forwarded_in: u64,
    /// UDP payloads that the other process of a hot restart should have had, for which too many waited already. They are
    /// lost.
    pub forward_dropped: u64,
}

impl core::iter::Sum for ShardStatistics {
    /// What several shards have done together.
    fn sum<I: Iterator<Item = Self>>(shards: I) -> Self {
        let counters = shards.fold([0_u64; COUNTERS], |mut sum, shard| {
            for (sum, value) in sum.iter_mut().zip(shard.to_array()) {
                *sum = sum.saturating_add(value);
            }
            sum
        });
        Self::from_array(counters)
    }
}

/// How many counters there are.
const COUNTERS: usize = 17;

/// The same, as one thread writes it and others read it.
#[derive(Debug, Default)]
pub(crate) struct SharedStatistics {
    counters: [AtomicU64; COUNTERS],
}

impl SharedStatistics {
    pub(crate) fn publish(&self, statistics: &ShardStatistics) {
        for (counter, value) in self.counters.iter().zip(statistics.to_array()) {
            counter.store(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> ShardStatistics {
        ShardStatistics::from_array(self.counters.each_ref().map(|it| it.load(Ordering::Relaxed)))
    }
}

impl ShardStatistics {
    fn to_array(self) -> [u64; COUNTERS] {
        [
            self.connections,
            self.datagrams_received,
            self.batches_received,
            self.datagrams_sent,
            self.batches_sent,
            self.batches_failed,
            self.send_blocked,
            self.incoming_refused,
            self.wakeups,
            self.panics,
            self.receive_failures,
            self.handed_over,
            self.handed_in,
            self.hand_over_dropped,
            self.forwarded,
            self.forwarded_in,
            self.forward_dropped,
        ]
    }

    fn from_array(values: [u64; COUNTERS]) -> Self {
        let [
            connections,
            datagrams_received,
            batches_received,
            datagrams_sent,
            batches_sent,
            batches_failed,
            send_blocked,
            incoming_refused,
            wakeups,
            panics,
            receive_failures,
            handed_over,
            handed_in,
            hand_over_dropped,
            forwarded,
            forwarded_in,
            forward_dropped,
        ] = values;
        Self {
            connections,
            datagrams_received,
            batches_received,
            datagrams_sent,
            batches_sent,
            batches_failed,
            send_blocked,
            incoming_refused,
            wakeups,
            panics,
            receive_failures,
            handed_over,
            handed_in,
            hand_over_dropped,
            forwarded,
            forwarded_in,
            forward_dropped,
        }
    }
}
