//! When the connection has to be woken, and what it does then (law 8).

use core::time::Duration;

use clearway_units::{ReleaseTime, Timestamp};
use clearway_wire::VarInt;

use super::Connection;
use super::lifecycle::Lifecycle;
use crate::event::ConnectionError;
use crate::observer::{Observation, TimerChange, TimerKind};
use crate::space_id::SpaceId;

/// RFC 9000 §10.1: at least this many probe timeouts of silence before a connection is given up.
const MINIMUM_IDLE_TIMEOUTS: u32 = 3;

/// The idle timeout: restarted by what comes, and by the first ack-eliciting packet sent after it.
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

    /// The smaller of the two ends' timeouts holds; zero means none.
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

    /// How long both ends may be silent; `None` for ever.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// When a packet came last, or one was sent that elicits an ACK.
    pub(super) fn last_activity(&self) -> Timestamp {
        self.last_activity
    }

    /// For how long nothing had come when a packet was sent last that elicits an ACK; zero if something
    /// came since.
    pub(super) fn silence(&self) -> Duration {
        self.last_activity.saturating_since(self.last_received)
    }

    /// `probe_timeout` is the one without backoff: with it, a dead peer would never be noticed.
    fn deadline(&self, probe_timeout: Duration) -> Option<Timestamp> {
        let least = probe_timeout.saturating_mul(MINIMUM_IDLE_TIMEOUTS);
        self.timeout.map(|timeout| self.since + timeout.max(least))
    }
}

impl Connection {
    /// When [`on_deadline`](Self::on_deadline) has to be called; `None` if there is nothing to wait
    /// for.
    pub fn deadline(&self) -> Option<Timestamp> {
        match self.lifecycle {
            Lifecycle::Drained => return None,
            Lifecycle::Closing { until, .. } | Lifecycle::Draining { until } => return Some(until),
            _ => {}
        }
        // What came with keys that are discarded meanwhile is not acknowledged any more; and nothing
        // is while the peer's address permits no datagram.
        let protection = self.handshake.protection();
        let may_send = !self.at_amplification_limit();
        let acks = self
            .received
            .iter()
            .filter(|(space, _)| may_send && protection.can_seal(*space))
            .filter_map(|(_, received)| received.deadline())
            .min();
        [
            acks,
            self.recovery.deadline(&self.pto_context()),
            self.recovery.pacer_deadline(),
            self.idle.deadline(self.probe_timeout()),
            self.keep_alive_deadline(),
            self.answer_deadline(),
            self.blocked_deadline(),
            self.handshake_deadline(),
            self.paths.deadline(),
            self.handshake.protection().deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Does what is due at `now`. Calling it early does no harm.
    pub fn on_deadline(&mut self, now: Timestamp) {
        match self.lifecycle {
            Lifecycle::Drained => return,
            Lifecycle::Closing { until, .. } | Lifecycle::Draining { until } => {
                if until <= now {
                    self.abandon(now, ConnectionError::LocallyClosed);
                }
                return;
            }
            _ => {}
        }
        let is_due = |deadline: Option<Timestamp>| deadline.is_some_and(|at| at <= now);
        if is_due(self.idle.deadline(self.probe_timeout())) {
            self.abandon(now, ConnectionError::TimedOut);
            return;
        }
        if is_due(self.handshake_deadline()) {
            self.abandon(now, ConnectionError::HandshakeTimedOut);
            return;
        }
        if is_due(self.keep_alive_deadline()) {
            self.flags.ping_owed = true;
        }
        if is_due(self.answer_deadline()) {
            self.ask_for_answer();
        }
        if is_due(self.blocked_deadline()) {
            self.say_blocked_again();
        }
        self.handshake.protection_mut().on_deadline(now);
        self.on_path_deadline(now);
        let context = self.pto_context();
        match self.recovery.on_deadline(now, &context) {
            Ok(expired) => self.on_recovery_expired(now, expired),
            Err(error) => self.fail(now, error),
        }
    }

    /// Tells the observer which timers changed since it was last told.
    pub(super) fn observe_timers(&mut self, now: Timestamp) {
        if self.watch.observer.is_none() {
            return;
        }
        let recovery = self.recovery.deadline(&self.pto_context());
        let loss = self.recovery.loss_deadline();
        let acks = self.received.iter().filter_map(|(_, received)| received.deadline()).min();
        let timers = [
            (TimerKind::Loss, loss),
            (TimerKind::ProbeTimeout, recovery.filter(|_| loss.is_none())),
            (TimerKind::Ack, acks),
            (TimerKind::Pacing, self.recovery.pacer_deadline()),
            (TimerKind::Idle, self.idle.deadline(self.probe_timeout())),
            (TimerKind::Handshake, self.handshake_deadline()),
            (TimerKind::PathValidation, self.paths.deadline()),
        ];
        let known = core::mem::replace(&mut self.watch.timers, timers.map(|(_, at)| at));
        for ((timer, at), before) in timers.into_iter().zip(known) {
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

    fn keep_alive_deadline(&self) -> Option<Timestamp> {
        let interval = self.config.keep_alive_interval?;
        let is_wanted = !self.flags.ping_owed && self.handshake.is_complete();
        // Something that elicits an ACK is on its way already: its answer is the sign of life.
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
