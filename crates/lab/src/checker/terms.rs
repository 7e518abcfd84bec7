//! What the setup determines for an endpoint: the settings of its stack, and its network.

use core::time::Duration;

use clearway_network::{Conditions, Corrupt, EcnTreatment, Effect, Fate, LinkConfig};
use clearway_units::Rate;

use super::expectations::Kind;
use crate::end::Side;
use crate::setup::{EndSetup, Setup, StackKind};

/// RFC 9002 §6.1.1.
const LEAST_PACKET_THRESHOLD: u64 = 3;

/// All that the checker knows in advance about one end.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) kind: Kind,
    /// The stack is observed. Of other stacks only datagrams are seen.
    pub(super) is_observed: bool,
    /// It marks packets with ECN where the path permits it.
    pub(super) uses_ecn: bool,
    /// The size of full datagrams; where the path's MTU is discovered, at first.
    pub(super) max_datagram_size: u64,
    /// The window to begin with, in bytes (RFC 9002 §7.2).
    pub(super) initial_window: u64,
    pub(super) maximum_window: u64,
    /// Assumed by timers until there is a sample.
    pub(super) initial_rtt: Duration,
    /// How long this endpoint's acknowledgements may be delayed.
    pub(super) max_ack_delay: Duration,
    /// How long the peer's may.
    pub(super) peer_max_ack_delay: Duration,
    /// Reordering tolerated in packets: as configured, and not less than RFC 9002 §6.1.1 has it.
    pub(super) packet_threshold: u64,
    /// How many packets the peer acknowledges at once.
    pub(super) peer_threshold: u64,
    /// The smaller of the two ends' idle timeouts.
    pub(super) idle_timeout: Option<Duration>,
    pub(super) path: PathTerms,
}

/// What is known of the network in an end's direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PathTerms {
    /// Delay and rate do not change, except by a queue.
    pub(super) is_steady: bool,
    /// Datagrams arrive in the order in which they were sent.
    pub(super) keeps_order: bool,
    /// Acknowledgements come back one by one: nothing holds them, nothing loses them.
    pub(super) returns_at_once: bool,
    /// Datagrams may arrive that belong to no identifiable connection.
    pub(super) corrupts: bool,
    /// Nobody else is on it.
    pub(super) is_alone: bool,
    /// The rate of the bottleneck, in bytes of payload, if it is known and constant.
    pub(super) bottleneck: Option<Rate>,
    /// From end to end and back, without queues.
    pub(super) round_trip: Duration,
}

impl Terms {
    /// Those of the end at `side` of flow `index`, whose controller is called `controller`.
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
            path: PathTerms::of(&setup.network, side, setup.flows.len() == 1, own),
        }
    }
}

fn initial_window(end: &EndSetup) -> u64 {
    let size = u64::from(end.max_datagram_size);
    let standard = (10 * size).min(14_720.max(2 * size));
    end.initial_window.unwrap_or(standard).max(2 * size).min(end.maximum_window.max(2 * size))
}

impl PathTerms {
    fn of(network: &LinkConfig, side: Side, is_alone: bool, end: &EndSetup) -> Self {
        let (there, back) = match side {
            Side::Client => (&network.to_server, &network.to_client),
            Side::Server => (&network.to_client, &network.to_server),
        };
        // No rebinding, no delays of flows' own.
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
            // A rebinding, or a delay of a whole flow, lets no packet overtake another of the same flow.
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

/// Whether a disturbance of the network has such an effect.
fn disturbs(network: &LinkConfig, is_such: fn(Effect) -> bool) -> bool {
    network.disturbances.iter().any(|disturbance| is_such(disturbance.effect))
}

/// Whether datagrams may overtake each other for it.
const fn reorders(effect: Effect) -> bool {
    matches!(effect, Effect::Reorder(_) | Effect::One { fate: Fate::Delayed(_), .. })
}

/// Whether a datagram may be corrupt for it.
const fn corrupts(effect: Effect) -> bool {
    matches!(effect, Effect::One { fate: Fate::Corrupted { .. }, .. })
}

/// What a rate gives to payloads of full size, when lower layers take their share.
fn without_overhead(rate: Rate, conditions: &Conditions, end: &EndSetup) -> Rate {
    // Where the MTU is discovered, datagrams may be so large that the lower layers' share is nothing.
    let size = u64::from(if end.discovers_mtu { u16::MAX } else { end.max_datagram_size });
    rate.scaled(size, size + u64::from(conditions.overhead))
}

/// Nothing but a constant delay, a constant rate with a queue, and loss. Whatever else conditions may be
/// made of, it is not this.
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

/// As [`is_steady`], but the delay may vary as long as nothing overtakes anything.
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
