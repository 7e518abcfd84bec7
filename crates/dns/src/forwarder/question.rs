//! The questions that are sent to upstream servers.

use hickory_proto::op::{Message, MessageType, OpCode, Query};

use crate::violation::Violation;
use crate::wire::{PAYLOAD, decode, default_edns, name_octets};

/// A query without its client-specific parts: the ID, the EDNS options, and the spelling of the
/// name.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    query: Query,
    recursion_desired: bool,
    checking_disabled: bool,
    dnssec_ok: bool,
    /// The EDNS payload size, which is not part of the key.
    payload: u16,
}

/// The key of a question in the cache. Equal questions have equal keys.
pub(crate) type Key = Box<[u8]>;

impl Question {
    /// Returns the question of a query, unless the query has no question or several.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        let [query] = message.queries.as_slice() else { return None };
        Some(Self {
            query: query.clone(),
            recursion_desired: message.metadata.recursion_desired,
            checking_disabled: message.metadata.checking_disabled,
            dnssec_ok: message.edns.as_ref().is_some_and(|edns| edns.flags().dnssec_ok),
            payload: PAYLOAD,
        })
    }

    /// Creates the question of a recursive query.
    pub(crate) const fn recursive(query: Query) -> Self {
        Self {
            query,
            recursion_desired: true,
            checking_disabled: false,
            dnssec_ok: false,
            payload: PAYLOAD,
        }
    }

    /// Returns the same question with the largest EDNS payload size.
    pub(crate) fn with_max_payload(&self) -> Self {
        Self { payload: u16::MAX, ..self.clone() }
    }

    pub(crate) const fn query(&self) -> &Query {
        &self.query
    }

    pub(crate) fn key(&self) -> Key {
        let mut key = name_octets(self.query.name());
        key.make_ascii_lowercase();
        key.extend_from_slice(&u16::from(self.query.query_type()).to_be_bytes());
        key.extend_from_slice(&u16::from(self.query.query_class()).to_be_bytes());
        let flags = [self.recursion_desired, self.checking_disabled, self.dnssec_ok];
        key.extend(flags.map(u8::from));
        key.into_boxed_slice()
    }

    /// Returns a query with a random ID.
    pub(crate) fn message(&self) -> Message {
        let mut message = Message::query();
        message.metadata.recursion_desired = self.recursion_desired;
        message.metadata.checking_disabled = self.checking_disabled;
        // Requests the AD bit without DNSSEC records (RFC 6840 §5.7).
        message.metadata.authentic_data = true;
        message.add_query(self.query.clone());
        let mut edns = default_edns();
        edns.set_max_payload(self.payload);
        edns.set_dnssec_ok(self.dnssec_ok);
        message.set_edns(edns);
        message
    }

    /// Decodes a response to the query with this ID, and checks that it is one.
    pub(crate) fn response(&self, octets: &[u8], id: u16) -> Result<Message, Violation> {
        let response = decode(octets)?;
        if response.metadata.id != id {
            return Err(Violation::NonzeroId);
        }
        if response.metadata.message_type != MessageType::Response {
            return Err(Violation::WrongDirection);
        }
        if response.metadata.op_code != OpCode::Query {
            return Err(Violation::WrongQuestion);
        }
        match response.queries.as_slice() {
            [query] if *query == self.query => Ok(response),
            // Some servers omit the question of a response such as REFUSED.
            [] if response.answers.is_empty() => Ok(response),
            _ => Err(Violation::WrongQuestion),
        }
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::{Name, RecordType};

    use super::*;

    fn question() -> Question {
        let name = Name::from_ascii("www.example.").unwrap();
        Question::recursive(Query::query(name, RecordType::A))
    }

    /// Returns the outcome of receiving a response that differs from the correct one.
    fn receive(change: impl FnOnce(&mut Message)) -> Result<(), Violation> {
        let mut response = question().message();
        response.metadata.id = 7;
        response.metadata.message_type = MessageType::Response;
        change(&mut response);
        question().response(&response.to_vec().unwrap(), 7).map(drop)
    }

    #[test]
    fn a_response_matches_its_query() {
        assert_eq!(receive(|_| {}), Ok(()));
        // For example REFUSED.
        assert_eq!(receive(|response| response.queries.clear()), Ok(()));
        assert_eq!(receive(|response| response.metadata.id = 8), Err(Violation::NonzeroId));
        let query = |response: &mut Message| response.metadata.message_type = MessageType::Query;
        assert_eq!(receive(query), Err(Violation::WrongDirection));
        let update = |response: &mut Message| response.metadata.op_code = OpCode::Update;
        assert_eq!(receive(update), Err(Violation::WrongQuestion));
        let other = |response: &mut Message| {
            response.queries[0].set_query_type(RecordType::AAAA);
        };
        assert_eq!(receive(other), Err(Violation::WrongQuestion));
        let two = |response: &mut Message| response.queries.push(response.queries[0].clone());
        assert_eq!(receive(two), Err(Violation::WrongQuestion));
    }
}
