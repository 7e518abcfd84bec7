//! Flow control limits, their updates, and the frames that report a blocked sender.

use core::time::Duration;

use clearway_wire::frame;

use super::*;

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_nanos(milliseconds * 1_000_000)
}

#[test]
fn the_limit_of_a_stream_blocks_is_reported_once_and_moves_on() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, &data(6000));
    assert_eq!(pair.client.blocked_by(), Some(FlowControlBlock::Stream));
    assert!(!pair.client.has_control_pending() && !pair.client.has_data_pending());
    assert_eq!(pair.server.readable_bytes(id), 4000);
    assert_eq!(pair.server.receive_credit(id), Some((0, 6000)), "of the stream and in all");
    let read = pair.server.read(pair.now, id, 1000).unwrap();
    assert_eq!(read, ReadOutcome::Data(data(1000)));
    pair.settle();
    assert_eq!(pair.client.blocked_by(), Some(FlowControlBlock::Stream), "more than half is left");
    read_all(&mut pair.server, pair.now, id);
    pair.settle();
    assert_eq!(pair.client.blocked_by(), None);
    assert_eq!(pair.server.statistics().bytes_received, 6000);
}

#[test]
fn the_limit_of_the_connection_blocks_all_streams_but_not_their_ends() {
    let mut pair = Pair::new(config());
    let ids: Vec<StreamId> = core::iter::from_fn(|| pair.client.open(UNIDIRECTIONAL)).collect();
    for id in &ids[..3] {
        pair.client.write(*id, data(4000)).unwrap();
    }
    let sent = packets(&mut pair.client);
    assert_eq!(pair.client.statistics().bytes_sent, 10_000);
    assert_eq!(pair.client.blocked_by(), Some(FlowControlBlock::Connection));
    let reports = sent.iter().flat_map(|packet| packet.tokens.clone());
    assert_eq!(reports.filter(|token| *token == Token::DataBlocked).count(), 1);
    pair.client.finish(ids[3]).unwrap();
    assert!(pair.client.has_data_pending(), "a bare end needs no credit");
    let end = packet(&mut pair.client, 1200).unwrap();
    let expected = frame::Stream { stream_id: ids[3], offset: code(0), fin: true, data: b"" };
    assert_eq!(end.frames(), [Frame::Stream(expected)]);
    sent[2].tokens.iter().for_each(|token| pair.client.on_lost(token));
    assert!(pair.client.has_data_pending(), "what was lost needs no credit either");
    packets(&mut pair.client);
    pair.client.on_max_data(&frame::MaxData { maximum: code(10_500) });
    packets(&mut pair.client);
    assert_eq!(pair.client.statistics().bytes_sent, 10_500);
}

#[test]
fn limits_are_raised_seldom_and_in_time() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, &data(1));
    let mut updates = 0;
    let mut carried = 0;
    for _ in 0..10_000 {
        carried += pair.client.write(id, data(100)).unwrap();
        for packet in packets(&mut pair.client) {
            deliver(&mut pair.server, pair.now, &packet).unwrap();
            packet.tokens.iter().for_each(|token| pair.client.on_acked(token));
        }
        assert_eq!(pair.client.blocked_by(), None, "never blocked: most of a window is left");
        read_all(&mut pair.server, pair.now, id);
        while let Some(packet) = packet(&mut pair.server, 1200) {
            updates += packet.tokens.len();
            deliver(&mut pair.client, pair.now, &packet).unwrap();
        }
    }
    assert_eq!(carried, 1_000_000);
    // There is one update for each eighth of the stream's window and of the connection's window.
    assert!(updates <= 1_000_000 / 500 + 1_000_000 / 1250, "{updates}");
}

