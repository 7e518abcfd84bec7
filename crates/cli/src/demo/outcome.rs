use std::path::PathBuf;
use std::time::Duration;

use clearway::congestion::Algorithm;
use serde_json::{Value, json};

use super::watch::Watched;
use crate::units::goodput;

/// The outcome of one run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The controller's name and, if there are several runs, the number of the run.
    pub(super) name: String,
    pub(super) controller: Algorithm,
    /// Whether the complete content was received in time and unmodified.
    pub(super) is_finished: bool,
    /// The reason that the run did not finish.
    pub(super) error: Option<String>,
    /// Time from the client's first datagram to the last byte of the response, or to the end of the
    /// run.
    pub(super) time: Duration,
    /// Number of content bytes received.
    pub(super) bytes: u64,
    /// The path of the run's qlog file.
    pub(super) qlog: PathBuf,
    /// The reason that the qlog file is incomplete, if it is.
    pub(super) qlog_error: Option<String>,
    /// The metrics of the server's connection.
    pub(super) server: Watched,
}

impl Outcome {
    /// Returns the goodput, in bits of content per second.
    pub(super) fn goodput(&self) -> f64 {
        goodput(self.bytes, self.time)
    }

    /// Returns the outcome as a JSON object.
    pub(super) fn json(&self) -> Value {
        json!({
            "controller": self.controller.name(),
            "finished": self.is_finished,
            "seconds": self.time.as_secs_f64(),
            "bytes": self.bytes,
            "goodput_bps": self.goodput(),
            "min_window": self.server.smallest_window,
            "floor_reached": self.server.floor_reached(),
            "floor_seconds": self.server.at_floor.as_secs_f64(),
            "congestion_events": self.server.congestion_events,
            "lost": self.server.lost,
            "spurious": self.server.spurious,
            "qlog": self.qlog.display().to_string(),
        })
    }
}
