use core::net::IpAddr;

use clearway_transport::Side;
use clearway_wire::{PreferredAddress, TransportParameters, VarInt};

use super::json::Object;
use super::names;

/// Writes the data of `parameters_set` (quic-events §5.3).
///
/// The stateless reset token is left out: anyone who can read a log must not be able to end its
/// connection. The draft does not allow leaving out the token of a preferred address.
pub(super) fn write(
    json: &mut Object<'_>,
    owner: Side,
    side: Side,
    parameters: &TransportParameters,
) {
    json.text("initiator", names::initiator(owner, side));
    let connection_ids = [
        ("original_destination_connection_id", parameters.original_destination_connection_id),
        ("initial_source_connection_id", parameters.initial_source_connection_id),
        ("retry_source_connection_id", parameters.retry_source_connection_id),
    ];
    for (name, connection_id) in connection_ids {
        if let Some(connection_id) = connection_id {
            json.hex(name, connection_id.as_bytes());
        }
    }
    json.boolean("disable_active_migration", parameters.disable_active_migration);
    for (name, value) in numbers(parameters) {
        json.number(name, value);
    }
    if let Some(delay) = parameters.min_ack_delay {
        json.number("min_ack_delay", delay);
    }
    if parameters.reset_stream_at {
        json.boolean("reset_stream_at", true);
    }
    if parameters.grease_quic_bit {
        json.boolean("grease_quic_bit", true);
    }
    if let Some(address) = &parameters.preferred_address {
        json.object("preferred_address", |json| preferred_address(json, address));
    }
}

/// Writes the data of `parameters_restored` (quic-events §5.4): the server's parameters that a
/// client remembers for 0-RTT packets (RFC 9000 §7.4.1). The `grease_quic_bit` parameter (RFC 9287)
/// is not remembered.
pub(super) fn write_restored(json: &mut Object<'_>, parameters: &TransportParameters) {
    json.boolean("disable_active_migration", parameters.disable_active_migration);
    let is_new = |name| matches!(name, "ack_delay_exponent" | "max_ack_delay");
    for (name, value) in numbers(parameters).into_iter().filter(|(name, _)| !is_new(*name)) {
        json.number(name, value);
    }
}

/// Returns the parameters that are numbers and have a default.
fn numbers(parameters: &TransportParameters) -> [(&'static str, VarInt); 12] {
    [
        ("max_idle_timeout", parameters.max_idle_timeout),
        ("max_udp_payload_size", parameters.max_udp_payload_size),
        ("ack_delay_exponent", parameters.ack_delay_exponent),
        ("max_ack_delay", parameters.max_ack_delay),
        ("active_connection_id_limit", parameters.active_connection_id_limit),
        ("initial_max_data", parameters.initial_max_data),
        ("initial_max_stream_data_bidi_local", parameters.initial_max_stream_data_bidi_local),
        ("initial_max_stream_data_bidi_remote", parameters.initial_max_stream_data_bidi_remote),
        ("initial_max_stream_data_uni", parameters.initial_max_stream_data_uni),
        ("initial_max_streams_bidi", parameters.initial_max_streams_bidi),
        ("initial_max_streams_uni", parameters.initial_max_streams_uni),
        ("max_datagram_frame_size", parameters.max_datagram_frame_size),
    ]
}

fn preferred_address(json: &mut Object<'_>, address: &PreferredAddress) {
    if let Some(ipv4) = address.ipv4 {
        super::path::address(json, IpAddr::V4(*ipv4.ip()), ipv4.port());
    }
    if let Some(ipv6) = address.ipv6 {
        super::path::address(json, IpAddr::V6(*ipv6.ip()), ipv6.port());
    }
    json.hex("connection_id", address.connection_id.as_bytes());
    json.hex("stateless_reset_token", address.stateless_reset_token.as_bytes());
}
