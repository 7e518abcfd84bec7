/// Returns the name of an event in version 0.3. `None` if version 0.3 does not define it.
pub(super) fn old_name(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let (namespace, event) = name.split_once(':').unwrap_or(("", &name));
    if matches!(namespace, "http" | "http3" | "h3") {
        return Some(match event {
            "parameters_set" => "http:parameters_set",
            "parameters_restored" => "http:parameters_restored",
            "stream_type_set" => "http:stream_type_set",
            "frame_created" => "http:frame_created",
            "frame_parsed" => "http:frame_parsed",
            _ => return None,
        });
    }
    if namespace == "recovery" && event == "parameters_set" {
        return Some("recovery:parameters_set");
    }
    Some(match event {
        "server_listening" => "connectivity:server_listening",
        "connection_started" => "connectivity:connection_started",
        "connection_closed" => "connectivity:connection_closed",
        "connection_id_updated" => "connectivity:connection_id_updated",
        "spin_bit_updated" => "connectivity:spin_bit_updated",
        "connection_state_updated" => "connectivity:connection_state_updated",
        "version_information" => "transport:version_information",
        "alpn_information" => "transport:alpn_information",
        "parameters_set" => "transport:parameters_set",
        "parameters_restored" => "transport:parameters_restored",
        "packet_sent" => "transport:packet_sent",
        "packet_received" => "transport:packet_received",
        "packet_dropped" => "transport:packet_dropped",
        "packet_buffered" => "transport:packet_buffered",
        "packets_acked" => "transport:packets_acked",
        "udp_datagrams_sent" | "datagrams_sent" => "transport:datagrams_sent",
        "udp_datagrams_received" | "datagrams_received" => "transport:datagrams_received",
        "stream_state_updated" => "transport:stream_state_updated",
        "stream_data_moved" | "data_moved" => "transport:data_moved",
        "key_updated" => "security:key_updated",
        "key_discarded" | "key_retired" => "security:key_discarded",
        "recovery_parameters_set" => "recovery:parameters_set",
        "recovery_metrics_updated" | "metrics_updated" => "recovery:metrics_updated",
        "congestion_state_updated" => "recovery:congestion_state_updated",
        "timer_updated" | "loss_timer_updated" => "recovery:loss_timer_updated",
        "packet_lost" => "recovery:packet_lost",
        "marked_for_retransmit" => "recovery:marked_for_retransmit",
        _ => return None,
    })
}
