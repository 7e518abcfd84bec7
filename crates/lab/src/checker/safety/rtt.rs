//! S9: round-trip time samples and estimates are correct.

use core::time::Duration;

use clearway_congestion::RttSnapshot;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

/// The finest clock resolution that is required: smaller samples are reported as this value.
const FINEST: Duration = Duration::from_micros(1);

/// An allowance for rounding.
const SLACK: Duration = Duration::from_micros(1);

#[derive(Debug, Default)]
pub(in crate::checker) struct RoundTrip {
    /// Whether the minimum RTT was reset after persistent congestion (RFC 9002 §5.2), in which case
    /// it may temporarily exceed the smoothed RTT.
    is_restarted: bool,
}

impl Rule for RoundTrip {
    const PROPERTY: Property = Property::S9;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let Some(rtt) = report.after.rtt else { return Ok(()) };
        if report.tally.pending > 0 {
            return Ok(());
        }
        check_sample(records, report, &rtt)?;
        check_smoothed(records, &rtt)?;
        self.check_minimum(records, report, &rtt)
    }

    fn on_path(&mut self, _records: &EndpointRecords) {
        self.is_restarted = false;
    }
}

fn check_sample(records: &EndpointRecords, report: &Report<'_>, rtt: &RttSnapshot) -> Verdict {
    let latest = rtt.latest;
    if records.rtt.first_at.is_none() {
        return Err(format!("an RTT of {latest:?} was reported without a sample"));
    }
    let before = report.before.rtt.map(|rtt| rtt.latest);
    match report.tally.rtt {
        Some(own) if latest != own.max(FINEST) => Err(format!(
            "an RTT sample of {latest:?} was reported; the packet was acknowledged after {own:?}"
        )),
        None if before.is_some_and(|before| before != latest) => Err(format!(
            "an RTT sample of {latest:?} was reported, but no acknowledgment provides \
                one"
        )),
        _ => match report.tally.one_way {
            Some(one_way) if latest < one_way => Err(format!(
                "an RTT sample of {latest:?} was reported; the packet's one-way delay alone was \
                 {one_way:?}"
            )),
            _ => Ok(()),
        },
    }
}

/// Checks that the peer's ACK delay is subtracted as RFC 9002 §5.3 permits, and no more than that.
fn check_smoothed(records: &EndpointRecords, rtt: &RttSnapshot) -> Verdict {
    let Some(own) = records.rtt.estimate else { return Ok(()) };
    if rtt.smoothed.abs_diff(own.smoothed) > SLACK {
        return Err(format!(
            "the smoothed round-trip time is {:?}; samples and the peer's ACK delays give {:?}",
            rtt.smoothed, own.smoothed
        ));
    }
    Ok(())
}

impl RoundTrip {
    fn check_minimum(
        &mut self,
        records: &EndpointRecords,
        report: &Report<'_>,
        rtt: &RttSnapshot,
    ) -> Verdict {
        let RttSnapshot { minimum, smoothed, latest, .. } = *rtt;
        let least = records.rtt.minimum.unwrap_or(Duration::ZERO).max(FINEST);
        if minimum < least {
            return Err(format!(
                "the minimum round-trip time is {minimum:?}; the smallest sample was {least:?}"
            ));
        }
        if minimum > latest {
            return Err(format!(
                "the minimum round-trip time {minimum:?} is above the sample of {latest:?}"
            ));
        }
        let rises = report.before.rtt.is_some_and(|before| minimum > before.minimum);
        if rises && !report.change.is_cut {
            return Err(format!(
                "the minimum round-trip time rose to {minimum:?} without persistent congestion"
            ));
        }
        self.is_restarted = (self.is_restarted || rises) && smoothed < minimum;
        if smoothed < minimum && !self.is_restarted {
            return Err(format!(
                "the smoothed round-trip time {smoothed:?} is below the minimum {minimum:?}"
            ));
        }
        Ok(())
    }
}
