//! Computes the time by which a disturbed run must finish.
//!
//! The time limit follows from the kind and the time of the disturbance; no part of it was measured
//! on disturbed runs. It is the sum of the undisturbed run's duration and the following times:
//!
//! - **Dead time.** A silence of `d` ends in the middle of a backed-off probe timeout (RFC 9002
//!   §6.2.1). Probes are sent `P`, `3P`, `7P` … after the last packet, so the first that arrives is
//!   sent at most `2d + P` after it. A lost or corrupt datagram is a silence of length zero, which
//!   costs `P`. A second disturbance may drop the probe that would have ended the first silence, so
//!   the silences are added up before doubling.
//! - **A NAT that forgets its mapping** causes a silence until the client sends something. During
//!   the handshake the client sends after its own probe timeout (RFC 9002 §6.2.2.1). After the
//!   handshake, the client may have nothing to send except the PING of a client that waits for a
//!   response, which is sent after three probe timeouts, and not before 200 ms. Path validation
//!   takes a round trip. A new address begins without an RTT sample (RFC 9000 §9.4), so the initial
//!   probe timeout applies.
//! - **The congestion window.** The remaining data may have to be sent starting from the minimum
//!   window (RFC 9002 §7.6.2) or, if only one datagram was lost, from half the initial window
//!   (§7.3.2). From there the window grows by at least half a datagram per round trip, as property
//!   L1 requires of loss-based controllers. BBR keeps its window until it probes: every three
//!   seconds and seventeen round trips (L8) its window grows by a quarter. On a path that keeps
//!   reordering packets the window need not grow at all.
//! - **The tail.** A run whose timing has changed may lose the last packet of a burst at a queue
//!   that previously had room for it, and that packet may be the last of the run. This costs two
//!   probe timeouts.
//!
//! - **The host.** After its address was replaced, a client tries to send at least every half
//!   second, and continues as after a new NAT mapping. A dead path is abandoned when the
//!   application migrates, 300 ms later, and the new path is validated in a round trip. If no path
//!   is left, the connection ends with an error when the idle timeout expires (RFC 9000 §10.1).
//!
//! A disturbance that changes only the timing of a few packets (a duplicate or a key update) may
//! cost one round trip and one delayed acknowledgment.
//!
//! `P` is the probe timeout with the longest RTT that path and queues allow, and with the largest
//! possible variation. Until every handshake is complete and has yielded samples, `P` is at least
//! the initial probe timeout. If the network itself is random, the disturbed run has other random
//! losses than the undisturbed one. In that case, the scenario's expected time is used if it is
//! longer, or its time limit if it does not specify an expected time.

use core::time::Duration;

use clearway_network::{Conditions, LinkConfig};

use super::judge::{Fault, judge, names_the_cause};
use super::kind::Remedy;
use super::{Baseline, Event, Kind, kind};
use crate::checker::{self, Regrowth};
use crate::run::Outcome;
use crate::setup::{HostFault, Setup};
use crate::world::Stop;

/// The values from which the time limits are computed, for one setup and one controller.
#[derive(Clone, Debug)]
pub struct Bounds<'a> {
    setup: &'a Setup,
    baseline: &'a Baseline,
    /// The time at which the undisturbed run ends.
    end: Duration,
    /// The time until which an endpoint may lack an RTT sample.
    handshakes_end: Duration,
    /// The round-trip time of an empty path.
    round_trip: Duration,
    /// The round-trip time with full queues.
    longest_round_trip: Duration,
    max_ack_delay: Duration,
    initial_rtt: Duration,
    /// The total number of content bytes.
    content: u64,
    /// The regrowth of the window for the controller that recovers most slowly.
    regrowth: Regrowth,
}

/// Half of the initial window, in datagrams (RFC 9002 §7.2).
const HALF_THE_INITIAL_WINDOW: f64 = 5.0;
/// A lower bound for the bytes of content in a full-sized datagram.
const CONTENT: u64 = 1100;
/// The time until a client that waits for a response sends its first PING: this many probe
/// timeouts, but at least [`ANSWER_AT_LEAST`].
const ANSWER_PROBE_TIMEOUTS: u32 = 3;
const ANSWER_AT_LEAST: Duration = Duration::from_millis(200);
/// The maximum time that a host waits before it retries a failed send.
const RETRIES_WITHIN: Duration = Duration::from_millis(500);
/// The granularity of timers (RFC 9002 §6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);

