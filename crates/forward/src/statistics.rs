//! Counters of the datagrams that a thread has forwarded, and of the datagrams that it has dropped,
//! by reason.

use clearway_io::SharedCounters;

/// Counters of one direction.
///
/// The ratio of datagrams sent to batches sent shows how well datagrams are batched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DirectionStatistics {
    /// Number of UDP payloads received.
    pub datagrams_received: u64,
    /// Number of bytes of UDP payloads received, including prefaces.
    pub bytes_received: u64,
    /// Number of system calls that received at least one datagram.
    pub batches_received: u64,
    /// Number of failed attempts to receive.
    pub receive_failures: u64,
    /// Number of UDP payloads handed to the kernel.
    pub datagrams_sent: u64,
    /// Number of bytes of UDP payloads handed to the kernel, including prefaces.
    pub bytes_sent: u64,
    /// Number of batches handed to the kernel.
    pub batches_sent: u64,
    /// Number of times that a socket had no room and the thread waited for it.
    pub send_blocked: u64,
    /// Empty UDP payloads, which are dropped.
    pub dropped_empty: u64,
    /// UDP payloads dropped because they exceed the interface's MTU.
    pub dropped_too_large: u64,
    /// UDP payloads dropped because a socket had no room for too long.
    pub dropped_no_room: u64,
    /// UDP payloads dropped because their destination is unreachable: there is no route, no socket
    /// is bound to the port, the socket has another address family, or it is an IPv6 link-local
    /// address, which a preface cannot contain.
    pub dropped_unreachable: u64,
    /// UDP payloads dropped because the system forbids sending them, usually because of a firewall.
    pub dropped_not_permitted: u64,
    /// UDP payloads dropped because the system rejected them for another reason, such as a lack of
    /// memory.
    pub dropped_failed: u64,
}

/// Cumulative counters of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Counters of the direction from clients to servers.
    pub to_servers: DirectionStatistics,
    /// Counters of the direction from servers to clients, including replies.
    pub to_clients: DirectionStatistics,
    /// Replies created by the [`Routing`](crate::Routing).
    pub replies: u64,
    /// Replies dropped because there were too many in a batch.
    pub replies_dropped: u64,
    /// Clients' datagrams dropped by the [`Routing`](crate::Routing).
    pub dropped_not_routed: u64,
    /// Clients' datagrams dropped for lack of a source port for their server: none was free or
    /// could be taken from another client, or the client's address prefix had used up its share
    /// ([`Options`](crate::Options)).
    pub dropped_no_port: u64,
    /// Clients' datagrams dropped because a server could mistake them for a preface, although it
    /// does not receive prefaces.
    pub dropped_like_preface: u64,
    /// Datagrams dropped because this balancer had already forwarded them: a server forwards them
    /// back to it.
    pub dropped_looped: u64,
    /// Number of source ports taken from clients with unvalidated addresses.
    pub ports_evicted: u64,
    /// Datagrams dropped because their sender is not a server, or not the server to which the
    /// port's client has sent.
    pub dropped_unknown_sender: u64,
    /// Servers' datagrams dropped because of a missing preface.
    pub dropped_no_preface: u64,
    /// ICMP messages that report a client or server as unreachable.
    pub unreachable_reports: u64,
    /// Number of times that the thread woke up.
    pub wakeups: u64,
    /// Current number of pairs of a client and a server without prefaces that have a source port.
    pub ports_in_use: u64,
}

/// Number of counters per direction; the next constants are based on it.
const OF_DIRECTION: usize = 14;
const COUNTERS: usize = 2 * OF_DIRECTION + 12;

/// Defines the function `counters`, which returns all counters of a struct: first those of its
/// directions, and then its own in this order. A missing field is a compile error.
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
    /// Returns the sum over several threads.
    fn sum<I: Iterator<Item = Self>>(threads: I) -> Self {
        threads.fold(Self::default(), |mut sum, mut thread| {
            for (sum, value) in sum.counters().zip(thread.counters()) {
                *sum = sum.saturating_add(*value);
            }
            sum
        })
    }
}

/// The counters, stored so that one thread writes them and others read them.
#[derive(Debug, Default)]
pub(super) struct SharedStatistics(SharedCounters<COUNTERS>);

impl SharedStatistics {
    pub(super) fn publish(&self, statistics: &Statistics) {
        let mut statistics = *statistics;
        self.0.publish(statistics.counters().map(|value| &*value));
    }

    pub(super) fn read(&self) -> Statistics {
        let mut statistics = Statistics::default();
        for (value, read) in statistics.counters().zip(self.0.read()) {
            *value = read;
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
