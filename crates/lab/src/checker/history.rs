//! The latest events, recorded cheaply and formatted only on demand.

use clearway_transport::{SendLimit, SpaceId};
use clearway_units::Timestamp;

use crate::end::{EndId, Side};

/// The number of events that are kept.
const LENGTH: usize = 64;
/// The number of events that are formatted.
const TOLD: usize = 50;

/// An event at an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happening {
    Sent { space: SpaceId, number: u64, size: u32, is_probe: bool, elicits: bool },
    Received { space: SpaceId, number: u64, size: u32 },
    Acked { space: SpaceId, first: u64, last: u64 },
    Lost { space: SpaceId, number: u64 },
    Figures { window: u64, threshold: Option<u64>, in_flight: u64, phase: &'static str },
    Limit(SendLimit),
    PacedUntil(Timestamp),
    Discarded(SpaceId),
    BegunAgain,
    EarlyDataRejected,
    ProbeTimeout(u32),
    Path,
    Closed,
}

/// A ring buffer of events.
#[derive(Debug)]
pub(super) struct History {
    ring: Vec<(Timestamp, EndId, Happening)>,
    next: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { ring: Vec::with_capacity(LENGTH), next: 0 }
    }
}

impl History {
    pub(super) fn note(&mut self, now: Timestamp, end: EndId, happening: Happening) {
        if self.ring.len() < LENGTH {
            self.ring.push((now, end, happening));
        } else {
            self.ring[self.next] = (now, end, happening);
        }
        self.next = (self.next + 1) % LENGTH;
    }

    /// Formats the latest events, newest last.
    pub(super) fn tell(&self) -> Vec<String> {
        let (newer, older) = self.ring.split_at(self.next.min(self.ring.len()));
        let all = older.iter().chain(newer);
        all.skip(self.ring.len().saturating_sub(TOLD)).map(tell_one).collect()
    }
}

fn tell_one((at, end, happening): &(Timestamp, EndId, Happening)) -> String {
    let side = if end.side == Side::Client { "client" } else { "server" };
    let seconds = at.since_origin().as_secs_f64();
    format!("{seconds:.6} {side} {}: {}", end.flow, tell_happening(happening))
}

fn tell_happening(happening: &Happening) -> String {
    match *happening {
        Happening::Sent { space, number, size, is_probe, elicits } => {
            let what = if is_probe { " (probe)" } else { "" };
            let ack = if elicits { "" } else { " (ACK only)" };
            format!("sent {space:?} {number}, {size} bytes{what}{ack}")
        }
        Happening::Received { space, number, size } => {
            format!("received {space:?} {number}, {size} bytes")
        }
        Happening::Acked { space, first, last } => {
            format!("{space:?} {first} to {last} acknowledged")
        }
        Happening::Lost { space, number } => format!("{space:?} {number} lost"),
        Happening::Figures { window, threshold, in_flight, phase } => {
            let threshold = threshold.map_or_else(|| "none".to_owned(), |bytes| bytes.to_string());
            format!("window {window}, threshold {threshold}, in flight {in_flight}, {phase}")
        }
        Happening::Limit(limit) => format!("sending stops: {limit:?}"),
        Happening::PacedUntil(until) => {
            format!("paced until {:.6}", until.since_origin().as_secs_f64())
        }
        Happening::BegunAgain => "restarted with another QUIC version".to_owned(),
        Happening::EarlyDataRejected => "early data rejected".to_owned(),
        Happening::Discarded(space) => format!("keys of {space:?} discarded"),
        Happening::ProbeTimeout(count) => format!("consecutive probe timeout {count}"),
        Happening::Path => "path changed".to_owned(),
        Happening::Closed => "closed".to_owned(),
    }
}
