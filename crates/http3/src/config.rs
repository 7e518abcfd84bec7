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
    /// Send reserved settings, frames and streams, so that peers keep ignoring types that they do
    /// not know (RFC 9114 §7.2.8).
    pub grease: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_field_section_size: 64 * 1024,
            max_buffered_field_sections: 1024 * 1024,
            max_cancelled_requests: 1000,
            max_informational_responses: 16,
            grease: true,
        }
    }
}
