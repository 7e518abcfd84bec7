//! Encodes a response for the client and the transport of the query.

use std::sync::Arc;

use hickory_proto::ProtoError;
use hickory_proto::op::{Edns, Message, OpCode};
use hickory_proto::rr::rdata::opt::EdnsCode;

use crate::protocol::Protocol;
use crate::stored::Stored;
use crate::wire::{
    HEADER, Layout, MAX_MESSAGE, RESPONSE_BLOCK, TYPE_AND_CLASS, default_edns, name_octets,
};

/// Bits of the third and fourth octet of the header.
const QR: u8 = 0x80;
const TC: u8 = 0x02;
const RD: u8 = 0x01;
const AD: u8 = 0x20;
const CD: u8 = 0x10;

/// The response to a request.
#[derive(Debug)]
pub struct Answer(Content);

#[derive(Debug)]
enum Content {
    Message(Box<Message>),
    /// A response from a cache, and its age in seconds.
    Stored(Arc<Stored>, u32),
    Abandoned,
}

impl Answer {
    /// Gives no response: the stream is reset with DOQ_INTERNAL_ERROR (RFC 9250 §4.3.2), an HTTP
    /// request gets status 500, and over UDP and TCP nothing is sent.
    pub const fn abandon() -> Self {
        Self(Content::Abandoned)
    }

    pub(crate) const fn stored(stored: Arc<Stored>, age: u32) -> Self {
        Self(Content::Stored(stored, age))
    }
}

impl From<Message> for Answer {
    /// Responds with `message`. The server sets its ID, the RD and CD bits, and the EDNS
    /// parameters; EDNS options such as [`ExtendedError`](crate::ExtendedError) are sent if the
    /// query has an OPT record.
    fn from(message: Message) -> Self {
        Self(Content::Message(Box::new(message)))
    }
}

/// The parts of a query that its response depends on.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    id: u16,
    op_code: OpCode,
    recursion_desired: bool,
    checking_disabled: bool,
    /// Whether the client understands the AD bit (RFC 6840 §5.7).
    authentic_data: bool,
    edns: Option<AskedEdns>,
    /// The name in the question as the client wrote it; empty without a question.
    name: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct AskedEdns {
    payload: u16,
    dnssec_ok: bool,
}

impl Asked {
    pub(crate) fn by(query: &Message) -> Self {
        let edns = query.edns.as_ref();
        let edns = edns.map(|edns| AskedEdns {
            payload: edns.max_payload(),
            dnssec_ok: edns.flags().dnssec_ok,
        });
        let metadata = query.metadata;
        Self {
            id: metadata.id,
            op_code: metadata.op_code,
            recursion_desired: metadata.recursion_desired,
            checking_disabled: metadata.checking_disabled,
            authentic_data: metadata.authentic_data || edns.is_some_and(|it| it.dnssec_ok),
            edns,
            name: query.queries.first().map_or_else(Vec::new, |query| name_octets(query.name())),
        }
    }

    /// Returns the layout of the response. Over UDP, it has at most `udp_payload` octets.
    pub(crate) fn layout(&self, protocol: Protocol, udp_payload: u16) -> Layout {
        Layout {
            is_prefixed: matches!(protocol, Protocol::Quic | Protocol::Tcp),
            block: protocol.is_encrypted().then_some(RESPONSE_BLOCK),
            limit: match protocol {
                Protocol::Udp => self.udp_limit(udp_payload),
                _ => MAX_MESSAGE,
            },
        }
    }

    /// Returns the maximum size of a UDP response (RFC 6891 §6.2.5).
    fn udp_limit(&self, maximum: u16) -> usize {
        let payload = self.edns.map_or(512, |edns| edns.payload.max(512));
        usize::from(payload.min(maximum))
    }

