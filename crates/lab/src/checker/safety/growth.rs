//! S6: checks why the window changes, and by how much.

use clearway_congestion::Phase;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report, Round};
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Growth;

impl Rule for Growth {
    const PROPERTY: Property = Property::S6;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let (before, after) = (&report.before.congestion, &report.after.congestion);
        let (largest, kind) = (records.largest_window, records.config.kind);
        if !report.tally.has_event() {
            // A restart from idle may end ProbeRTT (BBR §5.4.1).
            let is_restored =
                kind.restores_window() && (before.window..=largest).contains(&after.window);
            // A smaller minimum window may reveal PRR's window, which was below the minimum. The
            // window never grows with the datagram size (RFC 8899 §3, item 7).
            let is_other_size = records.mtu.is_new && after.window <= before.window;
            return match before.window == after.window || is_restored || is_other_size {
                true => Ok(()),
                false => Err(format!(
                    "the window changed from {} to {} bytes although nothing was acknowledged or lost",
                    before.window, after.window
                )),
            };
        }
        check_growth(records, report)?;
        if records.config.kind.is_loss_based() {
            check_threshold(report)?;
            check_recovery(records, report)?;
            check_decrease(report)?;
            if let Some(round) = &report.round {
                check_round(records, round)?;
            }
        }
        Ok(())
    }
}

/// Checks that the window grows by no more than the acknowledged bytes, and only if it was used.
fn check_growth(records: &EndpointRecords, report: &Report<'_>) -> Verdict {
    let change = &report.change;
    // A restored window may also grow by the bytes that the same event acknowledged. If the window
    // was never larger, it was not restored.
    let is_restored = records.config.kind.restores_window()
        && change.before < records.largest_window
        && change.after <= records.largest_window.saturating_add(report.tally.acked);
    if change.is_undo || change.after <= change.before || is_restored {
        return Ok(());
    }
    let grown = change.after - change.before;
    if grown > report.tally.acked {
        return Err(format!(
            "the window grew by {grown} bytes, from {}; {} were acknowledged",
            change.before, report.tally.acked
        ));
    }
    if !records.rounds.was_limited() {
        return Err(format!(
            "the window grew from {} to {} although in this round and the one before neither the \
             window nor the pacer limited sending",
            change.before, change.after
        ));
    }
    Ok(())
}

/// Checks growth above the threshold, which is congestion avoidance: the window grows by at most
/// half of the bytes acknowledged after slow start reached the threshold (RFC 9438 §4.4).
fn check_threshold(report: &Report<'_>) -> Verdict {
    let change = &report.change;
    let threshold = report.before.congestion.slow_start_threshold;
    let is_same = threshold == report.after.congestion.slow_start_threshold;
    let crossed = |at: &u64| (change.before..change.after).contains(at);
    let Some(threshold) = threshold.filter(|at| is_same && !change.is_undo && crossed(at)) else {
        return Ok(());
    };
    let (beyond, room) = (change.after - threshold, threshold - change.before);
    let left = report.tally.acked.saturating_sub(room);
    if beyond > left / 2 + 1 {
        return Err(format!(
            "the window went from {} to {}, {beyond} bytes above the slow start threshold; {} were \
             acknowledged",
            change.before, change.after, report.tally.acked
        ));
    }
    Ok(())
}

/// Checks that, in recovery, the window is either the one at which recovery ends or the one that
/// PRR allows until then.
fn check_recovery(records: &EndpointRecords, report: &Report<'_>) -> Verdict {
    let congestion = &report.after.congestion;
    // An event that neither acknowledges bytes nor declares any lost does not change PRR's state.
    let is_news = report.tally.acked > 0 || report.tally.lost > 0;
    if congestion.phase != Phase::Recovery || report.change.is_cut || !is_news {
        return Ok(());
    }
    let threshold = report.change.after;
    // The controller computed its window before keys were discarded.
    let in_flight = records.ledger.in_flight() + report.tally.discarded;
    let acked = report.tally.acked;
    let episode = &records.episode;
    let permitted =
        episode.proportional_window(threshold, acked, in_flight, records.datagram()).max(threshold);
    if congestion.window > permitted.max(records.floor()) {
        return Err(format!(
            "in recovery, before reaching {threshold} bytes, the window is {}; PRR allows {permitted}",
            congestion.window
        ));
    }
    Ok(())
}

/// Checks that an acknowledgment without loss or congestion does not reduce the window.
fn check_decrease(report: &Report<'_>) -> Verdict {
    let change = &report.change;
    if !change.is_cut && change.after < change.before {
        return Err(format!(
            "the window was reduced from {} to {} bytes without congestion",
            change.before, change.after
        ));
    }
    Ok(())
}

/// Checks RFC 9438 §4.4: the target is at most 1.5 times the window, so the window grows by at most
/// half of the bytes that are acknowledged. More than a window may be acknowledged, because the ACK
/// frame that ends a round also acknowledges packets of the next round.
fn check_round(records: &EndpointRecords, round: &Round) -> Verdict {
    let limit = round.window_before.max(round.acked) / 2 + records.datagram();
    let grown = round.window_after.saturating_sub(round.window_before);
    if round.is_clean && round.was_in(Phase::CongestionAvoidance) && grown > limit {
        return Err(format!(
            "the window grew by {grown} bytes, from {}, in one round of congestion avoidance",
            round.window_before
        ));
    }
    Ok(())
}
