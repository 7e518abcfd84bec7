//! PINGs from a client that is waiting for data.
//!
//! A server whose probes were lost is silent until its backed-off probe timer expires (RFC 9002
//! §6.2.1), and a server whose client was rebound by a NAT sends to the old address. A packet from
//! the client ends both, but a client that only reads has none to send. RFC 9000 §10.1.2 describes
//! this use of PING: an endpoint that expects response data and has nothing to send.

use core::time::Duration;

use clearway_units::Timestamp;

use super::Connection;
use crate::space_id::SpaceId;

/// The minimum number of probe timeouts, each longer than a round trip, before a PING is sent: a
/// server may need time for its response.
const LEAST_PROBE_TIMEOUTS: u32 = 3;
/// The minimum time before a PING is sent.
const LEAST_WAIT: Duration = Duration::from_millis(200);
/// The longest interval between PINGs to a server that acknowledges them but sends no data.
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// An unacknowledged PING is followed by another after this fraction of the time without received
/// packets. An outage is therefore prolonged by at most an eighth, and PINGs become rarer as it
/// continues: fewer than one is sent per three round trips.
const PART_OF_SILENCE: u32 = 8;

/// The state that determines the next interval.
#[derive(Debug, Default)]
pub(super) struct ResponsePingTimer {
    /// The number of PINGs since stream data was last received, each sent when everything before it
    /// had been acknowledged, so the server is reachable and has no data to send.
    pings: u32,
}

impl ResponsePingTimer {
    /// Handles a STREAM frame.
    pub(super) fn on_stream_data(&mut self) {
        self.pings = 0;
    }

    /// Returns the interval for a server that has acknowledged everything and may be working on its
    /// response.
    fn while_thinking(&self, least: Duration) -> Duration {
        let doubled = 1_u32.checked_shl(self.pings).unwrap_or(u32::MAX);
        least.saturating_mul(doubled).min(LONGEST_WAIT.max(least))
    }

    /// Returns the interval for a server that had been silent for `silence` when the last PING was
    /// sent.
    fn while_silent(least: Duration, silence: Duration) -> Duration {
        let part = silence.checked_div(PART_OF_SILENCE).unwrap_or(LONGEST_WAIT);
        least.max(part).min(LONGEST_WAIT.max(least))
    }
}

impl Connection {
    /// Returns when this client sends its next PING, while it waits for data or for HANDSHAKE_DONE.
    pub(super) fn response_ping_deadline(&self) -> Option<Timestamp> {
        let may_ping =
            self.side.is_client() && self.handshake.is_complete() && !self.flags.ping_pending;
        let is_awaited = !self.lifecycle.is_confirmed() || self.streams.awaits_peer();
        if !may_ping || !is_awaited {
            return None;
        }
        let least = self.probe_timeout().saturating_mul(LEAST_PROBE_TIMEOUTS).max(LEAST_WAIT);
        let wait = if self.recovery.is_nothing_outstanding(SpaceId::Application) {
            self.response_ping.while_thinking(least)
        } else {
            ResponsePingTimer::while_silent(least, self.idle.silence())
        };
        Some(self.idle.last_activity() + wait)
    }

    /// Sends the PING. Outstanding packets are still retransmitted by the probe timer (RFC 9002
    /// §6.2); once this PING is acknowledged, packets lost before it are detected.
    pub(super) fn ping_for_response(&mut self) {
        if self.recovery.is_nothing_outstanding(SpaceId::Application) {
            self.response_ping.pings = self.response_ping.pings.saturating_add(1);
        }
        self.flags.ping_pending = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(200);

    #[test]
    fn pings_to_a_server_that_acknowledges_become_rarer() {
        let mut timer = ResponsePingTimer::default();
        let mut waits = Vec::new();
        for _ in 0..9 {
            waits.push(timer.while_thinking(LEAST).as_millis());
            timer.pings += 1;
        }
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 12_800, 15_000, 15_000]);
        timer.pings = u32::MAX;
        assert_eq!(timer.while_thinking(LEAST), LONGEST_WAIT);
        timer.on_stream_data();
        assert_eq!(timer.while_thinking(LEAST), LEAST);
    }

    #[test]
    fn pings_to_a_silent_server_follow_after_a_part_of_the_silence() {
        for (silence, wait) in
            [(0, 200), (1600, 200), (3200, 400), (24_000, 3000), (600_000, 15_000)]
        {
            let wait_here = ResponsePingTimer::while_silent(LEAST, Duration::from_millis(silence));
            assert_eq!(wait_here.as_millis(), wait);
        }
    }

    /// No PINGs are sent in quick succession even on a path whose round trip exceeds the longest
    /// wait.
    #[test]
    fn no_wait_is_below_the_least() {
        let least = Duration::from_secs(20);
        assert_eq!(ResponsePingTimer::default().while_thinking(least), least);
        assert_eq!(ResponsePingTimer::while_silent(least, Duration::ZERO), least);
    }
}
