//! Finds extensions in a ClientHello (RFC 8446 §4.1.2) before TLS starts: the client's transport
//! parameters (RFC 9001 §8.2), the server name and the application protocols.
//!
//! A server that may switch versions parses the parameters here: it has to choose the version
//! before TLS starts, since the keys depend on it (RFC 9369 §3.3.2). A server may also decide by
//! the name and the protocols whether it accepts the client. TLS checks the message afterwards.

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
/// The type of the server_name extension.
const SERVER_NAME: u16 = 0;
/// The type of the application_layer_protocol_negotiation extension.
const APPLICATION_PROTOCOLS: u16 = 16;
/// The type of a DNS host name in the server_name extension.
const HOST_NAME: u8 = 0;
/// The maximum length of a DNS name in bytes.
const MAX_NAME: usize = 255;
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
    let mut reader = at_extensions(message)?;
    let extensions = Reader::new(prefixed_by_two(&mut reader)?);
    Extensions(extensions).find(|(kind, _)| *kind == TRANSPORT_PARAMETERS).map(|(_, data)| data)
}

/// Skips the fields of a ClientHello before its extensions.
fn at_extensions(message: &[u8]) -> Option<Reader<'_>> {
    let mut reader = Reader::new(message);
    reader.bytes(FIXED_FIELDS, NAME).ok()?;
    // legacy_session_id, cipher_suites, legacy_compression_methods
    prefixed_by_one(&mut reader)?;
    prefixed_by_two(&mut reader)?;
    prefixed_by_one(&mut reader)?;
    Some(reader)
}

/// The types and contents of extensions, up to the first that is truncated.
struct Extensions<'a>(Reader<'a>);

impl<'a> Iterator for Extensions<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let kind = u16::from_be_bytes(self.0.array(NAME).ok()?);
        Some((kind, prefixed_by_two(&mut self.0)?))
    }
}

/// What a client offers in its ClientHello. The server has not verified any of it: anyone can send
/// such a message, and an on-path attacker can change it until the handshake is complete.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientHello {
    server_name: Option<String>,
    /// The protocols in the encoding of the extension, without its length.
    application_protocols: Vec<u8>,
    is_complete: bool,
}

impl ClientHello {
    /// Returns the server name (RFC 6066 §3) in lower case, if the client has sent one in ASCII. If
    /// the client encrypts its ClientHello (RFC 9849), this is the public name of the configuration
    /// that the client uses.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// Returns the application protocols that the client offers (RFC 7301), in its order of
    /// preference.
    pub fn application_protocols(&self) -> impl Iterator<Item = &[u8]> {
        let mut reader = Reader::new(&self.application_protocols);
        core::iter::from_fn(move || prefixed_by_one(&mut reader))
    }

    /// Returns whether the whole message has arrived. Otherwise, the name and the protocols may be
    /// in the rest of the message.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn note(&mut self, kind: u16, data: &[u8]) {
        match kind {
            SERVER_NAME => self.server_name = host_name(data),
            APPLICATION_PROTOCOLS => {
                let list = prefixed_by_two(&mut Reader::new(data));
                self.application_protocols = list.unwrap_or_default().to_vec();
            }
            _ => {}
        }
    }
}

/// Returns what the client offers, as far as its first bytes show it; `None` if they are not the
/// beginning of a ClientHello.
pub(super) fn offer(received: &[u8]) -> Option<ClientHello> {
    let mut reader = Reader::new(received);
    if reader.u8(NAME).ok()? != CLIENT_HELLO {
        return None;
    }
    let [high, middle, low] = reader.array(NAME).ok()?;
    let length = usize::try_from(u32::from_be_bytes([0, high, middle, low])).ok()?;
    let is_complete = length <= reader.remaining();
    let message = reader.bytes(length.min(reader.remaining()), NAME).ok()?;
    let mut hello = ClientHello { is_complete, ..ClientHello::default() };
    if let Some(mut reader) = at_extensions(message)
        && let Ok(length) = reader.array(NAME)
    {
        let length = usize::from(u16::from_be_bytes(length)).min(reader.remaining());
        let extensions = Reader::new(reader.bytes(length, NAME).ok()?);
        Extensions(extensions).for_each(|(kind, data)| hello.note(kind, data));
    }
    Some(hello)
}

/// Returns the DNS name in the contents of a server_name extension.
fn host_name(data: &[u8]) -> Option<String> {
    let mut names = Reader::new(prefixed_by_two(&mut Reader::new(data))?);
    while let Ok(kind) = names.u8(NAME) {
        let name = prefixed_by_two(&mut names)?;
        if kind == HOST_NAME {
            let is_plain = name.len() <= MAX_NAME && name.iter().all(u8::is_ascii_graphic);
            return is_plain.then(|| String::from_utf8(name.to_ascii_lowercase()).ok()).flatten();
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
/// change the result. Checks that a name and protocols are found within the received bytes, too.
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
    let offered = offer(received);
    assert!(offered.is_some() || !matches!(whole, HelloParameters::Found(_)));
    if let Some(hello) = offered {
        let protocols: usize = hello.application_protocols().map(<[u8]>::len).sum();
        let name = hello.server_name().map_or(0, str::len);
        assert!(protocols.saturating_add(name) <= received.len());
    }
}

#[cfg(test)]
#[path = "client_hello_tests.rs"]
mod tests;
