//! Counters of a server's shards, as printed by `clearway-bench server --attached`: how they
//! received and sent, and which datagrams the kernel steered to the right shard.

use serde_json::Value;

use crate::measure::Process;

/// The combined counters of a server's shards.
#[derive(PartialEq, Debug, Default)]
pub(super) struct Steered {
    /// How the kernel steers datagrams to shards; empty if there is only one shard.
    pub(super) method: String,
    /// Datagrams that arrived directly at the right shard.
    pub(super) right: u64,
    /// Datagrams that another shard forwarded to the right one.
    pub(super) handed_over: u64,
    /// Datagrams dropped because too many were queued for forwarding to another shard.
    pub(super) dropped: u64,
    /// Number of connections that each shard has accepted.
    pub(super) accepted: Vec<u64>,
    pub(super) work: Work,
}

/// How efficiently the shards received and sent: larger batches and fewer wake-ups make a request
/// cheaper, and lost packets make it more expensive.
#[derive(PartialEq, Debug, Default)]
pub(super) struct Work {
    /// UDP payloads received, and the number of system calls that received them.
    pub(super) received: u64,
    pub(super) receiving_calls: u64,
    /// UDP payloads sent, and the number of system calls that sent them.
    pub(super) sent: u64,
    pub(super) sending_calls: u64,
    pub(super) wakeups: u64,
    /// Number of packets declared lost.
    pub(super) lost: u64,
    pub(super) probe_timeouts: u64,
}

impl Work {
    fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.receiving_calls += other.receiving_calls;
        self.sent += other.sent;
        self.sending_calls += other.sending_calls;
        self.wakeups += other.wakeups;
        self.lost += other.lost;
        self.probe_timeouts += other.probe_timeouts;
    }

    /// Returns the mean number of datagrams per receive call.
    pub(super) fn received_at_once(&self) -> f64 {
        self.received as f64 / self.receiving_calls.max(1) as f64
    }

    /// Returns the mean number of datagrams per send call.
    pub(super) fn sent_at_once(&self) -> f64 {
        self.sent as f64 / self.sending_calls.max(1) as f64
    }
}

impl Steered {
    /// Queries a server that was started with `--attached`.
    pub(super) fn ask(server: &mut Process) -> Result<Self, String> {
        let counts = server.ask()?;
        Self::read(&counts)
            .ok_or_else(|| format!("the server printed unexpected counters: {counts}"))
    }

    /// Returns the combined counters of several servers.
    pub(super) fn sum(servers: Vec<Self>) -> Self {
        let mut sum = Self::default();
        for server in servers {
            sum.method = server.method;
            sum.right += server.right;
            sum.handed_over += server.handed_over;
            sum.dropped += server.dropped;
            sum.accepted.extend(server.accepted);
            sum.work.add(&server.work);
        }
        sum
    }

    fn read(counts: &Value) -> Option<Self> {
        let shards = counts["shards"].as_array()?;
        let all = |name: &str| -> Option<Vec<u64>> {
            shards.iter().map(|shard| shard[name].as_u64()).collect()
        };
        let sum = |name: &str| Some(all(name)?.iter().sum::<u64>());
        let (handed_over, dropped) = (sum("handed_over")?, sum("dropped")?);
        let work = Work {
            received: sum("received")?,
            receiving_calls: sum("receiving_calls")?,
            sent: sum("sent")?,
            sending_calls: sum("sending_calls")?,
            wakeups: sum("wakeups")?,
            lost: sum("lost")?,
            probe_timeouts: sum("probe_timeouts")?,
        };
        Some(Self {
            method: counts["steering"].as_str()?.to_owned(),
            right: work.received.saturating_sub(handed_over + dropped),
            handed_over,
            dropped,
            accepted: all("accepted")?,
            work,
        })
    }

    /// Describes the counters for the reader.
    pub(super) fn text(&self) -> String {
        let Self { method, right, handed_over, dropped, .. } = self;
        let method = if method.is_empty() { "one shard" } else { method };
        format!(
            "{right} steered to the right shard, {handed_over} handed over, {dropped} dropped \
            ({method})"
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_not_handed_over_was_steered_right() {
        let shard = |received: u64, handed_over: u64| {
            json!({
                "accepted": 3, "received": received, "receiving_calls": 10, "sent": 80,
                "sending_calls": 2, "wakeups": 9, "lost": 1, "probe_timeouts": 0,
                "handed_over": handed_over, "handed_in": 0, "dropped": 1,
            })
        };
        let counts = json!({"steering": "by hash", "shards": [shard(100, 10), shard(50, 5)]});
        let steered = Steered::read(&counts).unwrap();
        assert_eq!(steered.accepted, [3, 3]);
        let said = "133 steered to the right shard, 15 handed over, 2 dropped (by hash)";
        assert_eq!(steered.text(), said);
        assert_eq!(steered.work.received_at_once(), 7.5);
        assert_eq!(steered.work.sent_at_once(), 40.0);
        assert_eq!(Steered::read(&json!({})), None);
        let both = Steered::sum(vec![steered, Steered::read(&counts).unwrap()]);
        assert_eq!((both.right, both.accepted), (266, vec![3; 4]));
        assert_eq!(both.work.received_at_once(), 7.5);
    }
}
