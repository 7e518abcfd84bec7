//! S21: probes wait for their timeout.

use core::time::Duration;

use crate::checker::books::Books;
use crate::checker::properties::Property;
use crate::checker::rule::{Rule, Verdict};

/// Rounding.
const SLACK: Duration = Duration::from_micros(10);

/// RFC 9002 §6.2.1: the timer of a space runs for a whole probe timeout, doubled for each that expired before, since
/// the last ack-eliciting packet. A peer that shows that the path works may spare one timeout the doubling.
#[derive(Debug, Default)]
pub(in crate::checker) struct Haste;

impl Rule for Haste {
    const PROPERTY: Property = Property::S21;

    fn on_probe_timeout(&mut self, books: &Books) -> Verdict {
        let earliest = books.earliest_expiry();
        if books.now + SLACK >= earliest.at {
            return Ok(());
        }
        let early = earliest.at.saturating_since(books.now);
        let space = earliest.space.map_or_else(
            || "nothing is outstanding".to_owned(),
            |space| format!("the timer of {space:?} is the first"),
        );
        Err(format!("a probe timeout expired {early:?} before its time ({space})"))
    }
}
