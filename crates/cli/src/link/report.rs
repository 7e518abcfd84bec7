use clearway_network::WayCounters;
use serde_json::{Value, json};

use crate::relay::RelayStatus;

/// Formats the counters of a relay as text.
pub(super) fn text(status: &RelayStatus) -> String {
    let mut text = status.link.to_string();
    let late = status.worst_lateness.as_secs_f64() * 1e3;
    text.push_str(&format!(
        "\nclients: {}, datagrams delivered more than 1 ms late: {} (at most {late:.1} ms late)",
        status.clients, status.late
    ));
    let details = [
        (status.refused_clients, "datagrams dropped because there are too many clients"),
        (status.strangers, "datagrams from unknown senders"),
        (status.unsent, "datagrams that could not be sent"),
    ];
    for (count, what) in details.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!(", {count} {what}"));
    }
    text
}

/// Returns the counters of a relay as a JSON object.
pub(super) fn json(status: &RelayStatus) -> Value {
    json!({
        "to_server": way(&status.link.to_server),
        "to_client": way(&status.link.to_client),
        "clients": status.clients,
        "refused_clients": status.refused_clients,
        "strangers": status.strangers,
        "unsent": status.unsent,
        "late": status.late,
        "worst_lateness_seconds": status.worst_lateness.as_secs_f64(),
    })
}

fn way(counters: &WayCounters) -> Value {
    json!({
        "received": counters.received,
        "received_bytes": counters.received_bytes,
        "delivered": counters.delivered,
        "delivered_bytes": counters.delivered_bytes,
        "in_pipe": counters.in_pipe,
        "lost_random": counters.lost_random,
        "lost_burst": counters.lost_burst,
        "lost_listed": counters.lost_listed,
        "dropped_queue": counters.dropped_queue,
        "dropped_pipe": counters.dropped_pipe,
        "too_large": counters.too_large,
        "dropped_old_binding": counters.dropped_old_binding,
        "reordered": counters.reordered,
        "duplicated": counters.duplicated,
        "corrupted": counters.corrupted,
        "marked": counters.marked,
        "bleached": counters.bleached,
        "remarked": counters.remarked,
        "dropped_ecn": counters.dropped_ecn,
    })
}
