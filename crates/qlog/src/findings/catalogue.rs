use core::fmt;

/// The identifiers of the findings. [`FindingId::name`] returns the names that are printed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the catalog describes each of them")]
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
    HandshakeIncomplete,
    ClosedWithError,
    OwnFlowControlStall,
    SlowStartEndedEarly,
    StandingQueue,
    PacketsDropped,
}

/// The description of a finding in the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The finding's ID.
    pub id: FindingId,
    /// The finding's name, as it is printed.
    pub name: &'static str,
    /// A general title. The headline of a specific finding has metrics.
    pub title: &'static str,
    /// An explanation of what the finding means.
    pub meaning: &'static str,
    /// The usual causes of the finding.
    pub causes: &'static str,
    /// The bound above which the finding is reported, and the property or section from which the
    /// bound is derived.
    pub bound: &'static str,
}

impl FindingId {
    /// Returns the finding's entry in the catalog.
    pub fn entry(self) -> &'static Entry {
        let [first, ..] = &CATALOGUE;
        CATALOGUE.iter().find(|entry| entry.id == self).unwrap_or(first)
    }

    /// Returns the finding's name, as it is printed.
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
pub static CATALOGUE: [Entry; 31] = [
    Entry {
        id: FindingId::WindowAtFloor,
        name: "window-at-floor",
        title: "Congestion window pinned at its floor without loss",
        meaning: "The window is at its floor, the smallest value that the controller ever sets, \
            or less than a datagram above it. Packets are acknowledged, none is lost or \
            CE-marked, and data is waiting, but the window does not grow. The transfer is \
            extremely slow and may never finish.",
        causes: "A recovery period that every round trip extends (the metrics then show a period \
            of one round trip); idle time detected where there was none; window growth in \
            fractions that are rounded down to zero; a slow start threshold at the floor, \
            together with congestion avoidance that counts whole datagrams.",
        bound: "At least 16 clean round trips (L5: recovery ends within 2; L1: over 4, the window \
            grows by half a datagram per round trip). For BBR: exactly at the floor for at least \
            128 clean round trips and 7 s, which is two probe cycles.",
    },
    Entry {
        id: FindingId::StateFlapping,
        name: "state-flapping",
        title: "Congestion state alternates without loss",
        meaning: "The sender enters recovery repeatedly although nothing was lost in between. If \
            this happens every round trip, the acknowledgment of each window puts the sender back \
            into recovery.",
        causes: "A recovery boundary stored as a time and shifted by idle time or another \
            adjustment; a recovery boundary that every newly sent packet crosses. Published \
            example: quiche's CUBIC (row 1 of Clearway's gallery) moved its recovery boundary \
            into the future when a packet was sent with nothing in flight, and so entered \
            recovery again.",
        bound: "At least 16 consecutive entries into recovery without loss or ECN-CE mark, each \
            at most 4 round trips (or 100 ms, if longer) after the previous one (S4).",
    },
    Entry {
        id: FindingId::RecoveryWithoutLoss,
        name: "recovery-without-loss",
        title: "Recovery entered without loss",
        meaning: "The controller reacts to something that is not a congestion signal. The window \
            does not grow during recovery.",
        causes: "A recovery boundary in the future; lost path MTU probes, or losses in other packet number spaces, \
                  treated as congestion; probe timeouts treated as losses.",
        bound: "At least 5 entries into recovery with neither a loss nor an ECN-CE mark since the \
            previous recovery or within a round trip of the entry (S4, S16).",
    },
    Entry {
        id: FindingId::WindowBelowMinimum,
        name: "window-below-minimum",
        title: "Congestion window below its minimum",
        meaning: "The window is smaller than the minimum of any controller. Below one datagram, \
            nothing can be sent at all.",
        causes: "A reduction without a lower bound; a minimum computed from the wrong datagram \
            size; integer overflow.",
        bound: "Any time in which the window is below the minimum that the trace contains, or \
            below two datagrams of 1,200 bytes if it contains none (RFC 9002, section 7.2; S3).",
    },
    Entry {
        id: FindingId::NoGrowth,
        name: "no-growth",
        title: "Congestion window does not grow",
        meaning: "The window of a loss-based controller stays the same, above its minimum, \
            although packets are acknowledged, none is lost, and data is waiting.",
        causes: "Pacing or bursts mistaken for an application that has nothing to send; a CUBIC \
            epoch that restarts every round trip; growth per acknowledgment instead of per byte, \
            rounded down to zero.",
        bound: "No growth for at least 32 clean round trips and 5.5 s (L1: CUBIC's curve stays \
            within one datagram of its plateau for 2.72 s). Windows of 1 MiB and more are \
            ignored, because they may be a configured maximum.",
    },
    Entry {
        id: FindingId::SuppressorHeld,
        name: "suppressor-held",
        title: "Window growth suppressed for too long",
        meaning: "A condition that prevents window growth (recovery, a window that is not fully \
            used, conservative slow start, a phase of BBR's cycle) does not end.",
        causes: "A condition that sustains itself; a round that is never counted as complete.",
        bound: "At least 16 clean round trips; for phases of BBR's cycle, at least 128 and 7 s \
            (L8). Only in traces with events in the clearway namespace.",
    },
    Entry {
        id: FindingId::ApplicationLimitedClaim,
        name: "application-limited-claim",
        title: "Treated as application-limited although the congestion window is full",
        meaning: "The controller assumes that the application has too little data to send, and \
            therefore does not increase the window. But the window is full.",
        causes: "A check that runs before the packets of a burst are counted, or while the pacer, \
            not the application, limits sending.",
        bound: "At least 16 clean round trips with a full window, treated as application-limited \
            throughout (L8).",
    },
    Entry {
        id: FindingId::PhaseWithoutEnd,
        name: "phase-without-end",
        title: "Controller stays in one state for too long",
        meaning: "Recovery, conservative slow start, Drain, ProbeRTT, or a phase of ProbeBW lasts longer than its \
                  rules allow.",
        causes: "A state whose end depends on bytes in flight, which are miscounted; a \
            round that never ends.",
        bound: "At least four times the bound of L5, in clean round trips: recovery 8; \
            conservative slow start (while the window grows at its reduced rate) 20; Drain 20; \
            ProbeRTT 24 and 0.8 s; ProbeBW_REFILL 8; ProbeBW_DOWN 16 and 12 s.",
    },
    Entry {
        id: FindingId::IdleWithData,
        name: "idle-with-data",
        title: "Nothing in flight although data could be sent",
        meaning: "The sender has data, flow control and the congestion window allow it to be sent, nothing is in \
                  flight, and nothing is sent.",
        causes: "An acknowledgment that leaves nothing in flight and does not trigger sending; a \
            pacer whose next release time is far in the future; sending attempted only when the \
            application writes.",
        bound: "Pauses of more than 4 round trips and 100 ms each, and of at least 0.5 s in total \
            (L4). Only in traces that record why sending is blocked or what the application \
            wrote.",
    },
    Entry {
        id: FindingId::NotWoken,
        name: "not-woken",
        title: "No data sent after the peer raised its limit",
        meaning: "Data was blocked by the peer's flow control. The peer raised the limit, and the data was still not \
                  sent.",
        causes: "MAX_DATA or MAX_STREAM_DATA updates the limit but does not trigger sending.",
        bound: "More than 4 round trips and 100 ms between the arrival of the frame and the next \
            stream data (L4).",
    },
    Entry {
        id: FindingId::ProbeOverdue,
        name: "probe-overdue",
        title: "No probe sent while packets were unacknowledged",
        meaning: "Packets are unacknowledged, but the probe timeout is not armed or expires far too late. If the peer \
                  sends nothing either, the connection hangs.",
        causes: "A probe timer that is not rearmed after it expires, or after keys are discarded; \
            a backoff without an upper bound; a suspended process.",
        bound: "At least twice the probe timeout including backoff, plus 0.5 s, without an \
            ack-eliciting packet (L3; RFC 9002, section 6.2).",
    },
    Entry {
        id: FindingId::PacerStarves,
        name: "pacer-starves",
        title: "Pacing rate too low for the congestion window",
        meaning: "The pacing rate, not the congestion window, limits throughput, and it is too \
            low for the window.",
        causes: "A pacing rate computed from an initial RTT that was never measured, or from an \
            application-limited bandwidth sample; bits mistaken for bytes.",
        bound: "At least 16 clean round trips in each of which the pacing rate allows less than \
            half a window; for BBR, less than half a datagram (L6; RFC 9002, section 7.7).",
    },
    Entry {
        id: FindingId::AboveWindow,
        name: "above-window",
        title: "Packets sent although the congestion window was full",
        meaning: "Packets other than probes are sent although bytes in flight exceed the \
            congestion window, and no recent window reduction explains it.",
        causes: "Packets waiting in a send queue are not counted; the window is checked once for a whole burst; \
                  probes are never counted.",
        bound: "At least 32 packets sent with bytes in flight more than two datagrams above the \
            window, outside recovery and three round trips after any loss or reduction (S2).",
    },
    Entry {
        id: FindingId::GhostBytes,
        name: "ghost-bytes-in-flight",
        title: "Bytes in flight overstated",
        meaning: "The bytes in flight exceed the bytes that were sent and are neither \
            acknowledged nor lost. The excess permanently uses up a part of the congestion window.",
        causes: "Packets removed without subtracting their bytes: discarded with their keys, or acknowledged after \
                  they were declared lost.",
        bound: "An excess of at least two datagrams throughout at least 64 round trips and 1 s \
            (S1).",
    },
    Entry {
        id: FindingId::FlowControlStall,
        name: "flow-control-stall",
        title: "Peer's flow control blocks sending",
        meaning: "Data waits for a limit set by the receiver: its flow control windows are too small for the path, or \
                  it raises its limits too late.",
        causes: "A receive window smaller than the bandwidth-delay product; limits raised only after all data was \
                  read; lost MAX_DATA or MAX_STREAM_DATA frames that are not retransmitted.",
        bound: "One stall of at least 1 s and 16 round trips, or stalls that take at least half \
            of the time and 2 s in total. Stalls while data in flight fills a queue (RTT at least \
            twice the minimum) are not counted, because the path is fully used.",
    },
    Entry {
        id: FindingId::PeerStoppedReading,
        name: "peer-stopped-reading",
        title: "Peer has stopped reading",
        meaning: "The peer acknowledges everything but does not raise its flow control limits: \
            its application does not read.",
        causes: "An application that is busy, paused, or hung; a video player whose buffer is full.",
        bound: "At least 2 s and 8 round trips with everything acknowledged and no limit raised.",
    },
    Entry {
        id: FindingId::AmplificationStall,
        name: "amplification-stall",
        title: "Server blocked by the anti-amplification limit",
        meaning: "The server has sent three times the bytes that it received and must wait for \
            the client (RFC 9000, section 8.1), but the client does not send anything.",
        causes: "A client that does not send probes during the handshake (RFC 9002, section \
            6.2.2.1); a long certificate chain on a lossy path.",
        bound: "At least 5 s: a client sends a probe after 1 s, and another one 2 s later if the \
            first is lost.",
    },
    Entry {
        id: FindingId::AckStarvation,
        name: "ack-starvation",
        title: "Peer does not send acknowledgments",
        meaning: "Packets arrive from the peer without ACK frames, although packets sent to it \
            are unacknowledged.",
        causes: "ACK frames blocked by the congestion window, which does not apply to them; a \
                 scheduler that always puts other frames first.",
        bound: "At least 8 packets in a row without an ACK frame, over at least 1 s and 8 round \
            trips.",
    },
    Entry {
        id: FindingId::LateAcknowledgements,
        name: "late-acknowledgements",
        title: "Acknowledgments delayed beyond max_ack_delay",
        meaning: "According to its own ACK Delay field, the peer delays acknowledgments beyond \
            the max_ack_delay that it advertised. This causes unnecessary probe timeouts.",
        causes: "A receiver that is short of CPU time; interrupt coalescing in a network card; an \
            implementation that does not respect its max_ack_delay.",
        bound: "At least 32 ACK frames, and at least half of all ACK frames, with an ACK Delay \
            above twice max_ack_delay plus 20 ms (S19).",
    },
    Entry {
        id: FindingId::TimedOutWithData,
        name: "timed-out-with-data",
        title: "Idle timeout with data unacknowledged",
        meaning: "The peer stopped sending during a transfer, and the idle timeout ended the \
            connection.",
        causes: "A peer that crashed, or a path that failed; a NAT binding that expired; a change \
            of the peer's address that this endpoint did not follow.",
        bound: "Closed by the idle timeout, or without a reason after an equal idle time, \
            with packets unacknowledged or data unsent.",
    },
    Entry {
        id: FindingId::DeadPeerKept,
        name: "dead-peer-kept",
        title: "Connection kept open to a silent peer",
        meaning: "Nothing was received for longer than the idle timeout, and the connection keeps sending.",
        causes: "An idle timer that every sent packet restarts, instead of only the first one \
            after a received packet.",
        bound: "At least 1.25 times the idle timeout (or three probe timeouts, if longer) plus 1 \
            s since the first unanswered ack-eliciting packet (L11; RFC 9000, section 10.1).",
    },
    Entry {
        id: FindingId::LossDeclaredEarly,
        name: "loss-declared-early",
        title: "Packets declared lost too early",
        meaning: "Packets are declared lost before three later ones are acknowledged and before a \
            round trip has passed, and are then acknowledged.",
        causes: "A time threshold without allowance for RTT variation; a packet threshold below three; one clock \
                  reading used for several events.",
        bound: "At least 8 such packets, and at least 1 % of all packets sent (RFC 9002, section \
            6.1; S17).",
    },
    Entry {
        id: FindingId::SpuriousLoss,
        name: "spurious-loss",
        title: "Reordering mistaken for loss",
        meaning: "Most packets that were declared lost had arrived. Their data is retransmitted \
            and the window is reduced, both unnecessarily.",
        causes: "A path that reorders by more than three packets or an eighth of a round trip, with a sender that \
                  neither adapts its thresholds nor undoes the reduction.",
        bound: "At least 32 packets, half of those declared lost, and 1 % of those sent, with \
            most reductions not undone (S14, S17). Not for BBR, which corrects its model.",
    },
    Entry {
        id: FindingId::MtuBlackHole,
        name: "mtu-black-hole",
        title: "Large packets do not arrive",
        meaning: "For some time, all packets above 1,200 bytes are lost while smaller ones sent \
            between them arrive: the path MTU has decreased.",
        causes: "A tunnel or a route change; an MTU confirmed by a probe that took another path; \
            no black hole detection (RFC 8899, section 4.3).",
        bound: "At least 8 large packets lost and none acknowledged, with small packets sent \
            between them arriving on at least three occasions.",
    },
    Entry {
        id: FindingId::EcnBlackHole,
        name: "ecn-black-hole",
        title: "ECN-marked packets do not arrive",
        meaning: "ECN validation is in progress, nothing is acknowledged, and packets are still sent with ECN marks.",
        causes: "A path that drops ECN-marked packets, and a sender that does not stop marking (RFC 9000, section \
                  13.4.2).",
        bound: "More than 10 packets and 6 probe timeouts without an acknowledgment (L10). Only \
            in traces that contain the state of ECN validation.",
    },
    Entry {
        id: FindingId::HandshakeIncomplete,
        name: "handshake-incomplete",
        title: "Handshake not complete",
        meaning: "The connection ended before the handshake was complete, or the handshake had \
            been in progress for a long time when the log ended. No request was answered.",
        causes: "A peer that does not respond; UDP blocked on the path; a certificate that is not trusted; no common \
                  version or application protocol.",
        bound: "The trace contains Initial packets, but neither a 1-RTT packet from the peer nor \
            HANDSHAKE_DONE, until the connection ends or for at least 5 s.",
    },
    Entry {
        id: FindingId::ClosedWithError,
        name: "closed-with-error",
        title: "Connection closed with an error",
        meaning: "An endpoint closed the connection because of an error. Streams that were open \
            are incomplete.",
        causes: "A protocol violation by the peer of the endpoint that closed the connection; a \
            failed TLS handshake (CRYPTO_ERROR with the alert); an application that gives up.",
        bound: "Any error code except NO_ERROR, application error 0, and H3_NO_ERROR (RFC 9000, \
            section 20).",
    },
    Entry {
        id: FindingId::OwnFlowControlStall,
        name: "own-flow-control-stall",
        title: "This endpoint's flow control blocks the peer",
        meaning: "The peer reports that it has reached a limit of this endpoint (DATA_BLOCKED, \
            STREAM_DATA_BLOCKED), no more data arrives, and the limit is raised late.",
        causes: "An application that reads slowly or not at all; a receive window smaller than the bandwidth-delay \
                  product; limits raised only after all data was read.",
        bound: "One stall of at least 1 s and 16 round trips since the last data arrived, or \
            stalls that take at least half of the time and 2 s in total.",
    },
    Entry {
        id: FindingId::SlowStartEndedEarly,
        name: "slow-start-ended-early",
        title: "Slow start ended without loss and without a queue",
        meaning: "The congestion window stopped doubling although nothing was lost or marked and \
            the round-trip time was at its minimum. From then on it grows by one datagram per \
            round trip, which is very slow on a path with a long round-trip time.",
        causes: "HyStart mistaking jitter or the spacing of acknowledgments for a queue; a slow \
            start threshold that was set too low.",
        bound: "Congestion avoidance with round-trip times within an eighth (or 4 ms) of the \
            minimum, and at least 4 clean round trips and 2 s afterwards without a queue. Not for \
            BBR.",
    },
    Entry {
        id: FindingId::StandingQueue,
        name: "standing-queue",
        title: "Sender keeps a standing queue at the bottleneck",
        meaning: "Round-trip times are many times the minimum while the sender uses its full \
            window: its own packets wait in a queue. Throughput is not affected, but all traffic \
            that shares the path is delayed.",
        causes: "A buffer at the bottleneck that is far too large, as in cellular networks, with \
            a controller that reduces its window only after loss; a bottleneck rate that fell \
            while the sender's estimate did not.",
        bound: "Both the smoothed and the latest round-trip time at least 12 times the minimum \
            and 1 s above it, for at least 2 s in total, with at least 32 datagrams in flight and \
            the window or the pacer limiting sending.",
    },
    Entry {
        id: FindingId::PacketsDropped,
        name: "packets-dropped",
        title: "Many received packets dropped in a row",
        meaning: "Packets of an established connection arrive and are dropped, most of them for \
            one reason. The peer considers them lost. Other findings in the same part of the \
            trace are consequences.",
        causes: "After a key update: an endpoint that derives the wrong keys, or updates twice; \
            otherwise corrupted packets, or packets injected by an attacker.",
        bound: "At least 8 dropped packets after the handshake, at least as many as are processed \
            in the same time, with fewer than 8 processed in a row between them. Duplicates and \
            packets of other connections do not count.",
    },
];
