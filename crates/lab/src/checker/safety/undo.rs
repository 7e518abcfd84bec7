//! S14: taking a reduction back.

use crate::checker::books::{Books, Report};
use crate::checker::properties::Property;
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Undo;

impl Rule for Undo {
    const PROPERTY: Property = Property::S14;

    fn on_report(&mut self, books: &Books, report: &Report<'_>) -> Verdict {
        if !report.change.is_undo {
            return Ok(());
        }
        let episode = &books.episode;
        if !episode.can_be_undone {
            return Err("there was no reduction that could be taken back".to_owned());
        }
        // The packets that this event declared lost were lost after those that it restored.
        let missing = episode.missing;
        if missing > 0 {
            return Err(format!("{missing} of the packets that were lost did not arrive"));
        }
        let change = &report.change;
        let (before, after) = (&report.before.congestion, &report.after.congestion);
        // The same ACK may end a phase of BBR, and the next has a bound of its own; or other losses that it reports may
        // bound the probe.
        let is_bounded = books.terms.kind.restores_window()
            && (before.phase != after.phase || report.tally.lost > 0);
        if !change.is_cut && !is_bounded && change.after < change.before {
            return Err(format!("the window went from {} to {}", change.before, change.after));
        }
        let mut limit = change.before.max(episode.window_before) + report.tally.acked;
        if books.terms.kind.restores_window() {
            // What BBR saved may be from before several reductions.
            limit = limit.max(books.largest_window);
        }
        if change.after > limit {
            return Err(format!(
                "the window went to {}; it was {} before the reduction",
                change.after, episode.window_before
            ));
        }
        Ok(())
    }
}
