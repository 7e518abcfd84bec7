use proptest::prelude::*;

use super::*;

fn id(id: u64) -> ContextId {
    ContextId::new(id).unwrap()
}

/// Tests the requirements of RFC 9298 §4.
#[test]
fn section_4_clients_use_even_ids_and_proxies_odd_ones() {
    let (mut client, mut proxy) = (Contexts::new(Side::Client), Contexts::new(Side::Proxy));
    let allocated = [client.allocate(), client.allocate(), proxy.allocate(), proxy.allocate()];
    assert_eq!(allocated, [2, 4, 1, 3].map(ContextId::new));
    assert!(client.is_known(ContextId::PAYLOAD) && client.is_known(id(4)));
    assert!(!client.is_known(id(6)) && !client.is_known(id(1)));
    assert_eq!(client.register(id(0)), Err(ContextError::Reserved));
    assert_eq!(client.register(id(6)), Err(ContextError::WrongParity));
    assert_eq!(client.register(id(1)), Ok(()));
    assert!(client.is_known(id(1)));
    assert_eq!(client.register(id(1)), Err(ContextError::AlreadyRegistered));
    for odd in 1..MAX_REGISTERED as u64 {
        assert_eq!(client.register(id(2 * odd + 1)), Ok(()));
    }
    assert_eq!(client.register(id(999)), Err(ContextError::TooMany));
}

#[test]
fn all_ids_can_be_allocated() {
    let mut contexts = Contexts::new(Side::Proxy);
    contexts.next = ContextId::new((1 << 62) - 1);
    assert_eq!(contexts.allocate(), ContextId::new((1 << 62) - 1));
    assert_eq!(contexts.allocate(), None);
    assert!(contexts.is_known(id((1 << 62) - 1)));
    assert_eq!(ContextId::new(1 << 62), None);
}

#[test]
fn a_payload_is_a_slice_of_its_datagram() {
    let datagram = Bytes::from_static(&[0x40, 0x02, b'a', b'b']);
    let decoded = Datagram::decode(datagram.clone()).unwrap();
    assert_eq!((decoded.context, &decoded.payload[..]), (id(2), &b"ab"[..]));
    assert_eq!(decoded.payload.as_ptr(), datagram[2..].as_ptr());
    assert_eq!(Datagram::decode(Bytes::new()), Err(ContextError::Truncated));
    assert_eq!(Datagram::decode(datagram.slice(..1)), Err(ContextError::Truncated));
    let empty = Datagram::decode(Bytes::from_static(&[0])).unwrap();
    assert_eq!((empty.context, empty.payload.len()), (ContextId::PAYLOAD, 0));
    assert_eq!(id(64).write(&mut [0]), None);
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(number in 0u64..1 << 62, payload: Vec<u8>) {
        let encoded = Datagram::encode(id(number), &payload);
        prop_assert_eq!(encoded.len(), id(number).encoded_len() + payload.len());
        let decoded = Datagram::decode(encoded).unwrap();
        prop_assert_eq!((decoded.context, &decoded.payload[..]), (id(number), &payload[..]));
    }
}
