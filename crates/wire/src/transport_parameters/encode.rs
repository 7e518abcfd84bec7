use super::{PreferredAddress, TransportParameters};
use crate::{ConnectionId, VarInt, Writer};

type P = TransportParameters;

pub(super) fn encode(parameters: &P, output: &mut Vec<u8>, grease: Option<(VarInt, &[u8])>) {
    encode_connection_ids(parameters, output);
    encode_integers(parameters, output);
    if let Some(token) = parameters.stateless_reset_token {
        append(output, P::STATELESS_RESET_TOKEN, token.as_bytes());
    }
    if parameters.disable_active_migration {
        append(output, P::DISABLE_ACTIVE_MIGRATION, &[]);
    }
    if let Some(address) = &parameters.preferred_address {
        let mut space = [0; PreferredAddress::MAX_ENCODED_LEN];
        let mut writer = Writer::new(&mut space);
        if address.encode(&mut writer).is_ok() {
            append(output, P::PREFERRED_ADDRESS, writer.filled());
        }
    }
    if let Some(information) = &parameters.version_information {
        append(output, P::VERSION_INFORMATION, &information.encoded());
    }
    if parameters.grease_quic_bit {
        append(output, P::GREASE_QUIC_BIT, &[]);
    }
    if let Some(least) = parameters.min_ack_delay {
        append_varint(output, P::MIN_ACK_DELAY, least);
    }
    if parameters.reset_stream_at {
        append(output, P::RESET_STREAM_AT, &[]);
        append(output, P::RESET_STREAM_AT_IN_LATEST_DRAFT, &[]);
    }
    if let Some((id, value)) = grease {
        append(output, id.get(), value);
    }
}

fn encode_connection_ids(parameters: &P, output: &mut Vec<u8>) {
    let ids: [(u64, Option<ConnectionId>); 3] = [
        (P::ORIGINAL_DESTINATION_CONNECTION_ID, parameters.original_destination_connection_id),
        (P::INITIAL_SOURCE_CONNECTION_ID, parameters.initial_source_connection_id),
        (P::RETRY_SOURCE_CONNECTION_ID, parameters.retry_source_connection_id),
    ];
    for (id, value) in ids {
        if let Some(value) = value {
            append(output, id, value.as_bytes());
        }
    }
}

fn encode_integers(parameters: &P, output: &mut Vec<u8>) {
    let default = P::default();
    type Get = fn(&P) -> VarInt;
    let integers: [(u64, Get); 12] = [
        (P::MAX_IDLE_TIMEOUT, |p| p.max_idle_timeout),
        (P::MAX_UDP_PAYLOAD_SIZE, |p| p.max_udp_payload_size),
        (P::INITIAL_MAX_DATA, |p| p.initial_max_data),
        (P::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL, |p| p.initial_max_stream_data_bidi_local),
        (P::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE, |p| p.initial_max_stream_data_bidi_remote),
        (P::INITIAL_MAX_STREAM_DATA_UNI, |p| p.initial_max_stream_data_uni),
        (P::INITIAL_MAX_STREAMS_BIDI, |p| p.initial_max_streams_bidi),
        (P::INITIAL_MAX_STREAMS_UNI, |p| p.initial_max_streams_uni),
        (P::ACK_DELAY_EXPONENT, |p| p.ack_delay_exponent),
        (P::MAX_ACK_DELAY, |p| p.max_ack_delay),
        (P::ACTIVE_CONNECTION_ID_LIMIT, |p| p.active_connection_id_limit),
        (P::MAX_DATAGRAM_FRAME_SIZE, |p| p.max_datagram_frame_size),
    ];
    for (id, get) in integers {
        let value = get(parameters);
        if value != get(&default) {
            append_varint(output, id, value);
        }
    }
}

fn append_varint(output: &mut Vec<u8>, id: u64, value: VarInt) {
    push_varint(output, VarInt::saturating(id));
    push_varint(output, VarInt::saturating(value.encoded_len() as u64));
    push_varint(output, value);
}

fn append(output: &mut Vec<u8>, id: u64, value: &[u8]) {
    push_varint(output, VarInt::saturating(id));
    push_varint(output, VarInt::saturating(value.len() as u64));
    output.extend_from_slice(value);
}

fn push_varint(output: &mut Vec<u8>, value: VarInt) {
    let mut space = [0; 8];
    let mut writer = Writer::new(&mut space);
    // Eight bytes hold any integer.
    if value.encode(&mut writer).is_ok() {
        output.extend_from_slice(writer.filled());
    }
}
