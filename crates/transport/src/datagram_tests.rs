use clearway_wire::{VarInt, Writer};

use super::*;

const PACKET_ROOM: usize = 1100;

fn datagrams(peer_max: u32) -> Datagrams {
    let limits = QueueLimits { bytes: 3000, datagrams: 1000 };
    let config = DatagramsConfig {
        max_frame_size: 1000,
        receive: limits,
        send: limits,
        drops_oldest: false,
        notices: true,
    };
    let mut datagrams = Datagrams::new(config, PACKET_ROOM);
    let parameters = TransportParameters {
        max_datagram_frame_size: VarInt::from_u32(peer_max),
        ..TransportParameters::default()
    };
    datagrams.set_peer_parameters(&parameters);
    datagrams
}

fn write(datagrams: &mut Datagrams, room: usize) -> (usize, Vec<Token>) {
    let mut buffer = vec![0; room];
    let mut writer = Writer::new(&mut buffer);
    let mut tokens = Vec::new();
    datagrams.write_frames(&mut PacketContents::new(&mut writer, &mut tokens));
    (writer.written(), tokens)
}

#[test]
fn a_peer_that_takes_none_is_sent_none() {
    assert_eq!(datagrams(0).send(Bytes::new()), Err(DatagramError::Unsupported));
}

#[test]
fn the_smaller_of_peer_and_path_limits_the_payload() {
    let maximum = datagrams(600).max_payload().unwrap();
    assert_eq!(maximum, 597, "type and two bytes of length");
    assert_eq!(
        datagrams(600).send(Bytes::from(vec![0; maximum + 1])),
        Err(DatagramError::TooLarge { maximum })
    );
    assert_eq!(datagrams(600).send(Bytes::from(vec![0; maximum])), Ok(DatagramId(0)));
    assert_eq!(datagrams(65535).max_payload(), Some(1097));
}

#[test]
fn the_queue_out_is_bounded_even_for_empty_datagrams() {
    let mut datagrams = datagrams(1000);
    let sent = (0..1000).take_while(|_| datagrams.send(Bytes::new()).is_ok()).count();
    assert_eq!(sent, 3000 / 64);
    assert_eq!(datagrams.send(Bytes::new()), Err(DatagramError::QueueFull));
}

#[test]
fn datagrams_fill_a_packet_in_order_and_leave_tokens() {
    let mut datagrams = datagrams(1000);
    for length in [500, 400, 300] {
        datagrams.send(Bytes::from(vec![0; length])).unwrap();
    }
    let (written, tokens) = write(&mut datagrams, 1000);
    assert_eq!(written, 503 + 403);
    assert_eq!(tokens, [Token::Datagram { id: 0 }, Token::Datagram { id: 1 }]);
    assert!(datagrams.has_pending());
    assert_eq!(write(&mut datagrams, 1000).0, 303);
    assert!(!datagrams.has_pending());
    assert_eq!(datagrams.statistics().sent, 3);
    datagrams.on_lost(1);
    assert_eq!(datagrams.statistics().lost, 1);
    assert!(!datagrams.has_pending(), "a lost datagram is not retransmitted");
}

#[test]
fn the_oldest_are_dropped_when_the_application_does_not_take_them() {
    let mut datagrams = datagrams(1000);
    for byte in 0..10 {
        datagrams.on_datagram(&frame::Datagram { data: &[byte; 436] }).unwrap();
    }
    let kept: Vec<u8> = core::iter::from_fn(|| datagrams.next()).map(|data| data[0]).collect();
    assert_eq!(kept, [4, 5, 6, 7, 8, 9]);
    assert_eq!((datagrams.statistics().received, datagrams.statistics().dropped), (10, 4));
    for _ in 0..1000 {
        datagrams.on_datagram(&frame::Datagram { data: &[] }).unwrap();
    }
    assert_eq!(core::iter::from_fn(|| datagrams.next()).count(), 3000 / 64);
}

#[test]
fn a_frame_beyond_the_limit_ends_the_connection() {
    let mut datagrams = datagrams(0);
    assert!(datagrams.on_datagram(&frame::Datagram { data: &[0; 999] }).is_ok());
    let error = datagrams.on_datagram(&frame::Datagram { data: &[0; 1000] }).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    datagrams.config.max_frame_size = 0;
    assert!(datagrams.on_datagram(&frame::Datagram { data: &[] }).is_err());
}

