//! The settings of a fleet.

use std::time::Duration;

use clearway_balancer::Limits;

/// The format of the connection IDs of a fleet's servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Form {
    /// QUIC-LB IDs with a key, in one or four AES passes.
    Encrypted,
    /// QUIC-LB IDs without a key.
    Clear,
    /// QUIC-LB IDs as required by the AWS load balancer: a server ID of 8 octets, a nonce of 7 or
    /// 10 octets, and no key.
    Aws,
    /// Random connection IDs, which balancers have to learn.
    Opaque,
    /// A mix: half of the servers have random IDs, and each configuration uses a different format.
    Mixed,
}

impl Form {
    /// All formats, in order.
    pub const ALL: [Self; 5] = [Self::Encrypted, Self::Clear, Self::Aws, Self::Opaque, Self::Mixed];

    /// Returns the format's name, a single word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encrypted => "encrypted",
            Self::Clear => "clear",
            Self::Aws => "aws",
            Self::Opaque => "opaque",
            Self::Mixed => "mixed",
        }
    }
}

/// The circumstances under which a fleet is changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Circumstance {
    /// Changes are made in the order that [`Pool`](clearway_balancer::Pool) recommends.
    InOrder,
    /// Changes are made in the recommended order, while an attacker sends forged Initial packets
    /// and connection IDs.
    Attacked,
    /// Changes are made in any order: servers get clients before all balancers know them, and old
    /// configurations are removed immediately.
    AnyOrder,
}

impl Circumstance {
    /// All circumstances, in order.
    pub const ALL: [Self; 3] = [Self::InOrder, Self::Attacked, Self::AnyOrder];

    /// Returns a short description.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InOrder => "in order",
            Self::Attacked => "in order, attacked",
            Self::AnyOrder => "in any order",
        }
    }
}

/// The number of servers and connections of a fleet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// The initial number of servers.
    pub servers: usize,
    /// The number of concurrent connections.
    pub connections: usize,
}

impl Default for Size {
    /// Returns 200 servers and 10,000 connections.
    fn default() -> Self {
        Self { servers: 200, connections: 10_000 }
    }
}

/// The settings of a fleet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The size of the fleet.
    pub size: Size,
    /// The format of its connection IDs.
    pub form: Form,
    /// The circumstances under which the fleet is changed.
    pub circumstance: Circumstance,
}

/// The mean interval at which a connection sends.
const INTERVAL: Duration = Duration::from_millis(2_500);

impl Settings {
    /// Returns the settings for a seed: consecutive seeds cycle through every combination of format
    /// and circumstance.
    pub fn of_seed(seed: u64, size: Size) -> Self {
        let forms = Form::ALL.len() as u64;
        let form = Form::ALL[(seed % forms) as usize];
        let circumstances = Circumstance::ALL.len() as u64;
        let circumstance = Circumstance::ALL[(seed / forms % circumstances) as usize];
        Self { size, form, circumstance }
    }

    /// Returns how many servers do not issue QUIC-LB connection IDs.
    pub(super) fn opaque_servers(&self) -> usize {
        match self.form {
            Form::Encrypted | Form::Clear | Form::Aws => 0,
            Form::Opaque => self.size.servers,
            Form::Mixed => self.size.servers / 2,
        }
    }

    /// Returns the number of steps: enough for each connection to send about six datagrams.
    pub(super) fn steps(&self) -> u64 {
        6 * self.size.connections as u64
    }

    /// Returns the fraction of steps at which the fleet changes, which results in sixty changes in
    /// total.
    pub(super) fn change_chance(&self) -> f64 {
        60.0 / self.steps() as f64
    }

    /// Returns the fraction of steps at which an outdated balancer adopts the new table. A change
    /// takes as long as a tenth of the connections need to send a datagram.
    pub(super) fn update_chance(&self) -> f64 {
        10.0 / self.size.connections as f64
    }

    /// Returns the mean time between two steps.
    pub(super) fn step_time(&self) -> Duration {
        INTERVAL.div_f64(self.size.connections as f64)
    }

    pub(super) fn is_in_order(&self) -> bool {
        self.circumstance != Circumstance::AnyOrder
    }

    /// Returns how many hostile datagrams arrive at each step.
    pub(super) fn hostile_datagrams(&self) -> u64 {
        match self.circumstance {
            Circumstance::Attacked => 3,
            _ => 0,
        }
    }

    /// Returns the memory limits of each balancer thread. Hostile datagrams evict the flows several
    /// times over.
    pub(super) fn limits(&self, lifetime: Duration) -> Limits {
        let (flows, learned) = match self.circumstance {
            Circumstance::Attacked => (4, 8),
            _ => (8, 8),
        };
        let count = self.size.connections;
        Limits { flows: flows * count, learned: learned * count, lifetime }
    }
}
