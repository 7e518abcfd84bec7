//! The attacks.

mod frames;

use std::time::Duration;

use super::scene::Scene;

/// The program under attack.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// `clearway serve` with these options. `{folder}` stands for the attack's folder.
    Serve(&'static [&'static str]),
}

/// What must hold.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    /// The most bytes by which the target's resident memory may grow.
    pub(super) memory: u64,
    /// The most processor time of the target in seconds, that for the well-behaved client included.
    pub(super) cpu: f64,
    /// The most descriptors that the target may open.
    pub(super) descriptors: u64,
    /// The most bytes that may be written to the attack's folder.
    pub(super) disk: u64,
    /// The most that 95 of 100 requests of the well-behaved client may take.
    pub(super) latency: Duration,
    /// The most requests of the well-behaved client that may fail.
    pub(super) failures: usize,
}

const MIB: u64 = 1 << 20;

/// What holds for most attacks. The times leave room for a machine that is busy with the attackers.
pub(super) const USUAL: Bound = Bound {
    memory: 16 * MIB,
    cpu: 3.0,
    descriptors: 16,
    disk: MIB,
    latency: Duration::from_millis(500),
    failures: 0,
};

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
    [frames::rows()].into_iter().flatten().collect()
}
