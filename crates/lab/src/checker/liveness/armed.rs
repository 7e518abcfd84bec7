//! L3: a timer is set while a packet is outstanding.

use core::time::Duration;

use clearway_transport::{SendLimit, SpaceId};

use crate::checker::properties::Property;
use crate::checker::records::EndpointRecords;
use crate::checker::rule::{Rule, Settled, Verdict};
use crate::end::Side;

/// The maximum number of times that the backoff doubles.
const MAX_EXPONENT: u32 = 16;
/// An allowance for rounding.
const SLACK: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(in crate::checker) struct Armed;

impl Rule for Armed {
    const PROPERTY: Property = Property::L3;

    fn on_settled(&mut self, records: &EndpointRecords, settled: &Settled) -> Verdict {
        if records.stage.is_closed || !records.stage.is_started {
            return Ok(());
        }
        // RFC 9002 §6.2.2.1: a client keeps a timer set until it knows that the server has
        // validated its address; an acknowledged Handshake packet proves that.
        let is_unsure = records.side == Side::Client
            && !records.stage.is_confirmed
            && !records.ledger.was_acknowledged_in(SpaceId::Handshake);
        if !records.ledger.awaits_acknowledgement() && !is_unsure {
            return Ok(());
        }
        // An endpoint whose host cannot send waits until it can.
        if records.limit == Some(SendLimit::Path) && settled.deadline.is_some() {
            return Ok(());
        }
        // A server that has reached the anti-amplification limit waits for its client (RFC 9000
        // §8.1).
        if records.credit().is_some_and(|credit| credit < records.datagram()) {
            return Ok(());
        }
        // A datagram with a corrupt connection ID is delivered, but does not count towards any
        // connection's anti-amplification limit.
        let is_unsure_of_credit = records.config.path.corrupts && records.credit().is_some();
        if is_unsure_of_credit && records.limit == Some(SendLimit::Amplification) {
            return Ok(());
        }
        let Some(deadline) = settled.deadline else {
            return Err("packets are outstanding, but no timer is set".to_owned());
        };
        let claimed = records.metrics.map_or(0, |metrics| metrics.pto_count);
        let exponent = records.expiries_in_a_row.max(claimed).min(MAX_EXPONENT);
        // No probe timer is set while the loss timer runs, and the RTT estimate may be based on a
        // single sample that includes the peer's ACK delay (RFC 9002 §6.1.2, §6.2.1).
        let timeout =
            (records.probe_timeout() * (1 << exponent)).max(records.time_threshold()) + SLACK;
        let wait = deadline.saturating_since(records.now);
        if wait > timeout {
            return Err(format!(
                "packets are outstanding, and the timer expires in {wait:?}; after {exponent} \
                 timeouts, the next one is due within {timeout:?}"
            ));
        }
        Ok(())
    }
}
