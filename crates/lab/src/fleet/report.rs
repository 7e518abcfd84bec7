//! The report of one or more fleets.

use std::collections::BTreeMap;

use clearway_balancer::{Means, RouterStatistics};

use super::rules::{FleetRule, Reason};

/// The number of violations of each rule that are described for each fleet; all violations are
/// counted.
const DESCRIBED: u64 = 3;

/// A violation of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The seed of the fleet.
    pub seed: u64,
    /// The violated rule.
    pub rule: FleetRule,
    /// A description of the violation.
    pub explanation: String,
}

/// The results of one or more fleets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The number of fleets.
    pub fleets: u64,
    /// Connections that clients opened.
    pub opened: u64,
    /// Connections established with servers that issue QUIC-LB connection IDs.
    pub established: u64,
    /// Connections established with servers that issue other connection IDs.
    pub established_opaque: u64,
    /// Datagrams sent by clients.
    pub datagrams: u64,
    /// The number of hostile datagrams.
    pub hostile: u64,
    /// The number of changes to the fleet.
    pub changes: u64,
    /// The number of times that a client changed its address or its path to the other balancer.
    pub moves: u64,
    /// The number of address changes that returned to the previous address with another connection
    /// ID, where balancers have to know both IDs.
    pub returns: u64,
    /// Datagrams that the balancers forwarded, including hostile ones, by how the server was
    /// selected.
    pub forwarded: BTreeMap<Means, u64>,
    /// Misrouted connections, by reason. Each is closed.
    pub misrouted: BTreeMap<Reason, u64>,
    /// The number of violations of each rule.
    pub violated: BTreeMap<FleetRule, u64>,
    /// The first violations of each rule for each fleet, in order of seeds.
    pub violations: Vec<Violation>,
    /// The number of entries evicted from flow tables.
    pub evicted: u64,
    /// The number of new clients sampled around changes, and how many of them a change moved
    /// between servers that it did not affect.
    pub(super) sampled: (u64, u64),
}

impl Report {
    /// Records a violation of a rule.
    pub(super) fn violate(
        &mut self,
        seed: u64,
        rule: FleetRule,
        explanation: impl FnOnce() -> String,
    ) {
        let count = self.violated.entry(rule).or_default();
        *count += 1;
        if *count <= DESCRIBED {
            self.violations.push(Violation { seed, rule, explanation: explanation() });
        }
    }

    /// Adds the statistics of a balancer thread that has finished.
    pub(super) fn add_router(&mut self, statistics: &RouterStatistics) {
        for means in Means::ALL {
            *self.forwarded.entry(means).or_default() += statistics.forwarded(means);
        }
        self.evicted += statistics.flows.evicted;
    }

    /// Adds the results of other fleets.
    pub fn add(&mut self, other: Self) {
        self.fleets += other.fleets;
        self.opened += other.opened;
        self.established += other.established;
        self.established_opaque += other.established_opaque;
        self.datagrams += other.datagrams;
        self.hostile += other.hostile;
        self.changes += other.changes;
        self.moves += other.moves;
        self.returns += other.returns;
        self.evicted += other.evicted;
        self.sampled.0 += other.sampled.0;
        self.sampled.1 += other.sampled.1;
        add(&mut self.forwarded, other.forwarded);
        add(&mut self.misrouted, other.misrouted);
        add(&mut self.violated, other.violated);
        self.violations.extend(other.violations);
        self.violations.sort_by_key(|violation| violation.seed);
    }

    /// Returns how many connections were lost for documented reasons.
    pub fn lost(&self) -> u64 {
        self.misrouted.values().sum()
    }

    /// Returns the fraction of new clients, from 0 to 1, that a change moved between servers that
    /// it did not affect.
    pub fn moved_by_changes(&self) -> f64 {
        let (samples, moved) = self.sampled;
        moved as f64 / samples.max(1) as f64
    }
}

fn add<K: Ord>(sum: &mut BTreeMap<K, u64>, other: BTreeMap<K, u64>) {
    other.into_iter().for_each(|(key, count)| *sum.entry(key).or_default() += count);
}
