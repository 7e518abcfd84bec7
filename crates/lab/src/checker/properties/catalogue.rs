//! The texts that describe what each property requires, and how that is checked.

use super::Property::{self, *};

/// The texts of a property.
pub(super) struct Entry {
    property: Property,
    /// Its ID, such as "L1".
    pub(super) id: &'static str,
    /// The requirement, in one line.
    pub(super) meaning: &'static str,
    /// A short description of how it is checked.
    pub(super) method: &'static str,
}

/// Returns the texts of `property`.
pub(super) const fn entry(property: Property) -> &'static Entry {
    &CATALOGUE[property as usize]
}

/// The texts of all properties, in the order of [`Property`].
static CATALOGUE: [Entry; Property::ALL.len()] = [
    Entry {
        property: S1,
        id: "S1",
        meaning: "Bytes in flight are the sum of the packets in flight, and each packet is removed exactly once.",
        method: "own ledger of sent packets, compared with every reported value; only an outstanding packet may be lost",
    },
    Entry {
        property: S2,
        id: "S2",
        meaning: "Nothing that counts in flight is sent beyond the window, except probes.",
        method: "own bytes in flight plus the packet, compared with the window; two probes for each expired timer",
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
        meaning: "A recovery period has one reduction, no deeper than the algorithm's, and ends exactly once; persistent congestion sets the minimum window.",
        method: "own recovery period in the order of sending; beta of the algorithm; own evidence of persistent congestion (RFC 9002 §7.6)",
    },
    Entry {
        property: S5,
        id: "S5",
        meaning: "No stored time is in the future.",
        method: "the rounds in which suppressors were set, and round-trip times, compared with own ones",
    },
    Entry {
        property: S6,
        id: "S6",
        meaning: "The window changes only for a reason, grows by at most the bytes delivered, and only if it was used.",
        method: "own bytes acknowledged per report; half the window per round in congestion avoidance; PRR's bounds in recovery (RFC 9937)",
    },
    Entry {
        property: S7,
        id: "S7",
        meaning: "Each packet sent is delivered, lost, discarded or outstanding; only packets that arrived are acknowledged.",
        method: "acknowledged packets were sent and, if both endpoints are observed, have arrived",
    },
    Entry {
        property: S8,
        id: "S8",
        meaning: "In any interval, at most the pacing rate times the interval and one burst are sent.",
        method: "own token bucket of 1.25 x the pacing rate",
    },
    Entry {
        property: S9,
        id: "S9",
        meaning: "Round-trip times are measured, never assumed, and never below the path's delay.",
        method: "own samples from own send times; not below the one-way delay of the packet in the network",
    },
    Entry {
        property: S10,
        id: "S10",
        meaning: "No sample of the delivery rate is above the bottleneck's rate.",
        method: "on a bottleneck of constant rate without aggregation, at most 2 % and the packets of one ACK above it",
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
        meaning: "To an address that is not validated, at most three times the bytes received from it are sent; datagrams with Initial packets have at least 1200 bytes.",
        method: "datagrams received and sent per address, and their sizes; own matching of PATH_CHALLENGE and PATH_RESPONSE",
    },
    Entry {
        property: S13,
        id: "S13",
        meaning: "Time advances: a timer that expired is set to a later time or not at all.",
        method: "an endpoint acts at most 64 times at one moment; no deadline remains in the past",
    },
    Entry {
        property: S14,
        id: "S14",
        meaning: "A reduction is undone only if all packets declared lost in it arrived, and only once.",
        method: "own list of the packets declared lost",
    },
    Entry {
        property: S15,
        id: "S15",
        meaning: "Idle time does not make the window larger, nor its growth faster.",
        method: "own idle times; growth per round after idle time compared with before",
    },
    Entry {
        property: S16,
        id: "S16",
        meaning: "The window is reduced after every loss of packets in flight and every CE mark on a validated path, and for no other reason; the path is that of the newest packet.",
        method: "own losses of packets in flight sent after the last reduction, own increases of the CE count with an ACK of such a packet; own packet numbers when the path changes",
    },
    Entry {
        property: S17,
        id: "S17",
        meaning: "Few transmissions are unnecessary: spurious losses are rare, and timeouts back off.",
        method: "own spurious losses, at most 1 % if the path keeps order and 5 % if not; timeouts compared with log2 of the silence",
    },
    Entry {
        property: S18,
        id: "S18",
        meaning: "The peer's flow control limits are respected.",
        method: "own ledger of stream data and limits",
    },
    Entry {
        property: S19,
        id: "S19",
        meaning: "No acknowledgement is delayed for longer than max_ack_delay, or than the peer has asked with ACK_FREQUENCY or \
                  IMMEDIATE_ACK, whatever the pacing rate.",
        method: "own time from the arrival of an ack-eliciting packet to the next ACK frame",
    },
    Entry {
        property: S20,
        id: "S20",
        meaning: "A packet is declared lost only if a packet sent enough packets or enough time after it was acknowledged (RFC 9002 §6.1).",
        method: "own packets in the order of sending and own round-trip times: three packets, or one packet and 9/8 round trips",
    },
    Entry {
        property: S21,
        id: "S21",
        meaning: "No probe timeout expires early.",
        method: "own probe timeout (RFC 9002 §6.2.1) since the last ack-eliciting packet, doubled for each consecutive one; after a PING with an ACK, one without the doubling",
    },
    Entry {
        property: S22,
        id: "S22",
        meaning: "The first slow start ends when HyStart++ ends it, not earlier and not later (RFC 9406).",
        method: "the algorithm of §4.2 with own rounds and own round-trip times, for Reno and CUBIC",
    },
    Entry {
        property: S23,
        id: "S23",
        meaning: "A PATH_RESPONSE validates only an address to which its PATH_CHALLENGE was sent, and a stateless reset is accepted only with a token that the peer issued.",
        method: "own challenges with their addresses, compared with the addresses reported as validated; own list of reset tokens",
    },
    Entry {
        property: S24,
        id: "S24",
        meaning: "In congestion avoidance, CUBIC's window follows W_cubic(t) and W_est (RFC 9438 §4.2 to §4.5).",
        method: "own W_cubic(t) and W_est from the time in which data waited and the bytes acknowledged; bounds one round trip's growth apart, with a tolerance of one datagram",
    },
    Entry {
        property: S25,
        id: "S25",
        meaning: "No datagram is larger than one that is known to pass, except one probe at a time; nothing is calculated with a size before it is known to pass.",
        method: "own sizes of acknowledged probes (RFC 8899 §3), compared with the size that the endpoint reports, with its datagrams, and with the controller's minimum window",
    },
    Entry {
        property: S26,
        id: "S26",
        meaning: "ACK frames report the ECN marks with which packets arrived, and a CE mark at once (RFC 9000 §13.4.1, §13.2.1).",
        method: "own counts, per packet number space, of the ECN fields that the network delivered, compared with every ACK frame sent",
    },
    Entry {
        property: S27,
        id: "S27",
        meaning: "A connection ID is used on one path only, unless a NAT has changed the peer's address (RFC 9000 §9.5).",
        method: "the IDs of short headers, with sockets and addresses; two addresses of the peer may get the same ID if the peer sent to the same ID from both",
    },
    Entry {
        property: S28,
        id: "S28",
        meaning: "A client sends 0-RTT packets only before its first 1-RTT packet, without frames that must not be in them (RFC 9001 §5.6, RFC 9000 §12.5).",
        method: "the types and frames of the packets that a client builds; what is rejected counts as lost, so that L12 wants it sent again, and S18 as never sent",
    },
    Entry {
        property: S29,
        id: "S29",
        meaning: "When the peer's IP address changes, the window and the round-trip time begin with their initial values (RFC 9000 §9.4).",
        method: "the first report after the address to which datagrams are sent has changed by more than its port: the configured initial window, no slow start threshold, no round-trip time without a sample",
    },
    Entry {
        property: L1,
        id: "L1",
        meaning: "With data waiting, held back by congestion control, and without loss, the window grows.",
        method: "own packet-timed rounds; in slow start by 0.9 of the bytes delivered, Reno and CUBIC by half a datagram per round, others within a probe cycle",
    },
    Entry {
        property: L2,
        id: "L2",
        meaning: "From any state, 90 % of a clean path is used within a bounded time.",
        method: "a single flow on a bottleneck of constant rate: the number of rounds that the algorithm needs from its window",
    },
    Entry {
        property: L3,
        id: "L3",
        meaning: "While a packet is outstanding, a timer is set that expires soon enough.",
        method: "each time an endpoint has acted: the deadline is within the probe timeout with its backoff",
    },
    Entry {
        property: L4,
        id: "L4",
        meaning: "A sender sends as soon as the reason for which it waited has gone.",
        method: "each time an endpoint has acted: no room in the window, or a deadline of the pacer, while own books have data waiting",
    },
    Entry {
        property: L5,
        id: "L5",
        meaning: "Each phase of a controller ends within its bound.",
        method: "own rounds and time in each phase",
    },
    Entry {
        property: L6,
        id: "L6",
        meaning: "The pacer never delays a packet for longer than a round trip.",
        method: "the pacing rate compared with window and smoothed round-trip time; the pacer's deadlines",
    },
    Entry {
        property: L7,
        id: "L7",
        meaning: "A model-based controller's estimate follows the path.",
        method: "BBR's pacing rate in ProbeBW_CRUISE compared with the bottleneck's, two cycles after data began to wait",
    },
    Entry {
        property: L8,
        id: "L8",
        meaning: "No suppressor of growth lasts beyond its bound while data waits and no packet is lost.",
        method: "clean rounds with data waiting, counted for each suppressor",
    },
    Entry {
        property: L9,
        id: "L9",
        meaning: "Every transfer makes progress until it is complete.",
        method: "a simulation without a further event while transfers are unfinished; in reports, a run that fails, stops or takes longer than its scenario allows",
    },
    Entry {
        property: L10,
        id: "L10",
        meaning: "Packets are marked with ECN where the path forwards marks; where it does not, marking ends within a test of ten packets.",
        method: "own validation (RFC 9000 §13.4.2, A.4) of the counts received, with the marks seen on the network; after a failure no packet is marked, without a proof at most two tests' worth, and a validated path is used",
    },
    Entry {
        property: L11,
        id: "L11",
        meaning: "A connection ends if its peer is silent for the idle timeout.",
        method: "own time since the last packet from the peer",
    },
    Entry {
        property: L12,
        id: "L12",
        meaning: "Lost data is sent again, in whatever frame it was (RFC 9000 §13.3).",
        method: "own list of the last packet with each byte and each control frame: no lost byte or frame remains unsent when there is nothing else to send, and no lost control frame after 64 packets",
    },
    Entry {
        property: M1,
        id: "M1",
        meaning: "If time is scaled, the run scales with it.",
        method: "delays times 3, rates divided by 3: the time to completion is 3 times as long, within 5 %; not for BBR, which has durations in seconds",
    },
    Entry {
        property: M2,
        id: "M2",
        meaning: "If the sizes of datagrams are scaled, the run scales with them.",
        method: "all sizes and rates times 4: the time to completion is the same, within 5 %",
    },
    Entry {
        property: M3,
        id: "M3",
        meaning: "The frequency of acknowledgements does not change the window's growth.",
        method: "an ACK for 1, 2 and 10 packets and for whole windows: in congestion avoidance the window grows by the same in 20 windows, within a fifth and a datagram; not for BBR, which has no congestion avoidance",
    },
    Entry {
        property: M4,
        id: "M4",
        meaning: "The batching of datagrams does not change samples of the delivery rate.",
        method: "batches of 1, 4, 16 and 40 datagrams, and a reaction to each datagram separately: rate samples and the time to completion are the same, within 2 %",
    },
    Entry {
        property: M5,
        id: "M5",
        meaning: "Idle time shifts CUBIC's curve and has no other effect.",
        method: "idle time longer by 0.1 s, 10 s and an hour: the window afterwards is the same for the same bytes delivered, within a datagram; not for BBR, which paces its restart",
    },
    Entry {
        property: M6,
        id: "M6",
        meaning: "Paths of every round-trip time are used.",
        method: "50 us to 2 s and a queue of one bandwidth-delay product: 90 % of the bottleneck is used; above 200 ms, 90 % of what BBR's ProbeRTT leaves",
    },
    Entry {
        property: M7,
        id: "M7",
        meaning: "Fewer losses never make a transfer longer.",
        method: "losses removed from some time on: completion is later by at most 10 % and a round trip",
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
        meaning: "If two equal flows change places, their results do too.",
        method: "two flows in both orders: the median time of each place is the same, within 10 %",
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
        method: "round trips of 40 and 160 ms in CUBIC's region: at most 4 times as much; for other controllers the ratio is only reported (RFC 9438 §3.3)",
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
        assert!(CATALOGUE[index].property as usize == index, "an entry is not in its place");
        index += 1;
    }
};