/// Transfers 100 kB over a stream whose limit updates are lost or delivered, and returns how often
/// each limit was sent.
fn updates(pair: &mut Pair, id: StreamId, are_lost: bool) -> [usize; 2] {
    let mut told = [0; 2];
    for _ in 0..1000 {
        assert_eq!(pair.client.write(id, data(100)).unwrap(), 100);
        for packet in packets(&mut pair.client) {
            deliver(&mut pair.server, pair.now, &packet).unwrap();
            packet.tokens.iter().for_each(|token| pair.client.on_acked(token));
        }
        read_all(&mut pair.server, pair.now, id);
        for packet in packets(&mut pair.server) {
            told[0] += packet.tokens.iter().filter(|token| **token == Token::MaxData).count();
            told[1] += packet.tokens.iter().filter(|token| **token != Token::MaxData).count();
            // The data is always delivered, because the test is about how often the limits are
            // sent.
            deliver(&mut pair.client, pair.now, &packet).unwrap();
            for token in &packet.tokens {
                if are_lost {
                    pair.server.on_lost(token);
                } else {
                    pair.server.on_acked(token);
                }
            }
        }
    }
    told
}

#[test]
fn limits_are_sent_more_often_while_they_get_lost() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, &data(1));
    let [connection, stream] = updates(&mut pair, id, false);
    let [often_connection, often_stream] = updates(&mut pair, id, true);
    assert!(often_connection > 4 * connection, "{connection} {often_connection}");
    assert!(often_stream > 4 * stream, "{stream} {often_stream}");
    updates(&mut pair, id, false);
    let [seldom_connection, seldom_stream] = updates(&mut pair, id, false);
    assert!(seldom_connection.abs_diff(connection) <= 1, "{connection} {seldom_connection}");
    assert!(seldom_stream.abs_diff(stream) <= 1, "{stream} {seldom_stream}");
}

#[test]
fn windows_grow_with_the_rate_up_to_their_maximum() {
    let mut pair = Pair::new(config());
    pair.server.on_round_trip(Duration::from_millis(100));
    let id = pair.opened(UNIDIRECTIONAL, &data(1));
    for round in 0..100 {
        pair.now = at(round * 10);
        while pair.client.write(id, data(10_000)).is_ok_and(|taken| taken > 0) {}
        pair.settle();
        read_all(&mut pair.server, pair.now, id);
    }
    let key = pair.server.table.key(id).unwrap();
    let stream = pair.server.table.get(key).unwrap().receive.as_ref().unwrap();
    assert_eq!(stream.window().window(), 64_000);
    let connection = pair.server.flow.receive_window().window();
    assert!((96_000..=100_000).contains(&connection), "{connection}");
}

#[test]
fn lost_limits_are_sent_again_with_the_current_value_while_needed() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, &data(4000));
    read_all(&mut pair.server, pair.now, id);
    let update = packet(&mut pair.server, 1200).unwrap();
    let limit = frame::MaxStreamData { stream_id: id, maximum: code(8000) };
    assert!(update.frames().contains(&Frame::MaxStreamData(limit)));
    assert!(packet(&mut pair.server, 1200).is_none());
    deliver(&mut pair.client, pair.now, &update).unwrap();
    pair.client.write(id, data(2500)).unwrap();
    pair.settle();
    read_all(&mut pair.server, pair.now, id);
    update.tokens.iter().for_each(|token| pair.server.on_lost(token));
    let again = packet(&mut pair.server, 1200).unwrap();
    let limit = frame::MaxStreamData { stream_id: id, maximum: code(10_500) };
    assert!(again.frames().contains(&Frame::MaxStreamData(limit)), "{:?}", again.frames());
    pair.client.finish(id).unwrap();
    pair.settle();
    again.tokens.iter().for_each(|token| pair.server.on_lost(token));
    let connection_only = packet(&mut pair.server, 1200);
    let tokens = connection_only.map(|packet| packet.tokens).unwrap_or_default();
    assert!(!tokens.contains(&Token::MaxStreamData { stream_id: id }), "its size is known");
}

