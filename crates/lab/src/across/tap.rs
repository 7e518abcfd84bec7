//! Records a controller's inputs and reactions from outside. Any controller can be tapped.

use std::sync::{Arc, Mutex, PoisonError};

use clearway_congestion::{
    Acknowledgement, CongestionResponse, Controller, ControllerFactory, ControllerParameters,
    Metric, Phase, RttSnapshot, SentPacket, Snapshot, SpuriousLoss,
};
use clearway_units::{Rate, Timestamp};

use crate::run::Candidate;

/// A controller's state after an acknowledgment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// The time of the acknowledgment.
    pub at: Timestamp,
    /// Bytes delivered so far.
    pub delivered: u64,
    /// The congestion window in bytes.
    pub window: u64,
    /// The controller's phase.
    pub phase: Phase,
    /// The delivery rate sample of the acknowledgment, unless the sender was application-limited.
    pub rate: Option<Rate>,
}

type Tracks = Arc<Mutex<Vec<Vec<Point>>>>;

/// The recorded states of a run's controllers.
#[derive(Clone, Debug, Default)]
pub struct Tap {
    /// One record for each controller that was created.
    tracks: Tracks,
}

impl Tap {
    /// Returns a candidate that behaves like `candidate`, and the tap that will record it.
    pub fn of(candidate: &Candidate) -> (Candidate, Self) {
        let tap = Self::default();
        let factory = Tapped { factory: candidate.factory.clone(), tracks: tap.tracks.clone() };
        let candidate = Candidate { name: candidate.name.clone(), factory: Arc::new(factory) };
        (candidate, tap)
    }

    /// Returns the record of the controller that delivered the most bytes.
    pub fn sender(&self) -> Vec<Point> {
        let tracks = self.tracks.lock().unwrap_or_else(PoisonError::into_inner);
        let delivered = |track: &&Vec<Point>| track.last().map_or(0, |point| point.delivered);
        tracks.iter().max_by_key(delivered).cloned().unwrap_or_default()
    }
}

#[derive(Debug)]
struct Tapped {
    factory: Arc<dyn ControllerFactory>,
    tracks: Tracks,
}

impl ControllerFactory for Tapped {
    fn build(&self, parameters: &ControllerParameters) -> Box<dyn Controller> {
        let mut tracks = self.tracks.lock().unwrap_or_else(PoisonError::into_inner);
        tracks.push(Vec::new());
        let (inner, tracks, track) =
            (self.factory.build(parameters), self.tracks.clone(), tracks.len() - 1);
        Box::new(Watched { inner, tracks, track })
    }
}

#[derive(Debug)]
struct Watched {
    inner: Box<dyn Controller>,
    tracks: Tracks,
    track: usize,
}

impl Controller for Watched {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_sent(&mut self, packet: &SentPacket, bytes_in_flight: u64) {
        self.inner.on_sent(packet, bytes_in_flight);
    }

    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) -> CongestionResponse {
        let response = self.inner.on_acknowledgement(event);
        let point = Point {
            at: event.now,
            delivered: event.total_delivered,
            window: self.inner.window(),
            phase: self.inner.snapshot().phase,
            rate: event
                .rate_sample
                .filter(|sample| !sample.is_application_limited)
                .map(|sample| sample.rate),
        };
        let mut tracks = self.tracks.lock().unwrap_or_else(PoisonError::into_inner);
        tracks[self.track].push(point);
        response
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        self.inner.on_spurious_loss(event);
    }

    fn on_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.inner.on_max_datagram_size(max_datagram_size);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        self.inner.pacing_rate(rtt)
    }

    fn snapshot(&self) -> Snapshot {
        self.inner.snapshot()
    }

    fn metrics(&self, tell: &mut dyn FnMut(Metric)) {
        self.inner.metrics(tell);
    }
}
