//! The measured values of a run.

/// The result of one run.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// The rate, in the plan's rate unit.
    pub(super) per_second: f64,
    /// CPU time in the plan's CPU unit, for the server and for the client.
    pub(super) cpu: [f64; 2],
    /// The latency at half of the measured rate, if it was measured.
    pub(super) latency: Option<Latency>,
}

/// The latency of operations that start at a fixed rate, measured from their scheduled times.
#[derive(Clone, Copy)]
pub(super) struct Latency {
    /// Rate of the operations per second.
    pub(super) rate: f64,
    /// The median and the 99th percentile of the latency.
    pub(super) microseconds: [f64; 2],
}

/// The units of the results.
pub(super) struct Unit {
    /// The unit of [`Run::per_second`].
    pub(super) rate: &'static str,
    /// Number of decimal places in a printed rate.
    pub(super) digits: usize,
    /// The unit of [`Run::cpu`].
    pub(super) cpu: &'static str,
    /// The name of the CPU unit in a JSON field.
    pub(super) cpu_key: &'static str,
    /// The factor from CPU seconds per work unit to the CPU unit.
    pub(super) cpu_scale: f64,
}
