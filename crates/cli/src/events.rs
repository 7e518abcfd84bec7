//! Server events for the operator: each prints a line on standard error and increments a metric.
//!
//! An event is counted even if its line was overlooked, or dropped because standard error was too
//! slow. The increased counter shows which line to look for. `docs/metrics.md` lists all events.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::output;

/// Minimum interval between two lines about a frequent event.
const PAUSE: Duration = Duration::from_secs(10);

/// A server event that is reported to the operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    CertificatesReloaded,
    CertificatesNotReloaded,
    ClientCaReloaded,
    ClientCaNotReloaded,
    TicketKeysReloaded,
    TicketKeysNotReloaded,
    QuicLbReloaded,
    QuicLbNotReloaded,
    DrainBegun,
    DrainEnded,
    DrainCutOff,
    Replaced,
    ClockJumped,
    ProcessStalled,
    ShardFailed,
    ConnectionMemoryLevel,
    NoDescriptor,
    QlogFailed,
    QlogLimitReached,
}

/// Number of different events.
const COUNT: usize = Event::NAMES.len();

impl Event {
    /// All events in order, with their names in the metric.
    pub(crate) const NAMES: [(Self, &'static str); 19] = [
        (Self::CertificatesReloaded, "certificates_reloaded"),
        (Self::CertificatesNotReloaded, "certificates_not_reloaded"),
        (Self::ClientCaReloaded, "client_ca_reloaded"),
        (Self::ClientCaNotReloaded, "client_ca_not_reloaded"),
        (Self::TicketKeysReloaded, "ticket_keys_reloaded"),
        (Self::TicketKeysNotReloaded, "ticket_keys_not_reloaded"),
        (Self::QuicLbReloaded, "quic_lb_reloaded"),
        (Self::QuicLbNotReloaded, "quic_lb_not_reloaded"),
        (Self::DrainBegun, "drain_begun"),
        (Self::DrainEnded, "drain_ended"),
        (Self::DrainCutOff, "drain_cut_off"),
        (Self::Replaced, "replaced"),
        (Self::ClockJumped, "clock_jumped"),
        (Self::ProcessStalled, "process_stalled"),
        (Self::ShardFailed, "shard_failed"),
        (Self::ConnectionMemoryLevel, "connection_memory_level"),
        (Self::NoDescriptor, "no_descriptor"),
        (Self::QlogFailed, "qlog_failed"),
        (Self::QlogLimitReached, "qlog_limit_reached"),
    ];

    fn place(self) -> usize {
        self as usize
    }
}

static COUNTS: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];

/// The rate-limiting state of frequent events.
static OFTEN: Mutex<[Repeated; COUNT]> = Mutex::new([Repeated { last: None, left_out: 0 }; COUNT]);

/// The time of the last line about an event, and how many times the event has occurred since.
#[derive(Clone, Copy, Debug)]
struct Repeated {
    last: Option<Instant>,
    left_out: u64,
}

impl Repeated {
    /// Counts an event. If another line is due, returns the number of events since the last line.
    fn on_event(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Counts an event and prints its line.
pub(crate) fn note(event: Event, line: &str) {
    count(event);
    output::status(line);
}

/// Counts a frequent event, and prints its line at most once every ten seconds.
pub(crate) fn note_often(event: Event, line: impl FnOnce() -> String) {
    count(event);
    let due = {
        let mut often = OFTEN.lock().unwrap_or_else(PoisonError::into_inner);
        often.get_mut(event.place()).and_then(|repeated| repeated.on_event(Instant::now()))
    };
    match due {
        None => {}
        Some(0) => output::status(&line()),
        Some(more) => output::status(&format!("{} ({more} more since the last line)", line())),
    }
}

/// Counts an event whose lines are printed elsewhere.
pub(crate) fn count(event: Event) {
    COUNTS[event.place()].fetch_add(1, Ordering::Relaxed);
}

/// The metric of all events.
#[derive(Debug)]
pub(crate) struct Events;

impl Collector for Events {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Events of the program, each reported in a line on standard error.";
        let mut metric = encoder.encode_descriptor("events", help, None, MetricType::Counter)?;
        for ((_, name), count) in Event::NAMES.iter().zip(&COUNTS) {
            let count = count.load(Ordering::Relaxed);
            metric
                .encode_family(&[("event", *name)])?
                .encode_counter::<NoLabelSet, _, f64>(&count, None)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exporter::tests::read;

    #[test]
    fn events_are_in_the_order_of_their_names() {
        for (place, (event, _)) in Event::NAMES.iter().enumerate() {
            assert_eq!(event.place(), place, "{event:?}");
        }
    }

    #[test]
    fn the_document_lists_all_events_and_no_others() {
        let document = read("metrics.md");
        let section = document.split("\n### Events\n").nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        let listed: Vec<_> = rows.map(|row| row.split('`').next().unwrap()).collect();
        let names: Vec<_> = Event::NAMES.iter().map(|(_, name)| *name).collect();
        assert_eq!(listed, names);
    }

    #[test]
    fn lines_have_a_pause_between_them_and_count_what_they_leave_out() {
        let mut repeated = Repeated { last: None, left_out: 0 };
        let begun = Instant::now();
        assert_eq!(repeated.on_event(begun), Some(0));
        assert_eq!(repeated.on_event(begun), None);
        assert_eq!(repeated.on_event(begun + PAUSE - Duration::from_millis(1)), None);
        assert_eq!(repeated.on_event(begun + PAUSE), Some(2));
        assert_eq!(repeated.on_event(begun + 2 * PAUSE), Some(0));
    }
}