#[test]
fn a_blocked_peer_learns_of_credit_that_was_not_worth_an_update() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, &data(4000));
    pair.server.read(pair.now, id, 100).unwrap();
    assert!(!pair.server.has_control_pending());
    let blocked = frame::StreamDataBlocked { stream_id: id, limit: code(4000) };
    pair.server.on_stream_data_blocked(&blocked).unwrap();
    let update = packet(&mut pair.server, 1200).unwrap();
    let limit = frame::MaxStreamData { stream_id: id, maximum: code(4100) };
    assert_eq!(update.frames(), [Frame::MaxStreamData(limit)]);
    pair.server.on_data_blocked(&frame::DataBlocked { limit: code(10_000) });
    let update = packet(&mut pair.server, 1200).unwrap();
    assert_eq!(update.frames(), [Frame::MaxData(frame::MaxData { maximum: code(10_100) })]);
}

#[test]
fn a_full_send_buffer_wakes_its_writers_once_and_never_shuts_a_stream_out() {
    let small = StreamsConfig {
        send_buffer: 100_000,
        initial_stream_receive_window: 200_000,
        initial_connection_receive_window: 200_000,
        ..config()
    };
    let mut pair = Pair::new(small);
    let [first, second] = [0; 2].map(|_| pair.client.open(UNIDIRECTIONAL).unwrap());
    assert_eq!(pair.client.write(first, data(150_000)), Ok(100_000));
    assert_eq!(pair.client.write(first, data(1)), Ok(0));
    assert_eq!(pair.client.write(second, data(150_000)), Ok(64 << 10), "its own share");
    assert_eq!(events(&mut pair.client), []);
    pair.settle();
    let mut woken = events(&mut pair.client);
    woken.retain(|event| matches!(event, StreamEvent::Writable(_)));
    woken.sort_by_key(|event| *event != StreamEvent::Writable(first));
    assert_eq!(woken, [StreamEvent::Writable(first), StreamEvent::Writable(second)]);
    assert_eq!(pair.client.statistics().bytes_buffered, 0);
}

/// RFC 9218 §10: less urgent data does not prevent a more urgent stream from buffering as much as
/// the connection can send, however long ago it filled the buffer; more urgent data does limit less
/// urgent streams.
#[test]
fn an_urgent_stream_has_the_send_buffer_for_itself() {
    let mut pair = Pair::new(StreamsConfig { send_buffer: 200_000, ..config() });
    let [late, usual, first] = [0; 3].map(|_| pair.client.open(UNIDIRECTIONAL).unwrap());
    pair.client.set_priority(late, -3, false).unwrap();
    assert_eq!(pair.client.write(late, data(300_000)), Ok(200_000));
    assert_eq!(pair.client.write(usual, data(150_000)), Ok(150_000));
    pair.client.set_priority(first, 3, false).unwrap();
    assert_eq!(pair.client.write(first, data(300_000)), Ok(200_000));
    assert_eq!(pair.client.write(usual, data(100_000)), Ok(0), "the more urgent one counts");
    assert_eq!(pair.client.queues.kept.total(), 550_000);
    // Once the stream's priority is higher than the others', it has its own room in the buffer, and
    // its writer is woken.
    while pair.client.next_event().is_some() {}
    pair.client.set_priority(usual, 4, false).unwrap();
    assert_eq!(pair.client.next_event(), Some(StreamEvent::Writable(usual)));
    assert_eq!(pair.client.write(usual, data(100_000)), Ok(50_000));
    check_ledger(&pair.client);
}

/// The send buffer is four windows, at least 256 KiB, and at most the configured maximum.
#[test]
fn the_send_buffer_follows_the_congestion_window() {
    let large = StreamsConfig { send_buffer: 1 << 20, ..config() };
    let mut pair = Pair::new(large);
    let id = pair.client.open(UNIDIRECTIONAL).unwrap();
    assert_eq!(pair.client.write(id, data(2 << 20)), Ok(256 << 10));
    pair.client.on_congestion_window(60_000);
    assert_eq!(events(&mut pair.client), [], "no room");
    pair.client.on_congestion_window(100_000);
    assert_eq!(events(&mut pair.client), [StreamEvent::Writable(id)], "reported immediately");
    assert_eq!(pair.client.write(id, data(2 << 20)), Ok(400_000 - (256 << 10)));
    pair.client.on_congestion_window(1 << 30);
    assert_eq!(events(&mut pair.client), [StreamEvent::Writable(id)]);
    assert_eq!(pair.client.write(id, data(2 << 20)), Ok((1 << 20) - 400_000));
    // A smaller window does not revoke credit, but grants no more.
    pair.client.on_congestion_window(2400);
    assert_eq!(pair.client.write(id, data(1)), Ok(0));
    assert_eq!(pair.client.statistics().bytes_buffered, 1 << 20);
    check_ledger(&pair.client);
}

