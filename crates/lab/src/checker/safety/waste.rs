//! S17: unnecessary transmissions.

use clearway_units::Timestamp;
use core::time::Duration;

use crate::checker::books::{Books, Report};
use crate::checker::properties::Property;
use crate::checker::rule::{Rule, Verdict};

/// What part of all that is sent may be declared lost and arrive, where nothing is reordered ...
const SHARE_IN_ORDER: u64 = 100;
/// ... and where there is reordering, to which thresholds have to adapt.
const SHARE_OUT_OF_ORDER: u64 = 20;
/// Up to this many spurious losses are permitted whatever was sent.
const FEW: u64 = 20;
/// As [`FEW`], where it takes some to find out how late datagrams may be.
const FEW_OUT_OF_ORDER: u64 = 100;
/// The backoff doubles so often at most.
const MAX_DOUBLINGS: u32 = 16;
/// Timeouts in a row beyond what doubling explains: those of several spaces, and the first.
const MORE: u32 = 4;

#[derive(Debug, Default)]
pub(in crate::checker) struct Waste {
    /// When the first of the timeouts in a row expired, and the round-trip time then.
    first: Option<(Timestamp, Duration)>,
}

impl Rule for Waste {
    const PROPERTY: Property = Property::S17;

    /// n timeouts in a row take (2^n - 1) times the first. A peer that shows that it lives, and acknowledges
    /// nothing new, may hasten one each time.
    fn on_probe_timeout(&mut self, books: &Books) -> Verdict {
        if books.expiries_in_a_row <= 1 {
            let rtt = books.rtt.minimum.unwrap_or(books.rtt.assumed);
            self.first = Some((books.now, rtt.max(Duration::from_millis(1))));
            return Ok(());
        }
        let Some((first, rtt)) = self.first else { return Ok(()) };
        let silence = books.now.saturating_since(first);
        let ratio = silence.as_nanos() / rtt.as_nanos() + 1;
        let at_longest = u32::try_from(ratio >> MAX_DOUBLINGS).unwrap_or(u32::MAX);
        let doubled = ratio.ilog2().min(MAX_DOUBLINGS) + at_longest.saturating_add(MORE);
        let explained = doubled.saturating_add(books.signs_of_life);
        if books.expiries_in_a_row > explained {
            return Err(format!(
                "{} probe timeouts in a row within {silence:?}; with a round-trip time of {rtt:?} that \
                 should be {explained} at most",
                books.expiries_in_a_row
            ));
        }
        Ok(())
    }

    /// Without reordering, packets declared lost are lost. Otherwise thresholds adapt (RFC 9002 §6.1), and most of them are.
    fn on_report(&mut self, books: &Books, report: &Report<'_>) -> Verdict {
        if report.tally.spurious == 0 {
            return Ok(());
        }
        let totals = books.ledger.totals();
        let (share, few, path) = match books.terms.path.keeps_order {
            true => (SHARE_IN_ORDER, FEW, "keeps order"),
            false => (SHARE_OUT_OF_ORDER, FEW_OUT_OF_ORDER, "reorders"),
        };
        if totals.spurious > totals.sent / share + few * books.datagram() {
            return Err(format!(
                "{} of {} bytes were declared lost and arrived, on a path that {path}",
                totals.spurious, totals.sent
            ));
        }
        Ok(())
    }
}
