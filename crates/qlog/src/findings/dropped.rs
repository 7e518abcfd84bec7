//! Detects runs of received packets that are dropped.

use core::time::Duration;

use super::state::State;
use super::{Detector, Finding, FindingId, keep_worst, text};
use crate::read::{Event, EventKind, PacketType};

/// The minimum number of dropped packets in a run.
const PACKETS: u64 = 8;
/// The number of consecutive processed packets that ends a run.
const PROCESSED: u64 = 8;

/// Detects an established connection whose packets are dropped one after another.
#[derive(Clone, Debug, Default)]
pub(super) struct DroppedPackets {
    present: Option<Run>,
    worst: Option<Run>,
    /// The number of runs that were long enough, and the number of packets dropped in them.
    runs: u64,
    dropped: u64,
    is_established: bool,
}

#[derive(Clone, Debug)]
struct Run {
    begin: Duration,
    end: Duration,
    dropped: u64,
    processed: u64,
    processed_in_a_row: u64,
    bytes: u64,
    /// The reason that the first packet of the run was dropped.
    reason: Box<str>,
    /// The time of the last key update before the run.
    key_update: Option<Duration>,
}

/// Returns whether a packet that is dropped for this reason may be a valid packet of this
/// connection.
fn is_of_connection(reason: &str) -> bool {
    !["duplicate", "connection_id", "connection_unknown", "version", "unsupported"]
        .iter()
        .any(|word| reason.contains(word))
}

/// Returns whether a packet needs keys that are in use. Late handshake packets do not: their keys
/// were discarded.
fn is_encrypted_with_present_keys(packet_type: PacketType, reason: &str, state: &State) -> bool {
    match packet_type {
        PacketType::OneRtt => true,
        PacketType::Unknown => {
            !reason.contains("key_unavailable") || state.last_key_update.is_some()
        }
        _ => false,
    }
}

impl DroppedPackets {
    fn end_run(&mut self) {
        let Some(run) = self.present.take() else { return };
        let is_bad = run.dropped >= PACKETS && run.dropped >= run.processed;
        if !is_bad {
            return;
        }
        self.runs = self.runs.saturating_add(1);
        self.dropped = self.dropped.saturating_add(run.dropped);
        keep_worst(&mut self.worst, run, |run| run.dropped);
    }

    fn on_dropped(&mut self, reason: &str, length: u64, state: &State) {
        let run = self.present.get_or_insert_with(|| Run {
            begin: state.now,
            end: state.now,
            dropped: 0,
            processed: 0,
            processed_in_a_row: 0,
            bytes: 0,
            reason: reason.chars().take(100).collect::<String>().into(),
            key_update: state.last_key_update,
        });
        run.end = state.now;
        run.dropped = run.dropped.saturating_add(1);
        run.bytes = run.bytes.saturating_add(length);
        run.processed_in_a_row = 0;
    }
}

impl Detector for DroppedPackets {
    fn on_event(&mut self, event: &Event, state: &State) {
        match &event.kind {
            // Before the connection is established, packets may arrive before their keys are
            // available.
            EventKind::PacketDropped { packet_type, length, reason } if self.is_established => {
                let reason = reason.as_deref().unwrap_or("unknown");
                let has_keys = is_encrypted_with_present_keys(*packet_type, reason, state);
                if has_keys && is_of_connection(reason) && !state.is_closed {
                    self.on_dropped(reason, length.unwrap_or_default(), state);
                }
            }
            EventKind::PacketReceived(packet) => {
                let is_application = packet.packet_type == PacketType::OneRtt;
                self.is_established |=
                    state.handshake_is_confirmed || is_application && state.is_server == Some(true);
                let Some(run) = &mut self.present else { return };
                run.processed = run.processed.saturating_add(1);
                run.processed_in_a_row = run.processed_in_a_row.saturating_add(1);
                if run.processed_in_a_row >= PROCESSED {
                    run.processed = run.processed.saturating_sub(run.processed_in_a_row);
                    self.end_run();
                }
            }
            _ => {}
        }
    }

    fn finish(mut self: Box<Self>, _state: &State) -> Vec<Finding> {
        self.end_run();
        let (runs, dropped) = (self.runs, self.dropped);
        let Some(run) = self.worst else { return Vec::new() };
        let length = run.end.saturating_sub(run.begin);
        let reason = run.reason.replace('_', " ");
        let after = if run.key_update.is_some() { " after a key update" } else { "" };
        let mut metrics = vec![
            ("packets dropped", text::count(run.dropped)),
            ("packets processed in that time", text::count(run.processed)),
            ("reason", reason.clone()),
            ("duration", text::time(length)),
        ];
        if let Some(update) = run.key_update {
            metrics
                .push(("time since the key update", text::time(run.begin.saturating_sub(update))));
        }
        if runs > 1 {
            metrics.push(("number of such runs", text::count(runs)));
            metrics.push(("packets dropped in all such runs", text::count(dropped)));
        }
        if run.bytes > 0 {
            metrics.push(("bytes dropped", text::bytes(run.bytes)));
        }
        vec![Finding {
            id: FindingId::PacketsDropped,
            severity: length.as_secs_f64(),
            begin: run.begin,
            end: run.end,
            headline: format!(
                "{} received packets dropped{after}: {reason}",
                text::count(run.dropped)
            ),
            metrics,
        }]
    }
}
