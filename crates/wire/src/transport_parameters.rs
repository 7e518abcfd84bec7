use crate::{ConnectionId, DecodeError, Initiator, ResetToken, VarInt};

mod decode;
mod encode;
mod preferred_address;
mod version_information;

pub use preferred_address::PreferredAddress;
pub use version_information::VersionInformation;

/// Transport parameters (RFC 9000 §18.2, RFC 9221 §3, RFC 9287 §3, RFC 9368 §3,
/// draft-ietf-quic-ack-frequency §3 and draft-ietf-quic-reliable-stream-reset §3), named as in
/// these documents.
///
/// A field has its default value if the parameter is absent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransportParameters {
    /// The destination connection ID of the client's first Initial packet. Sent only by a server.
    pub original_destination_connection_id: Option<ConnectionId>,
    /// The idle timeout in milliseconds; 0 for none.
    pub max_idle_timeout: VarInt,
    /// The stateless reset token for the server's connection ID in the handshake. Sent only by a
    /// server.
    pub stateless_reset_token: Option<ResetToken>,
    /// The largest UDP payload in bytes that the parameter's sender is willing to receive; at least
    /// 1200.
    pub max_udp_payload_size: VarInt,
    /// The number of bytes that the parameter's receiver may send on the connection.
    pub initial_max_data: VarInt,
    /// The number of bytes that may be sent on a bidirectional stream opened by the parameter's
    /// sender.
    pub initial_max_stream_data_bidi_local: VarInt,
    /// The number of bytes that may be sent on a bidirectional stream opened by the parameter's
    /// receiver.
    pub initial_max_stream_data_bidi_remote: VarInt,
    /// The number of bytes that may be sent on a unidirectional stream opened by the parameter's
    /// receiver.
    pub initial_max_stream_data_uni: VarInt,
    /// The number of bidirectional streams that the parameter's receiver may open; at most 2^60.
    pub initial_max_streams_bidi: VarInt,
    /// The number of unidirectional streams that the parameter's receiver may open; at most 2^60.
    pub initial_max_streams_uni: VarInt,
    /// The exponent of the ACK Delay field, whose unit is 2^exponent microseconds; at most 20.
    pub ack_delay_exponent: VarInt,
    /// The maximum delay of an acknowledgment, in milliseconds; below 2^14.
    pub max_ack_delay: VarInt,
    /// Whether the peer must not migrate while it uses the address that the sender had in the
    /// handshake.
    pub disable_active_migration: bool,
    /// The address that the server prefers after the handshake. Sent only by a server.
    pub preferred_address: Option<Box<PreferredAddress>>,
    /// The number of connection IDs that the parameter's sender is willing to store; at least 2.
    pub active_connection_id_limit: VarInt,
    /// The source connection ID of the first Initial packet from the parameter's sender. Every
    /// endpoint sends this parameter, and the receiver must verify it (§7.3).
    pub initial_source_connection_id: Option<ConnectionId>,
    /// The source connection ID of the Retry packet, if there was one. Sent only by a server.
    pub retry_source_connection_id: Option<ConnectionId>,
    /// The largest DATAGRAM frame in bytes, including type and length, that the parameter's sender
    /// is willing to receive; 0 for none (RFC 9221 §3).
    pub max_datagram_frame_size: VarInt,
    /// The sender's chosen and available versions (RFC 9368 §3).
    pub version_information: Option<VersionInformation>,
    /// Whether the parameter's sender accepts packets with a cleared fixed bit (RFC 9287 §3).
    pub grease_quic_bit: bool,
    /// The minimum ACK delay in microseconds that can be requested from the parameter's sender; at
    /// most its `max_ack_delay`. `None` if the sender does not support ACK_FREQUENCY and
    /// IMMEDIATE_ACK frames (draft-ietf-quic-ack-frequency §3).
    pub min_ack_delay: Option<VarInt>,
    /// Whether the parameter's sender accepts RESET_STREAM_AT frames
    /// (draft-ietf-quic-reliable-stream-reset §3).
    pub reset_stream_at: bool,
}

impl TransportParameters {
    const ORIGINAL_DESTINATION_CONNECTION_ID: u64 = 0x00;
    const MAX_IDLE_TIMEOUT: u64 = 0x01;
    const STATELESS_RESET_TOKEN: u64 = 0x02;
    const MAX_UDP_PAYLOAD_SIZE: u64 = 0x03;
    const INITIAL_MAX_DATA: u64 = 0x04;
    const INITIAL_MAX_STREAM_DATA_BIDI_LOCAL: u64 = 0x05;
    const INITIAL_MAX_STREAM_DATA_BIDI_REMOTE: u64 = 0x06;
    const INITIAL_MAX_STREAM_DATA_UNI: u64 = 0x07;
    const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
    const INITIAL_MAX_STREAMS_UNI: u64 = 0x09;
    const ACK_DELAY_EXPONENT: u64 = 0x0a;
    const MAX_ACK_DELAY: u64 = 0x0b;
    const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;
    const PREFERRED_ADDRESS: u64 = 0x0d;
    const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;
    const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;
    const RETRY_SOURCE_CONNECTION_ID: u64 = 0x10;
    const VERSION_INFORMATION: u64 = 0x11;
    const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
    const GREASE_QUIC_BIT: u64 = 0x2ab2;
    const MIN_ACK_DELAY: u64 = 0xff04_de1b;
    /// The deployed identifier of `reset_stream_at`. The latest draft uses another identifier,
    /// which it says will change.
    const RESET_STREAM_AT: u64 = 0x17_f758_6d2c_b571;
    const RESET_STREAM_AT_IN_LATEST_DRAFT: u64 = 0x1d;

    /// Decodes the transport parameters that `from` sent. Unknown parameters are ignored (§7.4.2).
    ///
    /// # Errors
    /// Each error is a connection error of type TRANSPORT_PARAMETER_ERROR: a value that the RFC
    /// forbids, a parameter that only a server may send, a length that does not match, or a known
    /// parameter that appears twice.
    pub fn decode(bytes: &[u8], from: Initiator) -> Result<Self, DecodeError> {
        decode::decode(bytes, from)
    }

    /// Appends the encoded parameters to `output`, omitting parameters with default values.
    /// `grease` is an additional parameter with a reserved identifier (§18.1).
    pub fn encode(&self, output: &mut Vec<u8>, grease: Option<(VarInt, &[u8])>) {
        encode::encode(self, output, grease);
    }
}

impl Default for TransportParameters {
    fn default() -> Self {
        Self {
            original_destination_connection_id: None,
            max_idle_timeout: VarInt::ZERO,
            stateless_reset_token: None,
            max_udp_payload_size: VarInt::from_u32(65527),
            initial_max_data: VarInt::ZERO,
            initial_max_stream_data_bidi_local: VarInt::ZERO,
            initial_max_stream_data_bidi_remote: VarInt::ZERO,
            initial_max_stream_data_uni: VarInt::ZERO,
            initial_max_streams_bidi: VarInt::ZERO,
            initial_max_streams_uni: VarInt::ZERO,
            ack_delay_exponent: VarInt::from_u32(3),
            max_ack_delay: VarInt::from_u32(25),
            disable_active_migration: false,
            preferred_address: None,
            active_connection_id_limit: VarInt::from_u32(2),
            initial_source_connection_id: None,
            retry_source_connection_id: None,
            max_datagram_frame_size: VarInt::ZERO,
            version_information: None,
            grease_quic_bit: false,
            min_ack_delay: None,
            reset_stream_at: false,
        }
    }
}

#[cfg(test)]
#[path = "transport_parameters_tests.rs"]
mod tests;
