use clearway_wire::{Reader, VarInt};

use crate::frame::{put_frame, put_varint};
use crate::{Code, Config, ConnectionError, Role};

const QPACK_MAX_TABLE_CAPACITY: u64 = 0x01;
const MAX_FIELD_SECTION_SIZE: u64 = 0x06;
const QPACK_BLOCKED_STREAMS: u64 = 0x07;
const ENABLE_CONNECT_PROTOCOL: u64 = 0x08;
const H3_DATAGRAM: u64 = 0x33;

/// Maximum accepted length of a SETTINGS payload, in bytes: enough for about 500 settings.
pub(crate) const MAX_PAYLOAD: u64 = 4096;

/// The peer's settings from its SETTINGS frame (RFC 9114 §7.2.4, RFC 9204 §5, RFC 9220 §3, RFC 9297
/// §2.1.1), without unknown settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// The largest field section that the peer accepts, in bytes; `None` means no limit.
    pub max_field_section_size: Option<u64>,
    /// The largest QPACK dynamic table that the peer allows, in bytes.
    pub qpack_max_table_capacity: u64,
    /// Number of streams that the peer allows to be blocked on the QPACK dynamic table.
    pub qpack_blocked_streams: u64,
    /// Whether the server accepts extended CONNECT.
    pub extended_connect: bool,
    /// Whether the peer accepts HTTP datagrams.
    pub datagrams: bool,
}

/// Parses the value of a setting that is 0 or 1.
fn flag(value: u64) -> Result<bool, ConnectionError> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(ConnectionError::new(
            Code::SETTINGS_ERROR,
            "a setting that must be 0 or 1 has another value",
        )),
    }
}

impl Settings {
    /// Returns the settings that an endpoint with this configuration advertises.
    pub(crate) fn of(role: Role, config: &Config) -> Self {
        Self {
            max_field_section_size: Some(config.max_field_section_size),
            qpack_max_table_capacity: config.qpack_max_table_capacity,
            qpack_blocked_streams: config.blocked_streams(),
            // The setting has no meaning when a client sends it (RFC 8441 §3).
            extended_connect: config.extended_connect && role == Role::Server,
            datagrams: config.datagrams,
        }
    }

