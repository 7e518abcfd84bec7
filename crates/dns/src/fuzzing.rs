//! Checks of what this crate decodes, only for fuzz targets.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{Bytes, BytesMut};
use hickory_proto::op::{Message, MessageType, ResponseCode};

use crate::extended_error::{ErrorInfo, ExtendedError};
use crate::forwarder::Question;
use crate::framing::{FramingError, MessageReader, PREFIX, next_message};
use crate::handler::Request;
use crate::protocol::Protocol;
use crate::reply::{Answer, Asked};
use crate::server::{format_error, parameter};
use crate::stored::Stored;
use crate::wire::{
    Layout, MAX_MESSAGE, QUERY_BLOCK, RESPONSE_BLOCK, check_doq, decode, default_edns, encode_query,
};

/// Maximum size of a query, as in the default limits of a server.
const LIMIT: usize = 4096;
/// Maximum size of a UDP response, as in the default limits of a server.
const UDP_PAYLOAD: u16 = 1232;
/// How queries are laid out on a DoQ stream.
const DOQ_QUERY: Layout =
    Layout { is_prefixed: true, block: Some(QUERY_BLOCK), limit: MAX_MESSAGE };

/// Reads the only message of a DoQ stream, which arrives in chunks.
fn doq(content: &[u8], chunk: usize) -> Result<Bytes, FramingError> {
    let mut reader = MessageReader::new(LIMIT);
    for part in content.chunks(chunk) {
        reader.push(Bytes::copy_from_slice(part))?;
    }
    reader.finish()
}

/// Reads the messages of a TCP stream, which arrives in chunks. Returns them with the length of the
/// incomplete last message; `None` if a message is too long.
fn tcp(content: &[u8], chunk: usize) -> (Vec<Bytes>, Option<usize>) {
    let (mut messages, mut received) = (Vec::new(), BytesMut::new());
    for part in content.chunks(chunk) {
        received.extend_from_slice(part);
        loop {
            match next_message(&mut received, LIMIT) {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => return (messages, None),
            }
        }
    }
    (messages, Some(received.len()))
}

/// Checks the content of streams: the messages do not depend on how a stream is split into chunks,
/// and they are what the length fields announce. Also decodes the content as the parameter of a DoH
/// request.
///
/// # Panics
/// If a check fails.
pub fn check_streams(content: &[u8]) {
    let (message, messages) = (doq(content, usize::MAX), tcp(content, usize::MAX));
    for chunk in [1, 3, 64] {
        assert_eq!(doq(content, chunk), message);
        assert_eq!(tcp(content, chunk), messages);
    }
    let prefixed = |message: &Bytes| {
        let length = u16::try_from(message.len()).expect("a length field");
        [&length.to_be_bytes(), &message[..]].concat()
    };
    if let Ok(message) = &message {
        assert_eq!(prefixed(message), content);
    }
    let joined = messages.0.iter().flat_map(prefixed).collect::<Vec<_>>();
    assert!(content.starts_with(&joined));
    if let Some(rest) = messages.1 {
        assert_eq!(joined.len() + rest, content.len());
    }
    let Ok(value) = core::str::from_utf8(content) else { return };
    if let Ok(octets) = parameter(&format!("dns={value}"), LIMIT) {
        assert_eq!(Some(URL_SAFE_NO_PAD.encode(&octets).as_str()), value.split('&').next());
    }
}

/// Checks a message as a query, and as the response of an upstream server.
///
/// # Panics
/// If a check fails.
pub fn check_messages(octets: &[u8]) {
    if let Some(error) = format_error(octets) {
        assert_eq!(decode(&error).map(|it| it.metadata.response_code), Ok(ResponseCode::FormErr));
    }
    let Ok(message) = decode(octets) else { return };
    check_extended_error(&message);
    check_encoded_query(&message);
    check_responses_to(&message);
    let Some(question) = Question::of(&message) else { return };
    check_question(&question);
    if let Ok(response) = question.response(octets, message.metadata.id) {
        check_stored(&response);
    }
}

fn check_extended_error(message: &Message) {
    let Some(error) = message.edns.as_ref().and_then(ExtendedError::of) else { return };
    let mut edns = default_edns();
    edns.options_mut().insert(error.option());
    assert_eq!(ExtendedError::of(&edns).as_ref(), Some(&error));
    assert!(error.to_string().starts_with("extended DNS error"));
}