    /// Encodes the response. Returns `None` if the handler gave none.
    pub(crate) fn encode(
        &self,
        answer: Answer,
        layout: Layout,
    ) -> Result<Option<Encoded>, ProtoError> {
        let (mut out, ttl, edns) = match answer.0 {
            Content::Abandoned => return Ok(None),
            Content::Message(message) => self.start_message(*message, layout)?,
            Content::Stored(stored, age) => self.start_stored(&stored, age, layout),
        };
        self.patch(&mut out, layout);
        let edns = self.edns.map(|_| edns);
        // Without an OPT record, the response is a few octets shorter, and never padded.
        let complete = out.len();
        if let Some(edns) = &edns {
            layout.append_edns(&mut out, edns.clone())?;
        }
        if out.len().saturating_sub(layout.prefix()) > layout.limit {
            out.truncate(complete);
            self.truncate(&mut out, layout);
            if let Some(edns) = edns {
                layout.append_edns(&mut out, edns)?;
            }
        }
        layout.finish(&mut out);
        Ok(Some(Encoded { octets: out, ttl }))
    }

    fn start_message(
        &self,
        mut message: Message,
        layout: Layout,
    ) -> Result<(Vec<u8>, Option<u32>, Edns), ProtoError> {
        message.metadata.op_code = self.op_code;
        let options = message.edns.take();
        let mut edns = self.edns(message.metadata.response_code.high());
        for (code, option) in options.iter().flat_map(|edns| edns.options().as_ref()) {
            // The options of one hop, which the handler does not know.
            if *code != EdnsCode::Cookie {
                edns.options_mut().insert(option.clone());
            }
        }
        let ttl = message.answers.iter().map(|record| record.ttl).min();
        let body = message.to_vec()?;
        let mut out = layout.start(body.len().saturating_add(layout.block.unwrap_or(0)));
        out.extend_from_slice(&body);
        Ok((out, ttl, edns))
    }

    fn start_stored(
        &self,
        stored: &Stored,
        age: u32,
        layout: Layout,
    ) -> (Vec<u8>, Option<u32>, Edns) {
        let mut edns = self.edns(stored.code_high);
        if let Some(error) = &stored.extended_error {
            edns.options_mut().insert(error.option());
        }
        let mut out = layout.start(stored.size().saturating_add(layout.block.unwrap_or(0)));
        stored.write(&mut out, age);
        (out, Some(stored.ttl.saturating_sub(age)), edns)
    }

    fn edns(&self, code_high: u8) -> Edns {
        let mut edns = default_edns();
        edns.set_rcode_high(code_high);
        edns.set_dnssec_ok(self.edns.is_some_and(|edns| edns.dnssec_ok));
        edns
    }

    /// Sets the header fields and the spelling of the name to those of the query.
    fn patch(&self, out: &mut [u8], layout: Layout) {
        let Some(message) = out.get_mut(layout.prefix()..) else { return };
        let Some((header, rest)) = message.split_first_chunk_mut::<HEADER>() else { return };
        let [id_high, id_low, flags, more, ..] = header;
        [*id_high, *id_low] = self.id.to_be_bytes();
        *flags = (*flags & !RD) | QR | if self.recursion_desired { RD } else { 0 };
        *more = (*more & !CD) | if self.checking_disabled { CD } else { 0 };
        if !self.authentic_data {
            *more &= !AD;
        }
        if let Some(name) = rest.get_mut(..self.name.len())
            && name.eq_ignore_ascii_case(&self.name)
        {
            name.copy_from_slice(&self.name);
        }
    }

    /// Reduces the message to its header and question, and sets the TC bit (RFC 2181 §9).
    fn truncate(&self, out: &mut Vec<u8>, layout: Layout) {
        let name = HEADER.saturating_add(layout.prefix());
        let name_end = name.saturating_add(self.name.len());
        let has_question = !self.name.is_empty()
            && out.get(name..name_end).is_some_and(|it| it == self.name.as_slice());
        out.truncate(match has_question {
            true => name_end.saturating_add(TYPE_AND_CLASS),
            false => name,
        });
        let header = out.get_mut(layout.prefix()..).and_then(|it| it.first_chunk_mut::<HEADER>());
        if let Some([_, _, flags, _, counts @ ..]) = header {
            *flags |= TC;
            *counts = [0, u8::from(has_question), 0, 0, 0, 0, 0, 0];
        }
    }
}

/// A response as it is sent.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) octets: Vec<u8>,
    /// How long HTTP caches may use the response, in seconds; `None` without records.
    pub(crate) ttl: Option<u32>,
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod reply_tests;
