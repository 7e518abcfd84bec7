//! The states and their gains (draft, "Summary of Control Behavior in the State Machine").

use super::gain::Gain;
use clearway_units::packed::Pack;

/// A state of BBR's state machine (BBR.state).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pack)]
pub(super) enum BbrState {
    Startup,
    Drain,
    ProbeDown,
    ProbeCruise,
    ProbeRefill,
    ProbeUp,
    ProbeRtt,
}

impl BbrState {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::ProbeDown => "probe_bw_down",
            Self::ProbeCruise => "probe_bw_cruise",
            Self::ProbeRefill => "probe_bw_refill",
            Self::ProbeUp => "probe_bw_up",
            Self::ProbeRtt => "probe_rtt",
        }
    }

    pub(super) const fn pacing_gain(self) -> Gain {
        match self {
            // 4 ln 2: the minimum gain that lets the rate double each round.
            Self::Startup => Gain(277),
            Self::Drain => Gain(50),
            Self::ProbeDown => Gain(90),
            Self::ProbeCruise | Self::ProbeRefill | Self::ProbeRtt => Gain::ONE,
            Self::ProbeUp => Gain(125),
        }
    }

    pub(super) const fn window_gain(self) -> Gain {
        match self {
            Self::ProbeUp => Gain(225),
            Self::ProbeRtt => Gain(50),
            _ => Gain(200),
        }
    }

    /// Returns whether this is a phase of ProbeBW (IsInAProbeBWState).
    pub(super) const fn is_probing_bandwidth(self) -> bool {
        matches!(self, Self::ProbeDown | Self::ProbeCruise | Self::ProbeRefill | Self::ProbeUp)
    }

    /// Returns whether BBR is accelerating (IsProbingBW): losses are then attributed to the probe,
    /// not to the short-term bounds.
    pub(super) const fn is_accelerating(self) -> bool {
        matches!(self, Self::Startup | Self::ProbeRefill | Self::ProbeUp)
    }
}
