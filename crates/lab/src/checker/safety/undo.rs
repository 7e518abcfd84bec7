//! S14: window reductions are undone only for spurious losses, and the previous window is restored.

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Undo;

impl Rule for Undo {
    const PROPERTY: Property = Property::S14;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        if !report.change.is_undo {
            return Ok(());
        }
        let episode = &records.episode;
        if !episode.can_be_undone {
            return Err("there was no reduction to undo".to_owned());
        }
        // Packets that this event declared lost were lost after those for which the event restored
        // the window.
        let missing = episode.missing;
        if missing > 0 {
            return Err(format!(
                "a reduction was undone, but {missing} of the packets declared lost did not arrive"
            ));
        }
        let change = &report.change;
        let (before, after) = (&report.before.congestion, &report.after.congestion);
        // The same ACK may also end a BBR phase whose successor has another bound, report other
        // losses that bound the probe, or end a round after which the model has a smaller
        // bandwidth-delay product.
        let is_bounded = records.config.kind.restores_window()
            && (before.phase != after.phase || report.tally.lost > 0 || report.round.is_some());
        if !change.is_cut && !is_bounded && change.after < change.before {
            return Err(format!(
                "the window changed from {} to {} bytes when a reduction was undone",
                change.before, change.after
            ));
        }
        let mut limit = change.before.max(episode.window_before) + report.tally.acked;
        if records.config.kind.restores_window() {
            // The window that BBR saved may be older than several reductions.
            limit = limit.max(records.largest_window);
        }
        if change.after > limit {
            return Err(format!(
                "the window was restored to {} bytes; before the reduction it was {}",
                change.after, episode.window_before
            ));
        }
        Ok(())
    }
}
