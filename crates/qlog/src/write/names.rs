//! The drafts' names for the values of Clearway's types.

use clearway_congestion::Suppressor;
use clearway_transport::{
    ConnectionState, DropReason, EcnCodepoint, LossTrigger, SendLimit, Side, SpaceId, TimerKind,
};
use clearway_wire::{Direction, PacketType, TransportErrorCode};

pub(super) const fn side(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

/// Returns `owner` as seen from `side`: local or remote (quic-events §8.3).
pub(super) fn initiator(owner: Side, side: Side) -> &'static str {
    if owner == side { "local" } else { "remote" }
}

/// Returns the name of a packet type (quic-events §8.6).
pub(super) const fn packet_type(packet_type: PacketType) -> &'static str {
    match packet_type {
        PacketType::Initial => "initial",
        PacketType::ZeroRtt => "0RTT",
        PacketType::Handshake => "handshake",
        PacketType::OneRtt => "1RTT",
    }
}

/// Returns the name of an ECN mark (quic-events §8.12); `None` if there is none.
pub(super) const fn ecn(mark: EcnCodepoint) -> Option<&'static str> {
    match mark {
        EcnCodepoint::NotEct => None,
        EcnCodepoint::Ect1 => Some("ECT(1)"),
        EcnCodepoint::Ect0 => Some("ECT(0)"),
        EcnCodepoint::Ce => Some("CE"),
    }
}

/// Returns the type of a packet that was sent in a packet number space, either with 0-RTT keys or
/// with other keys.
pub(super) const fn packet_type_of(space: SpaceId, is_early: bool) -> &'static str {
    packet_type(match space {
        SpaceId::Initial => PacketType::Initial,
        SpaceId::Handshake => PacketType::Handshake,
        SpaceId::Application if is_early => PacketType::ZeroRtt,
        SpaceId::Application => PacketType::OneRtt,
    })
}

/// Returns the key types of a packet number space: the client's and the server's (quic-events
/// §8.11).
pub(super) const fn key_types(space: SpaceId) -> [&'static str; 2] {
    match space {
        SpaceId::Initial => ["client_initial_secret", "server_initial_secret"],
        SpaceId::Handshake => ["client_handshake_secret", "server_handshake_secret"],
        SpaceId::Application => ["client_1rtt_secret", "server_1rtt_secret"],
    }
}

/// Returns the name of a connection state (quic-events §4.6).
pub(super) const fn connection_state(state: ConnectionState) -> &'static str {
    match state {
        ConnectionState::HandshakeStarted => "handshake_started",
        ConnectionState::HandshakeComplete => "handshake_complete",
        ConnectionState::HandshakeConfirmed => "handshake_confirmed",
        ConnectionState::Closing => "closing",
        ConnectionState::Draining => "draining",
        ConnectionState::Closed => "closed",
    }
}

/// Returns the trigger of `packet_dropped` (quic-events §5.7).
pub(super) const fn drop_trigger(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Invalid => "invalid",
        DropReason::UnsupportedVersion => "unsupported",
        DropReason::ConnectionUnknown => "connection_unknown",
        DropReason::KeyUnavailable => "key_unavailable",
        DropReason::DecryptionFailure => "decryption_failure",
        DropReason::Duplicate => "duplicate",
        DropReason::Unexpected | DropReason::Retry | DropReason::VersionNegotiation => "general",
    }
}

/// Returns the trigger of `packet_lost` (quic-events §7.4). There is no trigger for a packet that
/// was not sent.
pub(super) const fn loss_trigger(trigger: LossTrigger) -> Option<&'static str> {
    match trigger {
        LossTrigger::ReorderingThreshold => Some("reordering_threshold"),
        LossTrigger::TimeThreshold => Some("time_threshold"),
        LossTrigger::Refused => None,
    }
}

/// Returns the reason that data cannot be sent (quic-events §5.17). `None` if it can.
pub(super) const fn blocked_reason(limit: SendLimit) -> Option<&'static str> {
    Some(match limit {
        SendLimit::Application => "application",
        SendLimit::Window => "congestion_control",
        SendLimit::Pacer(_) => "pacing",
        SendLimit::Amplification => "amplification_protection",
        SendLimit::FlowControl => "connection_flow_control",
        SendLimit::Keys => "keys",
        SendLimit::Path => "path_validation",
        SendLimit::Batch => return None,
    })
}

/// Returns the name of a timer (quic-events §5.21). The draft's `ack` is the timer of RFC 9002
/// §6.1.2, which is set when an ACK is received, not the timer for sending an ACK. `None` for
/// timers that the draft does not define.
pub(super) const fn timer(timer: TimerKind) -> Option<&'static str> {
    Some(match timer {
        TimerKind::Loss => "ack",
        TimerKind::ProbeTimeout => "pto",
        TimerKind::Ack => "delayed_ack",
        TimerKind::Pacing => "pacing",
        TimerKind::Idle => "idle_timeout",
        TimerKind::Handshake => "handshake_timeout",
        TimerKind::PathValidation => "path_validation",
        _ => return None,
    })
}

pub(super) const fn suppressor(suppressor: Suppressor) -> &'static str {
    match suppressor {
        Suppressor::Recovery => "recovery",
        Suppressor::NotLimited => "not_limited",
        Suppressor::ConservativeSlowStart => "conservative_slow_start",
        Suppressor::MaximumWindow => "maximum_window",
        Suppressor::Draining => "draining",
        Suppressor::Cruising => "cruising",
        Suppressor::ProbeRtt => "probe_rtt",
        Suppressor::ShortTermBound => "short_term_bound",
        Suppressor::LongTermBound => "long_term_bound",
    }
}

pub(super) const fn stream_type(direction: Direction) -> &'static str {
    match direction {
        Direction::Bidirectional => "bidirectional",
        Direction::Unidirectional => "unidirectional",
    }
}

/// Returns the name of a transport error (quic-events §8.13.24 and §8.13.26): the RFC's name in
/// lower case. `None` for an unknown code.
pub(super) fn transport_error(code: TransportErrorCode) -> Option<String> {
    if code.alert().is_some() {
        Some(format!("crypto_error_{:#x}", code.0.get()))
    } else if code <= TransportErrorCode::NO_VIABLE_PATH {
        Some(code.to_string().to_ascii_lowercase())
    } else {
        None
    }
}
