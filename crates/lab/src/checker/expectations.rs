//! The expectations for each controller: the only part of the lab that depends on the controller.
//! This file hides which controller a [`Kind`] represents, so other code can query only its
//! expected behavior.

use core::time::Duration;

use clearway_congestion::{Phase, Suppressor};

/// A controller, with its expected behavior if that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind(Known);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// RFC 9002 §7: beta is 1/2, and the window grows by one datagram per window acknowledged.
    Reno,
    /// RFC 9438: beta is 0.7.
    Cubic,
    /// draft-ietf-ccwg-bbr-06.
    Bbr,
    /// Any other controller: only the properties common to all controllers are checked.
    Other,
}

use Known::{Bbr, Cubic, Other, Reno};

/// The phase in which BBR sends as fast as the path delivers.
const CRUISE: Phase = Phase::Other("probe_bw_cruise");
/// The phase in which BBR measures the round-trip time without a queue.
const PROBE_RTT: Phase = Phase::Other("probe_rtt");

/// The minimum window growth in a congestion avoidance phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StageGrowth {
    /// The growth per acknowledged window, in tenths of a datagram.
    pub(crate) tenths: u64,
    /// Whether growth is required only if the start of the phase is known.
    pub(crate) needs_beginning: bool,
}

/// The minimum growth of the window from its minimum when the sender always has data and nothing is
/// lost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Regrowth {
    /// The size of the minimum window, in datagrams.
    pub(crate) smallest: f64,
    /// The number of round trips that the window may take to grow once, in addition to `time`.
    pub(crate) rounds: f64,
    /// The time allowed in addition to the round trips.
    pub(crate) time: Duration,
    /// The factor by which the window must grow.
    pub(crate) factor: f64,
    /// The number of datagrams by which the window must grow.
    pub(crate) datagrams: f64,
}

impl Regrowth {
    /// The minimum growth for loss-based controllers (RFC 9002 §7.2): half a datagram per round
    /// trip (property L1).
    pub(crate) const BY_ACKNOWLEDGEMENTS: Self =
        Self { smallest: 2.0, rounds: 1.0, time: Duration::ZERO, factor: 1.0, datagrams: 0.5 };
    /// The minimum growth for BBR: a quarter with each probe (property L8).
    const BY_PROBES: Self = Self {
        smallest: 4.0,
        rounds: 17.0,
        time: Duration::from_secs(3),
        factor: 1.25,
        datagrams: 0.0,
    };
}

/// The maximum duration of a phase or condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    /// The longer of this many packet-timed rounds and this duration.
    Longer(u64, Duration),
    /// The sum of this duration and this many packet-timed rounds.
    Sum(u64, Duration),
}

impl Bound {
    /// Returns whether `rounds` that took `time` exceed the limit.
    pub(crate) fn is_exceeded(self, rounds: u64, time: Duration) -> bool {
        match self {
            Self::Longer(most, longest) => rounds > most && time > longest,
            Self::Sum(most, longest) => {
                // In addition to `longest`, as many rounds passed as fit into the remaining time.
                let rest = time.saturating_sub(longest).as_nanos();
                rest.saturating_mul(u128::from(rounds)) > time.as_nanos() * u128::from(most)
            }
        }
    }
}

const fn rounds(rounds: u64) -> Option<Bound> {
    Some(Bound::Longer(rounds, Duration::ZERO))
}

/// The duration of a ProbeBW cycle from DOWN to REFILL: 2 to 3 s, or 63 rounds if they end earlier
/// (BBR §4.3.3.6). The additional rounds are for REFILL and UP, including three to detect a
/// plateau.
const PROBE_CYCLE: Bound = Bound::Sum(8, Duration::from_millis(3_100));
/// Like [`PROBE_CYCLE`], for a probe that ProbeRTT has interrupted: the next probe follows a full
/// cycle later.
const INTERRUPTED_CYCLE: Bound = Bound::Sum(16, Duration::from_millis(6_400));