    /// Returns the payload of a SETTINGS frame. Settings with default values are omitted.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let counted = [
            (QPACK_MAX_TABLE_CAPACITY, self.qpack_max_table_capacity),
            (QPACK_BLOCKED_STREAMS, self.qpack_blocked_streams),
            (ENABLE_CONNECT_PROTOCOL, u64::from(self.extended_connect)),
            (H3_DATAGRAM, u64::from(self.datagrams)),
        ];
        let size = self.max_field_section_size.map(|size| (MAX_FIELD_SECTION_SIZE, size));
        let mut payload = Vec::new();
        for (identifier, value) in
            size.into_iter().chain(counted.into_iter().filter(|(_, value)| *value > 0))
        {
            put_varint(&mut payload, identifier);
            put_varint(&mut payload, value);
        }
        payload
    }

    /// Checks that these settings are allowed for a server that accepted early data sent under
    /// `remembered` settings.
    ///
    /// # Errors
    /// Returns the connection error with which the client must close the connection:
    /// H3_SETTINGS_ERROR (RFC 9114 §7.2.4.2, RFC 9297 §2.1.1), or QPACK_DECODER_STREAM_ERROR for
    /// the dynamic table (RFC 9204 §3.2.3).
    pub(crate) fn check_early_data(&self, remembered: &Self) -> Result<(), ConnectionError> {
        let capacity = remembered.qpack_max_table_capacity;
        if capacity != 0 && self.qpack_max_table_capacity != capacity {
            return Err(ConnectionError::new(
                Code::QPACK_DECODER_STREAM_ERROR,
                "the server accepted early data but changed the dynamic table capacity",
            ));
        }
        // A size that is no longer sent had a value other than the default before, and has been
        // reset to the default.
        let is_size_kept = match (remembered.max_field_section_size, self.max_field_section_size) {
            (None, size) => size.is_none(),
            (Some(remembered), size) => size.is_some_and(|size| size >= remembered),
        };
        let is_kept = is_size_kept
            && self.qpack_blocked_streams >= remembered.qpack_blocked_streams
            && self.extended_connect >= remembered.extended_connect
            && self.datagrams >= remembered.datagrams;
        match is_kept {
            true => Ok(()),
            false => Err(ConnectionError::new(
                Code::SETTINGS_ERROR,
                "the server accepted early data but lowered a setting",
            )),
        }
    }

    /// Decodes a SETTINGS payload.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, ConnectionError> {
        let mut settings = Self::default();
        let mut seen = Vec::new();
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            let truncated = |_| {
                ConnectionError::new(Code::FRAME_ERROR, "SETTINGS ends in the middle of a setting")
            };
            let identifier = VarInt::decode(&mut reader, "identifier").map_err(truncated)?.get();
            let value = VarInt::decode(&mut reader, "value").map_err(truncated)?.get();
            match identifier {
                QPACK_MAX_TABLE_CAPACITY => settings.qpack_max_table_capacity = value,
                MAX_FIELD_SECTION_SIZE => settings.max_field_section_size = Some(value),
                QPACK_BLOCKED_STREAMS => settings.qpack_blocked_streams = value,
                ENABLE_CONNECT_PROTOCOL => settings.extended_connect = flag(value)?,
                H3_DATAGRAM => settings.datagrams = flag(value)?,
                // HTTP/2 settings without a counterpart in HTTP/3 are errors (RFC 9114 §7.2.4.1).
                0x00 | 0x02..=0x05 => {
                    return Err(ConnectionError::new(
                        Code::SETTINGS_ERROR,
                        "SETTINGS contains an HTTP/2 setting",
                    ));
                }
                _ => {}
            }
            seen.push(identifier);
        }
        seen.sort_unstable();
        if seen.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(ConnectionError::new(
                Code::SETTINGS_ERROR,
                "SETTINGS contains a setting twice",
            ));
        }
        Ok(settings)
    }
}

