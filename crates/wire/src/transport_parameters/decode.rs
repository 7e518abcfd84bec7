use core::ops::RangeInclusive;

use super::{PreferredAddress, TransportParameters, VersionInformation};
use crate::{ConnectionId, DecodeError, Initiator, Reader, ResetToken, VarInt};

type P = TransportParameters;

pub(super) fn decode(bytes: &[u8], from: Initiator) -> Result<P, DecodeError> {
    let mut parameters = P::default();
    let mut reader = Reader::new(bytes);
    // One bit for each known identifier that has already appeared.
    let mut seen = 0_u64;
    while !reader.is_empty() {
        let id = VarInt::decode(&mut reader, "Transport Parameter ID")?.get();
        let value = reader.length_prefixed("Transport Parameter Value")?;
        if from == Initiator::Client && is_server_only(id) {
            return Err(DecodeError::invalid(name(id), "was sent by a client"));
        }
        if is_known(id) {
            let bit = 1_u64.checked_shl(position(id)).unwrap_or(0);
            if seen & bit != 0 {
                return Err(DecodeError::DuplicateParameter { id });
            }
            seen |= bit;
            let mut value = Reader::new(value);
            decode_value(&mut parameters, id, &mut value, from)?;
            if !value.is_empty() {
                return Err(DecodeError::invalid(name(id), "has trailing bytes"));
            }
        }
    }
    // A server with zero-length connection IDs must not send preferred_address (RFC 9000 §18.2): at
    // a second address, packets for it could not be distinguished from packets for another server.
    let has_no_id = parameters.initial_source_connection_id.is_some_and(|id| id.is_empty());
    if parameters.preferred_address.is_some() && has_no_id {
        let problem = "was sent by a server with a zero-length connection ID";
        return Err(DecodeError::invalid("preferred_address", problem));
    }
    // An endpoint's min_ack_delay, in microseconds, must not exceed its max_ack_delay, in
    // milliseconds (draft-ietf-quic-ack-frequency §3).
    let longest = parameters.max_ack_delay.get().saturating_mul(1000);
    if parameters.min_ack_delay.is_some_and(|least| least.get() > longest) {
        return Err(DecodeError::invalid("min_ack_delay", "exceeds max_ack_delay"));
    }
    Ok(parameters)
}

/// Reads the value of a parameter for which [`is_known`] returns true.
fn decode_value(
    parameters: &mut P,
    id: u64,
    value: &mut Reader<'_>,
    from: Initiator,
) -> Result<(), DecodeError> {
    if let Some((integer, allowed)) = integer(parameters, id) {
        *integer = VarInt::decode(value, name(id))?;
        let out_of_range = DecodeError::invalid(name(id), "is outside the range in RFC 9000 §18.2");
        return if allowed.contains(&integer.get()) { Ok(()) } else { Err(out_of_range) };
    }
    match id {
        P::STATELESS_RESET_TOKEN => {
            parameters.stateless_reset_token = Some(ResetToken::new(value.array(name(id))?));
        }
        P::PREFERRED_ADDRESS => {
            parameters.preferred_address = Some(Box::new(PreferredAddress::decode(value)?));
        }
        P::DISABLE_ACTIVE_MIGRATION => parameters.disable_active_migration = true,
        P::VERSION_INFORMATION => {
            parameters.version_information = Some(VersionInformation::decode(value, from)?);
        }
        P::GREASE_QUIC_BIT => parameters.grease_quic_bit = true,
        P::MIN_ACK_DELAY => parameters.min_ack_delay = Some(VarInt::decode(value, name(id))?),
        P::RESET_STREAM_AT | P::RESET_STREAM_AT_IN_LATEST_DRAFT => {
            parameters.reset_stream_at = true;
        }
        _ => {
            let too_long = DecodeError::invalid(name(id), "is longer than 20 bytes");
            let connection_id = ConnectionId::new(value.take_rest()).map_err(|_| too_long)?;
            let unknown = DecodeError::invalid(name(id), "is unknown");
            *connection_id_field(parameters, id).ok_or(unknown)? = Some(connection_id);
        }
    }
    Ok(())
}

