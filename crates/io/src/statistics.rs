use crate::shared_counters::SharedCounters;
use core::time::Duration;

use clearway_udp::Waited;

/// Cumulative counters of a shard. When a peer receives a datagram, everything that happened before
/// it was sent has been counted. Sent datagrams are counted when the shard has sent everything that
/// it can, and the packets in them the next time that their connection is processed. The counters
/// include connections that have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ShardStatistics {
    /// Connections that currently exist.
    pub connections: u64,
    /// Client connections that were accepted.
    pub connections_accepted: u64,
    /// Connections, in both roles, whose handshake was completed.
    pub handshakes_completed: u64,
    /// Connections, in both roles, that ended before their handshake was complete.
    pub handshakes_failed: u64,
    /// UDP payloads received.
    pub datagrams_received: u64,
    /// Clients whose handshake is not complete: connections, and clients whose first packets wait
    /// until the handshake begins.
    pub connections_half_open: u64,
    /// Retry packets sent.
    pub retries_sent: u64,
    /// Bytes of UDP payloads received.
    pub bytes_received: u64,
    /// Calls to the kernel that received at least one datagram.
    pub batches_received: u64,
    /// UDP payloads handed to the kernel.
    pub datagrams_sent: u64,
    /// Bytes of UDP payloads handed to the kernel.
    pub bytes_sent: u64,
    /// Batches handed to the kernel. The datagrams of a batch belong to the same connection and
    /// have the same size.
    pub batches_sent: u64,
    /// Send calls in which the kernel accepted at least one batch.
    pub send_calls: u64,
    /// Batches that the kernel rejected; all of their datagrams were dropped.
    pub batches_failed: u64,
    /// Number of times that the socket's send buffer was full and the shard waited for room.
    pub send_blocked: u64,
    /// Packets sent by connections, excluding those that contain only ACK and CONNECTION_CLOSE
    /// frames.
    pub packets_sent: u64,
    /// Packets that connections received and decrypted.
    pub packets_received: u64,
    /// Packets that connections received and dropped.
    pub packets_dropped: u64,
    /// Packets that connections declared lost.
    pub packets_lost: u64,
    /// Packets that were acknowledged after they had been declared lost.
    pub packets_spuriously_lost: u64,
    /// Probe timeouts that expired.
    pub probe_timeouts: u64,
    /// Clients that were refused or ignored.
    pub incoming_refused: u64,
    /// UDP payloads from new clients that were dropped because more arrived than the shard could
    /// handle: see [`Admission::retry_above`](crate::Admission::retry_above).
    pub incoming_dropped: u64,
    /// UDP payloads received whose connection ID matches no connection, and that do not begin one.
    /// They belong to connections that have ended, or to another endpoint.
    pub datagrams_unknown: u64,
    /// Stateless resets sent in response to payloads of unknown connections (RFC 9000 §10.3).
    pub stateless_resets_sent: u64,
    /// Number of times that the shard slept and was woken.
    pub wakeups: u64,
    /// Number of times that the shard busy-polled before it slept: see
    /// [`ShardHandle::set_busy_poll`](crate::ShardHandle::set_busy_poll).
    pub busy_polls: u64,
    /// Number of busy polls that found work, so that the shard did not sleep.
    pub busy_polls_successful: u64,
    /// Panics of application code: applications, acceptors, observers, tasks and everything else
    /// that the shard calls. Each panic ended one connection or task, refused one client, or
    /// removed one observer from its connection, but never ended the shard.
    pub panics: u64,
    /// Shards that ended unexpectedly, with all of their connections:
    /// [`ShardHandle::failure`](crate::ShardHandle::failure) returns the reason.
    pub shards_failed: u64,
    /// Number of failed attempts to receive from the socket.
    pub receive_failures: u64,
    /// Number of times that a peer moved to another address: by migration, or by a NAT rebinding
    /// (RFC 9000 §9).
    pub migrations: u64,
    /// Number of times that the shard was late by a second or more: the process was stopped, the
    /// host had no CPU time for it, or code that the shard calls blocked its thread.
    pub stalls: u64,
    /// Number of times that the kernel started to reject segmentation offload (GSO), so that each
    /// datagram takes a separate call.
    pub segmentation_refused: u64,
    /// UDP payloads received that were passed to the shard of the group that issued their
    /// connection ID.
    pub handed_over: u64,
    /// UDP payloads that other shards have passed to this one.
    pub handed_in: u64,
    /// UDP payloads that were dropped because the queue of the shard to which they belong was full.
    pub hand_over_dropped: u64,
    /// UDP payloads that were passed to the other process during a hot restart: the new process
    /// passes on those for the old process's connections, and the old process those from new
    /// clients.
    pub forwarded: u64,
    /// UDP payloads that the other process of a hot restart has passed to this shard.
    pub forwarded_in: u64,
    /// UDP payloads that were dropped because the queue of the other process of a hot restart was
    /// full.
    pub forward_dropped: u64,
    /// UDP payloads dropped because they do not come from any of the
    /// [balancers](crate::Admission::balancers).
    pub foreign_dropped: u64,
    /// Histogram of the batches handed to the kernel, by number of datagrams. Each element counts
    /// batches of at most the bound at the same index of [`BATCH_SIZES`](Self::BATCH_SIZES), and
    /// more than the previous bound.
    pub batches_by_size: [u64; Self::BATCH_SIZES.len()],
    /// Histogram of the turns of the shard's loop, by duration without sleep. Each element counts
    /// turns of at most the bound at the same index of [`TURN_DURATIONS`](Self::TURN_DURATIONS),
    /// and more than the previous bound. The last element counts turns that exceeded all bounds. A
    /// turn is counted when the next turn has received datagrams.
    pub turns_by_duration: [u64; Self::TURN_DURATIONS.len() + 1],
    turn_nanoseconds: u64,
}

