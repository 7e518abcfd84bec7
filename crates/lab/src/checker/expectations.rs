//! What is expected of each controller: the only place of the lab that decides by controller. Which controller a
//! [`Kind`] stands for is private to this file, so others can only ask what follows from it.

use core::time::Duration;

use clearway_congestion::{Phase, Suppressor};

/// A controller, as far as its behaviour is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind(Known);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// RFC 9002 §7: beta is 1/2, a datagram for each window.
    Reno,
    /// RFC 9438: beta is 0.7.
    Cubic,
    /// draft-ietf-ccwg-bbr-06.
    Bbr,
    /// Anybody's: what holds for all.
    Other,
}

use Known::{Bbr, Cubic, Other, Reno};

/// The phase in which BBR sends as fast as the path delivers.
const CRUISE: Phase = Phase::Other("probe_bw_cruise");
/// The phase in which BBR measures the round-trip time without a queue.
const PROBE_RTT: Phase = Phase::Other("probe_rtt");

/// How much a stage of congestion avoidance grows at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StageGrowth {
    /// Tenths of a datagram for each window acknowledged.
    pub(crate) tenths: u64,
    /// Only if it is known where the stage began.
    pub(crate) needs_beginning: bool,
}

/// How the window grows at least once it is at its smallest, with data waiting and nothing lost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Regrowth {
    /// The smallest window, in datagrams.
    pub(crate) smallest: f64,
    /// It grows once in so many round trips ...
    pub(crate) rounds: f64,
    /// ... and this much time in addition,
    pub(crate) time: Duration,
    /// to this multiple of its value,
    pub(crate) factor: f64,
    /// and by so many datagrams.
    pub(crate) datagrams: f64,
}

impl Regrowth {
    /// Of loss-based controllers (RFC 9002 §7.2), half a datagram a round trip (property L1).
    pub(crate) const BY_ACKNOWLEDGEMENTS: Self =
        Self { smallest: 2.0, rounds: 1.0, time: Duration::ZERO, factor: 1.0, datagrams: 0.5 };
    /// Of BBR, by a quarter with each probe (property L8).
    const BY_PROBES: Self = Self {
        smallest: 4.0,
        rounds: 17.0,
        time: Duration::from_secs(3),
        factor: 1.25,
        datagrams: 0.0,
    };
}

/// A time that something may last at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    /// The longer of so many packet-timed rounds and so much time.
    Longer(u64, Duration),
    /// This much time, and this many rounds in addition.
    Sum(u64, Duration),
}

impl Bound {
    /// Whether `rounds` that took `time` are too long.
    pub(crate) fn is_exceeded(self, rounds: u64, time: Duration) -> bool {
        match self {
            Self::Longer(most, longest) => rounds > most && time > longest,
            Self::Sum(most, longest) => {
                // Beside `longest` there were as many rounds as fit into the rest of the time.
                let rest = time.saturating_sub(longest).as_nanos();
                rest.saturating_mul(u128::from(rounds)) > time.as_nanos() * u128::from(most)
            }
        }
    }
}

const fn rounds(rounds: u64) -> Option<Bound> {
    Some(Bound::Longer(rounds, Duration::ZERO))
}

/// A cycle of ProbeBW from DOWN to REFILL takes 2 to 3 s, or 63 rounds if those are over earlier (BBR §4.3.3.6). REFILL
/// and UP take these rounds in addition, three of them to notice a plateau.
const PROBE_CYCLE: Bound = Bound::Sum(8, Duration::from_millis(3_100));
/// As [`PROBE_CYCLE`], when a ProbeRTT has ended a probe: the next is a cycle away.
const INTERRUPTED_CYCLE: Bound = Bound::Sum(16, Duration::from_millis(6_400));

impl Kind {
    /// The controller called `name`.
    pub(crate) fn named(name: &str) -> Self {
        Self(match name {
            "reno" => Reno,
            "cubic" => Cubic,
            "bbr" => Bbr,
            _ => Other,
        })
    }

    /// Whether it is driven by losses as RFC 9002 §7 has it: slow start, one cut for each recovery
    /// period, congestion avoidance.
    pub(crate) const fn is_loss_based(self) -> bool {
        matches!(self.0, Reno | Cubic)
    }

    /// The least window, in datagrams (RFC 9002 §7.2; BBR: MinPipeCwnd).
    pub(crate) const fn floor(self) -> u64 {
        match self.0 {
            Reno | Cubic => 2,
            Bbr => 4,
            Other => 1,
        }
    }

    /// What a cut for losses leaves at least of the window, in hundredths; `None` if that is not known.
    pub(crate) const fn beta(self) -> Option<u64> {
        match self.0 {
            Reno => Some(50),
            Cubic => Some(70),
            Bbr | Other => None,
        }
    }

    /// What a cut for CE marks in congestion avoidance leaves at least, in hundredths (RFC 8511).
    pub(crate) const fn beta_of_marks(self) -> Option<u64> {
        match self.0 {
            Reno => Some(80),
            Cubic => Some(85),
            Bbr | Other => None,
        }
    }

    /// Whether it counts CE marks as congestion: RFC 9002 §7.1, and the draft of BBR demands it where packets are marked.
    pub(crate) const fn answers_marks(self) -> bool {
        matches!(self.0, Reno | Cubic | Bbr)
    }

    /// Whether the window may return at once to an earlier value. BBR restores the one that it had saved when losses are
    /// repaired or were spurious, and after ProbeRTT (BBR §5.6.4.4, RestoreCwnd).
    pub(crate) const fn restores_window(self) -> bool {
        matches!(self.0, Bbr)
    }

