//! S4: each recovery period has one window reduction of the correct size, and persistent congestion
//! is handled.

use core::time::Duration;

use clearway_congestion::Phase;
use clearway_units::Timestamp;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Fate, Packet, Report};
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Response;

impl Rule for Response {
    const PROPERTY: Property = Property::S4;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        if !records.config.kind.is_loss_based() {
            return Ok(());
        }
        check_demand(records, report)?;
        if report.change.is_cut {
            return check_cut(records, report);
        }
        check_end(records, report)
    }
}

/// Returns whether this event reported congestion that has not been responded to: a packet sent
/// after the last reduction was lost, or CE marks were reported and a packet sent after that
/// reduction was acknowledged.
fn is_new(records: &EndpointRecords, report: &Report<'_>) -> bool {
    let boundary = records.episode.boundary_after(report.change.is_undo);
    report.tally.largest_lost.is_some_and(|index| index >= boundary)
        || records.marks.may_answer(boundary)
}

/// Returns the percentage of the window that must remain after a reduction: more after CE marks
/// alone than after losses, except in slow start (RFC 8511 §3).
fn beta(records: &EndpointRecords, report: &Report<'_>) -> u64 {
    let boundary = records.episode.boundary_after(report.change.is_undo);
    let was_slow_start =
        matches!(report.before.congestion.phase, Phase::SlowStart | Phase::ConservativeSlowStart);
    let kind = records.config.kind;
    let is_marked_only = report.tally.lost == 0 && records.marks.may_answer(boundary);
    let beta = match is_marked_only && !was_slow_start && !report.change.is_undo {
        true => kind.beta_of_marks(),
        false => kind.beta(),
    };
    beta.unwrap_or(0)
}

fn check_cut(records: &EndpointRecords, report: &Report<'_>) -> Verdict {
    let datagram = records.datagram();
    let congestion = &report.after.congestion;
    if congestion.congestion_events > report.before.congestion.congestion_events + 1 {
        return Err("the window was reduced more than once for one event".to_owned());
    }
    let before = window_before(records, report);
    let beta = beta(records, report);
    let reduced = before * beta / 100;
    let least = reduced.saturating_sub(datagram).max(records.floor());
    let is_new = is_new(records, report);
    let after = report.change.after;
    let is_collapse = after < least || !is_new;
    if is_collapse {
        let permitted = is_new.then_some((reduced.max(records.floor()), beta));
        check_collapse(records, report, permitted)?;
    }
    let threshold = congestion.slow_start_threshold.unwrap_or(0);
    let expected = match report.before.congestion.slow_start_threshold {
        // The window was reduced for these losses before, so the threshold of the earlier reduction
        // applies.
        Some(earlier) if is_collapse && !is_new => earlier.saturating_sub(datagram),
        _ => least,
    };
    if threshold < expected {
        return Err(format!(
            "the slow start threshold was set to {threshold} bytes from a window of {before}; it must be at least {expected}"
        ));
    }
    Ok(())
}

/// Returns the window before the reduction. If the same event undid the previous reduction, returns
/// the window before the previous one.
fn window_before(records: &EndpointRecords, report: &Report<'_>) -> u64 {
    if report.change.is_undo {
        report.change.before.max(records.episode.window_before)
    } else {
        report.change.before
    }
}