impl ShardStatistics {
    /// The upper bounds of [`batches_by_size`](Self::batches_by_size), in datagrams. No batch
    /// exceeds the last bound.
    pub const BATCH_SIZES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

    /// The upper bounds of [`turns_by_duration`](Self::turns_by_duration).
    pub const TURN_DURATIONS: [Duration; 13] = [
        Duration::from_micros(5),
        Duration::from_micros(10),
        Duration::from_micros(25),
        Duration::from_micros(50),
        Duration::from_micros(100),
        Duration::from_micros(250),
        Duration::from_micros(500),
        Duration::from_millis(1),
        Duration::from_micros(2500),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(25),
        Duration::from_millis(100),
    ];

    /// Returns the total duration of all turns: the time during which the shard did not sleep.
    pub fn turn_time(&self) -> Duration {
        Duration::from_nanos(self.turn_nanoseconds)
    }

    /// Counts a batch that the kernel has accepted.
    pub(crate) fn on_batch_sent(&mut self, datagrams: u64, bytes: usize) {
        self.batches_sent += 1;
        self.datagrams_sent += datagrams;
        self.bytes_sent += bytes as u64;
        let place = Self::BATCH_SIZES.iter().position(|most| datagrams <= *most);
        self.batches_by_size[place.unwrap_or(Self::BATCH_SIZES.len() - 1)] += 1;
    }

    /// Counts a turn of the shard's loop.
    pub(crate) fn on_turn(&mut self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.turn_nanoseconds = self.turn_nanoseconds.saturating_add(nanoseconds);
        let place = Self::TURN_DURATIONS.iter().position(|most| duration <= *most);
        self.turns_by_duration[place.unwrap_or(Self::TURN_DURATIONS.len())] += 1;
    }

    /// Counts the outcome of a wait.
    pub(crate) fn on_waited(&mut self, waited: Waited) {
        self.wakeups += u64::from(waited != Waited::Polled);
        self.busy_polls += u64::from(waited != Waited::Slept);
        self.busy_polls_successful += u64::from(waited == Waited::Polled);
    }

