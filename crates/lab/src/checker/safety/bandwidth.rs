//! S10: delivery rate samples do not exceed the bottleneck's rate.

use clearway_congestion::RateSample;
use clearway_units::Rate;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Bandwidth {
    last: Option<RateSample>,
}

impl Rule for Bandwidth {
    const PROPERTY: Property = Property::S10;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let sample = report.after.delivery_rate;
        if sample == core::mem::replace(&mut self.last, sample) {
            return Ok(());
        }
        let Some(sample) = sample else { return Ok(()) };
        if sample.rate == Rate::ZERO || sample.delivered == 0 {
            return Err("a delivery rate sample is zero".to_owned());
        }
        let path = &records.config.path;
        let Some(bottleneck) = path.bottleneck.filter(|_| path.is_steady && path.returns_at_once)
        else {
            return Ok(());
        };
        // A delayed ACK acknowledges several packets at once.
        let at_once = (records.config.peer_threshold + 1) * records.datagram();
        let possible = bottleneck.bytes_in(sample.interval) * 102 / 100 + at_once;
        if sample.delivered > possible {
            return Err(format!(
                "a delivery rate sample of {} bytes in {:?}, {} bytes/s; the bottleneck's rate is {}",
                sample.delivered,
                sample.interval,
                sample.rate.bytes_per_second(),
                bottleneck.bytes_per_second()
            ));
        }
        Ok(())
    }
}
