use hickory_proto::op::{MessageType, OpCode, Query};
use hickory_proto::rr::rdata::{A, CNAME, NS, SOA};
use hickory_proto::rr::{Name, RecordType};

use super::*;

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn response(code: ResponseCode) -> Message {
    let mut response = Message::new(0, MessageType::Response, OpCode::Query);
    response.metadata.response_code = code;
    response.add_query(Query::query(name("www.example."), RecordType::A));
    response
}

fn address(ttl: u32) -> Record {
    Record::from_rdata(name("www.example."), ttl, RData::A(A([192, 0, 2, 1].into())))
}

fn soa(ttl: u32, minimum: u32) -> Record {
    let soa = SOA::new(name("ns.example."), name("admin.example."), 1, 2, 3, 4, minimum);
    Record::from_rdata(name("example."), ttl, RData::SOA(soa))
}

fn with(code: ResponseCode, answers: &[Record], authorities: &[Record]) -> Message {
    let mut response = response(code);
    response.add_answers(answers.iter().cloned());
    response.add_authorities(authorities.iter().cloned());
    response
}

#[test]
fn the_smallest_ttl_counts() {
    let no_error = |answers: &[Record]| lifetime(&with(ResponseCode::NoError, answers, &[]));
    assert_eq!(no_error(&[address(60), address(30)]), 30);
    assert_eq!(no_error(&[address(0), address(30)]), 0);
    assert_eq!(no_error(&[address(1_000_000)]), MAX_TTL);
    // RFC 2181 §8: with the most significant bit set, a TTL is 0.
    assert_eq!(no_error(&[address(0x8000_0000)]), 0);
    // The SOA record's minimum is for negative responses.
    assert_eq!(lifetime(&with(ResponseCode::NoError, &[address(60)], &[soa(90, 5)])), 60);
    let mut truncated = with(ResponseCode::NoError, &[address(60)], &[]);
    truncated.metadata.truncation = true;
    assert_eq!(lifetime(&truncated), 0);
}

#[test]
fn negative_responses_live_as_long_as_the_soa_record_says() {
    let alias = RData::CNAME(CNAME(name("host.example.")));
    let alias = Record::from_rdata(name("www.example."), 500, alias);
    for code in [ResponseCode::NXDomain, ResponseCode::NoError] {
        assert_eq!(lifetime(&with(code, &[], &[soa(300, 60)])), 60);
        assert_eq!(lifetime(&with(code, &[], &[soa(60, 300)])), 60);
        assert_eq!(lifetime(&with(code, &[], &[soa(90_000, 90_000)])), MAX_NEGATIVE_TTL);
        assert_eq!(lifetime(&with(code, &[], &[])), 0);
        assert_eq!(lifetime(&with(code, std::slice::from_ref(&alias), &[soa(300, 60)])), 60);
    }
    // A referral is not a negative response.
    let referral = Record::from_rdata(name("example."), 60, RData::NS(NS(name("ns.example."))));
    assert_eq!(lifetime(&with(ResponseCode::NoError, &[], &[referral])), 0);
    for code in [ResponseCode::ServFail, ResponseCode::Refused, ResponseCode::NotImp] {
        assert_eq!(lifetime(&with(code, &[], &[soa(300, 60)])), 0);
    }
}

fn stored(message: Message) -> Arc<Stored> {
    let ttl = lifetime(&message);
    Arc::new(Stored::new(message, ttl).unwrap())
}

#[test]
fn a_response_is_there_until_its_ttl_is_over() {
    let cache = Cache::new(10, 1 << 20);
    let key = || Key::from([1]);
    let begun = Instant::now();
    let at = |milliseconds| begun + Duration::from_millis(milliseconds);
    cache.insert(key(), stored(with(ResponseCode::NoError, &[address(60)], &[])), begun);
    let age = |milliseconds| cache.get(&key(), at(milliseconds)).map(|(_, age)| age);
    assert_eq!(
        [0, 999, 1000, 59_999, 60_000].map(age),
        [Some(0), Some(0), Some(1), Some(59), None]
    );
    // A later response replaces it.
    cache.insert(key(), stored(with(ResponseCode::NXDomain, &[], &[soa(90, 30)])), at(40_000));
    let age = |milliseconds| cache.get(&key(), at(milliseconds)).map(|(_, age)| age);
    assert_eq!([40_000, 69_999, 70_000].map(age), [Some(0), Some(29), None]);
    assert!(cache.get(&[2], begun).is_none());
}

#[test]
fn entries_and_bytes_are_limited() {
    let entry = || stored(with(ResponseCode::NoError, &[address(60)], &[]));
    for (entries, bytes, most) in [(10, 1 << 20, 10), (1000, 10_000, 33), (0, 1 << 20, 0)] {
        let cache = Cache::new(entries, bytes);
        for key in 0..1000_u16 {
            cache.insert(Key::from(key.to_be_bytes()), entry(), Instant::now());
            cache.settle();
        }
        let (count, size) = cache.size();
        assert!(count <= most && size <= bytes, "{count} entries of {size} bytes");
        assert!(count * 2 >= most, "{count} entries");
    }
}