    /// Returns references to all counters, for operations that apply to each of them.
    fn parts(&mut self) -> Parts<'_> {
        let counters = [
            &mut self.connections,
            &mut self.connections_accepted,
            &mut self.connections_half_open,
            &mut self.retries_sent,
            &mut self.handshakes_completed,
            &mut self.handshakes_failed,
            &mut self.datagrams_received,
            &mut self.bytes_received,
            &mut self.batches_received,
            &mut self.datagrams_sent,
            &mut self.bytes_sent,
            &mut self.batches_sent,
            &mut self.send_calls,
            &mut self.batches_failed,
            &mut self.send_blocked,
            &mut self.packets_sent,
            &mut self.packets_received,
            &mut self.packets_dropped,
            &mut self.packets_lost,
            &mut self.packets_spuriously_lost,
            &mut self.probe_timeouts,
            &mut self.incoming_refused,
            &mut self.incoming_dropped,
            &mut self.datagrams_unknown,
            &mut self.stateless_resets_sent,
            &mut self.wakeups,
            &mut self.busy_polls,
            &mut self.busy_polls_successful,
            &mut self.panics,
            &mut self.shards_failed,
            &mut self.receive_failures,
            &mut self.migrations,
            &mut self.stalls,
            &mut self.segmentation_refused,
            &mut self.handed_over,
            &mut self.handed_in,
            &mut self.hand_over_dropped,
            &mut self.forwarded,
            &mut self.forwarded_in,
            &mut self.forward_dropped,
            &mut self.foreign_dropped,
            &mut self.turn_nanoseconds,
        ];
        Parts {
            counters,
            batches_by_size: &mut self.batches_by_size,
            turns_by_duration: &mut self.turns_by_duration,
        }
    }
}

/// Number of counters, not including the histograms.
const COUNTERS: usize = 42;

// Every field is in `parts`.
const _: () = assert!(size_of::<ShardStatistics>() == Parts::LEN * size_of::<u64>());

struct Parts<'a> {
    counters: [&'a mut u64; COUNTERS],
    batches_by_size: &'a mut [u64; ShardStatistics::BATCH_SIZES.len()],
    turns_by_duration: &'a mut [u64; ShardStatistics::TURN_DURATIONS.len() + 1],
}

impl<'a> Parts<'a> {
    const LEN: usize =
        COUNTERS + ShardStatistics::BATCH_SIZES.len() + ShardStatistics::TURN_DURATIONS.len() + 1;

    fn all(self) -> impl Iterator<Item = &'a mut u64> {
        let histograms = self.batches_by_size.iter_mut().chain(self.turns_by_duration);
        self.counters.into_iter().chain(histograms)
    }
}

impl core::iter::Sum for ShardStatistics {
    /// Returns the total of several shards.
    fn sum<I: Iterator<Item = Self>>(shards: I) -> Self {
        shards.fold(Self::default(), |mut sum, mut shard| {
            for (sum, value) in sum.parts().all().zip(shard.parts().all()) {
                *sum = sum.saturating_add(*value);
            }
            sum
        })
    }
}

/// The counters, stored so that one thread writes them and others read them.
#[derive(Debug, Default)]
pub(crate) struct SharedStatistics(SharedCounters<{ Parts::LEN }>);

impl SharedStatistics {
    pub(crate) fn publish(&self, statistics: &ShardStatistics) {
        let mut statistics = *statistics;
        self.0.publish(statistics.parts().all().map(|value| &*value));
    }

    pub(crate) fn read(&self) -> ShardStatistics {
        let mut statistics = ShardStatistics::default();
        for (value, read) in statistics.parts().all().zip(self.0.read()) {
            *value = read;
        }
        statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_and_turns_are_counted_by_size_and_duration() {
        let mut statistics = ShardStatistics::default();
        for datagrams in [1, 2, 3, 4, 64] {
            statistics.on_batch_sent(datagrams, 100);
        }
        assert_eq!(statistics.batches_by_size, [1, 1, 2, 0, 0, 0, 1]);
        assert_eq!((statistics.batches_sent, statistics.datagrams_sent), (5, 74));
        assert_eq!(statistics.bytes_sent, 500);
        for micros in [5, 6, 100_000, 100_001] {
            statistics.on_turn(Duration::from_micros(micros));
        }
        let [first, second, .., last_but_one, last] = statistics.turns_by_duration;
        assert_eq!([first, second, last_but_one, last], [1; 4]);
        assert_eq!(statistics.turn_time(), Duration::from_micros(200_012));
    }

    #[test]
    fn what_is_published_is_read_and_added_up() {
        let mut statistics = ShardStatistics::default();
        (1..).zip(statistics.parts().all()).for_each(|(number, counter)| *counter = number);
        assert_eq!(statistics.parts().all().count(), Parts::LEN);
        let shared = SharedStatistics::default();
        shared.publish(&statistics);
        assert_eq!(shared.read(), statistics);
        let twice: ShardStatistics = [statistics, shared.read()].into_iter().sum();
        assert_eq!(twice.connections, 2 * statistics.connections);
        assert_eq!(twice.turns_by_duration[3], 2 * statistics.turns_by_duration[3]);
        assert_eq!(twice.turn_time(), 2 * statistics.turn_time());
    }
}
