//! A delay that all connections of an endpoint see at the same time: that of a busy host, its own or its peers', or of a
//! full link that they share.
//!
//! A connection that is seldom used learns of such a delay when its next answer comes, and has sent several probes by then
//! (RFC 9002 §6.2). With many connections these probes alone can be more than the busy host can process, so that it never
//! becomes less busy. What some connections have measured is therefore added to the timers of all that wait for an answer.

use core::time::Duration;
use std::collections::VecDeque;

use clearway_units::Timestamp;

/// The newest samples of so many connections are kept.
const CONNECTIONS: usize = 32;
/// Nothing is known to be common to fewer connections.
const FEWEST: usize = 16;
/// How long a sample counts.
const VALIDITY: Duration = Duration::from_secs(1);
/// The longest delay that is added: the probe timeout of a connection that has measured nothing (RFC 9002 §6.2.2).
const LONGEST: Duration = Duration::from_millis(999);
/// How long the result is used before it is computed again.
const INTERVAL: Duration = Duration::from_millis(1);

/// By how much the newest round-trip time sample of one connection exceeded its smoothed round-trip time.
#[derive(Clone, Copy)]
struct DelaySample {
    connection: usize,
    at: Timestamp,
    growth: Duration,
}

/// How much longer than they expect connections wait for answers: the median over those that had one lately, each of which
/// counts once, however many packets it sends. Half of them have to be slower before anything is added.
pub(super) struct CommonDelay {
    samples: VecDeque<DelaySample>,
    delay: Duration,
    /// When `delay` was computed.
    computed: Option<Timestamp>,
}

impl CommonDelay {
    pub(super) fn new() -> Self {
        Self { samples: VecDeque::new(), delay: Duration::ZERO, computed: None }
    }

    /// A connection's newest round-trip time sample exceeded its smoothed round-trip time by `growth`.
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

    /// A connection has had no answer for longer than its smoothed round-trip time, by `growth`. It tells nothing of the others
    /// if that is very long: its peer has gone.
    pub(super) fn on_silence(&mut self, connection: usize, at: Timestamp, growth: Duration) {
        if growth <= LONGEST {
            self.on_sample(connection, at, growth);
        }
    }

    /// The delay at this time; zero while too few connections have answers.
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

    /// `slow` connections with answers that take 300 ms longer, and `quick` ones.
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
        assert_eq!(delay.at(at(20)), ms(300), "it is not computed for each question");
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