/// Checks a window that was set to the minimum, or was reduced again for the same losses: only
/// persistent congestion allows this, once for each period. `permitted` is the window that the
/// controller's factor permits, and that factor in percent; `None` for the same losses.
fn check_collapse(
    records: &EndpointRecords,
    report: &Report<'_>,
    permitted: Option<(u64, u64)>,
) -> Verdict {
    let (before, after) = (window_before(records, report), report.change.after);
    let reduction = format!("reduction from {before} to {after} bytes");
    let excess = match permitted {
        Some((window, beta)) => format!(
            "a {reduction}, below the {window} that the controller's factor {} permits",
            beta as f64 / 100.0
        ),
        None => format!("a second {reduction} in one recovery period"),
    };
    let lost = report.tally.largest_lost;
    if lost.is_none() && permitted.is_some() {
        return Err(format!("{excess}; no packet was lost"));
    }
    if lost.is_none_or(|index| index < records.episode.collapsed) {
        return Err(format!(
            "the window was reduced to {after} bytes again for losses that already set it to the \
             minimum"
        ));
    }
    let silence = longest_silence(records, |_| true);
    let needed = persistent_duration(records, report);
    if silence < needed {
        return Err(format!(
            "{excess}; only persistent congestion permits this, and the lost packets span {} of the \
             {} that it requires",
            milliseconds(silence),
            milliseconds(needed)
        ));
    }
    Ok(())
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

/// Checks that an ACK that establishes persistent congestion sets the window to the minimum (RFC
/// 9002 §7.6.2).
fn check_demand(records: &EndpointRecords, report: &Report<'_>) -> Verdict {
    let (tally, after) = (report.tally, report.change.after);
    if tally.lost == 0 || tally.acked == 0 || after <= records.floor() {
        return Ok(());
    }
    // The sender may have discarded the state of delivered handshake packets, which also end a
    // silent period. A packet sent at the time of the first sample need not count (RFC 9002 §B.8:
    // `time_sent > first_rtt_sample`).
    let begin = records.ledger.last_of_handshake();
    let counts = |packet: &Packet| {
        packet.loss_event == records.event
            && !packet.is_exempt
            && Some(packet.index) > begin
            && Some(packet.sent_at) > records.rtt.first_at
    };
    let silence = longest_silence(records, counts);
    let enough = timeouts(records, report).into_iter().max().unwrap_or_default() * 3;
    if silence > enough {
        return Err(format!(
            "the packets declared lost on an ACK span {silence:?}, which is persistent congestion \
             (from {enough:?}), but the window stays at {after}"
        ));
    }
    Ok(())
}

/// Returns the persistent congestion duration (RFC 9002 §7.6.1), using the smaller of the estimates
/// before and after the event.
fn persistent_duration(records: &EndpointRecords, report: &Report<'_>) -> Duration {
    3 * timeouts(records, report).into_iter().min().unwrap_or_default()
}

/// Returns the probe timeouts without backoff for the estimates before and after the event.
fn timeouts(records: &EndpointRecords, report: &Report<'_>) -> [Duration; 2] {
    [report.before.rtt, report.after.rtt].map(|rtt| {
        let round_trip = rtt.map_or(records.config.initial_rtt, |rtt| {
            rtt.smoothed + (4 * rtt.variation).max(Duration::from_millis(1))
        });
        round_trip + records.config.peer_max_ack_delay
    })
}

/// Returns the longest time between two lost ack-eliciting packets that count as congestion, with
/// no acknowledged packet in between, both sent after the first RTT sample (RFC 9002 §7.6.2).
fn longest_silence(records: &EndpointRecords, counts: impl Fn(&Packet) -> bool) -> Duration {
    let Some(first_rtt) = records.rtt.first_at else { return Duration::ZERO };
    let path = records.ledger.path();
    let known = records.ledger.packets().filter(|packet| packet.is_on(path));
    let mut packets: Vec<&Packet> = known.filter(|packet| packet.sent_at >= first_rtt).collect();
    packets.sort_unstable_by_key(|packet| packet.index);
    let mut longest = Duration::ZERO;
    let mut since: Option<Timestamp> = None;
    for packet in packets {
        match packet.fate {
            Fate::Delivered => since = None,
            Fate::Lost if packet.is_ack_eliciting && counts(packet) => {
                let since = *since.get_or_insert(packet.sent_at);
                longest = longest.max(packet.sent_at.saturating_since(since));
            }
            _ => {}
        }
    }
    longest
}

/// Checks that a recovery period ends exactly when a packet sent during it is first acknowledged.
fn check_end(records: &EndpointRecords, report: &Report<'_>) -> Verdict {
    let was_open = report.before.congestion.phase == Phase::Recovery;
    let is_open = report.after.congestion.phase == Phase::Recovery;
    let is_over = report.tally.largest_acked.is_some_and(|index| index >= records.episode.boundary);
    let boundary = records.episode.boundary;
    if was_open && !is_open && !is_over && !report.change.is_undo {
        return Err(format!(
            "recovery ended although no packet sent after its start (number {boundary} or later in \
             send order) was acknowledged"
        ));
    }
    if is_open && is_over {
        return Err(format!(
            "recovery did not end although a packet sent in it (number {boundary} or later in send order) was acknowledged"
        ));
    }
    if !was_open && is_open {
        return Err("recovery started without a reduction of the window".to_owned());
    }
    Ok(())
}
