/// What one endpoint accepts and how it behaves. The defaults suit a server facing the internet.
#[derive(Clone, Debug)]
pub struct Config {
    /// The largest field section that is accepted, in bytes, counted as in RFC 9114 §4.2.2: name, value and 32 for every
    /// field. Sent as SETTINGS_MAX_FIELD_SECTION_SIZE and enforced while decoding. Also the largest HEADERS frame: no
    /// encoding is longer than its contents, counted like this, plus the prefix.
    pub max_field_section_size: u64,
    /// How many bytes of incomplete HEADERS frames are buffered for the whole connection. If a peer needs more, the
    /// connection is closed with H3_EXCESSIVE_LOAD.
    pub max_buffered_field_sections: usize,
    /// How many requests a peer may spoil (reset, stop, or send malformed) beyond those made good
    /// by completed ones, each of which pays for four. More is H3_EXCESSIVE_LOAD. Only servers
    /// count.
    pub max_cancelled_requests: u32,
    /// How many interim (1xx) responses one request may have. More is a stream error.
    pub max_informational_responses: u32,
    /// Send reserved settings, frames and streams, so that peers stay able to ignore unknown ones (RFC 9114 §7.2.8).
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
