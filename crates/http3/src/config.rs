/// The limits and behavior of one endpoint. The defaults suit an Internet-facing server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The maximum accepted size of a field section in bytes, counted as in RFC 9114 §4.2.2: each
    /// field counts its name, its value and 32 bytes.
    ///
    /// Advertised as SETTINGS_MAX_FIELD_SECTION_SIZE and enforced while decoding. It also limits
    /// the HEADERS frame: an encoded field section is never longer than this size plus the prefix.
    pub max_field_section_size: u64,
    /// Maximum number of bytes of incomplete HEADERS frames to buffer per connection. If this is
    /// exceeded, the connection is closed with H3_EXCESSIVE_LOAD.
    pub max_buffered_field_sections: usize,
    /// Number of requests that a peer may waste before the connection is closed with
    /// H3_EXCESSIVE_LOAD.
    ///
    /// A peer wastes a request by resetting it, stopping its response, or sending it malformed.
    /// Each completed request offsets four wasted ones. Applies to servers only.
    pub max_cancelled_requests: u32,
    /// Maximum number of interim (1xx) responses to one request. Receiving more is a stream error.
    pub max_informational_responses: u32,
    /// The largest dynamic table that a peer's QPACK encoder may use, in bytes; 0 allows none.
    ///
    /// The table uses this much memory, or a few times as much if fields are very short. Advertised
    /// as SETTINGS_QPACK_MAX_TABLE_CAPACITY (RFC 9204 §5).
    pub qpack_max_table_capacity: u64,
    /// Maximum number of streams that may wait for dynamic table entries in transit.
    ///
    /// Advertised as SETTINGS_QPACK_BLOCKED_STREAMS (RFC 9204 §2.1.2). The field sections of
    /// blocked streams count against `max_buffered_field_sections`, like incomplete ones; if that
    /// limit is 0, 0 is advertised.
    pub qpack_blocked_streams: u64,
    /// The largest dynamic table that the local QPACK encoder uses, in bytes, even if the peer
    /// allows more; 0 means none.
    pub qpack_encoder_table_capacity: u64,
    /// Maximum number of streams that the local QPACK encoder lets the peer block, even if the peer
    /// allows more. With 0, only entries that the peer has acknowledged are referenced.
    pub qpack_encoder_blocked_streams: u64,
    /// Whether priorities (RFC 9218) determine the order in which streams are sent.
    ///
    /// More urgent streams are sent first. Among streams of equal urgency, incremental streams are
    /// sent round-robin, and all other streams one after another. If this is `false`, all streams
    /// are sent round-robin.
    pub prioritize: bool,
    /// Maximum number of priority updates to keep for requests that have not arrived yet (RFC 9218
    /// §7).
    pub max_early_priorities: usize,
    /// Whether to accept extended CONNECT requests (RFC 9220). Advertised as
    /// SETTINGS_ENABLE_CONNECT_PROTOCOL. The application must respond with 501 if it does not know
    /// the protocol. Applies to servers only.
    pub extended_connect: bool,
    /// Whether to send and accept HTTP datagrams (RFC 9297). Advertised as SETTINGS_H3_DATAGRAM.
    /// The QUIC connection must accept DATAGRAM frames too (`max_datagram_frame_size`).
    pub datagrams: bool,
    /// Maximum number of datagrams to keep for requests that have not arrived yet (RFC 9297 §2.1);
    /// beyond this limit, the oldest datagrams are dropped.
    pub max_early_datagrams: usize,
    /// Whether to send reserved settings, frames and streams, so that peers keep ignoring unknown
    /// types (RFC 9114 §7.2.8).
    pub grease: bool,
}

impl Config {
    /// Returns the number of streams that may wait for the dynamic table, which is 0 if their field
    /// sections must not be buffered.
    pub(crate) fn blocked_streams(&self) -> u64 {
        if self.max_buffered_field_sections == 0 { 0 } else { self.qpack_blocked_streams }
    }

    /// Returns this configuration without a dynamic table in either direction: every field section
    /// is then self-contained (RFC 9204 §2.1.2).
    pub fn without_dynamic_table(self) -> Self {
        Self {
            qpack_max_table_capacity: 0,
            qpack_blocked_streams: 0,
            qpack_encoder_table_capacity: 0,
            qpack_encoder_blocked_streams: 0,
            ..self
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_field_section_size: 64 * 1024,
            max_buffered_field_sections: 1024 * 1024,
            max_cancelled_requests: 1000,
            max_informational_responses: 16,
            qpack_max_table_capacity: 4096,
            qpack_blocked_streams: 16,
            qpack_encoder_table_capacity: 4096,
            qpack_encoder_blocked_streams: 16,
            prioritize: true,
            max_early_priorities: 128,
            extended_connect: false,
            datagrams: false,
            max_early_datagrams: 32,
            grease: true,
        }
    }
}
