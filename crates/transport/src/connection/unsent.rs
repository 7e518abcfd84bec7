//! Recovery from failed sends: the local address is gone, there is no route, or a local rule, such
//! as a firewall rule, forbids it.
//!
//! Datagrams that the kernel rejects have not reached the network. A rejection is therefore not a
//! congestion signal, and the contents are retransmitted as soon as the kernel accepts datagrams
//! again, however long that takes. A client whose local address is gone continues from the address
//! that the operating system chooses instead (RFC 9000 §9).

use core::net::IpAddr;
use core::time::Duration;

use clearway_units::Timestamp;

use super::{Connection, Transmit};
use crate::event::{ConnectionError, Event};
use crate::observer::Observation;
use crate::send_failure::SendFailure;

/// The time from the first failure to the next attempt; doubles after each failure.
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// The upper limit of the time between attempts: an attempt costs the host one system call, and the
/// network nothing.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The state while the kernel rejects datagrams for the current path.
#[derive(Debug)]
pub(super) struct Unsent {
    failure: SendFailure,
    wait: Duration,
    /// The time of the next attempt; `None` while one is in progress.
    retry_at: Option<Timestamp>,
}

impl Connection {
    /// Reports that the kernel has rejected the last batch and would currently reject it again.
    /// Call this instead of [`transmitted`](Self::transmitted). The contents are retransmitted,
    /// which is not a congestion signal: on another path when it is validated again, and on the
    /// current path when a retry succeeds, at most half a second after sending becomes possible. A
    /// CONNECTION_CLOSE is repeated until the closing period ends (RFC 9000 §10.2), if the peer has
    /// ever answered.
    ///
    /// If the [local address is gone](SendFailure::AddressGone), a client whose handshake is
    /// confirmed and whose server does not forbid it continues from the address that the operating
    /// system chooses (RFC 9000 §9.2), with another connection ID if the server has issued one
    /// (§9.5), and with the initial values of a new path (§9.4). [`Event::LocalAddressLost`]
    /// reports the loss, and [`Event::LocalAddressChanged`] that the server has answered at the new
    /// address. All other endpoints wait for the address to come back.
    pub fn transmit_failed(&mut self, now: Timestamp, failure: SendFailure) {
        if !self.abandon_batch(now) {
            return;
        }
        self.counters.send_failures = self.counters.send_failures.saturating_add(1);
        if self.outgoing.is_off_path {
            return;
        }
        self.hold_sending(now, failure);
        // A peer that has answered does not learn in any other way that the connection is closed.
        if self.is_answered() {
            self.lifecycle.repeat_close();
        }
    }

    /// Records how many bytes to subtract for an unvalidated address if this host fails to send the
    /// batch (RFC 9000 §8.1): the size of the last datagram. The kernel may have accepted the other
    /// datagrams individually.
    pub(super) fn count_last(&mut self, transmit: &Transmit) {
        let is_counted =
            !self.outgoing.is_off_path && self.paths.current().amplification_credit() < u64::MAX;
        self.outgoing.last_counted = match transmit.segment_size {
            _ if !is_counted => 0,
            None => u16::try_from(transmit.size).unwrap_or(0),
            Some(segment) => {
                let others = transmit.size.saturating_sub(1).checked_div(segment).unwrap_or(0);
                let last = transmit.size.saturating_sub(others.saturating_mul(segment));
                u16::try_from(last).unwrap_or(0)
            }
        };
    }

    /// Abandons the last batch: its packets count as lost, which is not a congestion signal.
    /// Returns `false` if there is no batch, or the connection failed.
    pub(super) fn abandon_batch(&mut self, now: Timestamp) -> bool {
        if !core::mem::take(&mut self.outgoing.awaits_kernel) {
            return false;
        }
        self.outgoing.mtu_probe = None;
        self.outgoing.batch_elicits_ack = false;
        let unsent = core::mem::take(&mut self.outgoing.last_counted);
        self.paths.current_mut().on_unsent(u64::from(unsent));
        if let Err(error) = self.recovery.get_mut().unsent(now) {
            self.fail(now, error);
            return false;
        }
        self.dispatch_tokens();
        self.observe_recovery(now);
        true
    }