    /// The pacing rate is never below so many tenths of the least window per round trip.
    pub(crate) const fn pacing_floor_tenths(self) -> u64 {
        match self.0 {
            // RFC 9002 §7.7: N is not less than one.
            Reno | Cubic => 10,
            // One of the four datagrams of MinPipeCwnd per round trip, and the pacing margin. Where fewer than four
            // packets fill the path (a sub-packet BDP), the measured rate is the right one.
            Bbr => 2,
            Other => 1,
        }
    }

    /// Whether its window follows the curves of RFC 9438 in congestion avoidance.
    pub(crate) const fn follows_cubic_curve(self) -> bool {
        matches!(self.0, Cubic)
    }

    /// Whether it counts its window in whole datagrams in congestion avoidance: more is never in flight.
    pub(crate) const fn counts_whole_datagrams(self) -> bool {
        matches!(self.0, Cubic)
    }

    /// Whether growth in congestion avoidance depends on acknowledged bytes only, so that a round that is not clean ends a
    /// stretch of growth. With a curve, growth continues from where it was.
    pub(crate) const fn grows_by_acknowledgements_only(self) -> bool {
        matches!(self.0, Reno)
    }

    /// How much a stage of congestion avoidance grows at least (property L1).
    pub(crate) const fn stage_growth(self) -> StageGrowth {
        match self.0 {
            Cubic => StageGrowth { tenths: 5, needs_beginning: true },
            Reno | Bbr | Other => StageGrowth { tenths: 9, needs_beginning: false },
        }
    }

    /// Within how many clean rounds it uses a clean path (property L2), of which slow start takes `doublings` up to
    /// its threshold, and `linear` datagrams are left from there.
    pub(crate) const fn escape_rounds(self, doublings: u64, linear: u64) -> u64 {
        match self.0 {
            Reno => doublings + 8 + linear * 10 / 9,
            // W_est grows by about half a datagram.
            Cubic => doublings + 8 + 2 * linear,
            Bbr | Other => 3 * doublings + 8,
        }
    }

    /// How much time it has for that in any case: two probe cycles.
    pub(crate) const fn escape_time(self) -> Option<Duration> {
        if self.is_loss_based() { None } else { Some(Duration::from_millis(6_600)) }
    }

    /// The phase in which its pacing rate is its estimate of the path's, and the queue should be short; `None` if it
    /// has none, as one that makes no such estimate.
    pub(crate) const fn cruising_phase(self) -> Option<Phase> {
        match self.0 {
            Bbr => Some(CRUISE),
            Reno | Cubic | Other => None,
        }
    }

    /// Whether a probe for bandwidth does not go on in `phase`.
    pub(crate) fn interrupts_probe(self, phase: Phase) -> bool {
        phase == PROBE_RTT
    }

    /// How its window grows again from its smallest.
    pub(crate) const fn regrowth(self) -> Regrowth {
        match self.0 {
            Bbr => Regrowth::BY_PROBES,
            Reno | Cubic | Other => Regrowth::BY_ACKNOWLEDGEMENTS,
        }
    }

    /// Within how many clean rounds it grows from any state that a search meets.
    pub(crate) const fn explored_rounds(self) -> u32 {
        match self.0 {
            // It grows with every acknowledgement: L1's four rounds, the recovery that they may begin with, and the one
            // that its end falls into.
            Reno => 6,
            // A curve may lie below the window for a while, and BBR has cycles.
            Cubic | Bbr | Other => 80,
        }
    }

    /// For how long it may be in `phase` while data waits, ACKs come and nothing is lost.
    pub(crate) fn phase_bound(self, phase: Phase) -> Option<Bound> {
        match (self.0, phase) {
            // RFC 9002 §7.3.2: until a packet sent in it is acknowledged.
            (_, Phase::Recovery) => rounds(2),
            // RFC 9406 §4.3: CSS_ROUNDS is 5. Its rounds and ours begin at different packets.
            (_, Phase::ConservativeSlowStart) => rounds(7),
            (Bbr, Phase::Other(name)) => bbr_phase_bound(name),
            _ => None,
        }
    }

    /// For how long `suppressor` may hold while data waits and nothing is lost, and the window does not
    /// grow.
    pub(crate) fn suppressor_bound(self, suppressor: Suppressor) -> Option<Bound> {
        if suppressor == Suppressor::MaximumWindow {
            // It is unlimited; S3 checks the maximum.
            None
        } else if suppressor == Suppressor::Recovery {
            rounds(2)
        } else if suppressor == Suppressor::NotLimited {
            // It is taken down with the first acknowledgement after data began to wait.
            rounds(2)
        } else if suppressor == Suppressor::ConservativeSlowStart {
            rounds(7)
        } else {
            Some(PROBE_CYCLE)
        }
    }

    /// Within what time the pacing budget of a controller with phases of its own must have grown.
    pub(crate) const fn growth_bound(self, is_interrupted: bool) -> Bound {
        if is_interrupted { INTERRUPTED_CYCLE } else { PROBE_CYCLE }
    }
}

fn bbr_phase_bound(name: &str) -> Option<Bound> {
    match name {
        // Three rounds, and it begins and ends within one.
        "drain" => rounds(5),
        "probe_bw_down" => Some(Bound::Longer(4, Duration::from_millis(3_100))),
        "probe_bw_cruise" => Some(Bound::Longer(4, Duration::from_millis(3_100))),
        "probe_bw_refill" => rounds(2),
        // Draining, which may take four rounds, 200 ms, and two rounds.
        "probe_rtt" => Some(Bound::Sum(6, Duration::from_millis(200))),
        // STARTUP and UP go on while there is more to be found.
        _ => None,
    }
}
