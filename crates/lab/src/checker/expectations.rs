//! What is expected of each controller. The only place that knows them by name.

use core::time::Duration;

use clearway_congestion::{Phase, Suppressor};

/// A controller, as far as its behaviour is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// RFC 9002 §7: beta is 1/2, a datagram for each window.
    Reno,
    /// RFC 9438: beta is 0.7.
    Cubic,
    /// draft-ietf-ccwg-bbr-06.
    Bbr,
    /// Anybody's: what holds for all.
    Other,
}

/// A time that something may last at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bound {
    /// The longer of so many packet-timed rounds and so much time.
    Longer(u64, Duration),
    /// So much time, and so many rounds beside it.
    Sum(u64, Duration),
}

impl Bound {
    /// Whether `rounds` that took `time` are too long.
    pub(super) fn is_exceeded(self, rounds: u64, time: Duration) -> bool {
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

/// A cycle of ProbeBW: 2 to 3 s, or 63 rounds if they are over earlier (BBR §4.3.3.6), from DOWN to REFILL;
/// and the rounds that REFILL and UP take beside it, three of them to notice a plateau.
const PROBE_CYCLE: Bound = Bound::Sum(8, Duration::from_millis(3_100));
/// As [`PROBE_CYCLE`], when a ProbeRTT has ended a probe: the next is a cycle away.
const INTERRUPTED_CYCLE: Bound = Bound::Sum(16, Duration::from_millis(6_400));

impl Kind {
    /// The controller called `name`.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "reno" => Self::Reno,
            "cubic" => Self::Cubic,
            "bbr" => Self::Bbr,
            _ => Self::Other,
        }
    }

    /// Whether it is driven by losses as RFC 9002 §7 has it: slow start, one cut for each recovery
    /// period, congestion avoidance.
    pub(super) const fn is_loss_based(self) -> bool {
        matches!(self, Self::Reno | Self::Cubic)
    }

    /// The least window, in datagrams (RFC 9002 §7.2; BBR: MinPipeCwnd).
    pub(super) const fn floor(self) -> u64 {
        match self {
            Self::Reno | Self::Cubic => 2,
            Self::Bbr => 4,
            Self::Other => 1,
        }
    }

    /// What a cut leaves at least of the window, in tenths; `None` if that is not known.
    pub(super) const fn beta_tenths(self) -> Option<u64> {
        match self {
            Self::Reno => Some(5),
            Self::Cubic => Some(7),
            Self::Bbr | Self::Other => None,
        }
    }

    /// Whether the window may go back at once to one that it had before: BBR restores what it had saved
    /// when losses are repaired, when they were none, and after ProbeRTT (BBR §5.6.4.4, RestoreCwnd).
    pub(super) const fn restores_window(self) -> bool {
        matches!(self, Self::Bbr)
    }

    /// The pacing rate is never below so many tenths of the least window per round trip.
    pub(super) const fn pacing_floor_tenths(self) -> u64 {
        match self {
            // RFC 9002 §7.7: N is not less than one.
            Self::Reno | Self::Cubic => 10,
            // One datagram of MinPipeCwnd's four per round trip, and the pacing margin: where less than
            // four packets fill the path (a sub-packet BDP), the measured rate is what is right.
            Self::Bbr => 2,
            Self::Other => 1,
        }
    }

    /// For how long it may be in `phase` while data waits, ACKs come and nothing is lost.
    pub(super) fn phase_bound(self, phase: Phase) -> Option<Bound> {
        match (self, phase) {
            // RFC 9002 §7.3.2: until a packet sent in it is acknowledged.
            (_, Phase::Recovery) => rounds(2),
            // RFC 9406 §4.3: CSS_ROUNDS is 5. Its rounds and ours begin at different packets.
            (_, Phase::ConservativeSlowStart) => rounds(7),
            (Self::Bbr, Phase::Other(name)) => bbr_phase_bound(name),
            _ => None,
        }
    }

    /// For how long `suppressor` may hold while data waits and nothing is lost, and the window does not
    /// grow.
    pub(super) fn suppressor_bound(self, suppressor: Suppressor) -> Option<Bound> {
        if suppressor == Suppressor::MaximumWindow {
            // It is for ever, and S3 knows the maximum.
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
    pub(super) const fn growth_bound(self, is_interrupted: bool) -> Bound {
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
