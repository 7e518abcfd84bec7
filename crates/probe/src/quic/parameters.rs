use clearway_wire::{Reader, VarInt};

use super::frame::put_varint;

/// Maximum number of received parameters that are kept.
const MAX_PARAMETERS: usize = 256;

macro_rules! names {
    ($($constant:ident = $id:literal, $name:literal;)*) => {
        impl Parameters {
            $(
                #[doc = concat!("The identifier of `", $name, "`.")]
                pub const $constant: u64 = $id;
            )*
        }

        /// Returns the name of a transport parameter (RFC 9000 §18.2, RFC 9221, RFC 9287, RFC 9368).
        pub fn known_name(id: u64) -> Option<&'static str> {
            match id {
                $($id => Some($name),)*
                _ => None,
            }
        }

        /// Returns the identifier of a transport parameter: its name, or a number.
        pub(crate) fn identifier(text: &str) -> Option<u64> {
            match text {
                $($name => Some($id),)*
                _ => crate::error_codes::number(text),
            }
        }
    };
}

names! {
    ORIGINAL_DESTINATION = 0x00, "original_destination_connection_id";
    MAX_IDLE_TIMEOUT = 0x01, "max_idle_timeout";
    RESET_TOKEN = 0x02, "stateless_reset_token";
    MAX_UDP_PAYLOAD_SIZE = 0x03, "max_udp_payload_size";
    MAX_DATA = 0x04, "initial_max_data";
    BIDI_LOCAL = 0x05, "initial_max_stream_data_bidi_local";
    BIDI_REMOTE = 0x06, "initial_max_stream_data_bidi_remote";
    UNI = 0x07, "initial_max_stream_data_uni";
    MAX_STREAMS_BIDI = 0x08, "initial_max_streams_bidi";
    MAX_STREAMS_UNI = 0x09, "initial_max_streams_uni";
    ACK_DELAY_EXPONENT = 0x0a, "ack_delay_exponent";
    MAX_ACK_DELAY = 0x0b, "max_ack_delay";
    DISABLE_ACTIVE_MIGRATION = 0x0c, "disable_active_migration";
    PREFERRED_ADDRESS = 0x0d, "preferred_address";
    ACTIVE_ID_LIMIT = 0x0e, "active_connection_id_limit";
    INITIAL_SOURCE = 0x0f, "initial_source_connection_id";
    RETRY_SOURCE = 0x10, "retry_source_connection_id";
    VERSION_INFORMATION = 0x11, "version_information";
    MAX_DATAGRAM_FRAME_SIZE = 0x20, "max_datagram_frame_size";
    GREASE_QUIC_BIT = 0x2ab2, "grease_quic_bit";
}

/// Transport parameters as they are encoded: a list of identifiers and values, possibly with
/// duplicates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parameters(Vec<(u64, Vec<u8>)>);

impl Parameters {
    /// Decodes at most 256 transport parameters, up to the first malformed one.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut reader = Reader::new(bytes);
        let mut all = Vec::new();
        while !reader.is_empty() && all.len() < MAX_PARAMETERS {
            let id = VarInt::decode(&mut reader, "Transport Parameter ID");
            let value = reader.length_prefixed("Transport Parameter Value");
            let (Ok(id), Ok(value)) = (id, value) else { break };
            all.push((id.get(), value.to_vec()));
        }
        Self(all)
    }

    /// Returns the encoded parameters.
    pub fn encode(&self) -> Vec<u8> {
        let mut output = Vec::new();
        for (id, value) in &self.0 {
            put_varint(&mut output, *id);
            put_varint(&mut output, value.len() as u64);
            output.extend_from_slice(value);
        }
        output
    }

    /// Returns the value of the first parameter with the identifier `id`.
    pub fn get(&self, id: u64) -> Option<&[u8]> {
        self.0.iter().find(|(other, _)| *other == id).map(|(_, value)| value.as_slice())
    }

    /// Returns the value of an integer parameter, or `default` if it is absent or malformed.
    pub fn integer(&self, id: u64, default: u64) -> u64 {
        let value = self.get(id).map(Reader::new);
        value
            .and_then(|mut reader| VarInt::decode(&mut reader, "value").ok())
            .map_or(default, VarInt::get)
    }

    /// Returns all parameters, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.0.iter().map(|(id, value)| (*id, value.as_slice()))
    }

    /// Adds a parameter, even if there already is one with this identifier.
    pub fn add(&mut self, id: u64, value: &[u8]) {
        self.0.push((id, value.to_vec()));
    }

    /// Adds an integer parameter.
    pub fn add_integer(&mut self, id: u64, value: u64) {
        let mut encoded = Vec::new();
        put_varint(&mut encoded, value);
        self.add(id, &encoded);
    }

    /// Replaces all parameters with the identifier `id` by one parameter with this value.
    pub fn set(&mut self, id: u64, value: &[u8]) {
        self.remove(id);
        self.add(id, value);
    }

    /// Removes all parameters with the identifier `id`.
    pub fn remove(&mut self, id: u64) {
        self.0.retain(|(other, _)| *other != id);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn edits() {
        let mut parameters = Parameters::default();
        parameters.add_integer(Parameters::MAX_DATA, 1000);
        parameters.add(0x99, b"abc");
        parameters.add(0x99, b"def");
        let read = Parameters::decode(&parameters.encode());
        assert_eq!(read, parameters);
        assert_eq!(
            (read.integer(Parameters::MAX_DATA, 0), read.integer(Parameters::UNI, 7)),
            (1000, 7)
        );
        parameters.set(0x99, b"x");
        assert_eq!(parameters.iter().count(), 2);
        assert_eq!(identifier("max_ack_delay"), Some(0x0b));
        assert_eq!(known_name(0x0b), Some("max_ack_delay"));
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let parameters = Parameters::decode(&bytes);
            prop_assert_eq!(Parameters::decode(&parameters.encode()), parameters);
        }
    }
}
