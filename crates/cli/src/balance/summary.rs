//! Final summary that a balancer prints.

use clearway_balancer::Means;
use clearway_forward::{DirectionStatistics, Statistics};
use serde_json::{Value, json};

use super::metrics::{Counted, means_name};
use crate::foreign::Foreign;
use crate::units::bytes_text;

/// The totals of all threads.
pub(super) struct Summary {
    forwarded: Statistics,
    /// Datagrams by how the server was selected, in the order of [`Means::ALL`].
    means: [u64; Means::ALL.len()],
    /// Datagrams per server, by its name.
    servers: Vec<(String, u64)>,
}

impl Summary {
    pub(super) fn of(counted: &Counted) -> Self {
        let mut means = [0; Means::ALL.len()];
        for shard in counted.shards.iter().map(|shard| shard.read()) {
            means.iter_mut().zip(shard.means).for_each(|(sum, count)| *sum += count);
        }
        let pool = counted.pool.load();
        let servers = pool.servers().map(|(key, server)| {
            let datagrams = counted.shards.iter().map(|shard| shard.datagrams(key)).sum();
            (server.name.clone(), datagrams)
        });
        let forwarded = (counted.forwarded)().into_iter().sum();
        Self { forwarded, means, servers: servers.collect() }
    }

    pub(super) fn text(&self) -> String {
        let way = |way: &DirectionStatistics| {
            format!("{} datagrams ({})", way.datagrams_sent, bytes_text(way.bytes_sent))
        };
        let Statistics { to_servers, to_clients, .. } = &self.forwarded;
        let servers: Vec<_> = self
            .servers
            .iter()
            .map(|(name, count)| format!("{}: {count}", Foreign(name)))
            .collect();
        let means = Means::ALL.iter().zip(self.means).filter(|(_, count)| *count > 0);
        let means: Vec<_> =
            means.map(|(means, count)| format!("{}: {count}", means_words(*means))).collect();
        let mut text = format!(
            "to servers: {}, dropped: {}\nto clients: {}, dropped: {}\nby server: {}",
            way(to_servers),
            self.dropped_to_servers(),
            way(to_clients),
            self.dropped_to_clients(),
            servers.join(", ")
        );
        if !means.is_empty() {
            text.push_str(&format!("\nselected by {}", means.join(", ")));
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let way = |way: &DirectionStatistics, dropped: u64| {
            json!({
                "received": way.datagrams_received,
                "received_bytes": way.bytes_received,
                "sent": way.datagrams_sent,
                "sent_bytes": way.bytes_sent,
                "dropped": dropped,
            })
        };
        let servers = self.servers.iter().map(|(name, count)| (name.clone(), (*count).into()));
        let means = Means::ALL.iter().zip(self.means);
        let means = means.map(|(means, count)| (means_name(*means).to_owned(), count.into()));
        json!({
            "to_servers": way(&self.forwarded.to_servers, self.dropped_to_servers()),
            "to_clients": way(&self.forwarded.to_clients, self.dropped_to_clients()),
            "servers": servers.collect::<serde_json::Map<String, Value>>(),
            "means": means.collect::<serde_json::Map<String, Value>>(),
        })
    }

    fn dropped_to_servers(&self) -> u64 {
        let forwarded = &self.forwarded;
        dropped(&forwarded.to_servers)
            + forwarded.dropped_not_routed
            + forwarded.dropped_no_port
            + forwarded.dropped_like_preface
            + forwarded.dropped_looped
    }

    fn dropped_to_clients(&self) -> u64 {
        let forwarded = &self.forwarded;
        dropped(&forwarded.to_clients)
            + forwarded.dropped_unknown_sender
            + forwarded.dropped_no_preface
            + forwarded.replies_dropped
    }
}

fn dropped(way: &DirectionStatistics) -> u64 {
    way.dropped_empty
        + way.dropped_too_large
        + way.dropped_no_room
        + way.dropped_unreachable
        + way.dropped_not_permitted
        + way.dropped_failed
}

fn means_words(means: Means) -> &'static str {
    match means {
        Means::ServerId => "server ID",
        Means::Flow => "flow",
        Means::Learned => "learned connection ID",
        Means::Address => "address",
        Means::Hash => "hash",
    }
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
