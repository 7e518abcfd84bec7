//! What a thread has forwarded, and what it has dropped and why.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one direction.
///
/// How well datagrams stay together shows in how many there are in each batch sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DirectionStatistics {
    /// UDP payloads received.
    pub datagrams_received: u64,
    /// Bytes of UDP payloads received, those of prefaces included.
    pub bytes_received: u64,
    /// Calls to the kernel that received at least one.
    pub batches_received: u64,
    /// Attempts to receive that failed.
    pub receive_failures: u64,
    /// UDP payloads handed to the kernel.
    pub datagrams_sent: u64,
    /// Bytes of UDP payloads handed to the kernel, those of prefaces included.
    pub bytes_sent: u64,
    /// Batches handed to the kernel.
    pub batches_sent: u64,
    /// How many times a socket had no room and the thread waited for it.
    pub send_blocked: u64,
    /// UDP payloads without any byte, which are dropped.
    pub dropped_empty: u64,
    /// UDP payloads dropped because they are larger than the interface permits.
    pub dropped_too_large: u64,
    /// UDP payloads dropped because a socket had no room for too long.
    pub dropped_no_room: u64,
    /// UDP payloads dropped because there is no way to their destination: no route, nobody who listens there, another family
    /// of addresses than the socket has, or an IPv6 address that is valid on one link only and has no place in a preface.
    pub dropped_unreachable: u64,
    /// UDP payloads that the system does not permit to be sent, which is a firewall as a rule.
    pub dropped_not_permitted: u64,
    /// UDP payloads that the system refused for any other reason, such as a lack of memory.
    pub dropped_failed: u64,
}

/// Counts of a thread so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// From clients to servers.
    pub to_servers: DirectionStatistics,
    /// From servers to clients, with the replies.
    pub to_clients: DirectionStatistics,
    /// Replies that the [`Routing`](crate::Routing) made.
    pub replies: u64,
    /// Replies dropped because there were too many in a batch.
    pub replies_dropped: u64,
    /// Datagrams of clients that the [`Routing`](crate::Routing) dropped.
    pub dropped_not_routed: u64,
    /// Datagrams of clients dropped because there was no source port towards their server for them: none was free or could be
    /// taken from another client, or the client's address prefix had its share ([`Options`](crate::Options)).
    pub dropped_no_port: u64,
    /// Datagrams of clients that a server could take for a preface, dropped since their server gets no prefaces.
    pub dropped_like_preface: u64,
    /// Datagrams dropped because this balancer has forwarded them before: a server leads back to it.
    pub dropped_looped: u64,
    /// Source ports that were taken from clients that had not shown that they receive what is sent to their address.
    pub ports_evicted: u64,
    /// Datagrams dropped because their sender is no server, or none that the client of the port has sent to.
    pub dropped_unknown_sender: u64,
    /// Datagrams of servers dropped because they should have a preface and have none.
    pub dropped_no_preface: u64,
    /// Messages (ICMP) that a client or server cannot be reached.
    pub unreachable_reports: u64,
    /// How many times the thread woke up.
    pub wakeups: u64,
    /// How many pairs of a client and a server without preface have a source port now.
    pub ports_in_use: u64,
}

/// How many counters a direction has, and how many there are in all.
const OF_DIRECTION: usize = 14;
const COUNTERS: usize = 2 * OF_DIRECTION + 12;

/// The function `counters`, which gives all counters of a struct: those of its directions, then its own in this order. Without
/// one of the fields it does not compile.
macro_rules! counters {
    ($statistics:ident, [$($direction:ident),*], [$($counter:ident),+ $(,)?]) => {
        impl $statistics {
            fn counters(&mut self) -> impl Iterator<Item = &mut u64> {
                let Self { $($direction,)* $($counter),+ } = self;
                let own = [$($counter),+].into_iter();
                core::iter::empty()$(.chain($direction.counters()))*.chain(own)
            }
        }
    };
}

counters!(
    DirectionStatistics,
    [],
    [
        datagrams_received,
        bytes_received,
        batches_received,
        receive_failures,
        datagrams_sent,
        bytes_sent,
        batches_sent,
        send_blocked,
        dropped_empty,
        dropped_too_large,
        dropped_no_room,
        dropped_unreachable,
        dropped_not_permitted,
        dropped_failed,
    ]
);
counters!(
    Statistics,
    [to_servers, to_clients],
    [
        replies,
        replies_dropped,
        dropped_not_routed,
        dropped_no_port,
        dropped_like_preface,
        dropped_looped,
        ports_evicted,
        dropped_unknown_sender,
        dropped_no_preface,
        unreachable_reports,
        wakeups,
        ports_in_use,
    ]
);

impl core::iter::Sum for Statistics {
    /// What several threads have done together.
    fn sum<I: Iterator<Item = Self>>(threads: I) -> Self {
        threads.fold(Self::default(), |mut sum, mut thread| {
            for (sum, value) in sum.counters().zip(thread.counters()) {
                *sum = sum.saturating_add(*value);
            }
            sum
        })
    }
}

/// The same, as one thread writes it and others read it. Neither ever waits for the other.
#[derive(Debug)]
pub(super) struct SharedStatistics([AtomicU64; COUNTERS]);

impl Default for SharedStatistics {
    fn default() -> Self {
        Self(core::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl SharedStatistics {
    pub(super) fn publish(&self, statistics: &Statistics) {
        let mut statistics = *statistics;
        for (shared, value) in self.0.iter().zip(statistics.counters()) {
            shared.store(*value, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> Statistics {
        let mut statistics = Statistics::default();
        for (shared, value) in self.0.iter().zip(statistics.counters()) {
            *value = shared.load(Ordering::Relaxed);
        }
        statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_is_read_and_added_up() {
        let mut statistics = Statistics::default();
        (1..).zip(statistics.counters()).for_each(|(number, counter)| *counter = number);
        assert_eq!(statistics.counters().count(), COUNTERS);
        let shared = SharedStatistics::default();
        shared.publish(&statistics);
        assert_eq!(shared.read(), statistics);
        let twice: Statistics = [statistics, shared.read()].into_iter().sum();
        assert_eq!(twice.ports_in_use, 2 * statistics.ports_in_use);
        assert_eq!(twice.to_clients.bytes_sent, 2 * statistics.to_clients.bytes_sent);
    }
}
