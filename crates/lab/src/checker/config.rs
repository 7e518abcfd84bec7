//! The settings of an endpoint's stack and network, as specified by the setup.

use core::time::Duration;

use clearway_network::{Conditions, Corrupt, EcnTreatment, Effect, Fate, LinkConfig};
use clearway_units::Rate;

use super::expectations::Kind;
use crate::end::Side;
use crate::setup::{EndSetup, Setup, StackKind};

/// The minimum packet threshold (RFC 9002 §6.1.1).
const LEAST_PACKET_THRESHOLD: u64 = 3;

/// The settings of an endpoint that are known in advance.
#[derive(Clone, Debug)]
pub(super) struct EndpointConfig {
    pub(super) kind: Kind,
    /// Whether the stack is observed. For other stacks, only datagrams are visible.
    pub(super) is_observed: bool,
    /// Whether the endpoint marks packets with ECN where the path allows it.
    pub(super) uses_ecn: bool,
    /// The size of full datagrams; with path MTU discovery, their initial size.
    pub(super) max_datagram_size: u64,
    /// The initial window in bytes (RFC 9002 §7.2).
    pub(super) initial_window: u64,
    pub(super) maximum_window: u64,
    /// The RTT that timers use before the first RTT sample.
    pub(super) initial_rtt: Duration,
    /// The maximum ACK delay of this endpoint.
    pub(super) max_ack_delay: Duration,
    /// The maximum ACK delay of the peer.
    pub(super) peer_max_ack_delay: Duration,
    /// The configured packet threshold, but at least the minimum in RFC 9002 §6.1.1.
    pub(super) packet_threshold: u64,
    /// The number of packets that the peer acknowledges with one ACK frame.
    pub(super) peer_threshold: u64,
    /// The smaller of the two endpoints' idle timeouts.
    pub(super) idle_timeout: Option<Duration>,
    pub(super) path: PathConfig,
}

/// The known properties of the network in the endpoint's send direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PathConfig {
    /// Whether delay and rate are constant, apart from queueing.
    pub(super) is_steady: bool,
    /// Whether datagrams arrive in the order in which they were sent.
    pub(super) keeps_order: bool,
    /// Whether acknowledgments return one by one, without being delayed or lost.
    pub(super) returns_at_once: bool,
    /// Whether datagrams may arrive that cannot be attributed to a connection.
    pub(super) corrupts: bool,
    /// Whether the path carries no other flow.
    pub(super) is_alone: bool,
    /// The bottleneck's payload rate in bytes, if it is known and constant.
    pub(super) bottleneck: Option<Rate>,
    /// The round-trip time without queueing delay.
    pub(super) round_trip: Duration,
}

impl EndpointConfig {
    /// Returns the configuration of the endpoint at `side` of flow `index`, whose controller is
    /// called `controller`.
    pub(super) fn of(setup: &Setup, index: usize, side: Side, controller: &str) -> Self {
        let flow = &setup.flows[index];
        let (own, peer) = match side {
            Side::Client => (&flow.client, &flow.server),
            Side::Server => (&flow.server, &flow.client),
        };
        let kind = Kind::named(flow.controller.as_deref().unwrap_or(controller));
        Self {
            kind,
            is_observed: own.stack == StackKind::Clearway,
            uses_ecn: own.marks_ecn,
            max_datagram_size: u64::from(own.max_datagram_size),
            initial_window: initial_window(own)
                .max(kind.floor() * u64::from(own.max_datagram_size)),
            maximum_window: own.maximum_window,
            initial_rtt: own.initial_rtt,
            max_ack_delay: own.max_ack_delay,
            peer_max_ack_delay: peer.max_ack_delay,
            packet_threshold: own.packet_threshold.max(LEAST_PACKET_THRESHOLD),
            peer_threshold: u64::from(peer.ack_eliciting_threshold),
            idle_timeout: own.max_idle_timeout.into_iter().chain(peer.max_idle_timeout).min(),
            path: PathConfig::of(&setup.network, side, setup.flows.len() == 1, own),
        }
    }
}

fn initial_window(end: &EndSetup) -> u64 {
    let size = u64::from(end.max_datagram_size);
    let standard = (10 * size).min(14_720.max(2 * size));
    end.initial_window.unwrap_or(standard).max(2 * size).min(end.maximum_window.max(2 * size))
}

impl PathConfig {
    fn of(network: &LinkConfig, side: Side, is_alone: bool, end: &EndSetup) -> Self {
        let (there, back) = match side {
            Side::Client => (&network.to_server, &network.to_client),
            Side::Server => (&network.to_client, &network.to_server),
        };
        // Flows have no additional delays, and there is no rebinding.
        let is_fixed = *network
            == LinkConfig {
                to_server: network.to_server.clone(),
                to_client: network.to_client.clone(),
                seed: network.seed,
                record_drops: network.record_drops,
                ..LinkConfig::default()
            };
        Self {
            is_steady: is_fixed && is_steady(there) && is_steady(back),
            // A rebinding, or a delay of a whole flow, does not reorder packets within a flow.
            keeps_order: keeps_order(there) && keeps_order(back) && !disturbs(network, reorders),
            corrupts: back.corrupt != Corrupt::default() || disturbs(network, corrupts),
            returns_at_once: back.loss.is_empty()
                && back.rate.is_none()
                && network.disturbances.is_empty(),
            is_alone,
            bottleneck: there.rate.map(|rate| without_overhead(rate, there, end)),
            round_trip: there.delay + back.delay,
        }
    }
}

/// Returns whether the network has a disturbance whose effect matches the predicate.
fn disturbs(network: &LinkConfig, is_such: fn(Effect) -> bool) -> bool {
    network.disturbances.iter().any(|disturbance| is_such(disturbance.effect))
}

/// Returns whether this effect may reorder datagrams.
const fn reorders(effect: Effect) -> bool {
    matches!(effect, Effect::Reorder(_) | Effect::One { fate: Fate::Delayed(_), .. })
}

/// Returns whether this effect may corrupt datagrams.
const fn corrupts(effect: Effect) -> bool {
    matches!(effect, Effect::One { fate: Fate::Corrupted { .. }, .. })
}

/// Returns the part of a link rate that is available to full-sized payloads, after lower-layer
/// overhead.
fn without_overhead(rate: Rate, conditions: &Conditions, end: &EndSetup) -> Rate {
    // With path MTU discovery, datagrams may be so large that the overhead is negligible.
    let size = u64::from(if end.discovers_mtu { u16::MAX } else { end.max_datagram_size });
    rate.scaled(size, size + u64::from(conditions.overhead))
}

/// Returns whether the conditions are limited to a constant delay, a constant rate with a queue,
/// and loss.
fn is_steady(conditions: &Conditions) -> bool {
    *conditions
        == Conditions {
            delay: conditions.delay,
            rate: conditions.rate,
            overhead: conditions.overhead,
            queue: conditions.queue,
            loss: conditions.loss.clone(),
            ..Conditions::default()
        }
}

/// Like [`is_steady`], but the delay may vary as long as nothing is reordered.
fn keeps_order(conditions: &Conditions) -> bool {
    let jitter = conditions.jitter;
    let steadied = Conditions {
        jitter: clearway_network::Jitter::default(),
        tick: None,
        delay_steps: Vec::new(),
        rate_steps: Vec::new(),
        mtu: None,
        mtu_steps: Vec::new(),
        ecn: EcnTreatment::Kept,
        ecn_steps: Vec::new(),
        ..conditions.clone()
    };
    !jitter.reorder_by_jitter && is_steady(&steadied)
}