/// RFC 8899 §4.4: datagrams accepted for larger packets that no longer fit are dropped, and the
/// others are sent.
#[test]
fn datagrams_that_the_path_no_longer_carries_are_dropped() {
    let mut datagrams = datagrams(1000);
    for length in [900, 100, 850, 200] {
        datagrams.send(Bytes::from(vec![0; length])).unwrap();
    }
    datagrams.set_packet_room(800);
    assert_eq!(datagrams.max_payload(), Some(797));
    assert_eq!(datagrams.statistics().outgrown, 2);
    let (_, tokens) = write(&mut datagrams, 800);
    assert_eq!(tokens, [Token::Datagram { id: 1 }, Token::Datagram { id: 3 }]);
    let outcomes: Vec<_> = core::iter::from_fn(|| datagrams.next_outcome()).collect();
    let outgrown = |id| (DatagramId(id), DatagramOutcome::Outgrown);
    assert_eq!(outcomes, [outgrown(0), outgrown(2)]);
    datagrams.set_packet_room(PACKET_ROOM);
    assert_eq!(datagrams.max_payload(), Some(997));
}

#[test]
fn the_queues_are_bounded_by_number_too() {
    let mut datagrams = datagrams(1000);
    datagrams.config.send.datagrams = 2;
    datagrams.config.receive.datagrams = 3;
    assert!(datagrams.send(Bytes::new()).is_ok() && datagrams.send(Bytes::new()).is_ok());
    assert_eq!(datagrams.send(Bytes::new()), Err(DatagramError::QueueFull));
    for byte in 0..5 {
        datagrams.on_datagram(&frame::Datagram { data: &[byte] }).unwrap();
    }
    let kept: Vec<u8> = core::iter::from_fn(|| datagrams.next()).map(|data| data[0]).collect();
    assert_eq!(kept, [2, 3, 4]);
}

#[test]
fn the_newest_takes_the_place_of_the_oldest_where_that_is_wanted() {
    let mut datagrams = datagrams(1000);
    datagrams.config.drops_oldest = true;
    for length in [900, 900, 900] {
        datagrams.send(Bytes::from(vec![0; length])).unwrap();
    }
    // 2892 bytes are used, 64 of them per datagram; to make room for 500 more, the first datagram
    // has to be dropped.
    assert_eq!(datagrams.send(Bytes::from(vec![0; 500])), Ok(DatagramId(3)));
    assert_eq!(datagrams.next_outcome(), Some((DatagramId(0), DatagramOutcome::Displaced)));
    assert_eq!(datagrams.next_outcome(), None);
    let statistics = datagrams.statistics();
    assert_eq!((statistics.displaced, statistics.queued), (1, 3));
    // A datagram that does not fit even into an empty queue displaces no others.
    datagrams.config.send.bytes = 500;
    assert_eq!(datagrams.send(Bytes::from(vec![0; 500])), Err(DatagramError::QueueFull));
    assert_eq!(datagrams.statistics().queued, 3);
}

#[test]
fn the_space_left_is_what_another_datagram_may_have() {
    let mut datagrams = datagrams(1000);
    assert_eq!(datagrams.send_space(), 3000 - 64);
    datagrams.send(Bytes::from(vec![0; 900])).unwrap();
    let space = datagrams.send_space();
    assert_eq!(space, 3000 - 964 - 64);
    datagrams.config.send.datagrams = 1;
    assert_eq!(datagrams.send_space(), 0);
    datagrams.config.send.datagrams = 1000;
    datagrams.config.send.bytes = 964 + 63;
    assert_eq!(datagrams.send_space(), 0);
}

/// RFC 9221 §5.2: the loss is reported, and later the fact that it was spurious.
#[test]
fn each_outcome_is_reported_once() {
    let mut datagrams = datagrams(1000);
    let ids: Vec<DatagramId> = (0..2).map(|_| datagrams.send(Bytes::new()).unwrap()).collect();
    write(&mut datagrams, 1000);
    datagrams.on_lost(1);
    datagrams.on_acked(0);
    datagrams.on_acked(1);
    let outcomes: Vec<_> = core::iter::from_fn(|| datagrams.next_outcome()).collect();
    let expected = [
        (ids[1], DatagramOutcome::Lost),
        (ids[0], DatagramOutcome::Acknowledged),
        (ids[1], DatagramOutcome::Acknowledged),
    ];
    assert_eq!(outcomes, expected);
    let statistics = datagrams.statistics();
    assert_eq!((statistics.lost, statistics.acknowledged), (1, 2));
    // Without the setting no outcomes are kept.
    datagrams.config.notices = false;
    datagrams.on_lost(0);
    assert_eq!(datagrams.next_outcome(), None);
}

#[test]
fn room_is_reported_once_after_a_refusal_and_when_half_of_the_queue_is_empty() {
    let mut datagrams = datagrams(1000);
    assert!(!datagrams.take_room(), "nothing was refused");
    for _ in 0..3 {
        datagrams.send(Bytes::from(vec![0; 900])).unwrap();
    }
    assert_eq!(datagrams.send(Bytes::from(vec![0; 900])), Err(DatagramError::QueueFull));
    write(&mut datagrams, 1000);
    assert!(!datagrams.take_room(), "two thirds are occupied");
    write(&mut datagrams, 1000);
    assert!(datagrams.take_room());
    assert!(!datagrams.take_room());
}
