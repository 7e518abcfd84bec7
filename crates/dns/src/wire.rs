//! DNS messages in wire form. hickory-proto decodes and encodes them; this module adds what depends
//! on the transport: message IDs, padding, and the length field.

use hickory_proto::ProtoError;
use hickory_proto::op::{Edns, Message, OpCode};
use hickory_proto::rr::Name;
use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, BinEncodable};

use crate::framing::PREFIX;
use crate::violation::Violation;

/// Size of the header.
pub(crate) const HEADER: usize = 12;
/// Size of QTYPE and QCLASS.
pub(crate) const TYPE_AND_CLASS: usize = 4;
/// The EDNS payload size of this endpoint's queries and responses: it fits every usual path MTU.
pub(crate) const PAYLOAD: u16 = 1232;
/// Block length of queries (RFC 8467 §4.1).
pub(crate) const QUERY_BLOCK: usize = 128;
/// Block length of responses (RFC 8467 §4.1).
pub(crate) const RESPONSE_BLOCK: usize = 468;
/// Maximum size of a message.
pub(crate) const MAX_MESSAGE: usize = u16::MAX as usize;

/// Offset of ARCOUNT in the header.
const ADDITIONAL_COUNT: usize = 10;
/// Size of the header of an EDNS option.
const OPTION_HEADER: usize = 4;
const PADDING: u16 = 12;

/// Decodes a message that fills `octets`.
pub(crate) fn decode(octets: &[u8]) -> Result<Message, Violation> {
    let mut decoder = BinDecoder::new(octets);
    match Message::read(&mut decoder) {
        Ok(message) if decoder.is_empty() => Ok(message),
        Ok(_) | Err(_) => Err(Violation::Malformed),
    }
}

/// Checks what RFC 9250 requires of a message: the ID is 0, and there is no edns-tcp-keepalive
/// option.
pub(crate) fn check_doq(message: &Message) -> Result<(), Violation> {
    if message.metadata.id != 0 {
        return Err(Violation::NonzeroId);
    }
    let keepalive = |edns: &Edns| edns.option(EdnsCode::Keepalive).is_some();
    match message.edns.as_ref().is_some_and(keepalive) {
        true => Err(Violation::TcpKeepalive),
        false => Ok(()),
    }
}

/// Returns whether a query may be sent and processed in early data: its opcode is QUERY or NOTIFY
/// (RFC 9250 §4.5).
pub(crate) const fn is_replay_safe(query: &Message) -> bool {
    matches!(query.metadata.op_code, OpCode::Query | OpCode::Notify)
}

/// Returns a name in wire form, without compression.
pub(crate) fn name_octets(name: &Name) -> Vec<u8> {
    let mut octets = Vec::with_capacity(name.len().saturating_add(2));
    for label in name.iter() {
        // A label has at most 63 octets.
        octets.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        octets.extend_from_slice(label);
    }
    octets.push(0);
    octets
}

/// How a message is laid out for its transport.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Whether the length field precedes the message.
    pub(crate) is_prefixed: bool,
    /// The block length to which the message is padded, if it has an OPT record.
    pub(crate) block: Option<usize>,
    /// Maximum size of the message.
    pub(crate) limit: usize,
}

impl Layout {
    pub(crate) const fn prefix(self) -> usize {
        match self.is_prefixed {
            true => PREFIX,
            false => 0,
        }
    }

    /// Returns an empty message of `capacity` octets, with room for the length field.
    pub(crate) fn start(self, capacity: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(capacity.saturating_add(PREFIX));
        out.resize(self.prefix(), 0);
        out
    }

    /// Appends an OPT record with padding to the message that begins after the length field.
    pub(crate) fn append_edns(self, out: &mut Vec<u8>, mut edns: Edns) -> Result<(), ProtoError> {
        edns.options_mut().remove(EdnsCode::Padding);
        edns.options_mut().remove(EdnsCode::Keepalive);
        if let Some(block) = self.block {
            let length = out.len().saturating_sub(self.prefix());
            let options = edns.options().as_ref().iter();
            let options =
                options.map(|(_, it)| usize::from(it.len()).saturating_add(OPTION_HEADER));
            // An OPT record without options has 11 octets.
            let length = options.fold(length.saturating_add(11), usize::saturating_add);
            let length = length.saturating_add(OPTION_HEADER);
            let padded = length.next_multiple_of(block).min(self.limit);
            if let Some(padding) = padded.checked_sub(length) {
                edns.options_mut().insert(EdnsOption::Unknown(PADDING, vec![0; padding]));
            }
        }
        out.extend_from_slice(&edns.to_bytes()?);
        let count = out.get_mut(self.prefix()..).and_then(|it| it.get_mut(ADDITIONAL_COUNT..));
        if let Some(count) = count.and_then(|it| it.first_chunk_mut::<2>()) {
            *count = u16::from_be_bytes(*count).saturating_add(1).to_be_bytes();
        }
        Ok(())
    }

    /// Fills in the length field.
    pub(crate) fn finish(self, out: &mut [u8]) {
        if !self.is_prefixed {
            return;
        }
        if let Some((prefix, message)) = out.split_first_chunk_mut::<PREFIX>() {
            *prefix = u16::try_from(message.len()).unwrap_or(u16::MAX).to_be_bytes();
        }
    }
}

/// Encodes a query with this ID. If the layout requires padding, adds an OPT record.
pub(crate) fn encode_query(
    mut message: Message,
    id: u16,
    layout: Layout,
) -> Result<Vec<u8>, ProtoError> {
    message.metadata.id = id;
    let edns = message.edns.take().or_else(|| layout.block.is_some().then(default_edns));
    let body = message.to_vec()?;
    let mut out = layout.start(body.len().next_multiple_of(QUERY_BLOCK));
    out.extend_from_slice(&body);
    if let Some(edns) = edns {
        layout.append_edns(&mut out, edns)?;
    }
    if out.len().saturating_sub(layout.prefix()) > MAX_MESSAGE {
        return Err(ProtoError::MaxBufferSizeExceeded(MAX_MESSAGE));
    }
    layout.finish(&mut out);
    Ok(out)
}

/// Returns the EDNS parameters of this endpoint.
pub(crate) fn default_edns() -> Edns {
    let mut edns = Edns::new();
    edns.set_max_payload(PAYLOAD);
    edns
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod wire_tests;
