//! S17: few transmissions are unnecessary.

use clearway_units::Timestamp;
use core::time::Duration;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

/// Limits spurious losses on a path that preserves order: their maximum share of the sent bytes is
/// one divided by this number.
const SHARE_IN_ORDER: u64 = 100;
/// Like [`SHARE_IN_ORDER`], for a path that reorders packets, where the thresholds have to adapt.
const SHARE_OUT_OF_ORDER: u64 = 20;
/// The number of spurious losses that are allowed regardless of how little was sent.
const FEW: u64 = 20;
/// Like [`FEW`], for a path that reorders packets, where the sender has to learn how late datagrams
/// may arrive.
const FEW_OUT_OF_ORDER: u64 = 100;
/// The maximum number of times that the backoff doubles.
const MAX_DOUBLINGS: u32 = 16;
/// The number of consecutive timeouts allowed in addition to the doublings: the first timeout, and
/// timeouts of several spaces.
const MORE: u32 = 4;

#[derive(Debug, Default)]
pub(in crate::checker) struct Unnecessary {
    /// The time at which the first of the consecutive timeouts expired, and the RTT at that time.
    first: Option<(Timestamp, Duration)>,
}

impl Rule for Unnecessary {
    const PROPERTY: Property = Property::S17;

    /// Checks that n consecutive timeouts take (2^n - 1) times as long as the first. Each packet
    /// from the peer that acknowledges nothing new may let one timeout expire without backoff.
    fn on_probe_timeout(&mut self, records: &EndpointRecords) -> Verdict {
        if records.expiries_in_a_row <= 1 {
            let rtt = records.rtt.minimum.unwrap_or(records.rtt.assumed);
            self.first = Some((records.now, rtt.max(Duration::from_millis(1))));
            return Ok(());
        }
        let Some((first, rtt)) = self.first else { return Ok(()) };
        let silence = records.now.saturating_since(first);
        let ratio = silence.as_nanos() / rtt.as_nanos() + 1;
        let at_longest = u32::try_from(ratio >> MAX_DOUBLINGS).unwrap_or(u32::MAX);
        let doubled = ratio.ilog2().min(MAX_DOUBLINGS) + at_longest.saturating_add(MORE);
        let explained = doubled.saturating_add(records.ack_eliciting_since);
        if records.expiries_in_a_row > explained {
            return Err(format!(
                "{} probe timeouts in a row within {silence:?}; with a round-trip time of {rtt:?} \
                 there should be at most {explained}",
                records.expiries_in_a_row
            ));
        }
        Ok(())
    }

    /// Checks that packets declared lost are really lost: all of them on a path without reordering,
    /// otherwise most of them, since thresholds adapt (RFC 9002 §6.1).
    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        if report.tally.spurious == 0 {
            return Ok(());
        }
        let totals = records.ledger.totals();
        let (share, few, path) = match records.config.path.keeps_order {
            true => (SHARE_IN_ORDER, FEW, "keeps order"),
            false => (SHARE_OUT_OF_ORDER, FEW_OUT_OF_ORDER, "reorders"),
        };
        if totals.spurious > totals.sent / share + few * records.datagram() {
            return Err(format!(
                "{} of {} bytes were declared lost but arrived, on a path that {path}",
                totals.spurious, totals.sent
            ));
        }
        Ok(())
    }
}
