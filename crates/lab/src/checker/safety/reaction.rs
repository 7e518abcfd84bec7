//! S16: the window is reduced after every loss, and for no other reason.

use crate::checker::books::{Books, Report};
use crate::checker::properties::Property;
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Reaction;

impl Rule for Reaction {
    const PROPERTY: Property = Property::S16;

    fn on_report(&mut self, books: &Books, report: &Report<'_>) -> Verdict {
        let (change, tally) = (&report.change, report.tally);
        if change.is_cut && tally.lost == 0 {
            return Err(format!(
                "the window was reduced from {} to {} although nothing in flight was lost",
                change.before, change.after
            ));
        }
        if !books.terms.kind.is_loss_based() || change.is_cut {
            return Ok(());
        }
        let boundary = books.episode.boundary_after(change.is_undo);
        if let Some(index) = tally.largest_lost.filter(|index| *index >= boundary) {
            return Err(format!(
                "{} packets were lost, the last of them the {index}th sent, after the last reduction \
                 (place {boundary}); the window stays at {}",
                tally.lost, change.after
            ));
        }
        Ok(())
    }
}
