//! The catalogue: what a run is checked for.

/// A property. Its ID and meaning are those of the field notes: S are safety properties, which name
/// something that must never happen; L are liveness properties, each with a bound, so that a run can
/// show that it does not hold; M and F compare runs or flows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "`meaning` and `method` say what each is")]
pub enum Property {
    S1,
    S2,
    S3,
    S4,
    S5,
    S6,
    S7,
    S8,
    S9,
    S10,
    S11,
    S12,
    S13,
    S14,
    S15,
    S16,
    S17,
    S18,
    S19,
    L1,
    L2,
    L3,
    L4,
    L5,
    L6,
    L7,
    L8,
    L9,
    L10,
    L11,
    M1,
    M2,
    M3,
    M4,
    M5,
    M6,
    M7,
    M8,
    M9,
    Fa,
    Fb,
    Fc,
    Fd,
}

use Property::*;

/// Where a property is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In every run, at every event, by the checker.
    Run,
    /// Over several runs or flows, by the module `across`.
    Across,
    /// Nowhere yet.
    Nowhere {
        /// Why it does not apply.
        reason: &'static str,
    },
}

impl Property {
    /// All of them, in the order of the notes.
    pub const ALL: [Self; 43] = [
        S1, S2, S3, S4, S5, S6, S7, S8, S9, S10, S11, S12, S13, S14, S15, S16, S17, S18, S19, L1,
        L2, L3, L4, L5, L6, L7, L8, L9, L10, L11, M1, M2, M3, M4, M5, M6, M7, M8, M9, Fa, Fb, Fc,
        Fd,
    ];