#[test]
fn room_that_one_stream_frees_wakes_another() {
    let mut pair = Pair::new(StreamsConfig { send_buffer: 100_000, ..config() });
    let [first, second] = [0; 2].map(|_| pair.client.open(UNIDIRECTIONAL).unwrap());
    assert_eq!(pair.client.write(first, data(70_000)), Ok(70_000));
    assert_eq!(pair.client.write(second, data(30_000)), Ok(30_000));
    assert_eq!(pair.client.write(first, data(10_000)), Ok(0));
    pair.client.reset(second, code(0)).unwrap();
    assert_eq!(events(&mut pair.client), [StreamEvent::Writable(first)]);
    assert_eq!(pair.client.write(first, data(10_000)), Ok(10_000));
    check_ledger(&pair.client);
}

#[test]
fn the_window_of_the_connection_keeps_ahead_of_each_stream_s() {
    let equal = StreamsConfig { initial_connection_receive_window: 4000, ..config() };
    let mut pair = Pair::new(equal);
    pair.server.on_round_trip(Duration::from_millis(100));
    let id = pair.opened(UNIDIRECTIONAL, &data(4000));
    read_all(&mut pair.server, pair.now, id);
    assert!(pair.server.flow.receive_window().window() >= 12_000);
}

#[test]
fn parameters_that_come_late_reach_streams_that_are_open() {
    let mut server = Streams::new(Side::Server, config());
    assert_eq!(server.open(UNIDIRECTIONAL), None);
    assert!(!server.has_control_pending(), "no limit is known that could be reported");
    let id = id(Side::Client, BIDIRECTIONAL, 0);
    let frame = frame::Stream { stream_id: id, offset: code(0), fin: true, data: b"early" };
    server.on_stream(Timestamp::ORIGIN, &frame).unwrap();
    assert_eq!(server.write_slice(id, b"answer"), Ok(6));
    assert!(!server.has_data_pending());
    server.set_peer_parameters(&parameters(&config()));
    assert!(server.has_data_pending());
    assert!(events(&mut server).contains(&StreamEvent::StreamsAvailable(UNIDIRECTIONAL)));
    check_ledger(&server);
}

#[test]
fn streams_blocked_is_sent_to_a_peer_that_permits_no_streams() {
    let mut client = Streams::new(Side::Client, config());
    assert_eq!(client.open(BIDIRECTIONAL), None);
    client.set_peer_parameters(&TransportParameters::default());
    let packet = packet(&mut client, 1200).unwrap();
    assert_eq!(packet.tokens, [Token::StreamsBlocked { direction: BIDIRECTIONAL }]);
}

fn credit(streams: &mut Streams, id: StreamId) -> (u64, u64) {
    let credits = streams.send_credit(id).unwrap();
    (credits.stream, credits.connection)
}

#[test]
fn credit_is_what_both_limits_leave_beyond_what_was_written() {
    let mut pair = Pair::new(config());
    let ids = [(); 3].map(|()| pair.client.open(UNIDIRECTIONAL).unwrap());
    assert_eq!(credit(&mut pair.client, ids[0]), (4000, 10_000));
    pair.client.write(ids[0], data(6000)).unwrap();
    assert_eq!(credit(&mut pair.client, ids[0]), (0, 4000));
    assert_eq!(credit(&mut pair.client, ids[1]), (4000, 4000));
    packets(&mut pair.client);
    // Data blocked by the stream's limit uses its part of the connection's credit, sent or not.
    assert_eq!(credit(&mut pair.client, ids[1]), (4000, 4000));
    pair.client.write(ids[1], data(3000)).unwrap();
    assert_eq!(credit(&mut pair.client, ids[2]), (4000, 1000));
    // Data that will never be sent releases its part to other streams.
    pair.client.reset(ids[0], code(1)).unwrap();
    assert_eq!(credit(&mut pair.client, ids[2]), (4000, 3000));
    assert!(pair.client.send_credit(ids[0]).is_err());
}

