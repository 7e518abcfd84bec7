use proptest::prelude::*;

use super::*;

fn flow() -> UdpFlow {
    let mut flow = UdpFlow::new(Side::Proxy, QueueLimits::default());
    flow.open();
    flow
}

fn payload(payload: &[u8]) -> Bytes {
    Datagram::encode(ContextId::PAYLOAD, payload)
}

fn dropped(flow: &UdpFlow) -> Vec<(DropReason, u64)> {
    flow.statistics().dropped.iter().map(|(reason, count)| (*reason, *count)).collect()
}

fn forward(payload: &'static [u8]) -> Received {
    Received::Forward(Bytes::from_static(payload))
}

/// Returns the results for all capsules in `content`, which arrives in chunks.
fn receive(flow: &mut UdpFlow, content: &[u8], chunk: usize) -> Vec<Received> {
    let mut results = Vec::new();
    for part in content.chunks(chunk) {
        let mut part = Bytes::copy_from_slice(part);
        results.extend(core::iter::from_fn(|| flow.receive_content(&mut part)));
        assert!(part.is_empty());
    }
    results
}

/// Tests the requirements of RFC 9298 §5.
#[test]
fn section_5_datagrams_become_payloads_and_back() {
    let mut flow = flow();
    assert_eq!(flow.receive_datagram(payload(b"abc")), forward(b"abc"));
    assert_eq!(flow.receive_datagram(payload(b"")), forward(b""));
    let other = Datagram::encode(ContextId::new(2).unwrap(), b"abc");
    assert_eq!(flow.receive_datagram(other), Received::Ignored(DropReason::UnknownContext));
    flow.queue(b"xy");
    flow.queue(b"z");
    assert!(flow.has_queued());
    assert_eq!(flow.next_datagram(1200).as_deref(), Some(&[0, b'x', b'y'][..]));
    assert_eq!(flow.next_capsule().as_deref(), Some(&[0, 2, 0, b'z'][..]));
    assert_eq!(flow.next_datagram(1200), None);
    let statistics = flow.statistics();
    assert_eq!(statistics.to_socket, Traffic { datagrams: 2, bytes: 3 });
    assert_eq!(statistics.to_peer, Traffic { datagrams: 2, bytes: 3 });
    assert_eq!(dropped(&flow), [(DropReason::UnknownContext, 1)]);
}

/// Tests the requirements of RFC 9298 §5.
#[test]
fn section_5_a_payload_over_65527_bytes_aborts_the_stream() {
    let longest = payload(&vec![7; MAX_UDP_PAYLOAD]);
    assert!(matches!(flow().receive_datagram(longest), Received::Forward(_)));
    let error = UdpError::PayloadTooLong { length: 65_528 };
    let too_long = payload(&vec![7; MAX_UDP_PAYLOAD + 1]);
    let mut aborted = flow();
    aborted.queue(b"waiting");
    assert_eq!(aborted.receive_datagram(too_long.clone()), Received::Abort(error));
    assert_eq!(error.code(), Code::DATAGRAM_ERROR);
    let after = aborted.receive_datagram(payload(b"a"));
    assert_eq!(after, Received::Ignored(DropReason::Aborted));
    aborted.queue(b"b");
    assert!(!aborted.has_queued());
    assert_eq!(dropped(&aborted), [(DropReason::Aborted, 3)]);
    for chunk in [1, 1000, 100_000] {
        let capsule = Capsule::encode(DATAGRAM_CAPSULE, &too_long);
        let mut flow = flow();
        assert_eq!(receive(&mut flow, &capsule, chunk), [Received::Abort(error)]);
        assert_eq!(flow.finish(), Ok(()));
    }
}

#[test]
fn a_capsule_too_long_to_use_is_not_buffered() {
    for chunk in [1, 7, 100_000] {
        let mut flow = flow();
        flow.set_udp_limit(1000);
        // Context ID 2 in eight bytes.
        let mut other = vec![0xc0, 0, 0, 0, 0, 0, 0, 2];
        other.resize(70_000, 0);
        let content = [
            Capsule::encode(DATAGRAM_CAPSULE, &payload(&[7; 1000])),
            Capsule::encode(DATAGRAM_CAPSULE, &payload(&[7; 1001])),
            Capsule::encode(DATAGRAM_CAPSULE, &payload(&[7; 50_000])),
            Capsule::encode(DATAGRAM_CAPSULE, &other),
            Capsule::encode(0x17, &[0; 70_000]),
            Capsule::encode(DATAGRAM_CAPSULE, &payload(b"end")),
        ];
        let results = receive(&mut flow, &content.concat(), chunk);
        let ignored = Received::Ignored(DropReason::TooLargeForPath);
        let unknown = Received::Ignored(DropReason::UnknownContext);
        let first = Received::Forward(vec![7; 1000].into());
        assert_eq!(results, [first, ignored.clone(), ignored, unknown, forward(b"end")]);
        assert_eq!(flow.finish(), Ok(()));
    }
}

