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
}

/// The same, as one thread writes it and others read it.
#[derive(Debug, Default)]
pub(crate) struct SharedStatistics {
    counters: [AtomicU64; 11],
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
    fn to_array(self) -> [u64; 11] {
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
        ]
    }

    fn from_array(values: [u64; 11]) -> Self {
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
        }
    }
}