/// Returns the integer parameter `id` and its allowed values (§18.2).
fn integer(parameters: &mut P, id: u64) -> Option<(&mut VarInt, RangeInclusive<u64>)> {
    const MAX: u64 = VarInt::MAX.get();
    const MAX_STREAMS: u64 = 1 << 60;
    Some(match id {
        P::MAX_IDLE_TIMEOUT => (&mut parameters.max_idle_timeout, 0..=MAX),
        P::MAX_UDP_PAYLOAD_SIZE => (&mut parameters.max_udp_payload_size, 1200..=MAX),
        P::INITIAL_MAX_DATA => (&mut parameters.initial_max_data, 0..=MAX),
        P::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL => {
            (&mut parameters.initial_max_stream_data_bidi_local, 0..=MAX)
        }
        P::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE => {
            (&mut parameters.initial_max_stream_data_bidi_remote, 0..=MAX)
        }
        P::INITIAL_MAX_STREAM_DATA_UNI => (&mut parameters.initial_max_stream_data_uni, 0..=MAX),
        P::INITIAL_MAX_STREAMS_BIDI => (&mut parameters.initial_max_streams_bidi, 0..=MAX_STREAMS),
        P::INITIAL_MAX_STREAMS_UNI => (&mut parameters.initial_max_streams_uni, 0..=MAX_STREAMS),
        P::ACK_DELAY_EXPONENT => (&mut parameters.ack_delay_exponent, 0..=20),
        P::MAX_ACK_DELAY => (&mut parameters.max_ack_delay, 0..=(1 << 14) - 1),
        P::ACTIVE_CONNECTION_ID_LIMIT => (&mut parameters.active_connection_id_limit, 2..=MAX),
        P::MAX_DATAGRAM_FRAME_SIZE => (&mut parameters.max_datagram_frame_size, 0..=MAX),
        _ => return None,
    })
}

/// Returns the connection ID parameter `id`.
fn connection_id_field(parameters: &mut P, id: u64) -> Option<&mut Option<ConnectionId>> {
    match id {
        P::ORIGINAL_DESTINATION_CONNECTION_ID => {
            Some(&mut parameters.original_destination_connection_id)
        }
        P::INITIAL_SOURCE_CONNECTION_ID => Some(&mut parameters.initial_source_connection_id),
        P::RETRY_SOURCE_CONNECTION_ID => Some(&mut parameters.retry_source_connection_id),
        _ => None,
    }
}

const fn is_known(id: u64) -> bool {
    id <= P::VERSION_INFORMATION
        || matches!(
            id,
            P::MAX_DATAGRAM_FRAME_SIZE
                | P::GREASE_QUIC_BIT
                | P::MIN_ACK_DELAY
                | P::RESET_STREAM_AT
                | P::RESET_STREAM_AT_IN_LATEST_DRAFT
        )
}

/// Returns a number below 64 for each parameter for which [`is_known`] returns true: the identifier
/// itself if it is below 64.
const fn position(id: u64) -> u32 {
    match id {
        P::GREASE_QUIC_BIT => 63,
        P::MIN_ACK_DELAY => 62,
        P::RESET_STREAM_AT => 61,
        id => id as u32,
    }
}

const fn is_server_only(id: u64) -> bool {
    matches!(
        id,
        P::ORIGINAL_DESTINATION_CONNECTION_ID
            | P::STATELESS_RESET_TOKEN
            | P::PREFERRED_ADDRESS
            | P::RETRY_SOURCE_CONNECTION_ID
    )
}

/// Returns the RFC's name of a parameter.
const fn name(id: u64) -> &'static str {
    match id {
        P::ORIGINAL_DESTINATION_CONNECTION_ID => "original_destination_connection_id",
        P::MAX_IDLE_TIMEOUT => "max_idle_timeout",
        P::STATELESS_RESET_TOKEN => "stateless_reset_token",
        P::MAX_UDP_PAYLOAD_SIZE => "max_udp_payload_size",
        P::INITIAL_MAX_DATA => "initial_max_data",
        P::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL => "initial_max_stream_data_bidi_local",
        P::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE => "initial_max_stream_data_bidi_remote",
        P::INITIAL_MAX_STREAM_DATA_UNI => "initial_max_stream_data_uni",
        P::INITIAL_MAX_STREAMS_BIDI => "initial_max_streams_bidi",
        P::INITIAL_MAX_STREAMS_UNI => "initial_max_streams_uni",
        P::ACK_DELAY_EXPONENT => "ack_delay_exponent",
        P::MAX_ACK_DELAY => "max_ack_delay",
        P::DISABLE_ACTIVE_MIGRATION => "disable_active_migration",
        P::PREFERRED_ADDRESS => "preferred_address",
        P::ACTIVE_CONNECTION_ID_LIMIT => "active_connection_id_limit",
        P::INITIAL_SOURCE_CONNECTION_ID => "initial_source_connection_id",
        P::RETRY_SOURCE_CONNECTION_ID => "retry_source_connection_id",
        P::VERSION_INFORMATION => "version_information",
        P::MAX_DATAGRAM_FRAME_SIZE => "max_datagram_frame_size",
        P::GREASE_QUIC_BIT => "grease_quic_bit",
        P::MIN_ACK_DELAY => "min_ack_delay",
        P::RESET_STREAM_AT | P::RESET_STREAM_AT_IN_LATEST_DRAFT => "reset_stream_at",
        _ => "unknown transport parameter",
    }
}
