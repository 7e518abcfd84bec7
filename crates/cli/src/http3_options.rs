//! HTTP/3 options shared by `serve` and `get`.

use clap::Args;
use clearway::TransportConfigBuilder;
use clearway::http3::{Config, Priority};
use clearway_network::parse_size;

/// Maximum size of an accepted DATAGRAM frame if datagrams are enabled: RFC 9221 §3 recommends the
/// largest value.
const MAX_DATAGRAM_FRAME: u64 = 65_535;

/// Options of every HTTP/3 connection.
#[derive(Args, Debug)]
pub(crate) struct Http3Options {
    /// Maximum QPACK dynamic table size in each direction; 0 disables dynamic tables.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_table)]
    qpack_table: u64,
    /// Maximum number of streams blocked on QPACK dynamic table entries, per direction.
    #[arg(long, value_name = "COUNT", default_value = "16", value_parser = clap::value_parser!(u16))]
    qpack_blocked_streams: u16,
}

/// Maximum configurable table size, so that a typo does not commit all memory of the machine.
const LARGEST_TABLE: u64 = 16 << 20;

fn parse_table(input: &str) -> Result<u64, String> {
    match parse_size(input).map_err(|error| error.to_string())? {
        size if size > LARGEST_TABLE => Err("must be at most 16MiB".to_owned()),
        size => Ok(size),
    }
}

impl Http3Options {
    /// Returns the HTTP/3 settings selected by the options; the caller may add more settings.
    pub(crate) fn config(&self) -> Config {
        let defaults = Config::default();
        if self.qpack_table == 0 {
            return defaults.without_dynamic_table();
        }
        let blocked = u64::from(self.qpack_blocked_streams);
        Config {
            qpack_max_table_capacity: self.qpack_table,
            qpack_encoder_table_capacity: self.qpack_table,
            qpack_blocked_streams: blocked,
            qpack_encoder_blocked_streams: blocked,
            ..defaults
        }
    }
}

/// Adds the transport settings that HTTP datagrams need.
pub(crate) fn with_datagrams(transport: TransportConfigBuilder) -> TransportConfigBuilder {
    transport.max_datagram_frame_size(Some(MAX_DATAGRAM_FRAME))
}

/// Parses a priority, `u=1,i`. Unlike the Priority field of a message (RFC 9218 §4), it must not
/// contain unknown parameters.
pub(crate) fn parse_priority(input: &str) -> Result<Priority, String> {
    let expected = || "expected u=0 to u=7, i, or both separated by a comma".to_owned();
    let mut priority = Priority::default();
    for part in input.split(',') {
        match part.trim() {
            "i" | "i=?1" => priority.is_incremental = true,
            "i=?0" => priority.is_incremental = false,
            part => {
                let urgency = part.strip_prefix("u=").and_then(|number| number.parse().ok());
                let urgency = urgency.filter(|urgency| *urgency <= 7).ok_or_else(expected)?;
                priority.urgency = urgency;
            }
        }
    }
    Ok(priority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_state_only_what_exists() {
        for (input, urgency, is_incremental) in
            [("u=1,i", 1, true), ("u=0", 0, false), ("i", 3, true), ("u=7, i=?0", 7, false)]
        {
            assert_eq!(parse_priority(input), Ok(Priority::new(urgency, is_incremental)));
        }
        for input in ["", "u=8", "u=-1", "u=", "urgent", "u=1,,i", "i=2"] {
            assert!(parse_priority(input).is_err(), "{input}");
        }
    }

    #[test]
    fn tables_have_a_limit() {
        assert_eq!(parse_table("64KiB"), Ok(65_536));
        assert!(parse_table("17MiB").is_err());
    }
}
