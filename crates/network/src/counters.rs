use core::fmt;

use crate::{DropReason, Way};

/// The counters of a link.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// The counters of the direction from the client to the server.
    pub to_server: WayCounters,
    /// The counters of the direction from the server to the client.
    pub to_client: WayCounters,
}

impl Counters {
    /// Returns the counters of one direction.
    pub const fn of(&self, way: Way) -> &WayCounters {
        match way {
            Way::ToServer => &self.to_server,
            Way::ToClient => &self.to_client,
        }
    }

    pub(crate) const fn of_mut(&mut self, way: Way) -> &mut WayCounters {
        match way {
            Way::ToServer => &mut self.to_server,
            Way::ToClient => &mut self.to_client,
        }
    }
}

/// The counters of one direction, in datagrams unless stated otherwise.
///
/// At any time, `received + duplicated == delivered + dropped() + in_pipe`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WayCounters {
    /// Datagrams submitted to the link.
    pub received: u64,
    /// Payload bytes submitted to the link.
    pub received_bytes: u64,
    /// Datagrams that the link delivered, duplicates included.
    pub delivered: u64,
    /// Payload bytes that the link delivered.
    pub delivered_bytes: u64,
    /// Datagrams in the queue, on the wire, in transit or at the receiver.
    pub in_pipe: u64,
    /// Datagrams dropped for [`DropReason::Random`].
    pub lost_random: u64,
    /// Datagrams dropped for [`DropReason::Burst`].
    pub lost_burst: u64,
    /// Datagrams dropped for [`DropReason::Listed`].
    pub lost_listed: u64,
    /// Datagrams dropped for [`DropReason::Disturbance`].
    pub lost_disturbance: u64,
    /// Datagrams dropped for [`DropReason::Queue`].
    pub dropped_queue: u64,
    /// Datagrams dropped for [`DropReason::Pipe`].
    pub dropped_pipe: u64,
    /// Datagrams dropped for [`DropReason::TooLarge`].
    pub too_large: u64,
    /// Datagrams dropped for [`DropReason::Ecn`].
    pub dropped_ecn: u64,
    /// Datagrams dropped for [`DropReason::Policer`].
    pub dropped_policer: u64,
    /// Datagrams dropped for [`DropReason::QueueManagement`].
    pub dropped_queue_management: u64,
    /// Datagrams dropped for [`DropReason::AckFilter`].
    pub dropped_ack_filter: u64,
    /// Datagrams dropped for [`DropReason::SocketBuffer`].
    pub dropped_socket_buffer: u64,
    /// Datagrams dropped for [`DropReason::OldBinding`].
    pub dropped_old_binding: u64,
    /// Datagrams that the link delivered after a datagram that had entered later.
    pub reordered: u64,
    /// Copies of datagrams that the link made.
    pub duplicated: u64,
    /// Datagrams forwarded with one byte changed; a copy of such a datagram is not counted again.
    pub corrupted: u64,
    /// Datagrams that the queue marked CE.
    pub marked: u64,
    /// Datagrams whose ECN codepoint was cleared.
    pub bleached: u64,
    /// Datagrams whose ECN codepoint was changed to another one, not counting marks by a queue.
    pub remarked: u64,
}