    /// Its ID, such as "L1".
    pub const fn id(self) -> &'static str {
        match self {
            S1 => "S1",
            S2 => "S2",
            S3 => "S3",
            S4 => "S4",
            S5 => "S5",
            S6 => "S6",
            S7 => "S7",
            S8 => "S8",
            S9 => "S9",
            S10 => "S10",
            S11 => "S11",
            S12 => "S12",
            S13 => "S13",
            S14 => "S14",
            S15 => "S15",
            S16 => "S16",
            S17 => "S17",
            S18 => "S18",
            S19 => "S19",
            L1 => "L1",
            L2 => "L2",
            L3 => "L3",
            L4 => "L4",
            L5 => "L5",
            L6 => "L6",
            L7 => "L7",
            L8 => "L8",
            L9 => "L9",
            L10 => "L10",
            L11 => "L11",
            M1 => "M1",
            M2 => "M2",
            M3 => "M3",
            M4 => "M4",
            M5 => "M5",
            M6 => "M6",
            M7 => "M7",
            M8 => "M8",
            M9 => "M9",
            Fa => "Fa",
            Fb => "Fb",
            Fc => "Fc",
            Fd => "Fd",
        }
    }

    /// What it demands, in one line.
    pub const fn meaning(self) -> &'static str {
        match self {
            S1 => {
                "Bytes in flight are those of the packets in flight, and each leaves exactly once."
            }
            S2 => "Nothing that counts in flight is sent beyond the window, but for probes.",
            S3 => "Window, threshold, rates and times stay within their bounds.",
            S4 => {
                "A recovery period brings one reduction, no deeper than the algorithm's, and ends exactly once; persistent congestion brings the least window."
            }
            S5 => "No stored point in time is in the future.",
            S6 => {
                "The window changes only for a cause, grows by no more than was delivered, and only if it was used."
            }
            S7 => {
                "What is sent is delivered, lost, discarded or outstanding; only what arrived is acknowledged."
            }
            S8 => "In any time, no more is sent than the rate gives and one burst.",
            S9 => "Round-trip times are measured, never assumed, and never shorter than the path.",
            S10 => "No sample of the delivery rate is above the bottleneck's rate.",
            S11 => "The queue that a model-based controller builds is bounded.",
            S12 => {
                "An address that is not validated is sent no more than three times what came from it, and Initial packets in datagrams of 1200 bytes."
            }
            S13 => "Nothing spins: time moves on after a deadline.",
            S14 => {
                "A reduction is taken back only if every packet of its losses arrived, and only once."
            }
            S15 => "Idle time does not make the window larger, nor its growth faster.",
            S16 => {
                "The window reacts to losses of packets in flight, to all of them and to nothing else; the path follows the newest packet."
            }
            S17 => "Little is sent in vain: spurious losses are rare, and timeouts back off.",
            S18 => "The peer's flow control limits are kept.",
            S19 => {
                "An acknowledgement does not wait for longer than max_ack_delay, whatever the pacer says."
            }
            L1 => {
                "With data waiting, held back by congestion control, and without loss, the window grows."
            }
            L2 => "From any state, a clean path is used to 90 % within a bounded time.",
            L3 => "Whatever is outstanding has a deadline, and not a distant one.",
            L4 => "What unblocks a sender makes it try at once.",
            L5 => "Every phase of a controller ends within its bound.",
            L6 => "The pacer never holds a packet back for longer than a round trip.",
            L7 => "A model-based controller's estimate follows the path.",
            L8 => {
                "Nothing that suppresses growth outlives its bound while data waits and nothing is lost."
            }
            L9 => "A transfer goes on until it is complete.",
            L10 => "ECN that does not work is given up.",
            L11 => "A peer that is silent for the idle timeout is given up.",
            M1 => "Time scaled, the run scales.",
            M2 => "Datagrams scaled, the run scales.",
            M3 => "How acknowledgements are bundled does not change growth.",
            M4 => "How datagrams are batched does not change rate samples.",
            M5 => "Idle time shifts CUBIC's curve and does nothing else.",
            M6 => "Paths of every round-trip time are used.",
            M7 => "Fewer losses never make a transfer longer.",
            M8 => "Jitter does not decide whether a transfer completes.",
            M9 => "Two equal flows that change places change results.",
            Fa => "Equal flows get equal shares.",
            Fb => "Shares follow round-trip times no worse than inversely.",
            Fc => "CUBIC and Reno share evenly where CUBIC is as Reno.",
            Fd => "Unlike controllers do not starve each other.",
        }
    }

    /// How it is checked, in short.
    pub const fn method(self) -> &'static str {
        match self {
            S1 => {
                "own ledger of sent packets against every reported figure; a loss must be of an outstanding packet"
            }
            S2 => {
                "own bytes in flight and size against the window; two probes for each expired timer"
            }
            S3 => {
                "2 datagrams for loss-based controllers, 4 for BBR; the configured maximum; rates above zero"
            }
            S4 => {
                "own recovery period in the order of sending; beta of the algorithm; own evidence of persistent congestion (RFC 9002 §7.6)"
            }
            S5 => "rounds that suppressors began in, and round-trip times, against own ones",
            S6 => {
                "own bytes acknowledged per report; half the window per round in congestion avoidance; PRR's bounds in recovery (RFC 9937)"
            }
            S7 => {
                "acknowledged packets must have been sent and, where both ends are watched, have arrived"
            }
            S8 => "own token bucket of 1.25 x the rate",
            S9 => {
                "own samples from own send times; not below the one-way delay that the network gave the packet"
            }
            S10 => {
                "on a bottleneck of constant rate without aggregation, 2 % and an ACK's worth above it at most"
            }
            S11 => {
                "own one-way delays: BBR's mean extra delay in ProbeBW_CRUISE is 0.25 round trips at most"
            }
            S12 => {
                "datagrams delivered and submitted per address, and their sizes; own matching of PATH_CHALLENGE and PATH_RESPONSE"
            }
            S13 => {
                "64 turns of one end at one moment at most; a deadline that is past must not stay"
            }
            S14 => "own list of the episode's losses",
            S15 => "own idle times; growth per round after against before",
            S16 => {
                "own losses of in-flight packets sent after the last reduction; own packet numbers where the path changes"
            }
            S17 => {
                "own spurious losses where nothing overtakes anything, 1 %; expiries against log2 of the silence"
            }
            S18 => "own ledger of stream data and limits",
            S19 => "own clock from an ack-eliciting packet's arrival to the next ACK frame",
            L1 => {
                "own packet-timed rounds; slow start 0.9 of what was delivered, Reno and CUBIC half a datagram per round, others within a probe cycle"
            }
            L2 => {
                "alone on a bottleneck of constant rate: rounds that the algorithm needs from its window"
            }
            L3 => "after every turn: the deadline is within the backed-off probe timeout",
            L4 => {
                "after every turn: room in the window and no pacer's deadline, with own knowledge of data waiting"
            }
            L5 => "own rounds and time in each phase",
            L6 => "rate against window and smoothed round-trip time; the pacer's deadlines",
            L7 => {
                "BBR's pacing rate in ProbeBW_CRUISE against the bottleneck's, two cycles after data began to wait"
            }
            L8 => "clean rounds of waiting for each registered suppressor",
            L9 => {
                "a simulation in which nothing will ever happen again, with transfers unfinished; in reports, a run that fails, stands or takes longer than its scenario allows"
            }
            L10 => "not yet",
            L11 => "own time of silence",
            M1 => {
                "delays times 3, rates divided by 3: the time to completion is 3 times as long, within 5 %; not BBR, whose times are seconds"
            }
            M2 => "all sizes and rates times 4: the time to completion is the same, within 5 %",
            M3 => {
                "ACKs of 1, 2, 10 packets and of whole windows: congestion avoidance grows by as much in 20 windows, within a fifth and a datagram; not BBR, which has none"
            }
            M4 => {
                "batches of 1, 4, 16 and 40 datagrams, and each datagram acted on alone: rate samples and the time to completion are the same, within 2 %"
            }
            M5 => {
                "idle for 0.1 s, 10 s, an hour longer: the window after it is the same by bytes delivered, within a datagram; not BBR, which paces its restart"
            }
            M6 => {
                "50 us to 2 s and a queue of one path: 90 % of the bottleneck are used; above 200 ms, of what BBR's ProbeRTT leaves"
            }
            M7 => {
                "losses deleted from some time on: completion is at most 10 % and a round trip later"
            }
            M8 => {
                "jitter of 1 ns to 1 ms on the published collapse: the median time to completion is the same, within 10 %"
            }
            M9 => {
                "two flows in both orders: the median times of each place are the same, within 10 %"
            }
            Fa => {
                "2, 8 and 32 flows for a minute, a queue of one path: Jain's index is 0.95 or more"
            }
            Fb => {
                "round trips of 40 and 160 ms in CUBIC's region: at most 4 times as much; of others a figure only (RFC 9438 §3.3)"
            }
            Fc => {
                "windows of 20 to 80 datagrams: in all runs together CUBIC has 0.7 to 1.3 times as much as Reno, whoever begins (RFC 9438 §4.3)"
            }
            Fd => "BBR beside CUBIC, queues of 0.5 to 8 paths: neither gets less than a tenth",
        }
    }

    /// Where it is checked.
    pub const fn place(self) -> Place {
        match self {
            L10 => Place::Nowhere { reason: "the transport does not mark packets with ECN yet" },
            M1 | M2 | M3 | M4 | M5 | M6 | M7 | M8 | M9 | Fa | Fb | Fc | Fd => Place::Across,
            _ => Place::Run,
        }
    }

    /// The one with this ID.
    ///
    /// # Errors
    /// If there is none.
    pub fn from_id(id: &str) -> Result<Self, UnknownProperty> {
        let found = Self::ALL.into_iter().find(|property| property.id() == id);
        found.ok_or_else(|| UnknownProperty(id.to_owned()))
    }
}

impl core::fmt::Display for Property {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.id())
    }
}

/// An ID that no property has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownProperty(String);

impl core::fmt::Display for UnknownProperty {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "there is no property {:?}; they are S1 to S19, L1 to L11, M1 to M9, Fa to Fd",
            self.0
        )
    }
}

impl core::error::Error for UnknownProperty {}

/// Some of the properties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PropertySet(u64);

impl PropertySet {
    /// All that the checker checks.
    pub const ALL: Self = Self((1 << Property::ALL.len()) - 1);
    /// None.
    pub const NONE: Self = Self(0);

    /// These and `property`.
    pub const fn with(self, property: Property) -> Self {
        Self(self.0 | 1 << property as u8)
    }

    /// These without `property`.
    pub const fn without(self, property: Property) -> Self {
        Self(self.0 & !(1 << property as u8))
    }

    /// Whether `property` is one of them.
    pub const fn contains(self, property: Property) -> bool {
        self.0 & 1 << property as u8 != 0
    }
}
