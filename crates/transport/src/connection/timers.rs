//! The connection's timers: their deadlines, and the actions upon expiry (law 8).

use core::time::Duration;

use clearway_units::{ReleaseTime, Timestamp};
use clearway_wire::VarInt;

use super::Connection;
use super::state::Lifecycle;
use crate::observer::{Observation, TimerChange, TimerKind};
use crate::space_id::SpaceId;

/// The minimum idle timeout, in probe timeouts (RFC 9000 §10.1).
const MINIMUM_IDLE_TIMEOUTS: u32 = 3;

/// The idle timeout. It restarts when a packet is received, and when the first ack-eliciting packet after that is sent
/// (RFC 9000 §10.1).
#[derive(Debug)]
pub(super) struct IdleTimer {
    timeout: Option<Duration>,
    since: Timestamp,
    sent_since_receiving: bool,
    last_received: Timestamp,
    last_activity: Timestamp,
}

impl IdleTimer {
    pub(super) fn new(now: Timestamp, timeout: Option<Duration>) -> Self {
        Self {
            timeout,
            since: now,
            sent_since_receiving: false,
            last_received: now,
            last_activity: now,
        }
    }

    /// Sets the timeout to the smaller of the two endpoints' timeouts. Zero milliseconds means that
    /// the peer has none.
    pub(super) fn negotiate(&mut self, peer_milliseconds: VarInt) {
        if peer_milliseconds != VarInt::ZERO {
            let peer = Duration::from_millis(peer_milliseconds.get());
            self.timeout = Some(self.timeout.map_or(peer, |local| local.min(peer)));
        }
    }

    pub(super) fn on_received(&mut self, now: Timestamp) {
        self.since = now;
        self.last_received = now;
        self.last_activity = now;
        self.sent_since_receiving = false;
    }

    pub(super) fn on_ack_eliciting_sent(&mut self, now: Timestamp) {
        self.last_activity = now;
        if !core::mem::replace(&mut self.sent_since_receiving, true) {
            self.since = now;
        }
    }

    /// Returns the effective idle timeout; `None` if neither endpoint has one.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns the last time that a packet was received or an ack-eliciting one was sent.
    pub(super) fn last_activity(&self) -> Timestamp {
        self.last_activity
    }

    /// Returns the time for which nothing had been received when the last ack-eliciting packet was
    /// sent; zero if a packet has been received since.
    pub(super) fn silence(&self) -> Duration {
        self.last_activity.saturating_since(self.last_received)
    }

    /// Returns the deadline. `probe_timeout` is the one without backoff: with backoff every probe
    /// would postpone the deadline, and a dead peer would never be detected.
    fn deadline(&self, probe_timeout: Duration) -> Option<Timestamp> {
        let least = probe_timeout.saturating_mul(MINIMUM_IDLE_TIMEOUTS);
        self.timeout.map(|timeout| self.since + timeout.max(least))
    }
}

/// The kind of event that a timer waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    /// A local event, regardless of what the peer does.
    Own,
    /// Any packet from the peer.
    Silence,
    /// A response from the peer, which takes longer while a host that many connections share is
    /// busy.
    Answer,
}

/// The next expiry times of a connection's timers, by kind; `None` if no timer of that kind is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deadlines {
    /// Timers that expire whatever the peer does: an acknowledgment is due, the pacer allows a
    /// datagram, …
    pub own: Option<Timestamp>,
    /// Timers that expire because nothing arrives from the peer: the probe timeout, the idle
    /// timeout, …
    pub silence: Option<Timestamp>,
}

/// A connection timer: its deadline, which is derived from the connection's state on every call,
/// and its action upon expiry.
pub(super) struct Timer {
    pub(super) kind: TimerKind,
    wait: Wait,
    pub(super) deadline: fn(&Connection) -> Option<Timestamp>,
    expire: fn(&mut Connection, Timestamp),
}