impl<'a> Bounds<'a> {
    /// Creates the bounds of `setup` with the controller called `controller`. The undisturbed run
    /// is `baseline`, and the scenario expects every run to finish within `expected`.
    pub fn new(
        setup: &'a Setup,
        controller: &str,
        baseline: &'a Baseline,
        expected: Option<Duration>,
    ) -> Self {
        let network = &setup.network;
        let delay = network.to_server.delay.saturating_add(network.to_client.delay);
        let extra = network.flows.iter().map(|it| it.to_server.saturating_add(it.to_client)).max();
        let round_trip = delay.saturating_add(extra.unwrap_or_default());
        let directions = [&network.to_server, &network.to_client];
        let varies =
            directions.map(varies).into_iter().fold(Duration::ZERO, Duration::saturating_add);
        let content = setup.flows.iter().filter_map(|flow| flow.traffic.bytes()).sum();
        let waits = queue_delay(&network.to_server, content)
            .saturating_add(queue_delay(&network.to_client, content));
        let longest_round_trip = round_trip.saturating_add(waits).saturating_add(varies);
        let ends = || setup.flows.iter().flat_map(|flow| [&flow.client, &flow.server]);
        let first_bytes = setup.flows.iter().zip(&baseline.outcome.flows).map(|(flow, outcome)| {
            flow.start.saturating_add(outcome.first_byte.unwrap_or(setup.limit))
        });
        let controllers =
            setup.flows.iter().map(|flow| flow.controller.as_deref().unwrap_or(controller));
        let regrowth = controllers.map(|name| checker::Kind::named(name).regrowth());
        let regrowth = regrowth.max_by_key(|regrowth| regrowth.time);
        let took = baseline.outcome.took().unwrap_or(setup.limit);
        let expected = match is_random(network) {
            true => expected.unwrap_or(setup.limit),
            false => Duration::ZERO,
        };
        Self {
            setup,
            baseline,
            end: took.max(expected),
            handshakes_end: first_bytes
                .max()
                .unwrap_or_default()
                .saturating_add(longest_round_trip),
            round_trip,
            longest_round_trip,
            max_ack_delay: ends().map(|end| end.max_ack_delay).max().unwrap_or_default(),
            initial_rtt: ends().map(|end| end.initial_rtt).max().unwrap_or_default(),
            content,
            regrowth: regrowth.unwrap_or(Regrowth::BY_ACKNOWLEDGEMENTS),
        }
    }

    /// Returns the time by which a run with `events` must finish, counted from its start.
    pub fn of(&self, events: &[Event]) -> Duration {
        let mut timed: Vec<_> = events
            .iter()
            .map(|event| (self.baseline.time_before(event.at.0), event.kind))
            .collect();
        timed.sort_by_key(|(time, _)| *time);
        let Some((begin, _)) = timed.first().copied() else { return self.end };
        let longest = self.longest(&timed);
        if self.may_be_fatal(events) {
            return self.end_of_silence(begin, longest);
        }
        let costs_nothing = timed.iter().all(|(_, kind)| is_harmless(*kind));
        if costs_nothing {
            return self.end.saturating_add(longest).saturating_add(self.max_ack_delay);
        }
        let mut dead = Duration::ZERO;
        for (time, kind) in &timed {
            if is_harmless(*kind) {
                continue;
            }
            let (silence, probe) = self.silence(*time, *kind, longest);
            dead = dead.saturating_add(silence).saturating_mul(2).saturating_add(probe);
        }
        let probe = self.probe_timeout(begin, longest);
        // Includes the round trips of the probe, of the path validation, and of the final
        // acknowledgment.
        let fixed = dead.saturating_add(probe * 2).saturating_add(longest * 3);
        let rounds = longest.mul_f64(self.rounds(begin, &timed));
        self.end.saturating_add(fixed).saturating_add(rounds)
    }

    /// Returns whether the connection may end with an error instead (see `Kind::may_be_fatal`). If
    /// there is another disturbance, the application's only migration may fail.
    pub fn may_be_fatal(&self, events: &[Event]) -> bool {
        let is_early = |event: &Event| self.baseline.time_before(event.at.0) <= self.handshakes_end;
        events.iter().any(|event| event.kind.may_be_fatal(is_early(event) || events.len() > 1))
    }