#[test]
fn truncation_is_an_error() {
    let mut flow = flow();
    let error = UdpError::TruncatedDatagram;
    assert_eq!(flow.receive_datagram(Bytes::new()), Received::Abort(error));
    let mut flow = super::tests::flow();
    let content = Capsule::encode(DATAGRAM_CAPSULE, &payload(b"abc"));
    assert_eq!(receive(&mut flow, &content[..4], 100), []);
    assert_eq!(flow.finish(), Err(UdpError::TruncatedCapsule));
    assert_eq!(UdpError::TruncatedCapsule.code(), Code::MESSAGE_ERROR);
}

#[test]
fn payloads_wait_for_the_socket_up_to_a_limit() {
    let limits = QueueLimits { datagrams: 2, bytes: 100 };
    let mut flow = UdpFlow::new(Side::Proxy, limits);
    for byte in [b"1", b"2", b"3"] {
        assert_eq!(flow.receive_datagram(payload(byte)), Received::Held);
    }
    assert_eq!(flow.next_held(), None);
    flow.open();
    assert_eq!(flow.next_held().as_deref(), Some(&b"2"[..]));
    assert_eq!(flow.receive_datagram(payload(b"4")), forward(b"4"));
    assert_eq!(flow.next_held().as_deref(), Some(&b"3"[..]));
    assert_eq!(flow.next_held(), None);
    assert_eq!(dropped(&flow), [(DropReason::QueueFull, 1)]);
}

/// Tests the requirements of RFC 9298 §6.1.
#[test]
fn section_6_1_payloads_that_do_not_fit_are_dropped() {
    let mut flow = flow();
    for length in [10, 11, 10] {
        flow.queue(&vec![0; length]);
    }
    flow.queue(&vec![0; MAX_UDP_PAYLOAD + 1]);
    assert_eq!(flow.next_datagram(11).map(|datagram| datagram.len()), Some(11));
    assert_eq!(flow.next_datagram(11).map(|datagram| datagram.len()), Some(11));
    assert_eq!(flow.next_datagram(11), None);
    let expected = [(DropReason::TooLargeForDatagram, 1), (DropReason::TooLong, 1)];
    assert_eq!(dropped(&flow), expected);
}

#[test]
fn extensions_can_allocate_contexts() {
    let mut flow = UdpFlow::new(Side::Client, QueueLimits::default());
    assert_eq!(flow.contexts_mut().allocate(), ContextId::new(2));
    let context = ContextId::new(1).unwrap();
    let datagram = Datagram::encode(context, b"abc");
    let ignored = Received::Ignored(DropReason::UnknownContext);
    assert_eq!(flow.receive_datagram(datagram.clone()), ignored);
    flow.contexts_mut().register(context).unwrap();
    let payload = Bytes::from_static(b"abc");
    let received = Received::Extension(Datagram { context, payload });
    assert_eq!(flow.receive_datagram(datagram), received);
}

proptest! {
    #[test]
    fn chunks_do_not_matter(content in proptest::collection::vec(0u8..70, 0..300)) {
        let whole = receive(&mut flow(), &content, 1000);
        for chunk in 1..4 {
            prop_assert_eq!(&receive(&mut flow(), &content, chunk), &whole);
        }
    }

    #[test]
    fn what_one_side_queues_the_other_forwards(
        payloads in proptest::collection::vec(proptest::collection::vec(0u8.., 0..50), 0..60),
    ) {
        let (mut client, mut proxy) = (flow(), flow());
        let mut content = Vec::new();
        for payload in &payloads {
            client.queue(payload);
        }
        while let Some(capsule) = client.next_capsule() {
            content.extend_from_slice(&capsule);
        }
        let expected: Vec<Received> =
            payloads.into_iter().map(|payload| Received::Forward(payload.into())).collect();
        prop_assert_eq!(receive(&mut proxy, &content, 7), expected);
    }
}

/// Payloads that the caller drops do not count as passed.
#[test]
fn discarded_payloads_are_counted_by_reason() {
    let mut flow = flow();
    for _ in 0..3 {
        assert_eq!(flow.receive_datagram(payload(b"four")), forward(b"four"));
    }
    flow.discard_for_socket(Traffic { datagrams: 2, bytes: 8 }, DropReason::Unanswered);
    flow.queue(b"three");
    assert!(flow.next_datagram(100).is_some());
    flow.discard_for_peer(5, DropReason::TooLargeForDatagram);
    flow.discard(4, DropReason::Bandwidth);
    flow.discard(0, DropReason::NotSent);
    assert_eq!(flow.statistics().to_socket, Traffic { datagrams: 1, bytes: 4 });
    assert_eq!(flow.statistics().to_peer, Traffic::default());
    let expected = [
        (DropReason::TooLargeForDatagram, 1),
        (DropReason::Bandwidth, 4),
        (DropReason::Unanswered, 2),
    ];
    assert_eq!(dropped(&flow), expected);
}

#[test]
fn every_reason_has_its_name() {
    let names: std::collections::BTreeSet<_> = DropReason::ALL.map(DropReason::name).into();
    assert_eq!(names.len(), DropReason::ALL.len());
}
