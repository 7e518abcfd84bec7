//! A controller that is intentionally wrong, in one of several ways.

use std::sync::Arc;

use clearway_congestion::{
    Acknowledgement, CongestionResponse, Controller, ControllerFactory, ControllerParameters,
    Phase, RttSnapshot, SentPacket, Snapshot, SpuriousLoss, Suppressors,
};
use clearway_lab::run::Candidate;
use clearway_units::{Rate, Timestamp};

/// How the controller's window grows after its first loss. Before that, the controller is in slow
/// start, except with `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Growth {
    /// The window never grows, not even before the first loss.
    None,
    /// The window grows by one datagram for each ACK frame.
    DatagramPerFrame,
    /// For each ACK frame, the window grows by one datagram divided by the window in datagrams.
    ReciprocalPerFrame,
    /// The window grows by one datagram every 20 ms, regardless of what is acknowledged in that
    /// time.
    WallClock,
    /// The window grows by one datagram per window, which is correct except that datagrams are
    /// assumed to have 1200 bytes.
    FixedDatagram,
}

/// Returns a candidate whose window grows as specified.
pub(crate) fn broken(growth: Growth) -> Candidate {
    Candidate { name: format!("{growth:?}"), factory: Arc::new(growth) }
}

impl ControllerFactory for Growth {
    fn build(&self, parameters: &ControllerParameters) -> Box<dyn Controller> {
        Box::new(Broken {
            growth: *self,
            size: parameters.max_datagram_size,
            window: parameters.initial_window() as f64,
            cut_at: None,
        })
    }
}

#[derive(Debug)]
struct Broken {
    growth: Growth,
    size: u64,
    window: f64,
    /// The time of the only reduction after a loss, and the window after it.
    cut_at: Option<(Timestamp, f64)>,
}

impl Broken {
    fn grow(&mut self, event: &Acknowledgement<'_>) {
        let size = self.size as f64;
        let acked: u64 = event.acked.iter().map(|packet| packet.bytes).sum();
        let Some((cut_at, window)) = self.cut_at else {
            self.window += if self.growth == Growth::None { 0.0 } else { acked as f64 };
            return;
        };
        match self.growth {
            Growth::None => {}
            Growth::DatagramPerFrame => self.window += size,
            Growth::ReciprocalPerFrame => self.window += size * size / self.window,
            Growth::WallClock => {
                let elapsed = event.now.saturating_since(cut_at).as_secs_f64();
                self.window = window + size * elapsed / 0.02;
            }
            Growth::FixedDatagram => self.window += 1200.0 * acked as f64 / self.window,
        }
    }
}

impl Controller for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn on_sent(&mut self, _packet: &SentPacket, _bytes_in_flight: u64) {}

    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) -> CongestionResponse {
        if !event.lost.is_empty() && self.cut_at.is_none() {
            self.window = (self.window / 2.0).max(2.0 * self.size as f64);
            self.cut_at = Some((event.now, self.window));
        }
        self.grow(event);
        CongestionResponse::None
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {}

    fn on_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.size = max_datagram_size;
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    /// Returns a pacing rate, so that a window is neither delivered nor acknowledged all at once.
    fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        Some(Rate::from_transfer(self.window(), rtt?.smoothed)?.scaled(5, 4))
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            window: self.window(),
            slow_start_threshold: self.cut_at.map(|(_, window)| window as u64),
            minimum_window: 2 * self.size,
            phase: match self.cut_at {
                Some(_) => Phase::CongestionAvoidance,
                None => Phase::SlowStart,
            },
            suppressors: Suppressors::default(),
            congestion_events: u64::from(self.cut_at.is_some()),
            undone_events: 0,
        }
    }
}
