use hickory_proto::op::{MessageType, Query};
use hickory_proto::rr::RecordType;
use proptest::prelude::*;

use super::*;

fn query(name: &str) -> Message {
    let mut message = Message::query();
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    message
}

fn padded(block: usize, limit: usize) -> Layout {
    Layout { is_prefixed: true, block: Some(block), limit }
}

#[test]
fn queries_are_padded_to_blocks_and_have_the_id_0() {
    for labels in 0..60 {
        let name = "a.".repeat(labels) + "example.";
        let octets = encode_query(query(&name), 0, padded(QUERY_BLOCK, MAX_MESSAGE)).unwrap();
        let (prefix, message) = octets.split_first_chunk::<2>().unwrap();
        assert_eq!(usize::from(u16::from_be_bytes(*prefix)), message.len());
        assert_eq!(message.len() % 128, 0, "{labels} labels");
        let decoded = decode(message).unwrap();
        assert_eq!(decoded.metadata.id, 0);
        assert_eq!(decoded.queries, query(&name).queries);
        assert!(decoded.edns.unwrap().option(EdnsCode::Padding).is_some());
    }
}

#[test]
fn padding_and_options_of_a_tcp_connection_are_replaced() {
    let mut message = query("example.");
    let mut edns = Edns::new();
    edns.set_dnssec_ok(true);
    edns.options_mut().insert(EdnsOption::Unknown(11, vec![0, 1]));
    edns.options_mut().insert(EdnsOption::Unknown(12, vec![0; 7]));
    edns.options_mut().insert(EdnsOption::Unknown(65001, vec![1, 2, 3]));
    message.set_edns(edns);
    let octets = encode_query(message, 0, padded(QUERY_BLOCK, MAX_MESSAGE)).unwrap();
    assert_eq!(octets.len(), 2 + 128);
    let edns = decode(&octets[2..]).unwrap().edns.unwrap();
    assert!(edns.flags().dnssec_ok);
    let codes: Vec<u16> = edns.options().as_ref().iter().map(|(code, _)| (*code).into()).collect();
    assert_eq!(codes, [65001, 12]);
}

#[test]
fn padding_stops_at_the_limit() {
    for limit in 90..100 {
        let octets = encode_query(query("example."), 7, padded(128, limit)).unwrap();
        assert_eq!(octets.len() - 2, limit);
        assert_eq!(decode(&octets[2..]).unwrap().metadata.id, 7);
    }
    // There is no room for even an empty option.
    let octets = encode_query(query("example."), 7, padded(128, 38)).unwrap();
    assert!(decode(&octets[2..]).unwrap().edns.unwrap().option(EdnsCode::Padding).is_none());
}

#[test]
fn messages_fill_their_octets() {
    let octets = query("example.").to_vec().unwrap();
    assert!(decode(&octets).is_ok());
    assert_eq!(decode(&[octets.as_slice(), &[0]].concat()), Err(Violation::Malformed));
    for length in 0..octets.len() {
        assert_eq!(decode(&octets[..length]), Err(Violation::Malformed), "{length}");
    }
}

#[test]
fn doq_messages_have_the_id_0_and_no_keepalive() {
    let mut message = query("example.");
    message.metadata.id = 1;
    assert_eq!(check_doq(&message), Err(Violation::NonzeroId));
    message.metadata.id = 0;
    assert_eq!(check_doq(&message), Ok(()));
    message.set_edns(default_edns());
    assert_eq!(check_doq(&message), Ok(()));
    let mut edns = default_edns();
    edns.options_mut().insert(EdnsOption::Unknown(11, vec![]));
    message.set_edns(edns);
    assert_eq!(check_doq(&message), Err(Violation::TcpKeepalive));
}

#[test]
fn names_in_wire_form() {
    assert_eq!(name_octets(&Name::root()), [0]);
    let name = Name::from_ascii("Www.Example.").unwrap();
    assert_eq!(name_octets(&name), b"\x03Www\x07Example\0");
}

proptest! {
    #[test]
    fn octets_of_a_peer_never_panic(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&octets);
    }

    /// Damaged messages can be decoded more often than random octets can. Whatever is decoded can
    /// be encoded.
    #[test]
    fn damaged_messages_never_panic(
        at in any::<proptest::sample::Index>(),
        octet in any::<u8>(),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut message = query("a.b.example.");
        message.metadata.message_type = MessageType::Response;
        let mut octets = encode_query(message, 0, padded(QUERY_BLOCK, MAX_MESSAGE)).unwrap();
        let at = at.index(octets.len());
        octets[at] = octet;
        if let Ok(decoded) = decode(&octets[2..]) {
            let _ = encode_query(decoded, 0, padded(QUERY_BLOCK, MAX_MESSAGE));
        }
        let _ = decode(&octets[2..2 + cut.index(octets.len() - 2)]);
    }
}
