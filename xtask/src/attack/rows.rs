//! The list of attacks.

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
    /// `clearway serve` with these options, in which `{folder}` is replaced with the attack's
    /// folder.
    Serve(&'static [&'static str]),
    /// `clearway serve` with `--metrics`.
    ServeWithMetrics,
    /// `clearway serve` without `--quiet`, so that it logs each request.
    ServeLoud,
    /// The library's example server `peer`.
    Library,
    /// `clearway balance` in front of `clearway serve` with these server options.
    Balance {
        /// Whether the server receives a preface with the client's address before each datagram.
        preface: bool,
        serve: &'static [&'static str],
    },
    /// No prepared target: the attack starts the target program itself.
    Alone,
}

/// The bounds that an attack must not exceed.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    /// Maximum growth of the target's resident memory in bytes.
    pub(super) memory: u64,
    /// Maximum CPU time of the target in seconds on the reference machine, including the time spent
    /// on the well-behaved client.
    pub(super) cpu: f64,
    /// Maximum number of file descriptors that the target may open.
    pub(super) descriptors: u64,
    /// Maximum number of bytes that may be written to the attack's folder.
    pub(super) disk: u64,
    /// Maximum 95th-percentile latency of the well-behaved client's requests, on the reference
    /// machine.
    pub(super) latency: Duration,
    /// Maximum number of failed requests of the well-behaved client.
    pub(super) failures: usize,
    /// Whether the well-behaved client may go without any response.
    pub(super) is_silent: bool,
}

const MIB: u64 = 1 << 20;

/// The bound for most attacks: about three times the highest cost measured for any of them on an
/// idle machine. The latency is the one measured with two busy cores.
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
    /// Returns the bound for a program that was built without optimization, as in CI.
    pub(super) fn unoptimized(self) -> Self {
        Self { cpu: self.cpu * 6.0, latency: self.latency.saturating_mul(4), ..self }
    }

    /// Returns the bound for a machine on which programs take `slowness` times as long as on the
    /// reference machine.
    pub(super) fn on_machine(self, slowness: f64) -> Self {
        // Saturates at the maximum duration.
        let latency = self.latency.as_secs_f64() * slowness;
        let latency = Duration::try_from_secs_f64(latency).unwrap_or(Duration::MAX);
        Self { cpu: self.cpu * slowness, latency, ..self }
    }
}

/// An attack, with its target and bounds.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) target: Target,
    /// Whether the attack belongs to the small set.
    pub(super) is_quick: bool,
    pub(super) bound: Bound,
    pub(super) drive: fn(&mut Scene<'_>) -> Result<(), String>,
}

/// Returns all attacks.
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
