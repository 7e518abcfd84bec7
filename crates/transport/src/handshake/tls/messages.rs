//! NewSessionTicket messages (RFC 8446 §4.6.1), the only TLS messages after the handshake.

use clearway_wire::Reader;

const NEW_SESSION_TICKET: u8 = 4;
/// The size of a handshake message's type and length.
const HEADER: usize = 4;

/// The fields of a NewSessionTicket that are needed outside of rustls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NewTicket<'a> {
    pub(super) lifetime: u32,
    pub(super) age_add: u32,
    pub(super) nonce: &'a [u8],
    pub(super) ticket: &'a [u8],
    /// The encoded extensions, with their length prefix.
    extensions: &'a [u8],
}

impl<'a> NewTicket<'a> {
    /// Parses a message; returns `None` if it is not a NewSessionTicket.
    pub(super) fn parse(message: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(message);
        let kind = reader.u8(NAME).ok()?;
        let _length = reader.array::<3>(NAME).ok()?;
        let lifetime = u32::from_be_bytes(reader.array(NAME).ok()?);
        let age_add = u32::from_be_bytes(reader.array(NAME).ok()?);
        let nonce_len = reader.u8(NAME).ok()?;
        let nonce = reader.bytes(usize::from(nonce_len), NAME).ok()?;
        let ticket_len = u16::from_be_bytes(reader.array(NAME).ok()?);
        let ticket = reader.bytes(usize::from(ticket_len), NAME).ok()?;
        let extensions = reader.take_rest();
        let is_one = kind == NEW_SESSION_TICKET;
        is_one.then_some(Self { lifetime, age_add, nonce, ticket, extensions })
    }

    /// Returns whether the server accepts early data with the ticket.
    pub(super) fn permits_early_data(&self) -> bool {
        const EARLY_DATA: u16 = 42;
        let mut reader = Reader::new(self.extensions);
        let Ok(_) = reader.array::<2>(NAME) else { return false };
        while let (Ok(kind), Ok(length)) = (reader.array(NAME), reader.array(NAME)) {
            let Ok(data) = reader.bytes(usize::from(u16::from_be_bytes(length)), NAME) else {
                return false;
            };
            if u16::from_be_bytes(kind) == EARLY_DATA {
                return data == [0xff; 4];
            }
        }
        false
    }

    /// Encodes the message; `None` if the ticket is too long for a message.
    fn encode(&self) -> Option<Vec<u8>> {
        let Self { ticket, .. } = self;
        let mut body = self.lifetime.to_be_bytes().to_vec();
        body.extend_from_slice(&self.age_add.to_be_bytes());
        body.push(u8::try_from(self.nonce.len()).ok()?);
        body.extend_from_slice(self.nonce);
        body.extend_from_slice(&u16::try_from(ticket.len()).ok()?.to_be_bytes());
        body.extend_from_slice(ticket);
        body.extend_from_slice(self.extensions);
        let [_, length @ ..] = u32::try_from(body.len()).ok()?.to_be_bytes();
        let mut message = vec![NEW_SESSION_TICKET];
        message.extend_from_slice(&length);
        message.append(&mut body);
        Some(message)
    }
}

/// Returns the length of the message that `bytes` begin with; `None` if its header is incomplete.
fn message_len(bytes: &[u8]) -> Option<usize> {
    let [_, high, middle, low] = *bytes.first_chunk::<HEADER>()?;
    let length = usize::try_from(u32::from_be_bytes([0, high, middle, low])).ok()?;
    length.checked_add(HEADER)
}

/// Removes and returns the first complete message in `received`, if there is one.
pub(super) fn take_message(received: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = message_len(received).filter(|length| *length <= received.len())?;
    let rest = received.split_off(length);
    Some(core::mem::replace(received, rest))
}

/// Limits the lifetime of each ticket in the messages of `out` starting at `start`, and replaces
/// tickets for which `replace` returns another ticket.
pub(super) fn rewrite_tickets(
    out: &mut Vec<u8>,
    start: usize,
    max_lifetime: u32,
    mut replace: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) {
    let mut rest = out.split_off(start.min(out.len()));
    while let Some(message) = take_message(&mut rest) {
        let other = NewTicket::parse(&message).and_then(|found| {
            let lifetime = found.lifetime.min(max_lifetime);
            let replaced = replace(found.ticket);
            let ticket = replaced.as_deref().unwrap_or(found.ticket);
            NewTicket { lifetime, ticket, ..found }.encode()
        });
        out.extend_from_slice(other.as_deref().unwrap_or(&message));
    }
    out.append(&mut rest);
}

const NAME: &str = "NewSessionTicket";

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
