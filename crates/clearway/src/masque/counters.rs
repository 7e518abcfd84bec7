//! The counters of a proxy.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

use clearway_masque::TunnelKind;
use clearway_masque::ip::{IpDropReason, IpStatistics};
use clearway_masque::proxy_status::ProxyError;
use clearway_masque::udp::{DropReason, Traffic, UdpStatistics};

use super::stream::Direction;

/// The number of drop reasons of the kind of tunnel that has the most.
const MAX_REASONS: usize = IpDropReason::ALL.len();

/// Counts of a [`Proxy`](super::Proxy) since it was created.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct ProxyStatistics {
    /// UDP tunnels.
    pub udp: TunnelStatistics,
    /// IP tunnels.
    pub ip: TunnelStatistics,
    /// TCP tunnels, whose traffic has no datagrams.
    pub tcp: TunnelStatistics,
    /// Number of requests without valid credentials.
    pub unauthenticated: u64,
    /// Number of requests that were refused for other reasons, by error type.
    pub refused: BTreeMap<ProxyError, u64>,
    /// Number of dropped UDP payloads in both directions, by reason.
    pub udp_dropped: BTreeMap<DropReason, u64>,
    /// Number of dropped IP packets in both directions, by reason.
    pub ip_dropped: BTreeMap<IpDropReason, u64>,
}

/// Counts of a proxy's tunnels of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct TunnelStatistics {
    /// Number of tunnels that are open.
    pub open: u64,
    /// Number of tunnels that have been opened.
    pub opened: u64,
    /// Traffic relayed from clients to targets.
    pub to_targets: Traffic,
    /// Traffic relayed from targets to clients.
    pub to_clients: Traffic,
}

impl ProxyStatistics {
    /// Returns the counts of the tunnels of this kind.
    pub const fn of(&self, kind: TunnelKind) -> &TunnelStatistics {
        match kind {
            TunnelKind::Udp => &self.udp,
            TunnelKind::Ip => &self.ip,
            TunnelKind::Tcp => &self.tcp,
        }
    }
}

/// The counters that all tunnels of a proxy share.
#[derive(Debug, Default)]
pub(super) struct Counters {
    udp: KindCounters,
    ip: KindCounters,
    tcp: KindCounters,
    unauthenticated: AtomicU64,
    refused: [AtomicU64; ProxyError::ALL.len()],
    udp_dropped: [AtomicU64; DropReason::ALL.len()],
    ip_dropped: [AtomicU64; IpDropReason::ALL.len()],
}

#[derive(Debug, Default)]
struct KindCounters {
    opened: AtomicU64,
    ended: AtomicU64,
    to_targets: TrafficCounters,
    to_clients: TrafficCounters,
}

#[derive(Debug, Default)]
struct TrafficCounters {
    datagrams: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    fn of(&self, kind: TunnelKind) -> &KindCounters {
        match kind {
            TunnelKind::Udp => &self.udp,
            TunnelKind::Ip => &self.ip,
            TunnelKind::Tcp => &self.tcp,
        }
    }

    /// Counts a request without valid credentials.
    pub(super) fn on_unauthenticated(&self) {
        add(&self.unauthenticated, 1);
    }

    /// Counts a request that was refused for this reason.
    pub(super) fn on_refused(&self, error: ProxyError) {
        let index = ProxyError::ALL.iter().position(|it| *it == error);
        if let Some(counter) = index.and_then(|index| self.refused.get(index)) {
            add(counter, 1);
        }
    }

    /// Returns the current values.
    pub(super) fn statistics(&self) -> ProxyStatistics {
        ProxyStatistics {
            udp: self.udp.statistics(),
            ip: self.ip.statistics(),
            tcp: self.tcp.statistics(),
            unauthenticated: load(&self.unauthenticated),
            refused: by_reason(ProxyError::ALL, &self.refused),
            udp_dropped: by_reason(&DropReason::ALL, &self.udp_dropped),
            ip_dropped: by_reason(&IpDropReason::ALL, &self.ip_dropped),
        }
    }
}