/// All timers of a connection. Timers that are due at the same time expire in this order, unless an
/// earlier one moves the deadline of a later one.
pub(super) const TIMERS: [Timer; TimerKind::COUNT] = [
    Timer {
        kind: TimerKind::Closing,
        wait: Wait::Own,
        deadline: Connection::closing_deadline,
        expire: Connection::on_closing_deadline,
    },
    Timer {
        kind: TimerKind::Idle,
        wait: Wait::Answer,
        deadline: Connection::idle_deadline,
        expire: |connection, now| {
            let cause = connection.cause_of_silence();
            connection.abandon(now, cause);
        },
    },
    Timer {
        kind: TimerKind::Handshake,
        wait: Wait::Silence,
        deadline: Connection::handshake_deadline,
        expire: Connection::give_up_handshake,
    },
    Timer {
        kind: TimerKind::KeepAlive,
        wait: Wait::Own,
        deadline: Connection::keep_alive_deadline,
        expire: |connection, _| connection.flags.ping_pending = true,
    },
    Timer {
        kind: TimerKind::ResponsePing,
        wait: Wait::Answer,
        deadline: Connection::response_ping_deadline,
        expire: |connection, _| connection.ping_for_response(),
    },
    Timer {
        kind: TimerKind::Blocked,
        wait: Wait::Own,
        deadline: Connection::blocked_deadline,
        expire: |connection, _| connection.repeat_blocked(),
    },
    Timer {
        kind: TimerKind::KeyDiscard,
        wait: Wait::Own,
        deadline: |connection| connection.handshake.protection().deadline(),
        expire: |connection, now| connection.handshake.protection_mut().on_deadline(now),
    },
    Timer {
        kind: TimerKind::PathValidation,
        wait: Wait::Answer,
        deadline: |connection| {
            let retry = connection.retry_deadline();
            retry.into_iter().chain(connection.paths.deadline()).min()
        },
        expire: Connection::on_path_deadline,
    },
    // Before the loss timer: this timer is not set while that one is (RFC 9002 §6.2.1), so both
    // never expire in one pass.
    Timer {
        kind: TimerKind::ProbeTimeout,
        wait: Wait::Answer,
        deadline: Connection::probe_deadline,
        expire: Connection::on_recovery_deadline,
    },
    Timer {
        kind: TimerKind::Loss,
        // A later packet was acknowledged, so this does not wait for a slow response.
        wait: Wait::Silence,
        deadline: |connection| connection.recovery.loss_deadline(&connection.pto_context()),
        expire: Connection::on_recovery_deadline,
    },
    Timer {
        kind: TimerKind::Ack,
        wait: Wait::Own,
        deadline: Connection::ack_deadline,
        expire: transmit_follows,
    },
    Timer {
        kind: TimerKind::Pacing,
        wait: Wait::Own,
        deadline: |connection| connection.recovery.pacer_deadline(),
        expire: transmit_follows,
    },
    Timer {
        kind: TimerKind::Compaction,
        wait: Wait::Own,
        deadline: Connection::compaction_deadline,
        expire: Connection::compact,
    },
];

/// Does nothing: [`Connection::transmit`], which is called after every deadline, sends what is due.
fn transmit_follows(_: &mut Connection, _: Timestamp) {}

impl Timer {
    /// Returns when the timer expires; `None` while it is not set. While the connection is closing
    /// or draining, only the timer that ends it is set.
    fn deadline_of(&self, connection: &Connection) -> Option<Timestamp> {
        let is_closing = self.kind == TimerKind::Closing;
        if connection.lifecycle.is_closed() != is_closing {
            return None;
        }
        (self.deadline)(connection)
    }

    /// Returns how much later the timer expires if responses are delayed by `delay`.
    fn delay(&self, delay: Duration) -> Duration {
        if self.wait == Wait::Answer { delay } else { Duration::ZERO }
    }
}

impl Connection {
    /// Returns when [`on_deadline`](Self::on_deadline) has to be called; `None` if no timer is set.
    pub fn deadline(&self) -> Option<Timestamp> {
        TIMERS.iter().filter_map(|timer| timer.deadline_of(self)).min()
    }

    /// Runs the timers that have expired at `now`. A call before the deadline changes nothing.
    pub fn on_deadline(&mut self, now: Timestamp) {
        self.on_delayed_deadline(now, now, Duration::ZERO);
    }

    /// Runs the timers that have expired at `now`. All datagrams that arrived by `received_until`
    /// have been processed, and responses take longer by `delay` than the connection has measured;
    /// see [`Endpoint::on_deadline`](crate::Endpoint::on_deadline).
    pub(crate) fn on_delayed_deadline(
        &mut self,
        now: Timestamp,
        received_until: Timestamp,
        delay: Duration,
    ) {
        for timer in &TIMERS {
            let expired = if timer.wait == Wait::Own { now } else { now.min(received_until) };
            if timer.deadline_of(self).is_some_and(|at| at + timer.delay(delay) <= expired) {
                (timer.expire)(self, now);
            }
        }
        if !self.lifecycle.is_closed() {
            self.observe_recovery(now);
        }
    }

