use core::fmt;

/// What can be found. The names that people see are [`FindingId::name`]'s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the catalogue says what each is")]
pub enum FindingId {
    WindowAtFloor,
    StateFlapping,
    RecoveryWithoutLoss,
    WindowBelowMinimum,
    NoGrowth,
    SuppressorHeld,
    ApplicationLimitedClaim,
    PhaseWithoutEnd,
    IdleWithData,
    NotWoken,
    ProbeOverdue,
    PacerStarves,
    AboveWindow,
    GhostBytes,
    FlowControlStall,
    PeerStoppedReading,
    AmplificationStall,
    AckStarvation,
    LateAcknowledgements,
    TimedOutWithData,
    DeadPeerKept,
    LossDeclaredEarly,
    SpuriousLoss,
    MtuBlackHole,
    EcnBlackHole,
}

/// What there is to know about a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Which.
    pub id: FindingId,
    /// Its name, as it is printed.
    pub name: &'static str,
    /// What it is, in twelve words at most: the headline.
    pub title: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What usually causes it.
    pub causes: &'static str,
    /// From when on it is one, and from which property or section that comes.
    pub bound: &'static str,
}

impl FindingId {
    /// Its entry in the catalogue.
    pub fn entry(self) -> &'static Entry {
        let [first, ..] = &CATALOGUE;
        CATALOGUE.iter().find(|entry| entry.id == self).unwrap_or(first)
    }

    /// Its name, as it is printed.
    pub fn name(self) -> &'static str {
        self.entry().name
    }
}