/// Appends the local SETTINGS frame. Settings with default values are omitted.
pub(crate) fn put_settings(
    output: &mut Vec<u8>,
    role: Role,
    config: &Config,
    reserved: Option<(u64, u64)>,
) {
    let mut payload = Settings::of(role, config).encode();
    if let Some((identifier, value)) = reserved {
        put_varint(&mut payload, identifier);
        put_varint(&mut payload, value);
    }
    put_frame(output, 0x04, &payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(settings: &[(u64, u64)]) -> Vec<u8> {
        let mut payload = Vec::new();
        for (identifier, value) in settings {
            put_varint(&mut payload, *identifier);
            put_varint(&mut payload, *value);
        }
        payload
    }

    /// Unknown settings are ignored (RFC 9114 §7.2.4).
    #[test]
    fn unknown_settings_are_ignored() {
        let settings =
            Settings::decode(&payload(&[(0x21, 5), (6, 1000), (1, 4096), (7, 16)])).unwrap();
        let expected = Settings {
            max_field_section_size: Some(1000),
            qpack_max_table_capacity: 4096,
            qpack_blocked_streams: 16,
            ..Settings::default()
        };
        assert_eq!(settings, expected);
        assert_eq!(Settings::decode(&[]).unwrap(), Settings::default());
    }

    /// Tests the requirements of RFC 9114 §7.2.4.1 and §7.2.4.
    #[test]
    fn http2_settings_and_duplicates_are_errors() {
        for identifier in [0x00, 0x02, 0x03, 0x04, 0x05] {
            let error = Settings::decode(&payload(&[(identifier, 1)])).unwrap_err();
            assert_eq!(error.code, Code::SETTINGS_ERROR, "{identifier}");
        }
        for settings in [&[(6, 1), (6, 1)][..], &[(0x21, 1), (6, 3), (0x21, 2)]] {
            let error = Settings::decode(&payload(settings)).unwrap_err();
            assert_eq!(error.code, Code::SETTINGS_ERROR);
        }
    }

    /// The payload must contain exactly its fields (RFC 9114 §7.1).
    #[test]
    fn truncated_settings_are_errors() {
        for bytes in [&[0x06][..], &[0x40], &[0x06, 0x40]] {
            assert_eq!(Settings::decode(bytes).unwrap_err().code, Code::FRAME_ERROR);
        }
    }

    /// Tests settings that can be only 0 or 1 (RFC 9220 §3, RFC 8441 §3, RFC 9297 §2.1.1).
    #[test]
    fn flags_are_zero_or_one() {
        let settings = Settings::decode(&payload(&[(0x08, 1), (0x33, 1)])).unwrap();
        assert!(settings.extended_connect && settings.datagrams);
        let settings = Settings::decode(&payload(&[(0x08, 0), (0x33, 0)])).unwrap();
        assert!(!settings.extended_connect && !settings.datagrams);
        for identifier in [0x08, 0x33] {
            let error = Settings::decode(&payload(&[(identifier, 2)])).unwrap_err();
            assert_eq!(error.code, Code::SETTINGS_ERROR, "{identifier}");
        }
    }

    #[test]
    fn our_settings_are_read_back() {
        let config = Config { datagrams: true, extended_connect: true, ..Config::default() };
        for (role, config) in [
            (Role::Server, config.clone()),
            (Role::Client, config),
            (Role::Server, Config::default().without_dynamic_table()),
        ] {
            let mut frame = Vec::new();
            put_settings(&mut frame, role, &config, Some((0x21, 7)));
            assert_eq!((frame[0], usize::from(frame[1])), (0x04, frame.len() - 2));
            let settings = Settings::decode(&frame[2..]).unwrap();
            let expected = Settings {
                max_field_section_size: Some(config.max_field_section_size),
                qpack_max_table_capacity: config.qpack_max_table_capacity,
                qpack_blocked_streams: config.qpack_blocked_streams,
                extended_connect: config.extended_connect && role == Role::Server,
                datagrams: config.datagrams,
            };
            assert_eq!(settings, expected);
        }
    }

    /// Tests the requirements of RFC 9114 §7.2.4.2, RFC 9204 §3.2.3, RFC 9297 §2.1.1.
    #[test]
    fn settings_after_early_data_permit_no_less() {
        let remembered = Settings {
            max_field_section_size: Some(1000),
            qpack_max_table_capacity: 4096,
            qpack_blocked_streams: 16,
            extended_connect: true,
            datagrams: true,
        };
        let error = |change: fn(&mut Settings)| {
            let mut settings = remembered;
            change(&mut settings);
            settings.check_early_data(&remembered).err().map(|error| error.code)
        };
        assert_eq!(error(|_| ()), None);
        assert_eq!(error(|it| it.max_field_section_size = Some(1001)), None);
        assert_eq!(error(|it| it.qpack_blocked_streams = 17), None);
        let lowered: [fn(&mut Settings); 5] = [
            |it| it.max_field_section_size = Some(999),
            |it| it.max_field_section_size = None,
            |it| it.qpack_blocked_streams = 15,
            |it| it.extended_connect = false,
            |it| it.datagrams = false,
        ];
        for change in lowered {
            assert_eq!(error(change), Some(Code::SETTINGS_ERROR));
        }
        let decoder_error = Some(Code::QPACK_DECODER_STREAM_ERROR);
        for capacity in [0, 4095, 4097] {
            let settings = Settings { qpack_max_table_capacity: capacity, ..remembered };
            let outcome = settings.check_early_data(&remembered);
            assert_eq!(outcome.err().map(|error| error.code), decoder_error, "{capacity}");
        }
        // Settings that had their defaults may only be raised, but any field section size is a
        // stricter limit than having none.
        let raised = Settings { max_field_section_size: None, ..remembered };
        assert_eq!(raised.check_early_data(&Settings::default()), Ok(()));
        assert!(remembered.check_early_data(&Settings::default()).is_err());
    }
}
