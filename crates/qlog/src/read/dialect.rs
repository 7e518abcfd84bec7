//! The event names of the drafts from 0.3 on.

/// Maps the various names that the drafts use for an event to a single name. The namespace does not
/// matter: except for those of HTTP, no two namespaces use the same name for different events.
pub(super) fn event_name(name: &str) -> EventName {
    let (namespace, event) = name.split_once(':').unwrap_or(("", name));
    match namespace {
        "http" | "h3" | "http3" | "qpack" | "loglevel" | "simulation" | "generic" => {
            EventName::Other
        }
        _ if event.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            EventName::of(&event.to_ascii_lowercase())
        }
        _ => EventName::of(event),
    }
}

/// The events that are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EventName {
    PacketSent,
    PacketReceived,
    PacketLost,
    PacketDropped,
    Metrics,
    CongestionState,
    Blocked { of_stream: bool },
    Timer,
    Parameters,
    RecoveryParameters,
    ConnectionState,
    Closed,
    Mtu,
    Path,
    Ecn,
    Suppressors,
    CongestionEvents,
    Controller,
    SpuriousLoss,
    StreamDataMoved,
    KeyUpdated,
    Other,
}

impl EventName {
    fn of(name: &str) -> Self {
        match name {
            "packet_sent" => Self::PacketSent,
            "packet_received" => Self::PacketReceived,
            "packet_lost" => Self::PacketLost,
            "packet_dropped" => Self::PacketDropped,
            "recovery_metrics_updated" | "metrics_updated" => Self::Metrics,
            "congestion_state_updated" => Self::CongestionState,
            "connection_data_blocked_updated" => Self::Blocked { of_stream: false },
            "stream_data_blocked_updated" => Self::Blocked { of_stream: true },
            "timer_updated" | "loss_timer_updated" => Self::Timer,
            "parameters_set" => Self::Parameters,
            "recovery_parameters_set" => Self::RecoveryParameters,
            "connection_state_updated" => Self::ConnectionState,
            "connection_closed" => Self::Closed,
            "key_updated" => Self::KeyUpdated,
            "mtu_updated" => Self::Mtu,
            "migration_state_updated" => Self::Path,
            "ecn_state_updated" => Self::Ecn,
            "suppressors_updated" => Self::Suppressors,
            "congestion_events_updated" => Self::CongestionEvents,
            "controller_updated" => Self::Controller,
            "spurious_loss" => Self::SpuriousLoss,
            "stream_data_moved" | "data_moved" => Self::StreamDataMoved,
            _ => Self::Other,
        }
    }
}
