//! Detects flow control limits that this endpoint raises too late for its peer.

use core::time::Duration;
use std::collections::BTreeMap;

use super::state::State;
use super::{Detector, Finding, FindingId, keep_worst, text};
use crate::read::{Event, EventKind, Frame};

/// The minimum duration of a stall for a finding, both in time and in round trips. Shorter stalls
/// are reported if they reach the total duration and the share of the time below. The bounds are
/// the same as for the peer's limits.
const STALL: Duration = Duration::from_secs(1);
const STALL_ROUND_TRIPS: u32 = 16;
const TOGETHER: Duration = Duration::from_secs(2);
const SHARE: f64 = 0.5;
/// The maximum number of streams that are tracked at a time; additional ones are ignored.
const MAX_STREAMS: usize = 1024;

/// The stream that a limit belongs to. `None` for the connection's limit.
type Owner = Option<u64>;

/// Checks how long the peer waits for this endpoint to raise a limit.
#[derive(Clone, Debug, Default)]
pub(super) struct LateLimits {
    /// The limits that the peer has reached, each with the time at which data last arrived.
    blocked: BTreeMap<Owner, (u64, Duration)>,
    /// The highest limits that were sent.
    raised: BTreeMap<Owner, u64>,
    /// When the peer began to wait for a limit to be raised, if it is waiting now.
    since: Option<Duration>,
    first: Option<Duration>,
    longest: Option<(Duration, Duration, u64)>,
    total: Duration,
    count: u64,
}

impl LateLimits {
    fn on_blocked(&mut self, owner: Owner, limit: u64, now: Duration) {
        let is_raised = self.raised.get(&owner).is_some_and(|raised| *raised > limit);
        if !is_raised && (self.blocked.len() < MAX_STREAMS || self.blocked.contains_key(&owner)) {
            self.blocked.entry(owner).or_insert((limit, now));
        }
    }

    fn on_raised(&mut self, owner: Owner, limit: u64, now: Duration) {
        if self.raised.len() >= MAX_STREAMS && !self.raised.contains_key(&owner) {
            self.raised.pop_last();
        }
        let known = self.raised.entry(owner).or_default();
        *known = (*known).max(limit);
        if self.blocked.get(&owner).is_some_and(|(reached, _)| limit > *reached) {
            self.unblock(owner, now);
        }
    }

    fn unblock(&mut self, owner: Owner, now: Duration) {
        let Some((limit, since)) = self.blocked.remove(&owner) else { return };
        if now > since {
            let stall = (since, now, limit);
            keep_worst(&mut self.longest, stall, |(begin, end, _)| end.saturating_sub(*begin));
            self.count = self.count.saturating_add(1);
        }
        if self.blocked.is_empty()
            && let Some(since) = self.since.take()
        {
            self.total = self.total.saturating_add(now.saturating_sub(since));
        }
    }

    fn on_received(&mut self, frame: &Frame, now: Duration) {
        match frame {
            Frame::DataBlocked { limit } => self.on_blocked(None, *limit, now),
            Frame::StreamDataBlocked { stream, limit } => {
                self.on_blocked(Some(*stream), *limit, now);
            }
            // Data was still in flight, so the limit has cost nothing yet.
            Frame::Stream { stream, .. } => {
                for owner in [None, Some(*stream)] {
                    if let Some((_, since)) = self.blocked.get_mut(&owner) {
                        *since = now;
                    }
                }
                if !self.blocked.is_empty() {
                    self.since = Some(now);
                }
            }
            Frame::ResetStream { stream } => self.unblock(Some(*stream), now),
            _ => {}
        }
        if !self.blocked.is_empty() {
            self.since.get_or_insert(now);
        }
    }
}

impl Detector for LateLimits {
    fn on_event(&mut self, event: &Event, state: &State) {
        match &event.kind {
            EventKind::PacketReceived(packet) => {
                self.first.get_or_insert(state.now);
                for frame in packet.frames.iter().flatten() {
                    self.on_received(frame, state.now);
                }
            }
            EventKind::PacketSent(packet) => {
                for frame in packet.frames.iter().flatten() {
                    match frame {
                        Frame::MaxData { maximum } => self.on_raised(None, *maximum, state.now),
                        Frame::MaxStreamData { stream, maximum } => {
                            self.on_raised(Some(*stream), *maximum, state.now);
                        }
                        // This endpoint does not want the remainder of the stream.
                        Frame::StopSending { stream } => self.unblock(Some(*stream), state.now),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        if state.is_closed {
            let owners: Vec<Owner> = self.blocked.keys().copied().collect();
            owners.into_iter().for_each(|owner| self.unblock(owner, state.now));
        }
    }

    fn finish(mut self: Box<Self>, state: &State) -> Vec<Finding> {
        let owners: Vec<Owner> = self.blocked.keys().copied().collect();
        owners.into_iter().for_each(|owner| self.unblock(owner, state.now));
        let Some((begin, end, limit)) = self.longest else { return Vec::new() };
        let length = end.saturating_sub(begin);
        let all = state.now.saturating_sub(self.first.unwrap_or_default());
        let rtt = state.rtt().unwrap_or_default();
        let is_long = length >= STALL.max(rtt.saturating_mul(STALL_ROUND_TRIPS));
        let is_much =
            self.total >= TOGETHER && self.total.as_secs_f64() >= all.as_secs_f64() * SHARE;
        if !is_long && !is_much {
            return Vec::new();
        }
        vec![Finding {
            id: FindingId::OwnFlowControlStall,
            severity: self.total.as_secs_f64(),
            begin,
            end,
            headline: format!(
                "This endpoint's flow control blocked the peer for {}",
                text::time(length)
            ),
            metrics: vec![
                ("longest stall", text::time(length)),
                ("limit", text::bytes(limit)),
                ("stalls", text::count(self.count)),
                ("total duration", text::time(self.total)),
                ("out of", text::time(all)),
            ],
        }]
    }
}