#[test]
fn whoever_awaits_credit_is_told_when_there_is_some() {
    let mut pair = Pair::new(config());
    let ids = [(); 3].map(|()| pair.client.open(UNIDIRECTIONAL).unwrap());
    let written = |streams: &mut Streams| -> Vec<StreamEvent> {
        let events = core::iter::from_fn(|| streams.next_event());
        events.filter(|event| matches!(event, StreamEvent::Writable(_))).collect()
    };
    pair.client.write(ids[0], data(4000)).unwrap();
    pair.client.write(ids[1], data(4000)).unwrap();
    pair.client.write(ids[2], data(2000)).unwrap();
    ids.iter().for_each(|id| pair.client.await_credit(*id).unwrap());
    assert_eq!(written(&mut pair.client), []);
    let raise = |streams: &mut Streams, id, limit| {
        let frame = frame::MaxStreamData { stream_id: id, maximum: code(limit) };
        streams.on_max_stream_data(&frame).unwrap();
    };
    // The connection's limit still blocks this stream, and the stream's limit blocks the other.
    raise(&mut pair.client, ids[0], 5000);
    assert_eq!(written(&mut pair.client), []);
    pair.client.on_max_data(&frame::MaxData { maximum: code(10_001) });
    assert_eq!(written(&mut pair.client), [ids[0], ids[2]].map(StreamEvent::Writable));
    raise(&mut pair.client, ids[1], 4001);
    assert_eq!(written(&mut pair.client), [StreamEvent::Writable(ids[1])]);
    // Each call triggers one event.
    raise(&mut pair.client, ids[1], 4002);
    pair.client.on_max_data(&frame::MaxData { maximum: code(10_002) });
    assert_eq!(written(&mut pair.client), []);
}

#[test]
fn a_limited_window_does_not_grow_and_shrinks_as_data_is_read() {
    let mut flow = ReceiveWindow::new(1000, 100_000);
    let rtt = Some(Duration::from_millis(100));
    let transfer = |flow: &mut ReceiveWindow, bytes, time| {
        flow.receive(at(time), bytes).unwrap();
        flow.consume(at(time), rtt, bytes);
    };
    for time in 0..2 {
        let window = flow.window();
        transfer(&mut flow, window, time);
    }
    assert_eq!((flow.window(), flow.limit() - flow.consumed()), (4000, 4000));
    flow.limit_window(1000);
    // Credit granted to the peer stays valid.
    assert_eq!((flow.window(), flow.limit() - flow.consumed()), (1000, 4000));
    transfer(&mut flow, 2000, 4);
    assert_eq!(flow.limit() - flow.consumed(), 2000);
    transfer(&mut flow, 1500, 5);
    assert_eq!(flow.limit() - flow.consumed(), 1000);
    transfer(&mut flow, 1000, 6);
    assert_eq!((flow.window(), flow.limit() - flow.consumed()), (1000, 1000));
    flow.limit_window(100_000);
    transfer(&mut flow, 1000, 7);
    assert_eq!(flow.window(), 2000);
}

#[test]
fn what_the_peer_makes_the_streams_keep_is_counted() {
    let mut pair = Pair::new(config());
    assert_eq!((pair.client.held(), pair.server.held()), (0, 0));
    let id = pair.opened(UNIDIRECTIONAL, &data(3000));
    assert_eq!(pair.server.held(), 3000 + STREAM_STATE);
    read_all(&mut pair.server, pair.now, id);
    assert_eq!(pair.server.held(), STREAM_STATE);
    pair.client.write(id, data(500)).unwrap();
    let sent = packets(&mut pair.client);
    assert!(pair.client.held() >= 500 + STREAM_STATE);
    for packet in sent {
        packet.tokens.iter().for_each(|token| pair.client.on_acked(token));
    }
    assert!(pair.client.held() <= 3000 + STREAM_STATE);
}