impl Kind {
    /// Returns the controller called `name`.
    pub(crate) fn named(name: &str) -> Self {
        Self(match name {
            "reno" => Reno,
            "cubic" => Cubic,
            "bbr" => Bbr,
            _ => Other,
        })
    }

    /// Returns whether the controller is driven by losses as in RFC 9002 §7: slow start, one
    /// reduction per recovery period, and congestion avoidance.
    pub(crate) const fn is_loss_based(self) -> bool {
        matches!(self.0, Reno | Cubic)
    }

    /// Returns the controller's minimum window, in datagrams (RFC 9002 §7.2; BBR: MinPipeCwnd).
    pub(crate) const fn floor(self) -> u64 {
        match self.0 {
            Reno | Cubic => 2,
            Bbr => 4,
            Other => 1,
        }
    }

    /// Returns the percentage of the window that must remain after a loss-triggered reduction;
    /// `None` if it is unknown.
    pub(crate) const fn beta(self) -> Option<u64> {
        match self.0 {
            Reno => Some(50),
            Cubic => Some(70),
            Bbr | Other => None,
        }
    }

    /// Returns the percentage of the window that must remain after a reduction triggered by CE
    /// marks in congestion avoidance (RFC 8511).
    pub(crate) const fn beta_of_marks(self) -> Option<u64> {
        match self.0 {
            Reno => Some(80),
            Cubic => Some(85),
            Bbr | Other => None,
        }
    }

    /// Returns whether the controller treats CE marks as congestion. RFC 9002 §7.1 and the BBR
    /// draft require this where packets are marked.
    pub(crate) const fn answers_marks(self) -> bool {
        matches!(self.0, Reno | Cubic | Bbr)
    }

    /// Returns whether the window may return to an earlier value immediately. BBR restores its
    /// saved window after ProbeRTT, and when losses are repaired or turn out to be spurious (BBR
    /// §5.6.4.4, RestoreCwnd).
    pub(crate) const fn restores_window(self) -> bool {
        matches!(self.0, Bbr)
    }

    /// Returns the minimum pacing rate, in tenths of the minimum window per round trip.
    pub(crate) const fn pacing_floor_tenths(self) -> u64 {
        match self.0 {
            // RFC 9002 §7.7: N must be at least 1.
            Reno | Cubic => 10,
            // One of MinPipeCwnd's four datagrams per round trip, less the pacing margin. Where
            // fewer than four packets fill the path (a sub-packet BDP), the measured rate is the
            // right one.
            Bbr => 2,
            Other => 1,
        }
    }

    /// Returns whether the controller's window follows the curves of RFC 9438 in congestion
    /// avoidance.
    pub(crate) const fn follows_cubic_curve(self) -> bool {
        matches!(self.0, Cubic)
    }

    /// Returns whether the controller rounds its window down to whole datagrams in congestion
    /// avoidance, which limits bytes in flight to the rounded window.
    pub(crate) const fn counts_whole_datagrams(self) -> bool {
        matches!(self.0, Cubic)
    }

    /// Returns whether growth in congestion avoidance depends only on acknowledged bytes, in which
    /// case a round with losses ends the measured growth. A controller that follows a curve resumes
    /// growth where it stopped.
    pub(crate) const fn grows_by_acknowledgements_only(self) -> bool {
        matches!(self.0, Reno)
    }

    /// Returns the minimum growth in a congestion avoidance phase (property L1).
    pub(crate) const fn stage_growth(self) -> StageGrowth {
        match self.0 {
            Cubic => StageGrowth { tenths: 5, needs_beginning: true },
            Reno | Bbr | Other => StageGrowth { tenths: 9, needs_beginning: false },
        }
    }

    /// Returns the maximum number of clean rounds until the controller fully uses a clean path
    /// (property L2). Slow start needs `doublings` rounds to reach its threshold, and `linear`
    /// datagrams of growth remain after that.
    pub(crate) const fn escape_rounds(self, doublings: u64, linear: u64) -> u64 {
        match self.0 {
            Reno => doublings + 8 + linear * 10 / 9,
            // W_est grows by about half a datagram.
            Cubic => doublings + 8 + 2 * linear,
            Bbr | Other => 3 * doublings + 8,
        }
    }

