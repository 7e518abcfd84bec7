//! One cell of the test matrix: a client, a server, a test and a congestion controller.

use crate::catalogue::Test;
use crate::stack::{Controller, Stack};

/// A cell of the test matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) client: Stack,
    pub(crate) server: Stack,
    pub(crate) test: &'static Test,
    pub(crate) controller: Controller,
}

/// The outcome of running a cell.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) result: Verdict,
    /// The finding or the measured value, or the reason why the test failed or is not supported.
    pub(crate) detail: String,
    /// The mean goodput in kilobits per second, for a measurement.
    pub(crate) kilobits_per_second: Option<f64>,
}

/// The result of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Ok,
    Failed,
    Unsupported,
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Unsupported => "unsupported",
        }
    }
}

impl Outcome {
    pub(crate) fn new(result: Verdict, detail: impl Into<String>) -> Self {
        Self { result, detail: detail.into(), kilobits_per_second: None }
    }
}

impl Cell {
    pub(crate) fn name(&self) -> String {
        let Self { client, server, test, controller } = self;
        format!("{client}-{server}-{}-{controller}", test.name)
    }
}
