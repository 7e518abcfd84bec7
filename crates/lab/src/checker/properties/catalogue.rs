//! What each property demands, and how that is checked: the texts.

use super::Property::{self, *};

/// The texts of a property.
pub(super) struct Entry {
    property: Property,
    /// Its ID, such as "L1".
    pub(super) id: &'static str,
    /// What it demands, in one line.
    pub(super) meaning: &'static str,
    /// How it is checked, in short.
    pub(super) method: &'static str,
}

/// The texts of `property`.
pub(super) const fn entry(property: Property) -> &'static Entry {
    &CATALOGUE[property as usize]
}

/// In the order of the notes.
static CATALOGUE: [Entry; Property::ALL.len()] = [
    Entry {
        property: S1,
        id: "S1",
        meaning: "Bytes in flight are those of the packets in flight, and each leaves exactly once.",
        method: "own ledger of sent packets against every reported figure; a loss must be of an outstanding packet",
    },
    Entry {
        property: S2,
        id: "S2",
        meaning: "Nothing that counts in flight is sent beyond the window, except probes.",
        method: "own bytes in flight and size against the window; two probes for each expired timer",
    },
    Entry {
        property: S3,
        id: "S3",
        meaning: "Window, threshold, rates and times stay within their bounds.",
        method: "2 datagrams for loss-based controllers, 4 for BBR; the configured maximum; rates above zero",
    },
    Entry {
        property: S4,
        id: "S4",
        meaning: "A recovery period brings one reduction, no deeper than the algorithm's, and ends exactly once; persistent congestion brings the least window.",
        method: "own recovery period in the order of sending; beta of the algorithm; own evidence of persistent congestion (RFC 9002 §7.6)",
    },
    Entry {
        property: S5,
        id: "S5",
        meaning: "No stored point in time is in the future.",
        method: "rounds that suppressors began in, and round-trip times, against own ones",
    },
    Entry {
        property: S6,
        id: "S6",
        meaning: "The window changes only for a cause, grows by no more than was delivered, and only if it was used.",
        method: "own bytes acknowledged per report; half the window per round in congestion avoidance; PRR's bounds in recovery (RFC 9937)",
    },
    Entry {
        property: S7,
        id: "S7",
        meaning: "What is sent is delivered, lost, discarded or outstanding; only what arrived is acknowledged.",
        method: "acknowledged packets must have been sent and, where both ends are watched, have arrived",
    },
    Entry {
        property: S8,
        id: "S8",
        meaning: "In any time, no more is sent than the rate gives and one burst.",
        method: "own token bucket of 1.25 x the rate",
    },
    Entry {
        property: S9,
        id: "S9",
        meaning: "Round-trip times are measured, never assumed, and never shorter than the path.",
        method: "own samples from own send times; not below the one-way delay that the network gave the packet",
    },
    Entry {
        property: S10,
        id: "S10",
        meaning: "No sample of the delivery rate is above the bottleneck's rate.",
        method: "on a bottleneck of constant rate without aggregation, 2 % and an ACK's worth above it at most",
    },
    Entry {
        property: S11,
        id: "S11",
        meaning: "The queue that a model-based controller builds is bounded.",
        method: "own one-way delays: BBR's mean extra delay in ProbeBW_CRUISE is 0.25 round trips at most",
    },
    Entry {
        property: S12,
        id: "S12",
        meaning: "An address that is not validated is sent no more than three times what came from it, and Initial packets in datagrams of 1200 bytes.",
        method: "datagrams delivered and submitted per address, and their sizes; own matching of PATH_CHALLENGE and PATH_RESPONSE",
    },
    Entry {
        property: S13,
        id: "S13",
        meaning: "Nothing spins: time moves on after a deadline.",
        method: "64 turns of one end at one moment at most; a deadline that is past must not stay",
    },
    Entry {
        property: S14,
        id: "S14",
        meaning: "A reduction is taken back only if every packet of its losses arrived, and only once.",
        method: "own list of the episode's losses",
    },
    Entry {
        property: S15,
        id: "S15",
        meaning: "Idle time does not make the window larger, nor its growth faster.",
        method: "own idle times; growth per round after against before",
    },
    Entry {
        property: S16,
        id: "S16",
        meaning: "The window reacts to losses of packets in flight, to all of them and to nothing else; the path follows the newest packet.",
        method: "own losses of in-flight packets sent after the last reduction; own packet numbers where the path changes",
    },
    Entry {
        property: S17,
        id: "S17",
        meaning: "Little is sent in vain: spurious losses are rare, and timeouts back off.",
        method: "own spurious losses, 1 % where nothing overtakes anything and 5 % elsewhere; expiries against log2 of the silence",
    },
    Entry {
        property: S18,
        id: "S18",
        meaning: "The peer's flow control limits are kept.",
        method: "own ledger of stream data and limits",
    },
    Entry {
        property: S19,
        id: "S19",
        meaning: "An acknowledgement does not wait for longer than max_ack_delay, whatever the pacer says.",
        method: "own clock from an ack-eliciting packet's arrival to the next ACK frame",
    },
    Entry {
        property: S20,
        id: "S20",
        meaning: "A packet is declared lost only if enough packets or enough time lie between it and an acknowledgement (RFC 9002 §6.1).",
        method: "own packets in the order of sending and own round-trip times: three packets, or one and 9/8 of a round trip",
    },
    Entry {
        property: S21,
        id: "S21",
        meaning: "A probe timeout does not expire before its time.",
        method: "own probe timeout (RFC 9002 §6.2.1) since the last ack-eliciting packet, doubled for each in a row; a PING with an ACK spares one the doubling",
    },
    Entry {
        property: S22,
        id: "S22",
        meaning: "The first slow start is left where HyStart++ leaves it, neither before nor after (RFC 9406).",
        method: "the algorithm of §4.2 with own rounds and own round-trip times, of Reno and CUBIC",
    },
    Entry {
        property: S23,
        id: "S23",
        meaning: "An answer to a challenge validates the address that was challenged, and a stateless reset has a token that was given.",
        method: "own challenges with their addresses against what the stack calls validated; own list of reset tokens",
    },
    Entry {
        property: S24,
        id: "S24",
        meaning: "In congestion avoidance, CUBIC's window follows W_cubic(t) and W_est, neither behind nor ahead (RFC 9438 §4.2 to §4.5).",
        method: "own W_cubic(t) and W_est, of the time in which data waited and the bytes acknowledged; a round trip's growth between the bounds, and a datagram beside each",
    },
    Entry {
        property: L1,
        id: "L1",
        meaning: "With data waiting, held back by congestion control, and without loss, the window grows.",
        method: "own packet-timed rounds; slow start 0.9 of what was delivered, Reno and CUBIC half a datagram per round, others within a probe cycle",
    },
    Entry {
        property: L2,
        id: "L2",
        meaning: "From any state, a clean path is used to 90 % within a bounded time.",
        method: "alone on a bottleneck of constant rate: rounds that the algorithm needs from its window",
    },
    Entry {
        property: L3,
        id: "L3",
        meaning: "Whatever is outstanding has a deadline, and not a distant one.",
        method: "after every turn: the deadline is within the backed-off probe timeout",
    },
    Entry {
        property: L4,
        id: "L4",
        meaning: "What unblocks a sender makes it try at once.",
        method: "after every turn: room in the window and no pacer's deadline, with own knowledge of data waiting",
    },
    Entry {
        property: L5,
        id: "L5",
        meaning: "Every phase of a controller ends within its bound.",
        method: "own rounds and time in each phase",
    },
    Entry {
        property: L6,
        id: "L6",
        meaning: "The pacer never holds a packet back for longer than a round trip.",
        method: "rate against window and smoothed round-trip time; the pacer's deadlines",
    },
    Entry {
        property: L7,
        id: "L7",
        meaning: "A model-based controller's estimate follows the path.",
        method: "BBR's pacing rate in ProbeBW_CRUISE against the bottleneck's, two cycles after data began to wait",
    },
    Entry {
        property: L8,
        id: "L8",
        meaning: "Nothing that suppresses growth outlives its bound while data waits and nothing is lost.",
        method: "clean rounds of waiting for each registered suppressor",
    },
    Entry {
        property: L9,
        id: "L9",
        meaning: "A transfer goes on until it is complete.",
        method: "a simulation in which nothing will ever happen again, with transfers unfinished; in reports, a run that fails, stands or takes longer than its scenario allows",
    },
    Entry {
        property: L10,
        id: "L10",
        meaning: "ECN that does not work is given up.",
        method: "not yet",
    },
    Entry {
        property: L11,
        id: "L11",
        meaning: "A peer that is silent for the idle timeout is given up.",
        method: "own time of silence",
    },
    Entry {
        property: L12,
        id: "L12",
        meaning: "What was lost is sent again, whatever frame it was in (RFC 9000 §13.3).",
        method: "own list of the packet that carried each byte and each control frame last: none is owed when there is nothing else to send, no control frame after 64 packets",
    },
    Entry {
        property: M1,
        id: "M1",
        meaning: "Time scaled, the run scales.",
        method: "delays times 3, rates divided by 3: the time to completion is 3 times as long, within 5 %; not BBR, whose times are seconds",
    },
    Entry {
        property: M2,
        id: "M2",
        meaning: "Datagrams scaled, the run scales.",
        method: "all sizes and rates times 4: the time to completion is the same, within 5 %",
    },
    Entry {
        property: M3,
        id: "M3",
        meaning: "How acknowledgements are bundled does not change growth.",
        method: "ACKs of 1, 2, 10 packets and of whole windows: congestion avoidance grows by as much in 20 windows, within a fifth and a datagram; not BBR, which has none",
    },
    Entry {
        property: M4,
        id: "M4",
        meaning: "How datagrams are batched does not change rate samples.",
        method: "batches of 1, 4, 16 and 40 datagrams, and each datagram acted on alone: rate samples and the time to completion are the same, within 2 %",
    },
    Entry {
        property: M5,
        id: "M5",
        meaning: "Idle time shifts CUBIC's curve and does nothing else.",
        method: "idle for 0.1 s, 10 s, an hour longer: the window after it is the same by bytes delivered, within a datagram; not BBR, which paces its restart",
    },
    Entry {
        property: M6,
        id: "M6",
        meaning: "Paths of every round-trip time are used.",
        method: "50 us to 2 s and a queue of one path: 90 % of the bottleneck are used; above 200 ms, of what BBR's ProbeRTT leaves",
    },
    Entry {
        property: M7,
        id: "M7",
        meaning: "Fewer losses never make a transfer longer.",
        method: "losses deleted from some time on: completion is at most 10 % and a round trip later",
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
        meaning: "Two equal flows that change places change results.",
        method: "two flows in both orders: the median times of each place are the same, within 10 %",
    },
    Entry {
        property: Fa,
        id: "Fa",
        meaning: "Equal flows get equal shares.",
        method: "2, 8 and 32 flows for a minute, a queue of one path: Jain's index is 0.95 or more",
    },
    Entry {
        property: Fb,
        id: "Fb",
        meaning: "Shares follow round-trip times no worse than inversely.",
        method: "round trips of 40 and 160 ms in CUBIC's region: at most 4 times as much; of others a figure only (RFC 9438 §3.3)",
    },
    Entry {
        property: Fc,
        id: "Fc",
        meaning: "CUBIC and Reno share evenly where CUBIC is as Reno.",
        method: "windows of 20 to 80 datagrams: in all runs together CUBIC has 0.7 to 1.3 times as much as Reno, whoever begins (RFC 9438 §4.3)",
    },
    Entry {
        property: Fd,
        id: "Fd",
        meaning: "Unlike controllers do not starve each other.",
        method: "BBR beside CUBIC, queues of 0.5 to 8 paths: neither gets less than a tenth",
    },
];

const _: () = {
    let mut index = 0;
    while index < CATALOGUE.len() {
        assert!(CATALOGUE[index].property as usize == index, "an entry is not in its place");
        index += 1;
    }
};
