//! Descriptions of what each property requires and how it is checked.

use super::Property::{self, *};

/// The description of a property.
pub(super) struct Entry {
    property: Property,
    /// The property's ID, such as "L1".
    pub(super) id: &'static str,
    /// The requirement, in one line.
    pub(super) meaning: &'static str,
    /// A short description of how the property is checked.
    pub(super) method: &'static str,
}

/// Returns the description of `property`.
pub(super) const fn entry(property: Property) -> &'static Entry {
    &CATALOGUE[property as usize]
}

/// The descriptions of all properties, in the order of [`Property`].
static CATALOGUE: [Entry; Property::ALL.len()] = [
    Entry {
        property: S1,
        id: "S1",
        meaning: "Bytes in flight are the sum of the packets in flight, and each packet is removed exactly once.",
        method: "compares an independent ledger of sent packets with every reported value; only \
            an outstanding packet may be declared lost",
    },
    Entry {
        property: S2,
        id: "S2",
        meaning: "No packet that counts as in flight is sent beyond the window, except probes.",
        method: "compares an independent count of bytes in flight, plus the packet, with the \
            window; allows two probes for each expired timer",
    },
    Entry {
        property: S3,
        id: "S3",
        meaning: "Window, slow start threshold, rates and times are within their bounds.",
        method: "2 datagrams for loss-based controllers, 4 for BBR; the configured maximum; rates above zero",
    },
    Entry {
        property: S4,
        id: "S4",
        meaning: "A recovery period has one reduction, no larger than the algorithm's, and ends \
            exactly once; persistent congestion sets the minimum window.",
        method: "tracks recovery periods in send order, with the algorithm's beta, and detects \
            persistent congestion independently (RFC 9002 §7.6)",
    },
    Entry {
        property: S5,
        id: "S5",
        meaning: "No stored time is in the future.",
        method: "compares the rounds in which conditions began to suppress growth, and round-trip \
            times, with independent measurements",
    },
    Entry {
        property: S6,
        id: "S6",
        meaning: "The window changes only for a known reason, and grows only if it was used, by at most the bytes delivered.",
        method: "counts the bytes acknowledged per report; allows half the window per round in \
            congestion avoidance, and PRR's bounds in recovery (RFC 9937)",
    },
    Entry {
        property: S7,
        id: "S7",
        meaning: "Each packet sent is delivered, lost, discarded or outstanding; only packets that arrived are acknowledged.",
        method: "checks that acknowledged packets were sent and, if both endpoints are observed, \
            arrived",
    },
    Entry {
        property: S8,
        id: "S8",
        meaning: "In any interval, the bytes sent are at most the pacing rate times the interval, plus one burst.",
        method: "an independent token bucket of 1.25 times the pacing rate",
    },
    Entry {
        property: S9,
        id: "S9",
        meaning: "Round-trip times are measured, never assumed, and never below the path's delay.",
        method: "takes independent samples from send times; none may be below the packet's one-way \
            delay in the network",
    },
    Entry {
        property: S10,
        id: "S10",
        meaning: "No delivery rate sample is above the bottleneck's rate.",
        method: "on a bottleneck of constant rate without ACK aggregation, allows 2 % above the \
            rate plus the packets of one ACK",
    },
    Entry {
        property: S11,
        id: "S11",
        meaning: "The queue that a model-based controller builds is bounded.",
        method: "measures one-way delays: BBR's mean queueing delay in ProbeBW_CRUISE is at most \
            0.25 round trips",
    },
    Entry {
        property: S12,
        id: "S12",
        meaning: "An endpoint sends at most three times the bytes received from an address until \
            it is validated; datagrams with Initial packets have at least 1200 bytes.",
        method: "counts bytes received and sent per address, checks datagram sizes, and matches \
            PATH_CHALLENGE with PATH_RESPONSE",
    },
    Entry {
        property: S13,
        id: "S13",
        meaning: "Time advances: a timer that expired is set to a later time or not at all.",
        method: "an endpoint acts at most 64 times without time advancing; no deadline remains in \
            the past",
    },
    Entry {
        property: S14,
        id: "S14",
        meaning: "A reduction is undone only if all packets declared lost in it arrived, and only once.",
        method: "keeps a list of the packets declared lost in the reduction",
    },
    Entry {
        property: S15,
        id: "S15",
        meaning: "Idle time does not make the window larger, nor its growth faster.",
        method: "tracks idle times; compares growth per round after idle time with growth before \
            it",
    },
    Entry {
        property: S16,
        id: "S16",
        meaning: "The window is reduced after every loss of packets in flight and every CE mark \
            on a validated path, and for no other reason; a mark belongs to the path of the \
            newest acknowledged packet.",
        method: "tracks losses of packets sent after the last reduction, increases of the CE \
            count in ACKs of such packets, and the packet numbers at which the path changes",
    },
    Entry {
        property: S17,
        id: "S17",
        meaning: "Few transmissions are unnecessary: spurious losses are rare, and timeouts back off.",
        method: "counts spurious losses: at most 1 % on a path that preserves order, otherwise \
            5 %; compares the number of consecutive timeouts with log2 of the time since the \
            first one, in round trips",
    },
    Entry {
        property: S18,
        id: "S18",
        meaning: "The peer's flow control limits are respected.",
        method: "an independent ledger of stream data and limits",
    },
    Entry {
        property: S19,
        id: "S19",
        meaning: "No acknowledgment is delayed beyond max_ack_delay, or beyond what the peer \
            requests with ACK_FREQUENCY or IMMEDIATE_ACK, whatever the pacing rate.",
        method: "measures the time from the arrival of an ack-eliciting packet to the next ACK \
            frame",
    },
    Entry {
        property: S20,
        id: "S20",
        meaning: "A packet is declared lost only if a packet that was sent sufficiently later, in \
            packets or in time, has been acknowledged (RFC 9002 §6.1).",
        method: "tracks the send order of packets and round-trip times: the thresholds are three \
            packets, or one packet and 9/8 round trips",
    },
    Entry {
        property: S21,
        id: "S21",
        meaning: "No probe timeout expires early.",
        method: "calculates the probe timeout (RFC 9002 §6.2.1) since the last ack-eliciting \
            packet, doubled for each consecutive timeout; after a PING with an ACK, once without \
            doubling",
    },
    Entry {
        property: S22,
        id: "S22",
        meaning: "The first slow start ends when HyStart++ ends it, not earlier and not later (RFC 9406).",
        method: "runs the algorithm of §4.2 on independently measured rounds and round-trip \
            times, for Reno and CUBIC",
    },
    Entry {
        property: S23,
        id: "S23",
        meaning: "A PATH_RESPONSE validates only an address to which its PATH_CHALLENGE was sent, and a stateless reset is accepted only with a token that the peer issued.",
        method: "records challenges with their addresses and compares them with the addresses \
            reported as validated; keeps a list of reset tokens",
    },
    Entry {
        property: S24,
        id: "S24",
        meaning: "In congestion avoidance, CUBIC's window follows W_cubic(t) and W_est (RFC 9438 §4.2 to §4.5).",
        method: "calculates W_cubic(t) and W_est from the time in which data waited and the bytes \
            acknowledged; the bounds are one round trip's growth apart, with a tolerance of one \
            datagram",
    },
    Entry {
        property: S25,
        id: "S25",
        meaning: "No datagram exceeds the size that is validated for the path, except one probe \
            at a time; nothing is calculated with a size that is not yet validated.",
        method: "compares the sizes of acknowledged probes (RFC 8899 §3) with the size that the \
            endpoint reports, with its datagrams, and with the controller's minimum window",
    },
    Entry {
        property: S26,
        id: "S26",
        meaning: "ACK frames report the ECN marks of received packets, CE marks immediately \
            (RFC 9000 §13.4.1, §13.2.1).",
        method: "counts the ECN fields of delivered packets per packet number space and compares \
            them with every ACK frame sent",
    },
    Entry {
        property: S27,
        id: "S27",
        meaning: "A connection ID is used on one path only, unless a NAT has changed the peer's address (RFC 9000 §9.5).",
        method: "records the IDs in short headers with their sockets and addresses; two addresses \
            of the peer may receive the same ID if the peer used a single ID from both",
    },
    Entry {
        property: S28,
        id: "S28",
        meaning: "A client sends 0-RTT packets only before its first 1-RTT packet, and without \
            forbidden frames (RFC 9001 §5.6, RFC 9000 §12.5).",
        method: "checks the types and frames of a client's packets; rejected 0-RTT data counts as \
            lost for L12, which requires retransmission, and as never sent for S18",
    },
    Entry {
        property: S29,
        id: "S29",
        meaning: "When the peer's IP address changes, the window and the round-trip time are \
            reset to their initial values (RFC 9000 §9.4).",
        method: "checks the first report after the destination IP address changed: the configured \
            initial window, no slow start threshold, no round-trip time without a sample",
    },
    Entry {
        property: L1,
        id: "L1",
        meaning: "The window grows while data waits for congestion control and no packet is lost.",
        method: "tracks packet-timed rounds; requires growth by 0.9 of the bytes delivered in \
            slow start, by half a datagram per round for Reno and CUBIC, within a probe cycle for \
            other controllers",
    },
    Entry {
        property: L2,
        id: "L2",
        meaning: "From any state, a sender uses 90 % of a clean path within a bounded time.",
        method: "a single flow on a bottleneck of constant rate; the bound is the number of \
            rounds that the algorithm needs from its window",
    },
    Entry {
        property: L3,
        id: "L3",
        meaning: "While a packet is outstanding, a timer is set that expires soon enough.",
        method: "after each action of an endpoint: the deadline is within the probe timeout with \
            its backoff",
    },
    Entry {
        property: L4,
        id: "L4",
        meaning: "A blocked sender sends as soon as it is no longer blocked.",
        method: "after each action of an endpoint that has data waiting: the window is full, or \
            the pacer has set a deadline",
    },
    Entry {
        property: L5,
        id: "L5",
        meaning: "Each phase of a controller ends within its bound.",
        method: "counts rounds and time in each phase",
    },
    Entry {
        property: L6,
        id: "L6",
        meaning: "The pacer never delays a packet for longer than a round trip.",
        method: "compares the pacing rate with the window and the smoothed round-trip time; \
            checks the pacer's deadlines",
    },
    Entry {
        property: L7,
        id: "L7",
        meaning: "A model-based controller's bandwidth estimate follows the path.",
        method: "compares BBR's pacing rate in ProbeBW_CRUISE with the bottleneck's rate, two \
            cycles after data began to wait",
    },
    Entry {
        property: L8,
        id: "L8",
        meaning: "No condition suppresses window growth beyond its bound while data waits and no packet is lost.",
        method: "counts, for each such condition, the clean rounds in which data is waiting",
    },
    Entry {
        property: L9,
        id: "L9",
        meaning: "Every transfer makes progress until it is complete.",
        method: "detects that no more events are scheduled while transfers are unfinished; reports \
            also count a run that fails, stops early or exceeds its scenario's time limit",
    },
    Entry {
        property: L10,
        id: "L10",
        meaning: "Packets are ECN-marked on paths that preserve the marks; on other paths, marking \
            ends within a test of ten packets.",
        method: "validates the received counts independently (RFC 9000 §13.4.2, A.4) against the \
            marks seen on the network; after a failure no packet may be marked, before validation \
            at most twice the test's packets, and a validated path must be used",
    },
    Entry {
        property: L11,
        id: "L11",
        meaning: "A connection ends if nothing arrives from its peer for the idle timeout.",
        method: "measures the time since the last packet from the peer",
    },
    Entry {
        property: L12,
        id: "L12",
        meaning: "Lost data is retransmitted, regardless of the frame type (RFC 9000 §13.3).",
        method: "records the last packet with each byte and each control frame: no lost byte or \
            frame remains unsent when there is nothing else to send, and no lost control frame \
            after 64 packets",
    },
    Entry {
        property: M1,
        id: "M1",
        meaning: "If time is scaled, the run scales with it.",
        method: "delays multiplied by 3, rates divided by 3: the time to completion is 3 times as \
            long, within 5 %; not for BBR, which has durations in seconds",
    },
    Entry {
        property: M2,
        id: "M2",
        meaning: "If datagram sizes are scaled, the run scales with them.",
        method: "all sizes and rates multiplied by 4: the time to completion is the same, within \
            5 %",
    },
    Entry {
        property: M3,
        id: "M3",
        meaning: "The frequency of acknowledgments does not change the window's growth.",
        method: "an ACK per 1, 2 and 10 packets and per window: in congestion avoidance \
            the window grows by the same amount in 20 windows, within a fifth plus a datagram; \
            not for BBR, which has no congestion avoidance",
    },
    Entry {
        property: M4,
        id: "M4",
        meaning: "Batching datagrams does not change delivery rate samples.",
        method: "batches of 1, 4, 16 and 40 datagrams, and a reaction to each datagram separately: rate samples and the time to completion are the same, within 2 %",
    },
    Entry {
        property: M5,
        id: "M5",
        meaning: "Idle time shifts CUBIC's curve and has no other effect.",
        method: "idle time longer by 0.1 s, 10 s and an hour: afterwards the window is the same \
            after the same number of delivered bytes, within a datagram; not for BBR, which paces \
            its restart",
    },
    Entry {
        property: M6,
        id: "M6",
        meaning: "Paths are well used at every round-trip time.",
        method: "round-trip times of 50 us to 2 s, a queue of one bandwidth-delay product: 90 % of the \
            capacity is used; for BBR above 200 ms, 90 % of the capacity that remains after ProbeRTT",
    },
    Entry {
        property: M7,
        id: "M7",
        meaning: "Fewer losses never make a transfer longer.",
        method: "without the losses after a given time, the transfer completes at most 10 % plus \
            one round trip later",
    },
    Entry {
        property: M8,
        id: "M8",
        meaning: "Jitter does not decide whether a transfer completes.",
        method: "jitter of 1 ns to 1 ms on the published collapse: the median time to completion is the same, within 10 %",
    },
    Entry {
        property: M9,
        id: "M9",
        meaning: "The result does not depend on which of two identical flows starts first.",
        method: "two flows in both start orders: the median times of the first and of the second flow are the same, within 10 %",
    },
    Entry {
        property: Fa,
        id: "Fa",
        meaning: "Equal flows get equal shares.",
        method: "2, 8 and 32 flows for a minute, a queue of one bandwidth-delay product: Jain's index is 0.95 or more",
    },
    Entry {
        property: Fb,
        id: "Fb",
        meaning: "Shares are at worst inversely proportional to round-trip times.",
        method: "round trips of 40 and 160 ms, CUBIC outside its Reno-friendly region: one flow \
            gets at most 4 times as much as the other; for other controllers, this ratio is only \
            reported (RFC 9438 §3.3)",
    },
    Entry {
        property: Fc,
        id: "Fc",
        meaning: "CUBIC and Reno get equal shares in CUBIC's Reno-friendly region.",
        method: "windows of 20 to 80 datagrams: over all runs CUBIC gets 0.7 to 1.3 times as much as Reno, whichever starts first (RFC 9438 §4.3)",
    },
    Entry {
        property: Fd,
        id: "Fd",
        meaning: "Different controllers do not starve each other.",
        method: "BBR and CUBIC, queues of 0.5 to 8 bandwidth-delay products: neither gets less than a tenth",
    },
];

const _: () = {
    let mut index = 0;
    while index < CATALOGUE.len() {
        assert!(CATALOGUE[index].property as usize == index, "an entry is at the wrong index");
        index += 1;
    }
};