impl fmt::Display for FindingId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// All findings.
pub static CATALOGUE: [Entry; 25] = [
    Entry {
        id: FindingId::WindowAtFloor,
        name: "window-at-floor",
        title: "the congestion window stays at its floor without loss",
        meaning: "The window is at the least its controller ever sets, or less than a datagram above, so that no more goes; packets are acknowledged, none is lost or \
                  marked, data waits, and it does not grow: a transfer that crawls and may never end.",
        causes: "A recovery period whose end moves on with each round trip (a flip of state each round trip tells it); idle time computed where there is none; growth in \
                 fractions that are thrown away; a slow start threshold at the floor together with a congestion avoidance that counts in whole datagrams.",
        bound: "16 clean round trips with data waiting (L5: recovery ends in 2; L1: half a datagram a round over 4); for BBR, at the floor itself, 128 and 7 s, two probe cycles.",
    },
    Entry {
        id: FindingId::StateFlapping,
        name: "state-flapping",
        title: "the congestion state goes to and fro",
        meaning: "Recovery is entered again and again without a loss between. Where the period is the round trip, every window's acknowledgement leads back into recovery.",
        causes: "A recovery boundary that is a point in time which idle time or another adjustment moves; one that every packet sent crosses.",
        bound: "16 entries in a row without a loss or a mark, no more than 4 round trips and 100 ms apart (S4).",
    },
    Entry {
        id: FindingId::RecoveryWithoutLoss,
        name: "recovery-without-loss",
        title: "recovery begins without a loss",
        meaning: "The controller reacts to something that is no sign of congestion, and the window does not grow meanwhile.",
        causes: "A boundary of recovery in the future; losses of MTU probes or of packets of other spaces taken for congestion; probe timeouts taken for losses.",
        bound: "5 entries with neither a loss nor a mark since the recovery before, nor a round trip before or after (S4, S16).",
    },
    Entry {
        id: FindingId::WindowBelowMinimum,
        name: "window-below-minimum",
        title: "the congestion window is below its minimum",
        meaning: "The window is smaller than any controller may make it. Below a datagram, nothing is ever sent again.",
        causes: "A reduction without a lower bound; a minimum in datagrams of another size; arithmetic that wraps.",
        bound: "Any moment below the minimum that the trace states, else below two datagrams of 1,200 bytes (RFC 9002 §7.2, S3).",
    },
    Entry {
        id: FindingId::NoGrowth,
        name: "no-growth",
        title: "the congestion window does not grow",
        meaning: "A loss-based window stays where it is, above its floor, though packets are acknowledged, none is lost and data waits.",
        causes: "Pacing or bursts taken for an application that has nothing to send; a curve whose epoch begins anew with each round; growth by acknowledgement rather than by byte, \
                 with rounding.",
        bound: "32 clean round trips with data waiting and 5.5 s (L1: CUBIC's curve is flat for a datagram in 2.72 s). Not judged from 1 MiB on, where a maximum may be configured.",
    },
    Entry {
        id: FindingId::SuppressorHeld,
        name: "suppressor-held",
        title: "something suppresses growth for too long",
        meaning: "What keeps the window from growing (recovery, not being limited by the window, conservative slow start, a state of BBR's cycle) does not let go.",
        causes: "A condition that the state it leads to keeps true; a round that is never counted as over.",
        bound: "16 clean round trips with data waiting, for what belongs to BBR's cycle 128 and 7 s (L8). Only traces with events of namespace clearway.",
    },
    Entry {
        id: FindingId::ApplicationLimitedClaim,
        name: "application-limited-claim",
        title: "taken for application-limited though the window is full",
        meaning: "The controller says that the application has nothing to send, and does not grow; but the window is full.",
        causes: "A judgement made before the packets of a burst are counted; one made while the pacer, not the application, holds data back.",
        bound: "16 clean round trips with a full window, the claim at every moment of them (L8).",
    },
    Entry {
        id: FindingId::PhaseWithoutEnd,
        name: "phase-without-end",
        title: "a state of the controller does not end",
        meaning: "Recovery, conservative slow start, Drain, ProbeRTT or a part of ProbeBW lasts longer than its rule allows.",
        causes: "An end that waits for bytes in flight to fall where they are miscounted; a round that never ends.",
        bound: "Four times what L5 allows: recovery 8 clean round trips with data waiting, conservative slow start (while the window grows as it does there) and Drain 20, ProbeRTT 24 and 0.8 s, Refill 8, Down 16 and 12 s.",
    },
    Entry {
        id: FindingId::IdleWithData,
        name: "idle-with-data",
        title: "nothing is in flight though data waits",
        meaning: "The sender has data, the peer's limits and the window let it go, nothing is on its way, and nothing is sent.",
        causes: "An acknowledgement that empties the flight and wakes nobody; a pacer whose release time lies far in the future; a transmit that is only tried when the application writes.",
        bound: "Pauses of more than 4 round trips and 100 ms, 0.5 s together (L4). Only traces that say why sending is blocked or what the application wrote.",
    },
    Entry {
        id: FindingId::NotWoken,
        name: "not-woken",
        title: "a raised limit wakes nobody",
        meaning: "Data waited for the peer's flow control; the limit was raised, and they still waited.",
        causes: "MAX_DATA or MAX_STREAM_DATA that changes a number and schedules nothing.",
        bound: "More than 4 round trips and 100 ms from the frame to the next stream data (L4).",
    },
    Entry {
        id: FindingId::ProbeOverdue,
        name: "probe-overdue",
        title: "no probe though packets are outstanding",
        meaning: "Packets wait for their acknowledgement, and the timer that has to ask for them is not set, or far too late. If nothing comes from the peer either, the connection hangs.",
        causes: "A probe timer that is not set anew after it ran out, or after keys are discarded; a backoff without end; a process that did not run.",
        bound: "Twice the probe timeout with its backoff, and 0.5 s, without a packet that asks for an answer (L3, RFC 9002 §6.2).",
    },
    Entry {
        id: FindingId::PacerStarves,
        name: "pacer-starves",
        title: "the pacer lets less go than the window",
        meaning: "The pacing rate, not the congestion window, decides the throughput, and is too low for it.",
        causes: "A rate from a round-trip time that was never measured, or from a sample of bandwidth that was limited by the application; bits and bytes.",
        bound: "16 clean round trips with less than half a window each; for BBR less than half a datagram (L6, RFC 9002 §7.7).",
    },
    Entry {
        id: FindingId::AboveWindow,
        name: "above-window",
        title: "packets are sent above the window",
        meaning: "Ordinary packets are sent though bytes in flight are above the congestion window, without a recent reduction that would explain it.",
        causes: "A send queue that is not counted; a window that is asked once for a whole burst; probes that are never counted.",
        bound: "32 packets more than two datagrams above, outside recovery, three round trips after any loss or cut (S2).",
    },
    Entry {
        id: FindingId::GhostBytes,
        name: "ghost-bytes-in-flight",
        title: "bytes in flight that are not",
        meaning: "More counts as in flight than was sent and is neither acknowledged nor lost. It takes away from the window for ever.",
        causes: "Packets that leave the ledger without being subtracted: dropped with keys, lost twice, acknowledged after they were declared lost.",
        bound: "Two datagrams too many at every moment of 64 round trips, and for 1 s (S1).",
    },
    Entry {
        id: FindingId::FlowControlStall,
        name: "flow-control-stall",
        title: "the peer's flow control holds data up",
        meaning: "Data waits for a limit that the receiver sets: its windows are smaller than the path, or raised too late.",
        causes: "A receive window below bandwidth times round trip; limits raised only when all was read; lost updates that nobody repeats.",
        bound: "One stall of 1 s and 16 round trips, or stalls for half the time and 2 s together. What is held up while data in flight stand in a queue (a round trip twice the least) does not count: the path is used.",
    },
    Entry {
        id: FindingId::PeerStoppedReading,
        name: "peer-stopped-reading",
        title: "the peer has stopped reading",
        meaning: "The peer's transport acknowledges everything, but raises no limit: its application takes nothing.",
        causes: "An application that is busy, paused or stuck; a client that shows a video and has enough of it.",
        bound: "2 s and 8 round trips with everything acknowledged and no limit raised.",
    },
    Entry {
        id: FindingId::AmplificationStall,
        name: "amplification-stall",
        title: "the amplification limit holds the server up",
        meaning: "The server may not send before it hears more of its client (RFC 9000 §8.1), and the client is silent: both wait.",
        causes: "A client that does not probe while it waits in the handshake (RFC 9002 §6.2.2.1); a long certificate chain on a lossy path.",
        bound: "5 s: a client probes after 1 s, and if that is lost after 2 s more.",
    },
    Entry {
        id: FindingId::AckStarvation,
        name: "ack-starvation",
        title: "the peer does not acknowledge",
        meaning: "Packets come from the peer, but no ACK frame is in them, though some of ours wait for one.",
        causes: "ACKs that wait for room in a window they do not count in; a scheduler that always finds something more important.",
        bound: "8 packets without an ACK frame, within no less than 1 s and 8 round trips.",
    },
    Entry {
        id: FindingId::LateAcknowledgements,
        name: "late-acknowledgements",
        title: "acknowledgements are held back",
        meaning: "The peer says itself that it held acknowledgements back for longer than its max_ack_delay. Probe timers run out for nothing.",
        causes: "A receiver that is out of processor time; delays of a batching network card; a max_ack_delay that is a wish.",
        bound: "32 ACKs and half of all, each later than twice max_ack_delay and 20 ms (S19).",
    },
    Entry {
        id: FindingId::TimedOutWithData,
        name: "timed-out-with-data",
        title: "the connection timed out with data outstanding",
        meaning: "The peer fell silent in the middle of a transfer, and the idle timeout ended the connection.",
        causes: "A peer that crashed, or whose path died; a NAT that forgot the flow; an address of the peer's that changed and was not followed.",
        bound: "Closed by the idle timeout, or without a reason after as long a silence, with packets unacknowledged or data unsent.",
    },
    Entry {
        id: FindingId::DeadPeerKept,
        name: "dead-peer-kept",
        title: "a dead peer is not given up",
        meaning: "Nothing was heard for longer than the idle timeout, and the connection still sends.",
        causes: "An idle timer that sending restarts every time, rather than once.",
        bound: "A quarter and 1 s more than the idle timeout, or three probe timeouts, since the first packet without an answer (L11, RFC 9000 §10.1).",
    },
    Entry {
        id: FindingId::LossDeclaredEarly,
        name: "loss-declared-early",
        title: "packets are declared lost too early",
        meaning: "Packets are given up before three later ones are acknowledged and before a round trip is over, and then they are acknowledged.",
        causes: "A time threshold without the round-trip time's noise; a threshold in packets below three; a clock that is read once for several things.",
        bound: "8 such packets, and one of a hundred sent (RFC 9002 §6.1, S17).",
    },
    Entry {
        id: FindingId::SpuriousLoss,
        name: "spurious-loss",
        title: "reordering is taken for loss",
        meaning: "Most packets that were declared lost had arrived. They are sent twice, and the window is reduced for nothing.",
        causes: "A path that reorders by more than three packets or an eighth of a round trip; a sender that neither adapts its thresholds nor takes the reduction back.",
        bound: "32 packets, half of all losses, one of a hundred sent, and most reductions not taken back (S14, S17). Not for BBR, which repairs its model.",
    },
    Entry {
        id: FindingId::MtuBlackHole,
        name: "mtu-black-hole",
        title: "large packets do not arrive",
        meaning: "All packets above 1,200 bytes are lost for a while, and small ones between them arrive: the path has become narrower.",
        causes: "A tunnel or a change of route; an MTU that was raised by a probe which another path carried; no black-hole detection (RFC 8899 §4.3).",
        bound: "8 large packets and no arrival of one, with small ones sent between them that arrive, three times over.",
    },
    Entry {
        id: FindingId::EcnBlackHole,
        name: "ecn-black-hole",
        title: "marked packets do not arrive",
        meaning: "ECN is being tested, nothing is acknowledged, and packets are still marked.",
        causes: "A path that drops packets with ECN marks, and a sender that does not stop to mark (RFC 9000 §13.4.2).",
        bound: "More than 10 packets and 6 probe timeouts without an acknowledgement (L10). Only traces that say how far ECN's test is.",
    },
];