/// Checks that a message can be sent over DoQ: padded, with the ID 0, and without the option of TCP
/// connections.
fn check_encoded_query(message: &Message) {
    let Ok(octets) = encode_query(message.clone(), 0, DOQ_QUERY) else { return };
    let body = body(&octets, DOQ_QUERY);
    let sent = decode(body).expect("an encoded query is a message");
    assert_eq!(check_doq(&sent), Ok(()));
    assert_eq!(sent.queries, message.queries);
    assert!(body.len() % QUERY_BLOCK == 0 || body.len() > MAX_MESSAGE - QUERY_BLOCK);
}

/// Checks that a question survives being forwarded.
fn check_question(question: &Question) {
    let query = question.message();
    let octets = encode_query(query, 0, DOQ_QUERY).expect("a question has at most 300 octets");
    let sent = decode(body(&octets, DOQ_QUERY)).expect("an encoded query is a message");
    assert_eq!(Question::of(&sent).map(|it| it.key()), Some(question.key()));
}

/// Checks the responses to a query, over each protocol.
fn check_responses_to(query: &Message) {
    let reason = ExtendedError::new(ErrorInfo::Other, "x".repeat(300));
    for protocol in Protocol::ALL {
        let request = Request::new(query.clone(), None, protocol);
        let failure = request.failure(ResponseCode::BADVERS, &reason);
        for response in [request.response(ResponseCode::NoError), failure] {
            check_encoded(query, response.into(), 0, protocol);
        }
    }
}

/// Checks a message in the cache: the records' TTLs are reduced, nothing else changes, and it can be
/// sent over each protocol.
fn check_stored(message: &Message) {
    let Ok(stored) = Stored::new(message.clone(), 60) else { return };
    let at = |age| {
        let mut octets = Vec::new();
        stored.write(&mut octets, age);
        decode(&octets).expect("a cached response is a message")
    };
    for age in [0, 1, 60, u32::MAX] {
        let mut expected = at(0);
        for records in [&mut expected.answers, &mut expected.authorities, &mut expected.additionals]
        {
            records.iter_mut().for_each(|record| record.ttl = record.ttl.saturating_sub(age));
        }
        assert_eq!(at(age), expected);
    }
    let stored = Arc::new(stored);
    for protocol in Protocol::ALL {
        for payload in [None, Some(512), Some(UDP_PAYLOAD)] {
            let mut query = Message::query();
            query.add_queries(message.queries.iter().cloned());
            query.edns = payload.map(|payload| {
                let mut edns = default_edns();
                edns.set_max_payload(payload);
                edns
            });
            let answer = Answer::stored(stored.clone(), 1);
            check_encoded(&query, answer, message.answers.len(), protocol);
        }
    }
}

/// Checks a response with this many answers as it is sent over a protocol.
fn check_encoded(query: &Message, answer: Answer, answers: usize, protocol: Protocol) {
    let asked = Asked::by(query);
    let layout = asked.layout(protocol, UDP_PAYLOAD);
    let Ok(Some(encoded)) = asked.encode(answer, layout) else { return };
    let body = body(&encoded.octets, layout);
    assert!(body.len() <= layout.limit, "{} octets over {protocol:?}", body.len());
    let response = decode(body).expect("an encoded response is a message");
    assert_eq!(response.metadata.id, query.metadata.id);
    assert_eq!(response.metadata.op_code, query.metadata.op_code);
    assert_eq!(response.metadata.message_type, MessageType::Response);
    assert_eq!(response.edns.is_some(), query.edns.is_some());
    assert!(response.answers.len() == answers || response.metadata.truncation);
    if layout.block.is_some() && query.edns.is_some() {
        let is_full = body.len() > MAX_MESSAGE - RESPONSE_BLOCK;
        assert!(body.len() % RESPONSE_BLOCK == 0 || is_full, "{} octets", body.len());
    }
}

/// Returns a message without its length field, which must be right.
fn body(octets: &[u8], layout: Layout) -> &[u8] {
    if !layout.is_prefixed {
        return octets;
    }
    let (prefix, body) = octets.split_first_chunk::<PREFIX>().expect("a length field");
    assert_eq!(usize::from(u16::from_be_bytes(*prefix)), body.len());
    body
}
