/// The limits and the behaviour of one endpoint. The defaults suit a server facing the internet.
#[derive(Clone, Debug)]
pub struct Config {
    /// The largest field section accepted, in bytes, counted as RFC 9114 §4.2.2 does: the name, the
    /// value and 32 for every field. Advertised as SETTINGS_MAX_FIELD_SECTION_SIZE and enforced
    /// while decoding. It also limits the HEADERS frame: an encoded field section is never longer
    /// than this size plus the prefix.
    pub max_field_section_size: u64,
    /// How many bytes of incomplete HEADERS frames are buffered for the whole connection. If a peer
    /// needs more, the connection is closed with H3_EXCESSIVE_LOAD.
    pub max_buffered_field_sections: usize,
    /// How many requests a peer may waste (reset them, stop their responses, or send them malformed)
    /// before the connection is closed with H3_EXCESSIVE_LOAD. Each completed request makes up for
    /// four wasted ones. Applies to servers only.
    pub max_cancelled_requests: u32,
    /// How many interim (1xx) responses one request may have. Receiving more is a stream error.
    pub max_informational_responses: u32,
    /// The largest dynamic table that a peer's QPACK encoder may use, in bytes: this much memory, and a few times as much
    /// for very short fields. Advertised as SETTINGS_QPACK_MAX_TABLE_CAPACITY (RFC 9204 §5); 0 allows none.
    pub qpack_max_table_capacity: u64,
    /// How many streams may wait for entries of the dynamic table that are still in transit. Advertised as
    /// SETTINGS_QPACK_BLOCKED_STREAMS (RFC 9204 §2.1.2). Their field sections count as incomplete ones do, against
    /// `max_buffered_field_sections`; where that is 0, 0 is advertised.
    pub qpack_blocked_streams: u64,
    /// The largest dynamic table that our own QPACK encoder uses, in bytes, whatever the peer allows; 0 means none.
    pub qpack_encoder_table_capacity: u64,
    /// How many streams our own QPACK encoder lets the peer block, whatever the peer allows. With 0, only entries that the
    /// peer has acknowledged are referred to.
    pub qpack_encoder_blocked_streams: u64,
    /// Let priorities (RFC 9218) decide in which order streams are sent: the more urgent first, then incremental ones in
    /// turns and the others one after another. Without this, all streams take turns.
    pub prioritize: bool,
    /// How many changes of priority are kept for requests that have not arrived yet (RFC 9218 §7).
    pub max_early_priorities: usize,
    /// Accept requests with extended CONNECT (RFC 9220). Advertised as SETTINGS_ENABLE_CONNECT_PROTOCOL. The application
    /// has to answer 501 where it does not know the protocol. Applies to servers only.
    pub extended_connect: bool,
    /// Send and accept HTTP datagrams (RFC 9297). Advertised as SETTINGS_H3_DATAGRAM. The QUIC connection has to accept
    /// DATAGRAM frames, too (`max_datagram_frame_size`).
    pub datagrams: bool,
    /// How many datagrams are kept for requests that have not arrived yet (RFC 9297 §2.1); the oldest are dropped.
    pub max_early_datagrams: usize,
    /// Send reserved settings, frames and streams, so that peers keep ignoring types that they do
    /// not know (RFC 9114 §7.2.8).
    pub grease: bool,
}

impl Config {
    /// The number of streams that may wait for the dynamic table: none if their field sections must not be buffered.
    pub(crate) fn blocked_streams(&self) -> u64 {
        if self.max_buffered_field_sections == 0 { 0 } else { self.qpack_blocked_streams }
    }

    /// The same without a dynamic table in either direction: every field section stands alone (RFC 9204 §2.1.2).
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