    /// Returns the deadlines if responses are known to take longer by `delay` than the connection
    /// has measured.
    pub(crate) fn delayed_deadlines(&self, delay: Duration) -> Deadlines {
        let mut deadlines = Deadlines::default();
        for timer in &TIMERS {
            let Some(at) = timer.deadline_of(self) else { continue };
            let (first, at) = match timer.wait {
                Wait::Own => (&mut deadlines.own, at),
                Wait::Silence => (&mut deadlines.silence, at),
                Wait::Answer => (&mut deadlines.silence, at + delay),
            };
            *first = Some(first.map_or(at, |first| first.min(at)));
        }
        deadlines
    }

    /// Reports timers that have changed since the last call to the observer.
    pub(super) fn observe_timers(&mut self, now: Timestamp) {
        if self.watch.observer.is_none() {
            return;
        }
        let timers = TIMERS.each_ref().map(|timer| timer.deadline_of(self));
        let known = self.watch.timers.get_or_insert_with(|| Box::new([None; TimerKind::COUNT]));
        let known = core::mem::replace(&mut **known, timers);
        for ((timer, at), before) in TIMERS.iter().zip(timers).zip(known) {
            let timer = timer.kind;
            let change = match (at, before) {
                _ if at == before => continue,
                (Some(at), _) if timer == TimerKind::Pacing => {
                    TimerChange::Paced(ReleaseTime::at(at))
                }
                (Some(at), _) => TimerChange::Set(at),
                (None, Some(before)) if before <= now => TimerChange::Expired,
                (None, _) => TimerChange::Cancelled,
            };
            self.observe(now, &Observation::TimerUpdated { timer, change });
        }
    }

    fn on_recovery_deadline(&mut self, now: Timestamp) {
        let context = self.pto_context();
        match self.recovery.get_mut().on_deadline(now, &context) {
            Ok(expired) => self.on_recovery_expired(expired),
            Err(error) => self.fail(now, error),
        }
    }

    fn closing_deadline(&self) -> Option<Timestamp> {
        match self.lifecycle {
            Lifecycle::Closing { until, pending: true, .. } => {
                Some(self.retry_deadline().map_or(until, |retry| retry.min(until)))
            }
            Lifecycle::Closing { until, .. } | Lifecycle::Draining { until } => Some(until),
            _ => None,
        }
    }

    fn idle_deadline(&self) -> Option<Timestamp> {
        self.idle.deadline(self.probe_timeout())
    }

    /// While this host cannot send, a separate timer schedules the retries, and nothing can be
    /// concluded from the peer's silence.
    fn probe_deadline(&self) -> Option<Timestamp> {
        match self.holds_sending() {
            true => None,
            false => self.recovery.probe_deadline(&self.pto_context()),
        }
    }

    /// Packets whose keys have since been discarded are no longer acknowledged, and nothing is sent
    /// at the anti-amplification limit or while this host cannot send.
    pub(super) fn ack_deadline(&self) -> Option<Timestamp> {
        let protection = self.handshake.protection();
        let may_send = !self.at_amplification_limit() && !self.holds_sending();
        self.received
            .iter()
            .filter(|(space, _)| may_send && protection.can_seal(*space))
            .filter_map(|(_, received)| received.deadline())
            .min()
    }

    fn keep_alive_deadline(&self) -> Option<Timestamp> {
        let interval = self.config.keep_alive_interval?;
        let is_wanted = !self.flags.ping_pending && self.handshake.is_complete();
        // While an ack-eliciting packet is outstanding, its acknowledgment will show that the peer
        // is alive.
        let is_idle = self.recovery.is_nothing_outstanding(SpaceId::Application);
        (is_wanted && is_idle).then(|| self.idle.last_activity + interval)
    }

    fn handshake_deadline(&self) -> Option<Timestamp> {
        match self.lifecycle {
            Lifecycle::Handshaking { deadline } => Some(deadline),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table has the same order as the kinds: none is missing, and none occurs twice.
    #[test]
    fn every_kind_has_its_row() {
        for (place, timer) in TIMERS.iter().enumerate() {
            assert_eq!(timer.kind as usize, place, "{:?}", timer.kind);
        }
    }
}
