//! The measured values of a run.

/// The result of one run.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// The rate in the plan's unit.
    pub(super) per_second: f64,
    /// CPU time in the plan's unit: of the server, and of the client.
    pub(super) cpu: [f64; 2],
    /// The latency at half of this rate, if it was measured.
    pub(super) latency: Option<Latency>,
}

/// The latency of operations that are made at a fixed rate, measured from their due times.
#[derive(Clone, Copy)]
pub(super) struct Latency {
    /// Operations per second.
    pub(super) rate: f64,
    /// The median and the 99th percentile.
    pub(super) microseconds: [f64; 2],
}

/// The units of results.
pub(super) struct Unit {
    /// The unit of [`Run::per_second`].
    pub(super) rate: &'static str,
    /// Number of decimal places of a rate for readers.
    pub(super) digits: usize,
    /// The unit of [`Run::cpu`].
    pub(super) cpu: &'static str,
    /// The CPU unit in the name of a JSON field.
    pub(super) cpu_key: &'static str,
    /// The factor from CPU seconds per unit to this unit.
    pub(super) cpu_scale: f64,
}