impl KindCounters {
    fn statistics(&self) -> TunnelStatistics {
        // In this order, since a tunnel may be opened and end in between.
        let ended = load(&self.ended);
        let opened = load(&self.opened);
        TunnelStatistics {
            open: opened.saturating_sub(ended),
            opened,
            to_targets: self.to_targets.traffic(),
            to_clients: self.to_clients.traffic(),
        }
    }
}

impl TrafficCounters {
    fn traffic(&self) -> Traffic {
        Traffic { datagrams: load(&self.datagrams), bytes: load(&self.bytes) }
    }

    /// Adds the traffic since the last call. `counted` is the traffic up to then.
    fn update(&self, counted: &mut Traffic, now: Traffic) {
        if *counted != now {
            add(&self.datagrams, now.datagrams.saturating_sub(counted.datagrams));
            add(&self.bytes, now.bytes.saturating_sub(counted.bytes));
            *counted = now;
        }
    }
}

/// A tunnel that counts as open until this is dropped.
#[derive(Debug)]
pub(super) struct OpenTunnel {
    counters: Arc<Counters>,
    kind: TunnelKind,
    /// What the counters contain of this tunnel.
    to_target: Traffic,
    to_client: Traffic,
    dropped: [u64; MAX_REASONS],
}

impl OpenTunnel {
    pub(super) fn new(counters: &Arc<Counters>, kind: TunnelKind) -> Self {
        add(&counters.of(kind).opened, 1);
        Self {
            counters: counters.clone(),
            kind,
            to_target: Traffic::default(),
            to_client: Traffic::default(),
            dropped: [0; MAX_REASONS],
        }
    }

    /// Counts what has happened in a UDP tunnel since the last call.
    pub(super) fn update_udp(&mut self, now: &UdpStatistics) {
        self.update_traffic(now.to_socket, now.to_peer);
        let counters = &self.counters.udp_dropped;
        update_reasons(&DropReason::ALL, counters, &mut self.dropped, &now.dropped);
    }

    /// Counts what has happened in an IP tunnel since the last call.
    pub(super) fn update_ip(&mut self, now: &IpStatistics) {
        self.update_traffic(now.received, now.sent);
        let counters = &self.counters.ip_dropped;
        update_reasons(&IpDropReason::ALL, counters, &mut self.dropped, &now.dropped);
    }

    fn update_traffic(&mut self, to_target: Traffic, to_client: Traffic) {
        let counters = self.counters.of(self.kind);
        counters.to_targets.update(&mut self.to_target, to_target);
        counters.to_clients.update(&mut self.to_client, to_client);
    }

    /// Counts bytes of a TCP tunnel.
    pub(super) fn on_bytes(&self, direction: Direction, bytes: u64) {
        let counters = self.counters.of(self.kind);
        add(
            match direction {
                Direction::ToTarget => &counters.to_targets.bytes,
                Direction::ToClient => &counters.to_clients.bytes,
            },
            bytes,
        );
    }
}

impl Drop for OpenTunnel {
    fn drop(&mut self) {
        add(&self.counters.of(self.kind).ended, 1);
    }
}

/// Adds the drops since the last call. `counted` contains those up to then.
fn update_reasons<R: Ord>(
    all: &[R],
    counters: &[AtomicU64],
    counted: &mut [u64],
    now: &BTreeMap<R, u64>,
) {
    if now.is_empty() {
        return;
    }
    for ((reason, counter), counted) in all.iter().zip(counters).zip(counted) {
        let now = now.get(reason).copied().unwrap_or_default();
        add(counter, now.saturating_sub(*counted));
        *counted = now;
    }
}

fn by_reason<R: Ord + Copy>(all: &[R], counters: &[AtomicU64]) -> BTreeMap<R, u64> {
    all.iter().copied().zip(counters.iter().map(load)).collect()
}

fn add(counter: &AtomicU64, count: u64) {
    if count > 0 {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