    /// Returns the time by which a connection has ended if nothing arrives after `begin`. The idle
    /// timeout starts no later than when the application last sends (RFC 9000 §10.1).
    fn end_of_silence(&self, begin: Duration, longest: Duration) -> Duration {
        let ends = || self.setup.flows.iter().flat_map(|flow| [&flow.client, &flow.server]);
        let idle = ends().filter_map(|end| end.max_idle_timeout).max().unwrap_or_default();
        let handshake = ends().map(|end| end.handshake_timeout).max().unwrap_or_default();
        let probe = self.probe_timeout(begin, longest);
        let all = [self.end, begin, idle.max(handshake), probe * 3];
        all.into_iter().fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Returns the failure of a run with `events` and this `outcome`, if it failed.
    pub fn judge(&self, events: &[Event], outcome: &Outcome) -> Option<Fault> {
        let bound = self.of(events);
        match judge(outcome, bound)? {
            Fault::Unfinished(Stop::Failed { why, .. })
                if self.may_be_fatal(events) && names_the_cause(&why) =>
            {
                (outcome.at > bound).then_some(Fault::Late { took: outcome.at, bound })
            }
            fault => Some(fault),
        }
    }

    /// Returns the longest RTT that an endpoint may measure.
    fn longest(&self, events: &[(Duration, Kind)]) -> Duration {
        let late = events.iter().map(|(_, kind)| match kind {
            Kind::Delay => kind::LATE,
            Kind::Reorder => kind::late_by(&self.setup.network),
            _ => Duration::ZERO,
        });
        late.fold(self.longest_round_trip, Duration::saturating_add)
    }

    /// Returns how long nothing arrives because of `kind`, and the probe timeout that applies at
    /// that time.
    fn silence(&self, time: Duration, kind: Kind, longest: Duration) -> (Duration, Duration) {
        let probe = self.probe_timeout(time, longest);
        let sampled = self.sampled_probe_timeout(longest);
        let until_client_sends =
            probe.max(sampled * ANSWER_PROBE_TIMEOUTS).max(ANSWER_AT_LEAST).saturating_add(longest);
        match kind {
            Kind::Silence(_, length) => (length, probe),
            Kind::RebindPort => (until_client_sends, probe),
            Kind::RebindAddress => (until_client_sends, probe.max(self.initial_probe_timeout())),
            Kind::Delay => (kind::LATE, probe),
            Kind::RebindAndMigrate => {
                let probe = probe.max(self.initial_probe_timeout());
                (until_client_sends.saturating_add(kind::MIGRATES_AFTER), probe)
            }
            Kind::Host(fault, remedy) => {
                let probe = probe.max(self.initial_probe_timeout());
                let until_sends = match fault {
                    HostFault::PathDies => Duration::ZERO,
                    HostFault::AddressLost { another_after } => {
                        let after = another_after.unwrap_or_default();
                        after.saturating_add(until_client_sends).saturating_add(RETRIES_WITHIN)
                    }
                    // Two large datagrams in a row are lost, each loss being detected by a probe
                    // (RFC 8899 §4.3).
                    HostFault::PathMtu(_) | HostFault::InterfaceMtu(_) => probe * 2,
                };
                let migrates = match remedy {
                    Remedy::Itself => Duration::ZERO,
                    Remedy::Migrates => kind::MIGRATES_AFTER.saturating_add(longest * 2),
                };
                (until_sends.saturating_add(migrates), probe)
            }
            Kind::Lose
            | Kind::Corrupt
            | Kind::CorruptHeader
            | Kind::Double
            | Kind::UpdateKeys(_)
            | Kind::Reorder => (Duration::ZERO, probe),
        }
    }

    /// Returns the probe timeout at `time` (RFC 9002 §6.2.1).
    fn probe_timeout(&self, time: Duration, longest: Duration) -> Duration {
        let sampled = self.sampled_probe_timeout(longest);
        match time <= self.handshakes_end {
            true => sampled.max(self.initial_probe_timeout()),
            false => sampled,
        }
    }

    /// Returns the probe timeout with RTT samples. `rttvar` begins with half of the first sample,
    /// and never exceeds the variation of the round trip.
    fn sampled_probe_timeout(&self, longest: Duration) -> Duration {
        let variation = (longest / 2).max(longest.saturating_sub(self.round_trip));
        longest.saturating_add((variation * 4).max(GRANULARITY)).saturating_add(self.max_ack_delay)
    }

    /// Returns the initial probe timeout of RFC 9002 §6.2.2: the initial RTT plus four times half
    /// of it.
    fn initial_probe_timeout(&self) -> Duration {
        self.initial_rtt.saturating_mul(3)
    }

    /// Returns how many round trips it may take to send the data that had not arrived by `begin`.
    fn rounds(&self, begin: Duration, events: &[(Duration, Kind)]) -> f64 {
        let left = self.content.saturating_sub(self.baseline.received(begin));
        let mut left = left.div_ceil(CONTENT) as f64;
        let goes_on = events.iter().any(|(_, kind)| *kind == Kind::Reorder);
        let is_one = events.len() == 1 && events.iter().all(|(_, kind)| kind.needs_datagram());
        let is_full_window = self.baseline.outcome.network.to_client.dropped() == 0
            && self.baseline.outcome.network.to_server.dropped() == 0;
        let regrowth = self.regrowth;
        let mut window = match () {
            () if is_one && is_full_window => HALF_THE_INITIAL_WINDOW,
            () => regrowth.smallest,
        };
        let round = self.longest_round_trip.max(GRANULARITY).as_secs_f64();
        let cycle = regrowth.rounds + regrowth.time.as_secs_f64() / round;
        let mut rounds = 0.0;
        while left > 0.0 {
            // The number of round trips until the window grows.
            let steps = if goes_on { left / window } else { cycle };
            let steps = steps.min((left / window).ceil()).max(1.0);
            left -= steps * window;
            rounds += steps;
            window = window * regrowth.factor + regrowth.datagrams;
        }
        rounds
    }
}

/// Returns whether this kind of disturbance causes neither loss nor delay.
const fn is_harmless(kind: Kind) -> bool {
    matches!(kind, Kind::Double | Kind::UpdateKeys(_))
}

/// Returns the maximum variation of a datagram's delay, excluding the bottleneck's queue.
fn varies(conditions: &Conditions) -> Duration {
    let steps = conditions.delay_steps.iter().map(|step| step.value);
    let step = steps.max().unwrap_or_default().saturating_sub(conditions.delay);
    let freeze = conditions.freezes.map_or(Duration::ZERO, |freezes| freezes.length);
    let jitter = conditions.jitter.range;
    let all = [step, freeze, jitter, conditions.reorder.by, conditions.tick.unwrap_or_default()];
    all.into_iter().fold(Duration::ZERO, Duration::saturating_add)
}

/// Returns how long a datagram may wait at the bottleneck, if `content` bytes are sent in total.
fn queue_delay(conditions: &Conditions, content: u64) -> Duration {
    let steps = conditions.rate_steps.iter().map(|step| step.value);
    let traced = conditions.trace.as_ref().map(clearway_network::Trace::mean_rate);
    let rates = steps.chain([conditions.rate, traced]).flatten();
    let Some(rate) = rates.filter(|rate| rate.bytes_per_second() > 0).min() else {
        return Duration::ZERO;
    };
    let size = 1500_u64.saturating_add(conditions.overhead.into());
    let packets = conditions.queue.packets.and_then(|packets| u64::try_from(packets).ok());
    let packets = packets.map(|packets| packets.saturating_mul(size));
    let limits = [packets, conditions.queue.bytes, Some(content)];
    let waiting = limits.into_iter().flatten().min().unwrap_or(content);
    rate.time_for(waiting.saturating_add(size)).unwrap_or(Duration::MAX)
}

/// Returns whether losses and delays depend on random numbers or on time, and may therefore differ
/// if other datagrams are sent.
fn is_random(network: &LinkConfig) -> bool {
    [&network.to_server, &network.to_client].into_iter().any(|conditions| {
        let fixed = Conditions {
            delay: conditions.delay,
            rate: conditions.rate,
            overhead: conditions.overhead,
            queue: conditions.queue,
            discipline: conditions.discipline,
            ..Conditions::default()
        };
        *conditions != fixed
    })
}
