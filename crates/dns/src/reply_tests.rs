use std::net::Ipv4Addr;

use hickory_proto::op::{MessageType, Query, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::*;
use crate::extended_error::{ErrorInfo, ExtendedError};
use crate::wire::decode;

const PLAIN: Layout = Layout { is_prefixed: false, block: None, limit: MAX_MESSAGE };
const PADDED: Layout =
    Layout { is_prefixed: true, block: Some(RESPONSE_BLOCK), limit: MAX_MESSAGE };

fn query(name: &str, has_edns: bool) -> Message {
    let mut query = Message::query();
    query.metadata.id = 99;
    query.metadata.recursion_desired = true;
    query.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    query.edns = has_edns.then(default_edns);
    query
}

fn response(name: &str, records: u8) -> Message {
    let mut response = Message::new(1, MessageType::Response, OpCode::Query);
    let name = Name::from_ascii(name).unwrap();
    response.add_query(Query::query(name.clone(), RecordType::A));
    response.metadata.authentic_data = true;
    for last in 0..records {
        let data = RData::A(A(Ipv4Addr::new(192, 0, 2, last)));
        response.add_answer(Record::from_rdata(name.clone(), 60 + u32::from(last), data));
    }
    response
}

fn encode(query: &Message, answer: Answer, layout: Layout) -> Encoded {
    Asked::by(query).encode(answer, layout).unwrap().unwrap()
}

/// The same response from a handler and from the cache.
fn answers(response: &Message) -> [Answer; 2] {
    let stored = Arc::new(Stored::new(response.clone(), 60).unwrap());
    [response.clone().into(), Answer::stored(stored, 0)]
}

#[test]
fn headers_and_spelling_are_those_of_the_query() {
    for answer in answers(&response("www.example.", 2)) {
        let encoded = encode(&query("wWw.eXample.", true), answer, PLAIN);
        let message = decode(&encoded.octets).unwrap();
        assert_eq!(message.metadata.id, 99);
        assert_eq!(message.metadata.message_type, MessageType::Response);
        assert!(message.metadata.recursion_desired && !message.metadata.checking_disabled);
        // The client has not shown that it understands the AD bit.
        assert!(!message.metadata.authentic_data);
        assert_eq!(message.queries[0].name().to_ascii(), "wWw.eXample.");
        assert_eq!(message.answers.len(), 2);
        assert_eq!(encoded.ttl, Some(60));
    }
    let mut query = query("www.example.", true);
    query.metadata.authentic_data = true;
    query.metadata.checking_disabled = true;
    for answer in answers(&response("www.example.", 2)) {
        let message = decode(&encode(&query, answer, PLAIN).octets).unwrap();
        assert!(message.metadata.authentic_data && message.metadata.checking_disabled);
    }
}

#[test]
fn responses_are_padded_if_the_query_has_an_opt_record() {
    for records in [0, 1, 20, 40, 200] {
        for answer in answers(&response("www.example.", records)) {
            let encoded = encode(&query("www.example.", true), answer, PADDED);
            assert_eq!((encoded.octets.len() - 2) % 468, 0, "{records} records");
            let announced = u16::from_be_bytes([encoded.octets[0], encoded.octets[1]]);
            assert_eq!(usize::from(announced), encoded.octets.len() - 2);
            let message = decode(&encoded.octets[2..]).unwrap();
            assert!(message.edns.unwrap().option(EdnsCode::Padding).is_some());
        }
        for answer in answers(&response("www.example.", records)) {
            let encoded = encode(&query("www.example.", false), answer, PADDED);
            assert!(decode(&encoded.octets[2..]).unwrap().edns.is_none());
        }
    }
}

#[test]
fn a_response_that_is_too_long_is_truncated() {
    for has_edns in [false, true] {
        let query = query("www.example.", has_edns);
        let asked = Asked::by(&query);
        let limit = asked.udp_limit(1232);
        assert_eq!(limit, if has_edns { 1232 } else { 512 });
        let layout = Layout { limit, ..PLAIN };
        for answer in answers(&response("www.example.", 100)) {
            let encoded = asked.encode(answer, layout).unwrap().unwrap();
            assert!(encoded.octets.len() <= limit);
            let message = decode(&encoded.octets).unwrap();
            assert!(message.metadata.truncation);
            assert_eq!(message.queries, query.queries);
            assert_eq!((message.answers.len(), message.edns.is_some()), (0, has_edns));
        }
        for answer in answers(&response("www.example.", 20)) {
            let encoded = asked.encode(answer, layout).unwrap().unwrap();
            assert!(!decode(&encoded.octets).unwrap().metadata.truncation);
        }
    }
    let mut small = query("www.example.", true);
    small.edns.as_mut().unwrap().set_max_payload(512);
    assert_eq!(Asked::by(&small).udp_limit(1232), 512);
    small.edns.as_mut().unwrap().set_max_payload(4096);
    assert_eq!(Asked::by(&small).udp_limit(1232), 1232);
}

#[test]
fn options_of_a_handler_are_sent_except_those_of_one_hop() {
    let reason = ExtendedError::new(ErrorInfo::NotReady, "starting");
    let mut message = response("www.example.", 0);
    message.metadata.response_code = ResponseCode::BADVERS;
    let mut edns = default_edns();
    for code in [10, 11, 12] {
        let option = hickory_proto::rr::rdata::opt::EdnsOption::Unknown(code, vec![0; 8]);
        edns.options_mut().insert(option);
    }
    edns.options_mut().insert(reason.option());
    message.set_edns(edns);
    let encoded = encode(&query("www.example.", true), message.into(), PLAIN);
    let message = decode(&encoded.octets).unwrap();
    // BADVERS and BADSIG have the same number.
    assert_eq!(u16::from(message.metadata.response_code), 16);
    let edns = message.edns.unwrap();
    assert_eq!(edns.options().as_ref().len(), 1);
    assert_eq!(ExtendedError::of(&edns), Some(reason));
    assert_eq!(encoded.ttl, None);
}

#[test]
fn a_handler_may_give_no_response() {
    let asked = Asked::by(&query("www.example.", true));
    assert!(asked.encode(Answer::abandon(), PLAIN).unwrap().is_none());
}
