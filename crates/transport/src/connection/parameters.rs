//! This endpoint's transport parameters.

use core::time::Duration;

use clearway_wire::{ConnectionId, TransportParameters, VarInt, Version, VersionInformation};

use crate::config::TransportConfig;

/// The maximum number of the peer's connection IDs that are stored; [`local_parameters`] advertises
/// it as the limit.
pub(super) const LOCAL_ACTIVE_CONNECTION_ID_LIMIT: u64 = 4;

/// Returns an endpoint's transport parameters (RFC 9000 §18.2), with the chosen version `chosen`.
pub(crate) fn local_parameters(
    config: &TransportConfig,
    local_id: ConnectionId,
    chosen: Version,
) -> TransportParameters {
    let information = || VersionInformation { chosen, available: config.versions().to_vec() };
    let streams = |count: u64| VarInt::saturating(count.min(1 << 60));
    let window = VarInt::saturating(config.initial_stream_receive_window);
    TransportParameters {
        max_idle_timeout: config.idle_timeout_parameter(),
        initial_max_data: VarInt::saturating(config.initial_connection_receive_window),
        initial_max_stream_data_bidi_local: window,
        initial_max_stream_data_bidi_remote: window,
        initial_max_stream_data_uni: window,
        initial_max_streams_bidi: streams(config.max_concurrent_bidirectional_streams),
        initial_max_streams_uni: streams(config.max_concurrent_unidirectional_streams),
        max_ack_delay: config.max_ack_delay_parameter(),
        disable_active_migration: !config.allow_active_migration,
        active_connection_id_limit: VarInt::saturating(LOCAL_ACTIVE_CONNECTION_ID_LIMIT),
        initial_source_connection_id: Some(local_id),
        max_datagram_frame_size: VarInt::saturating(config.max_datagram_frame_size.unwrap_or(0)),
        version_information: config.version_information.then(information),
        grease_quic_bit: config.grease_quic_bit,
        min_ack_delay: config.least_ack_delay().map(microseconds),
        reset_stream_at: config.reset_stream_at,
        ..TransportParameters::default()
    }
}

fn microseconds(duration: Duration) -> VarInt {
    VarInt::saturating(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}