    /// Returns the minimum time allowed until the controller fully uses a clean path: two probe
    /// cycles.
    pub(crate) const fn escape_time(self) -> Option<Duration> {
        if self.is_loss_based() { None } else { Some(Duration::from_millis(6_600)) }
    }

    /// Returns the phase in which the controller's pacing rate is its estimate of the path's rate
    /// and the queue should be short; `None` for controllers without such an estimate.
    pub(crate) const fn cruising_phase(self) -> Option<Phase> {
        match self.0 {
            Bbr => Some(CRUISE),
            Reno | Cubic | Other => None,
        }
    }

    /// Returns whether `phase` interrupts a bandwidth probe.
    pub(crate) fn interrupts_probe(self, phase: Phase) -> bool {
        phase == PROBE_RTT
    }

    /// Returns how the controller's window regrows from its minimum.
    pub(crate) const fn regrowth(self) -> Regrowth {
        match self.0 {
            Bbr => Regrowth::BY_PROBES,
            Reno | Cubic | Other => Regrowth::BY_ACKNOWLEDGEMENTS,
        }
    }

    /// Returns the number of clean rounds within which the window must grow from any state that
    /// `lab explore` visits.
    pub(crate) const fn explored_rounds(self) -> u32 {
        match self.0 {
            // The window grows with every acknowledgment. The limit consists of L1's four rounds,
            // the recovery period in which they may begin, and the round in which recovery ends.
            Reno => 6,
            // CUBIC's curve may be below the window for a while, and BBR has probe cycles.
            Cubic | Bbr | Other => 80,
        }
    }

    /// Returns how long the controller may stay in `phase` while the sender has data waiting, ACKs
    /// arrive and nothing is lost.
    pub(crate) fn phase_bound(self, phase: Phase) -> Option<Bound> {
        match (self.0, phase) {
            // RFC 9002 §7.3.2: recovery lasts until a packet sent during recovery is acknowledged.
            (_, Phase::Recovery) => rounds(2),
            // RFC 9406 §4.3: CSS_ROUNDS is 5. The controller's rounds and the checker's begin at
            // different packets.
            (_, Phase::ConservativeSlowStart) => rounds(7),
            (Bbr, Phase::Other(name)) => bbr_phase_bound(name),
            _ => None,
        }
    }

    /// Returns how long `suppressor` may be in effect while data waits, nothing is lost, and the
    /// window does not grow.
    pub(crate) fn suppressor_bound(self, suppressor: Suppressor) -> Option<Bound> {
        if suppressor == Suppressor::MaximumWindow {
            // There is no time limit; S3 checks the maximum.
            None
        } else if suppressor == Suppressor::Recovery {
            rounds(2)
        } else if suppressor == Suppressor::NotLimited {
            // The suppressor is removed by the first acknowledgment after the sender stops being
            // application-limited.
            rounds(2)
        } else if suppressor == Suppressor::ConservativeSlowStart {
            rounds(7)
        } else {
            Some(PROBE_CYCLE)
        }
    }

    /// Returns the time within which the pacing budget of a controller with a probe cycle must
    /// grow.
    pub(crate) const fn growth_bound(self, is_interrupted: bool) -> Bound {
        if is_interrupted { INTERRUPTED_CYCLE } else { PROBE_CYCLE }
    }
}

fn bbr_phase_bound(name: &str) -> Option<Bound> {
    match name {
        // Three rounds; the phase begins and ends in the middle of a round.
        "drain" => rounds(5),
        "probe_bw_down" => Some(Bound::Longer(4, Duration::from_millis(3_100))),
        "probe_bw_cruise" => Some(Bound::Longer(4, Duration::from_millis(3_100))),
        "probe_bw_refill" => rounds(2),
        // Draining (up to four rounds), 200 ms, and two more rounds.
        "probe_rtt" => Some(Bound::Sum(6, Duration::from_millis(200))),
        // STARTUP and UP continue while there is more bandwidth to be found.
        _ => None,
    }
}
