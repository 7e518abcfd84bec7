use std::path::PathBuf;
use std::time::Duration;

use clearway::congestion::Algorithm;
use serde_json::{Value, json};

use super::watch::Watched;
use crate::units::goodput;

/// What came of one run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Controller and number.
    pub(super) name: String,
    pub(super) controller: Algorithm,
    /// Everything came, as it was sent, in time.
    pub(super) is_finished: bool,
    /// Why not.
    pub(super) error: Option<String>,
    /// From the first datagram of the client to the last byte of the answer, or the end.
    pub(super) time: Duration,
    /// Content received.
    pub(super) bytes: u64,
    /// Its qlog file.
    pub(super) qlog: PathBuf,
    /// Why its qlog file is not whole, if it is not.
    pub(super) qlog_error: Option<String>,
    /// What the server's connection showed.
    pub(super) server: Watched,
}

impl Outcome {
    /// Bits of content per second.
    pub(super) fn goodput(&self) -> f64 {
        goodput(self.bytes, self.time)
    }

    /// For programs.
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
