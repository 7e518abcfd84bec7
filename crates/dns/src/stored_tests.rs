use std::net::Ipv4Addr;

use hickory_proto::op::{MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::rdata::{A, CNAME, TXT};
use hickory_proto::rr::{RData, Record, RecordType};

use super::*;
use crate::extended_error::ErrorInfo;
use crate::wire::{decode, default_edns};

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn response() -> Message {
    let mut response = Message::new(7, MessageType::Response, OpCode::Query);
    response.add_query(Query::query(name("www.example."), RecordType::A));
    let alias = RData::CNAME(CNAME(name("host.example.")));
    response.add_answer(Record::from_rdata(name("www.example."), 300, alias));
    let address = RData::A(A(Ipv4Addr::new(192, 0, 2, 1)));
    response.add_answer(Record::from_rdata(name("host.example."), 60, address));
    let text = RData::TXT(TXT::new(vec!["x".repeat(200)]));
    response.add_additional(Record::from_rdata(name("example."), 5, text));
    response
}

#[test]
fn ttls_count_down_to_zero() {
    let stored = Stored::new(response(), 5).unwrap();
    for (age, expected) in [(0, [300, 60, 5]), (1, [299, 59, 4]), (61, [239, 0, 0])] {
        let mut out = vec![1, 2];
        stored.write(&mut out, age);
        let message = decode(&out[2..]).unwrap();
        let ttls: Vec<u32> = message.all_sections().map(|record| record.ttl).collect();
        assert_eq!(ttls, expected, "after {age} s");
        assert_eq!(message.queries, response().queries);
    }
}

#[test]
fn a_response_keeps_its_code_and_the_reason_for_it() {
    let mut message = response();
    message.metadata.response_code = ResponseCode::BADCOOKIE;
    let reason = ExtendedError::new(ErrorInfo::Prohibited, "no");
    let mut edns = default_edns();
    edns.options_mut().insert(reason.option());
    message.set_edns(edns);
    let stored = Stored::new(message, 5).unwrap();
    assert_eq!(stored.extended_error, Some(reason));
    assert_eq!(stored.code_high, ResponseCode::BADCOOKIE.high());
    let mut out = Vec::new();
    stored.write(&mut out, 0);
    assert!(decode(&out).unwrap().edns.is_none());
    assert!(stored.size() > out.len());
}

#[test]
fn the_text_of_an_upstream_server_is_truncated() {
    let mut edns = default_edns();
    // Each of these octets becomes a replacement character of three octets.
    let data = [&[0, 18][..], &[0xff; 30_000]].concat();
    edns.options_mut().insert(EdnsOption::Unknown(15, data));
    let mut message = response();
    message.set_edns(edns);
    let error = Stored::new(message, 5).unwrap().extended_error.unwrap();
    assert_eq!((error.code, error.text.len()), (18, 198));
}
