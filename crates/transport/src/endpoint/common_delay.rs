//! A delay that all connections of an endpoint see at the same time, caused by a busy host (this
//! host or the peers' host) or by a congested link that they share.
//!
//! A rarely used connection notices such a delay only when its next response arrives, after it has
//! sent several probes (RFC 9002 §6.2). With many connections these probes alone can exceed what
//! the busy host can process, so that it never recovers. The delay measured by some connections is
//! therefore added to the timers of all connections that wait for a response.

use core::time::Duration;
use std::collections::VecDeque;

use clearway_units::Timestamp;

/// The number of connections whose newest sample is kept.
const CONNECTIONS: usize = 32;
/// The minimum number of connections for a delay to count as common.
const FEWEST: usize = 16;
/// The time for which a sample is valid.
const VALIDITY: Duration = Duration::from_secs(1);
/// The maximum delay to add: the probe timeout of a connection without an RTT sample (RFC 9002
/// §6.2.2).
const LONGEST: Duration = Duration::from_millis(999);
/// The time for which the result is cached.
const INTERVAL: Duration = Duration::from_millis(1);

/// The excess of a connection's newest RTT sample over its smoothed RTT.
#[derive(Clone, Copy)]
struct DelaySample {
    connection: usize,
    at: Timestamp,
    growth: Duration,
}

/// The excess delay of responses: the median over the connections with a recent sample. Each
/// connection counts once, however many packets it sends. Half of the connections have to be slower
/// before any delay is added.
pub(super) struct CommonDelay {
    samples: VecDeque<DelaySample>,
    delay: Duration,
    /// The time at which `delay` was computed.
    computed: Option<Timestamp>,
}

impl CommonDelay {
    pub(super) fn new() -> Self {
        Self { samples: VecDeque::new(), delay: Duration::ZERO, computed: None }
    }

    /// Records that a connection's newest RTT sample exceeded its smoothed RTT by `growth`.
    pub(super) fn on_sample(&mut self, connection: usize, at: Timestamp, growth: Duration) {
        let sample = DelaySample { connection, at, growth };
        if let Some(own) = self.samples.iter_mut().find(|it| it.connection == connection) {
            *own = sample;
            return;
        }
        if self.samples.len() == CONNECTIONS {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Records that a connection has waited for a response for `growth` longer than its smoothed
    /// RTT. A very long silence is ignored, because that peer is gone and the silence says nothing
    /// about the others.
    pub(super) fn on_silence(&mut self, connection: usize, at: Timestamp, growth: Duration) {
        if growth <= LONGEST {
            self.on_sample(connection, at, growth);
        }
    }

    /// Returns the delay at the time `now`; zero while too few connections have samples.
    pub(super) fn at(&mut self, now: Timestamp) -> Duration {
        if self.computed.is_none_or(|computed| computed + INTERVAL <= now) {
            self.computed = Some(now);
            self.delay = self.compute(now).min(LONGEST);
        }
        self.delay
    }

    fn compute(&self, now: Timestamp) -> Duration {
        let valid = self.samples.iter().filter(|it| it.at + VALIDITY > now);
        let mut growths: Vec<Duration> = valid.map(|it| it.growth).collect();
        if growths.len() < FEWEST {
            return Duration::ZERO;
        }
        growths.sort_unstable();
        let median = growths.len().div_ceil(2).saturating_sub(1);
        growths.get(median).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_origin(Duration::from_millis(milliseconds))
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Returns the common delay after samples from `slow` connections, whose responses take 300 ms
    /// longer, and `quick` other connections.
    fn seen(slow: usize, quick: usize) -> CommonDelay {
        let mut delay = CommonDelay::new();
        for connection in 0..slow + quick {
            let growth = if connection < slow { ms(300) } else { Duration::ZERO };
            delay.on_sample(connection, at(10), growth);
        }
        delay
    }

    #[test]
    fn what_most_connections_see_is_common() {
        assert_eq!(seen(32, 0).at(at(10)), ms(300));
        assert_eq!(seen(17, 15).at(at(10)), ms(300));
        assert_eq!(seen(16, 16).at(at(10)), Duration::ZERO, "half of them are as quick as before");
        assert_eq!(seen(15, 0).at(at(10)), Duration::ZERO, "too few");
        assert_eq!(seen(16, 0).at(at(10)), ms(300));
    }

    #[test]
    fn a_connection_counts_once() {
        let mut delay = seen(0, 16);
        for _ in 0..1000 {
            delay.on_sample(99, at(11), ms(900));
        }
        assert_eq!(delay.at(at(12)), Duration::ZERO);
        assert_eq!(delay.samples.len(), 17);
    }

    #[test]
    fn newer_samples_replace_older_ones() {
        let mut delay = seen(32, 0);
        for connection in 100..115 {
            delay.on_sample(connection, at(20), Duration::ZERO);
        }
        assert_eq!(delay.at(at(20)), ms(300));
        delay.on_sample(115, at(21), Duration::ZERO);
        assert_eq!(delay.at(at(20)), ms(300), "the result is cached");
        assert_eq!(delay.at(at(21)), Duration::ZERO);
        assert_eq!(delay.samples.len(), CONNECTIONS);
    }

    #[test]
    fn samples_are_forgotten_after_a_second() {
        let mut delay = seen(32, 0);
        assert_eq!(delay.at(at(1009)), ms(300));
        assert_eq!(delay.at(at(1010)), Duration::ZERO);
    }

    #[test]
    fn a_peer_that_has_gone_tells_nothing_of_others() {
        let mut delay = CommonDelay::new();
        (0..32).for_each(|connection| delay.on_silence(connection, at(10), LONGEST + ms(1)));
        assert_eq!(delay.at(at(10)), Duration::ZERO);
        (0..32).for_each(|connection| delay.on_silence(connection, at(11), ms(40)));
        assert_eq!(delay.at(at(11)), ms(40));
    }

    #[test]
    fn no_more_is_added_than_a_timeout_without_a_sample() {
        let mut delay = CommonDelay::new();
        (0..32).for_each(|connection| delay.on_sample(connection, at(10), ms(20_000)));
        assert_eq!(delay.at(at(10)), LONGEST);
    }
}
