//! Finds the client's transport parameters in a ClientHello (RFC 8446 §4.1.2, RFC 9001 §8.2).
//!
//! Only a server that may switch versions parses them here: it has to choose the version before TLS
//! starts, since the keys depend on it (RFC 9369 §3.3.2). TLS checks the message afterwards.

use clearway_wire::Reader;

/// The result of searching the first bytes from a client for its transport parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelloParameters<'a> {
    /// The message is not complete yet.
    Incomplete,
    /// The encoded parameters were found.
    Found(&'a [u8]),
    /// The message has no transport parameters, is not a ClientHello, or is too long.
    None,
}

/// The handshake type of a ClientHello.
const CLIENT_HELLO: u8 = 1;
/// The type of the quic_transport_parameters extension.
const TRANSPORT_PARAMETERS: u16 = 0x39;
/// The maximum length of the message in bytes, without type and length; rustls has the same limit.
const MAX_LENGTH: usize = 0xffff;
/// The length of legacy_version and random.
const FIXED_FIELDS: usize = 2 + 32;

/// See [`ServerSessions::find_parameters`](crate::ServerSessions::find_parameters).
pub(super) fn find_parameters(received: &[u8]) -> HelloParameters<'_> {
    let mut reader = Reader::new(received);
    match reader.u8(NAME) {
        Ok(CLIENT_HELLO) => {}
        Ok(_) => return HelloParameters::None,
        Err(_) => return HelloParameters::Incomplete,
    }
    let Ok([high, middle, low]) = reader.array(NAME) else { return HelloParameters::Incomplete };
    let length = usize::try_from(u32::from_be_bytes([0, high, middle, low])).unwrap_or(usize::MAX);
    if length > MAX_LENGTH {
        return HelloParameters::None;
    }
    let Ok(message) = reader.bytes(length, NAME) else { return HelloParameters::Incomplete };
    in_message(message).map_or(HelloParameters::None, HelloParameters::Found)
}

fn in_message(message: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(message);
    reader.bytes(FIXED_FIELDS, NAME).ok()?;
    // legacy_session_id, cipher_suites, legacy_compression_methods
    prefixed_by_one(&mut reader)?;
    prefixed_by_two(&mut reader)?;
    prefixed_by_one(&mut reader)?;
    let mut extensions = Reader::new(prefixed_by_two(&mut reader)?);
    while !extensions.is_empty() {
        let extension_type = u16::from_be_bytes(extensions.array(NAME).ok()?);
        let data = prefixed_by_two(&mut extensions)?;
        if extension_type == TRANSPORT_PARAMETERS {
            return Some(data);
        }
    }
    None
}

fn prefixed_by_one<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.u8(NAME).ok()?;
    reader.bytes(usize::from(length), NAME).ok()
}

pub(super) fn prefixed_by_two<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = u16::from_be_bytes(reader.array(NAME).ok()?);
    reader.bytes(usize::from(length), NAME).ok()
}

/// The message name used in errors, which are never shown.
const NAME: &str = "ClientHello";

/// Checks that parameters are only found within the received bytes, and that more bytes do not
/// change the result.
///
/// # Panics
/// If a checked property does not hold.
#[cfg(fuzzing)]
pub fn check_client_hello(received: &[u8]) {
    let whole = find_parameters(received);
    for end in [0, received.len() / 2, received.len().saturating_sub(1)] {
        let part = find_parameters(received.get(..end).unwrap_or_default());
        assert!(part == HelloParameters::Incomplete || part == whole);
    }
    if let HelloParameters::Found(parameters) = whole {
        assert!(parameters.len() < received.len());
        let _ = clearway_wire::TransportParameters::decode(
            parameters,
            clearway_wire::Initiator::Client,
        );
    }
}

#[cfg(test)]
#[path = "client_hello_tests.rs"]
mod tests;
