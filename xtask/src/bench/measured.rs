//! What a run measures.

/// The result of one run.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// In the plan's unit.
    pub(super) per_second: f64,
    /// Processor time, as the plan's unit counts it: of the server, and of the client.
    pub(super) cpu: [f64; 2],
    /// What operations take at half of this rate, if that was measured.
    pub(super) latency: Option<Latency>,
}

/// What operations take that are made at a fixed rate, counted from when they were due.
#[derive(Clone, Copy)]
pub(super) struct Latency {
    /// Operations per second.
    pub(super) rate: f64,
    /// The median and the 99th percentile.
    pub(super) microseconds: [f64; 2],
}

/// How results are counted.
pub(super) struct Unit {
    /// The unit of [`Run::per_second`].
    pub(super) rate: &'static str,
    /// How many digits after the point of a rate a person wants to see.
    pub(super) digits: usize,
    /// The unit of [`Run::cpu`].
    pub(super) cpu: &'static str,
    /// The same in the name of a JSON field.
    pub(super) cpu_key: &'static str,
    /// A second of processor time for each unit is so many of that.
    pub(super) cpu_scale: f64,
}
