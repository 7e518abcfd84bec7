//! How a fleet is, and what happens to it.

use std::time::Duration;

use clearway_balancer::Limits;

/// What the connection IDs of a fleet's servers look like.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Form {
    /// Those of QUIC-LB with a key, in one pass of AES or in four.
    Encrypted,
    /// Those of QUIC-LB without a key.
    Clear,
    /// Those that AWS's load balancer demands: 8 octets of server ID, 7 or 10 of nonce, no key.
    Aws,
    /// Random ones, of which balancers learn.
    Opaque,
    /// Each of these: half of the servers have random ones, and each configuration another form.
    Mixed,
}

impl Form {
    /// All, in their order.
    pub const ALL: [Self; 5] = [Self::Encrypted, Self::Clear, Self::Aws, Self::Opaque, Self::Mixed];

    /// In one word.
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

/// Under which circumstances a fleet changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Circumstance {
    /// In the order that [`Pool`](clearway_balancer::Pool) recommends.
    InOrder,
    /// In that order, and somebody sends invented Initial packets and connection IDs.
    Attacked,
    /// In any order: servers get clients before all balancers know them, and old configurations are forgotten at once.
    AnyOrder,
}

impl Circumstance {
    /// All, in their order.
    pub const ALL: [Self; 3] = [Self::InOrder, Self::Attacked, Self::AnyOrder];

    /// In a few words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InOrder => "in order",
            Self::Attacked => "in order, attacked",
            Self::AnyOrder => "in any order",
        }
    }
}

/// How many servers and connections a fleet has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Servers at the beginning.
    pub servers: usize,
    /// Connections at a time.
    pub connections: usize,
}

impl Default for Size {
    /// 200 servers and 10,000 connections.
    fn default() -> Self {
        Self { servers: 200, connections: 10_000 }
    }
}

/// How a fleet is, and what happens to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How large it is.
    pub size: Size,
    /// What its connection IDs look like.
    pub form: Form,
    /// Under which circumstances it changes.
    pub circumstance: Circumstance,
}

/// How often a connection sends something, on average.
const INTERVAL: Duration = Duration::from_millis(2_500);

impl Settings {
    /// Every combination of form and circumstance in turn.
    pub fn of_seed(seed: u64, size: Size) -> Self {
        let forms = Form::ALL.len() as u64;
        let form = Form::ALL[(seed % forms) as usize];
        let circumstances = Circumstance::ALL.len() as u64;
        let circumstance = Circumstance::ALL[(seed / forms % circumstances) as usize];
        Self { size, form, circumstance }
    }

    /// How many of the servers do not issue IDs of QUIC-LB.
    pub(super) fn opaque_servers(&self) -> usize {
        match self.form {
            Form::Encrypted | Form::Clear | Form::Aws => 0,
            Form::Opaque => self.size.servers,
            Form::Mixed => self.size.servers / 2,
        }
    }

    /// How many things happen: each connection sends about six datagrams.
    pub(super) fn steps(&self) -> u64 {
        6 * self.size.connections as u64
    }

    /// The share of steps at which the fleet changes: sixty times altogether.
    pub(super) fn change_chance(&self) -> f64 {
        60.0 / self.steps() as f64
    }

    /// The share of steps at which a balancer that is behind takes the new table. A change takes as long as a tenth of the
    /// connections need for a datagram.
    pub(super) fn update_chance(&self) -> f64 {
        10.0 / self.size.connections as f64
    }

    /// The mean time between two steps.
    pub(super) fn step_time(&self) -> Duration {
        INTERVAL.div_f64(self.size.connections as f64)
    }

    pub(super) fn is_in_order(&self) -> bool {
        self.circumstance != Circumstance::AnyOrder
    }

    /// How many hostile datagrams arrive at each step.
    pub(super) fn hostile_datagrams(&self) -> u64 {
        match self.circumstance {
            Circumstance::Attacked => 3,
            _ => 0,
        }
    }

    /// What each thread of a balancer remembers. Hostile datagrams push out flows several times over.
    pub(super) fn limits(&self, lifetime: Duration) -> Limits {
        let (flows, learned) = match self.circumstance {
            Circumstance::Attacked => (4, 8),
            _ => (8, 8),
        };
        let count = self.size.connections;
        Limits { flows: flows * count, learned: learned * count, lifetime }
    }
}
