//! Maps the event names of earlier drafts to the names in version 0.3.

/// Returns the name in version 0.3, or the same name in lower case if version 0.3 has no other
/// name.
pub(super) fn modern(category: &str, event: &str) -> String {
    let event = word(event);
    let category = word(category);
    if matches!(category.as_str(), "http" | "http3" | "qpack") {
        return format!("{category}:{event}");
    }
    let known = match event.as_str() {
        "packet_tx" => "transport:packet_sent",
        "packet_rx" => "transport:packet_received",
        "packet_drop" => "transport:packet_dropped",
        "datagram_sent" => "transport:datagrams_sent",
        "datagram_received" => "transport:datagrams_received",
        "transport_parameters_update" | "transport_parameters_updated" => {
            "transport:parameters_set"
        }
        "stream_state_update" => "transport:stream_state_updated",
        "packet_acknowledged" | "packets_acknowledged" => "transport:packets_acked",
        "new_connection" | "connection_new" | "connection_attempt" => {
            "connectivity:connection_started"
        }
        "connection_close" | "connection_closed" => "connectivity:connection_closed",
        "connection_state_update" => "connectivity:connection_state_updated",
        "connection_id_update" => "connectivity:connection_id_updated",
        "spin_bit_update" => "connectivity:spin_bit_updated",
        "key_update" => "security:key_updated",
        "key_retire" | "key_retired" => "security:key_discarded",
        "metric_update"
        | "metrics_update"
        | "congestion_metric_update"
        | "rtt_update"
        | "cwnd_update"
        | "bytes_in_flight_update" => "recovery:metrics_updated",
        "cc_state_update" | "congestion_state_update" => "recovery:congestion_state_updated",
        "loss_alarm_set"
        | "loss_timer_set"
        | "loss_detection_armed"
        | "loss_alarm_fired"
        | "loss_timer_fired"
        | "loss_timer_triggered"
        | "loss_timer_expired"
        | "loss_detection_triggered"
        | "loss_alarm" => "recovery:loss_timer_updated",
        "packets_lost" => "recovery:packet_lost",
        _ => return if category.is_empty() { event } else { format!("{category}:{event}") },
    };
    known.to_owned()
}

/// Writes a name in lower case with underscores: version 0.1 has "NEW CONNECTION".
pub(super) fn word(name: &str) -> String {
    let of = |character: char| match character {
        ' ' | '-' => '_',
        other => other.to_ascii_lowercase(),
    };
    name.trim().chars().map(of).collect()
}
