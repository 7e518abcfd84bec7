//! S16: the window is reduced after every loss and every CE mark, and for no other reason.

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Reaction;

impl Rule for Reaction {
    const PROPERTY: Property = Property::S16;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let (change, tally) = (&report.change, report.tally);
        let is_marked = records.marks.may_answer(records.episode.boundary_after(change.is_undo));
        if change.is_cut && tally.lost == 0 && !is_marked {
            return Err(format!(
                "the window was reduced from {} to {} although no packet in flight was lost or \
                 CE-marked",
                change.before, change.after
            ));
        }
        if change.is_cut {
            return Ok(());
        }
        let boundary = records.episode.boundary_after(change.is_undo);
        check_marks(records, report, boundary)?;
        if !records.config.kind.is_loss_based() {
            return Ok(());
        }
        if let Some(index) = tally.largest_lost.filter(|index| *index >= boundary) {
            return Err(format!(
                "{} packets were lost; the last of them (number {index} in send order) was sent \
                 after the last reduction (at number {boundary}), but the window stays at {}",
                tally.lost, change.after
            ));
        }
        Ok(())
    }
}

/// Checks CE marks: a CE mark on a validated path is congestion, if the ACK frame that reports it
/// acknowledges a packet sent after the last reduction (RFC 9002 §7.1, appendix B.7).
fn check_marks(records: &EndpointRecords, report: &Report<'_>, boundary: u64) -> Verdict {
    let tally = report.tally;
    let boundary = boundary.max(records.marks.answered_to());
    let newest = tally.largest_delivered.filter(|index| *index >= boundary);
    match newest.filter(|_| tally.ce_marks > 0 && records.config.kind.answers_marks()) {
        Some(newest) => Err(format!(
            "{} CE marks were reported with the acknowledgment of packet {newest} in send order, \
             which was sent after the last reduction (at packet {boundary}), but the window stays \
             at {}",
            tally.ce_marks, report.change.after
        )),
        None => Ok(()),
    }
}
