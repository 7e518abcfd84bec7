//! The attacks.

mod balancer;
mod frames;
mod initials;
mod messages;
mod operator;
mod paths;
mod requests;
mod servers;
pub(super) mod slow;
mod trust;
mod viewers;

use std::time::Duration;

use super::scene::Scene;

/// The program under attack.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// `clearway serve` with these options. `{folder}` stands for the attack's folder.
    Serve(&'static [&'static str]),
    /// The same with `--metrics`.
    ServeWithMetrics,
    /// The same without `--quiet`: it logs each request.
    ServeLoud,
    /// The library's example server.
    Library,
    /// `clearway balance` in front of `clearway serve` with these options.
    Balance {
        /// Whether the server gets a preface before each datagram.
        preface: bool,
        serve: &'static [&'static str],
    },
    /// None that clients use: the attack starts what it attacks.
    Alone,
}

/// What must hold.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    /// The most bytes by which the target's resident memory may grow.
    pub(super) memory: u64,
    /// The most processor time of the target in seconds of the reference machine, that for the well-behaved client included.
    pub(super) cpu: f64,
    /// The most descriptors that the target may open.
    pub(super) descriptors: u64,
    /// The most bytes that may be written to the attack's folder.
    pub(super) disk: u64,
    /// The most that 95 of 100 requests of the well-behaved client may take on the reference machine.
    pub(super) latency: Duration,
    /// The most requests of the well-behaved client that may fail.
    pub(super) failures: usize,
    /// Whether the well-behaved client may get no answer at all.
    pub(super) is_silent: bool,
}

const MIB: u64 = 1 << 20;

/// What holds for most attacks: about three times the most that one of them cost on an idle machine, and for the latency on two
/// busy cores.
pub(super) const USUAL: Bound = Bound {
    memory: 6 * MIB,
    cpu: 1.5,
    descriptors: 6,
    disk: 16 << 10,
    latency: Duration::from_millis(250),
    failures: 0,
    is_silent: false,
};

impl Bound {
    /// The bound for a program that was built without optimization, as continuous integration has it.
    pub(super) fn unoptimized(self) -> Self {
        Self { cpu: self.cpu * 6.0, latency: self.latency.saturating_mul(4), ..self }
    }

    /// The bound for a machine on which programs take `slowness` times as long as on the reference machine.
    pub(super) fn on_machine(self, slowness: f64) -> Self {
        // As long as there may be, if that is not the longest time of all.
        let latency = self.latency.as_secs_f64() * slowness;
        let latency = Duration::try_from_secs_f64(latency).unwrap_or(Duration::MAX);
        Self { cpu: self.cpu * slowness, latency, ..self }
    }
}

/// An attack.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) target: Target,
    /// Whether it is in the small set.
    pub(super) is_quick: bool,
    pub(super) bound: Bound,
    pub(super) drive: fn(&mut Scene<'_>) -> Result<(), String>,
}

/// All attacks.
pub(super) fn all() -> Vec<Row> {
    [
        frames::rows(),
        messages::rows(),
        paths::rows(),
        trust::rows(),
        viewers::rows(),
        initials::rows(),
        requests::rows(),
        slow::rows(),
        operator::rows(),
        balancer::rows(),
        servers::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