impl WayCounters {
    /// Returns the total number of drops.
    pub fn dropped(&self) -> u64 {
        [
            self.lost_random,
            self.lost_burst,
            self.lost_listed,
            self.lost_disturbance,
            self.dropped_queue,
            self.dropped_pipe,
            self.too_large,
            self.dropped_ecn,
            self.dropped_policer,
            self.dropped_queue_management,
            self.dropped_ack_filter,
            self.dropped_socket_buffer,
            self.dropped_old_binding,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        increment(match reason {
            DropReason::Random => &mut self.lost_random,
            DropReason::Burst => &mut self.lost_burst,
            DropReason::Listed => &mut self.lost_listed,
            DropReason::Disturbance => &mut self.lost_disturbance,
            DropReason::Queue => &mut self.dropped_queue,
            DropReason::Pipe => &mut self.dropped_pipe,
            DropReason::TooLarge => &mut self.too_large,
            DropReason::Ecn => &mut self.dropped_ecn,
            DropReason::Policer => &mut self.dropped_policer,
            DropReason::QueueManagement => &mut self.dropped_queue_management,
            DropReason::AckFilter => &mut self.dropped_ack_filter,
            DropReason::SocketBuffer => &mut self.dropped_socket_buffer,
            DropReason::OldBinding => &mut self.dropped_old_binding,
        });
    }
}

pub(crate) fn add_bytes(counter: &mut u64, length: usize) {
    *counter = counter.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
}

pub(crate) fn increment(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

impl fmt::Display for WayCounters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} received ({} bytes), {} delivered ({} bytes)",
            self.received, self.received_bytes, self.delivered, self.delivered_bytes
        )?;
        let details = [
            ("in the pipe", self.in_pipe),
            ("lost at random", self.lost_random),
            ("lost in bursts", self.lost_burst),
            ("listed as lost", self.lost_listed),
            ("lost to a disturbance", self.lost_disturbance),
            ("dropped by the queue", self.dropped_queue),
            ("dropped because the pipe was full", self.dropped_pipe),
            ("too large", self.too_large),
            ("dropped because of their ECN field", self.dropped_ecn),
            ("dropped by the policer", self.dropped_policer),
            ("dropped by queue management", self.dropped_queue_management),
            ("dropped by the ACK filter", self.dropped_ack_filter),
            ("dropped by the socket buffer", self.dropped_socket_buffer),
            ("addressed to an old NAT binding", self.dropped_old_binding),
            ("reordered", self.reordered),
            ("duplicated", self.duplicated),
            ("corrupted", self.corrupted),
            ("marked CE", self.marked),
            ("bleached", self.bleached),
            ("ECN field changed", self.remarked),
        ];
        for (name, count) in details.into_iter().filter(|(_, count)| *count > 0) {
            write!(formatter, ", {count} {name}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "to server: {}", self.to_server)?;
        write!(formatter, "to client: {}", self.to_client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_counter_and_adds_to_the_sum() {
        let mut counters = WayCounters::default();
        let reasons = [
            DropReason::Random,
            DropReason::Burst,
            DropReason::Listed,
            DropReason::Disturbance,
            DropReason::Queue,
            DropReason::Pipe,
            DropReason::TooLarge,
            DropReason::Ecn,
            DropReason::Policer,
            DropReason::QueueManagement,
            DropReason::AckFilter,
            DropReason::SocketBuffer,
            DropReason::OldBinding,
        ];
        for reason in reasons {
            counters.count_drop(reason);
        }
        assert_eq!(counters.dropped(), 13);
        let expected = WayCounters {
            lost_random: 1,
            lost_burst: 1,
            lost_listed: 1,
            lost_disturbance: 1,
            dropped_queue: 1,
            dropped_pipe: 1,
            too_large: 1,
            dropped_ecn: 1,
            dropped_policer: 1,
            dropped_queue_management: 1,
            dropped_ack_filter: 1,
            dropped_socket_buffer: 1,
            dropped_old_binding: 1,
            ..WayCounters::default()
        };
        assert_eq!(counters, expected);
    }

    #[test]
    fn shows_only_what_happened() {
        let to_server = WayCounters {
            received: 3,
            received_bytes: 300,
            delivered: 2,
            delivered_bytes: 200,
            lost_random: 1,
            ..WayCounters::default()
        };
        let counters = Counters { to_server, to_client: WayCounters::default() };
        assert_eq!(
            counters.to_string(),
            "to server: 3 received (300 bytes), 2 delivered (200 bytes), 1 lost at random\n\
             to client: 0 received (0 bytes), 0 delivered (0 bytes)"
        );
    }
}