    pub(super) fn hold_sending(&mut self, now: Timestamp, failure: SendFailure) {
        let last = self.unsent.as_ref().map(|unsent| unsent.wait);
        let wait = last.map_or(FIRST_WAIT, |last| last.saturating_mul(2)).min(LONGEST_WAIT);
        let retry_at = Some(now + wait);
        self.unsent = Some(Box::new(Unsent { failure, wait, retry_at }));
        if failure == SendFailure::AddressGone && !self.lifecycle.is_closed() {
            self.leave_local_address(now);
        }
    }

    /// Handles the kernel's acceptance of a batch for the current path.
    pub(super) fn on_sendable(&mut self, now: Timestamp) {
        if self.unsent.take().is_some() {
            self.recovery.get_mut().end_backoff(now);
        }
    }

    /// Returns whether sending on the current path is suspended until the next attempt.
    pub(super) fn holds_sending(&self) -> bool {
        self.unsent.as_ref().is_some_and(|unsent| unsent.retry_at.is_some())
    }

    /// Returns the time of the next attempt.
    pub(super) fn retry_deadline(&self) -> Option<Timestamp> {
        self.unsent.as_ref().and_then(|unsent| unsent.retry_at)
    }

    /// Starts the next attempt, if it is due.
    pub(super) fn end_hold(&mut self, now: Timestamp) -> bool {
        let unsent = self.unsent.as_mut();
        unsent.is_some_and(|unsent| unsent.retry_at.take_if(|at| *at <= now).is_some())
    }

    /// Tries to send again, at least a PING: the rejected datagram may have contained only an ACK
    /// frame.
    pub(super) fn retry_sending(&mut self, now: Timestamp) {
        if self.end_hold(now) {
            match self.lifecycle.is_handshaking() {
                true => self.probe_handshake(None, 1),
                false => self.flags.ping_pending = true,
            }
        }
    }

    /// Returns whether the next attempt will show if the interface carries datagrams of 1200 bytes
    /// again. Smaller ones may pass, but none is sent on such a path (RFC 9000 §14.2).
    pub(super) fn tests_smallest_mtu(&self) -> bool {
        self.unsent.as_ref().is_some_and(|unsent| unsent.failure == SendFailure::MtuTooSmall)
    }

    /// Returns the error with which a connection ends after the peer has been silent for too long,
    /// or has not completed the handshake in time. The cause may be that this host cannot send.
    pub(super) fn cause_of_silence(&self) -> ConnectionError {
        match &self.unsent {
            Some(unsent) => ConnectionError::CannotSend(unsent.failure),
            None if self.lifecycle.is_handshaking() => {
                ConnectionError::HandshakeTimedOut(self.handshake_packets())
            }
            None => ConnectionError::TimedOut,
        }
    }

    /// Lets the operating system choose the local address from this point on.
    fn leave_local_address(&mut self, now: Timestamp) {
        let Some(old) = self.paths.current().local_ip() else { return };
        // §9, §18.2: before the handshake is confirmed, or if the server forbids it, no other
        // address may be used.
        let is_forbidden =
            self.peer.parameters.disable_active_migration && !self.flags.is_at_preferred_address;
        if self.side.is_server() || !self.lifecycle.is_confirmed() || is_forbidden {
            return;
        }
        let address = self.paths.current().address();
        self.remote_ids.follow(address, address, !self.remote_ids.has_spare());
        self.paths.leave_local_ip();
        self.release_connection_ids();
        if !self.start_path(now, true) {
            return;
        }
        self.flags.local_ip_left = Some(Box::new(old));
        self.flags.ping_pending = true;
        let path = *self.paths.current();
        let updated = Observation::PathUpdated {
            socket: path.socket(),
            remote: path.remote(),
            is_validated: true,
            is_new_path: true,
        };
        self.observe(now, &updated);
        self.events.push_back(Event::LocalAddressLost(old));
    }

    /// Handles a packet that the peer sent to the local address `to`.
    pub(super) fn notice_local_address(&mut self, to: Option<IpAddr>) {
        if let Some(to) = to
            && let Some(from) = self.flags.local_ip_left.take_if(|left| **left != to)
        {
            self.events.push_back(Event::LocalAddressChanged { from: *from, to });
        }
    }
}
