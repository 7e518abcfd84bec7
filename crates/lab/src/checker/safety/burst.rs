//! S8: bursts are bounded. A token bucket that fills at 1.25 times the rate and holds one burst
//! yields the same result for each packet as a sum over every interval.

use clearway_units::{Rate, Timestamp};
use core::time::Duration;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, SentEvent, Verdict};

/// The period whose data, at the pacing rate, may be sent in one burst (BBR: send_quantum; timers
/// are not finer).
const QUANTUM_TIME: Duration = Duration::from_millis(1);
/// The maximum amount of data that may be sent in one burst: four system calls' worth.
const LARGEST_QUANTUM: u64 = 256 << 10;
/// The maximum initial burst in datagrams (RFC 9002 §7.7).
const BURST_DATAGRAMS: u64 = 10;

#[derive(Debug, Default)]
pub(in crate::checker) struct Burst {
    bucket: Option<Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: u64,
    /// The level of the bucket, in bytes times 10^9.
    level: i128,
    capacity: i128,
    filled_at: Timestamp,
}

const SECOND: i128 = 1_000_000_000;

impl Bucket {
    fn fill(&mut self, now: Timestamp) {
        let elapsed = now.saturating_since(self.filled_at).as_nanos() as i128;
        self.filled_at = now;
        let gained = elapsed * i128::from(self.rate) * 5 / 4;
        self.level = (self.level + gained).min(self.capacity);
    }
}

fn capacity(rate: Rate, datagram: u64) -> i128 {
    let quantum = rate.bytes_in(QUANTUM_TIME).min(LARGEST_QUANTUM);
    // One additional datagram, since the pacer and the checker round at different times.
    i128::from(quantum.max(BURST_DATAGRAMS * datagram) + datagram) * SECOND
}

impl Rule for Burst {
    const PROPERTY: Property = Property::S8;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let Some(rate) = report.after.pacing_rate else { return Ok(()) };
        let capacity = capacity(rate, records.datagram());
        let full = Bucket { rate: 0, level: capacity, capacity, filled_at: records.now };
        let bucket = self.bucket.get_or_insert(full);
        if bucket.rate != rate.bytes_per_second() {
            bucket.fill(records.now);
            bucket.rate = rate.bytes_per_second();
            bucket.capacity = capacity;
        }
        Ok(())
    }

    fn on_sent(&mut self, records: &EndpointRecords, packet: &SentEvent) -> Verdict {
        let Some(bucket) = self.bucket.as_mut().filter(|_| packet.is_gated()) else {
            return Ok(());
        };
        bucket.fill(records.now);
        bucket.level -= i128::from(packet.bytes) * SECOND;
        if bucket.level < 0 {
            return Err(format!(
                "{} bytes were sent beyond 1.25 x {} bytes/s plus a burst of {}",
                -bucket.level / SECOND,
                bucket.rate,
                bucket.capacity / SECOND
            ));
        }
        Ok(())
    }

    fn on_mtu(&mut self, records: &EndpointRecords) {
        if let Some(bucket) = &mut self.bucket {
            bucket.fill(records.now);
            bucket.capacity =
                capacity(Rate::from_bytes_per_second(bucket.rate), records.datagram());
        }
    }

    fn on_path(&mut self, _records: &EndpointRecords) {
        self.bucket = None;
    }
}
