//! Responses in wire form, whose ID, flags, TTLs and question are overwritten for each client.

use hickory_proto::ProtoError;
use hickory_proto::op::{Header, Message, Query};
use hickory_proto::rr::Name;
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, DecodeError};

use crate::extended_error::ExtendedError;

/// A response without its OPT record, in wire form.
#[derive(Debug)]
pub(crate) struct Stored {
    body: Box<[u8]>,
    /// The offsets of all TTL fields.
    ttls: Box<[u16]>,
    /// The TTL of the response in seconds.
    pub(crate) ttl: u32,
    /// The upper bits of an extended response code.
    pub(crate) code_high: u8,
    /// The reason for the response code, from the upstream server, with at most 200 octets of text:
    /// responses have room for it, even truncated ones over UDP.
    pub(crate) extended_error: Option<ExtendedError>,
}

impl Stored {
    /// Encodes a response, which may be used for `ttl` seconds.
    pub(crate) fn new(mut message: Message, ttl: u32) -> Result<Self, ProtoError> {
        let edns = message.edns.take();
        let extended_error = edns.as_ref().and_then(ExtendedError::of);
        let extended_error = extended_error.map(ExtendedError::truncated);
        let code_high = message.metadata.response_code.high();
        let body = message.to_vec()?.into_boxed_slice();
        let ttls = ttl_offsets(&body)?.into_boxed_slice();
        Ok(Self { body, ttls, ttl, code_high, extended_error })
    }

    /// Appends the response with its TTLs reduced by `age` seconds.
    pub(crate) fn write(&self, out: &mut Vec<u8>, age: u32) {
        let start = out.len();
        out.extend_from_slice(&self.body);
        if age == 0 {
            return;
        }
        let Some(body) = out.get_mut(start..) else { return };
        for offset in &self.ttls {
            let field = body.get_mut(usize::from(*offset)..);
            if let Some(ttl) = field.and_then(|it| it.first_chunk_mut::<4>()) {
                *ttl = u32::from_be_bytes(*ttl).saturating_sub(age).to_be_bytes();
            }
        }
    }

    /// Returns the memory that the response occupies, in bytes.
    pub(crate) fn size(&self) -> usize {
        let text = self.extended_error.as_ref().map_or(0, |error| error.text.len());
        let ttls = self.ttls.len().saturating_mul(2);
        size_of::<Self>().saturating_add(self.body.len()).saturating_add(ttls).saturating_add(text)
    }
}

/// Returns the offsets of the TTL fields in a message without an OPT record.
fn ttl_offsets(message: &[u8]) -> Result<Vec<u16>, DecodeError> {
    let mut decoder = BinDecoder::new(message);
    let counts = Header::read(&mut decoder)?.counts;
    for _ in 0..counts.queries {
        Query::read(&mut decoder)?;
    }
    let records = [counts.answers, counts.authorities, counts.additionals];
    let records = records.into_iter().map(usize::from).sum();
    let mut offsets = Vec::with_capacity(records);
    for _ in 0..records {
        Name::read(&mut decoder)?;
        decoder.read_u32()?;
        // A message has at most 65,535 octets.
        offsets.push(u16::try_from(decoder.index()).unwrap_or(u16::MAX));
        decoder.read_u32()?;
        let length = decoder.read_u16()?.unverified();
        decoder.read_slice(usize::from(length))?;
    }
    Ok(offsets)
}

#[cfg(test)]
#[path = "stored_tests.rs"]
mod stored_tests;
