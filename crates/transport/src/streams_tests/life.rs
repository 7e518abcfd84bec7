//! Opening, ending, resetting and stopping streams.

use clearway_wire::frame;

use super::*;

#[test]
fn a_request_and_its_response() {
    let mut pair = Pair::new(config());
    let id = pair.opened(BIDIRECTIONAL, b"request");
    pair.client.finish(id).unwrap();
    pair.settle();
    assert_eq!(
        events(&mut pair.server),
        [StreamEvent::Opened(BIDIRECTIONAL), StreamEvent::Readable(id)]
    );
    assert_eq!(pair.server.readable_bytes(id), 7);
    assert_eq!(read_all(&mut pair.server, pair.now, id), b"request");
    assert_eq!(pair.server.read(pair.now, id, 1), Ok(ReadOutcome::Finished));
    assert_eq!(pair.server.write(id, data(3)), Ok(3));
    pair.server.finish(id).unwrap();
    assert_eq!(pair.server.write(id, data(1)), Err(WriteError::Closed));
    assert_eq!(pair.client.read(pair.now, id, 1), Ok(ReadOutcome::Blocked));
    pair.settle();
    assert_eq!(events(&mut pair.server), [StreamEvent::Finished(id)]);
    assert_eq!(events(&mut pair.client), [StreamEvent::Finished(id), StreamEvent::Readable(id)]);
    assert_eq!(pair.client.read(pair.now, id, 2), Ok(ReadOutcome::Data(data(3).slice(..2))));
    assert_eq!(pair.client.read(pair.now, id, 9), Ok(ReadOutcome::Data(data(3).slice(2..))));
    assert_eq!(pair.client.read(pair.now, id, 9), Ok(ReadOutcome::Finished));
    assert_eq!((pair.client.statistics().open, pair.server.statistics().open), (0, 0));
    assert_eq!(pair.client.read(pair.now, id, 9), Err(ReadError::UnknownStream));
    assert_eq!(pair.client.write(id, data(1)), Err(WriteError::UnknownStream));
}

#[test]
fn late_frames_for_a_stream_that_is_over_mean_nothing() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, b"all");
    pair.client.finish(id).unwrap();
    pair.settle();
    read_all(&mut pair.server, pair.now, id);
    assert_eq!(pair.server.statistics().open, 0);
    events(&mut pair.server);
    let received = pair.server.statistics().bytes_received;
    let late = frame::Stream { stream_id: id, offset: code(0), fin: true, data: b"all" };
    assert_eq!(pair.server.on_stream(pair.now, &late), Ok(()));
    let (error_code, final_size) = (code(1), code(3));
    let late = frame::ResetStream { stream_id: id, error_code, final_size };
    assert_eq!(pair.server.on_reset_stream(pair.now, &late), Ok(()));
    let late = frame::StopSending { stream_id: id, error_code };
    assert_eq!(pair.client.on_stop_sending(&late), Ok(()));
    assert_eq!(pair.server.statistics().bytes_received, received);
    assert_eq!(events(&mut pair.server), []);
    pair.client.on_lost(&Token::Stream { stream_id: id, offset: 0, length: 3, fin: true });
    assert!(!pair.client.has_data_pending());
}

#[test]
fn a_late_frame_does_not_reach_the_stream_that_has_taken_the_place() {
    let mut pair = Pair::new(config());
    let first = pair.opened(UNIDIRECTIONAL, b"first");
    pair.client.finish(first).unwrap();
    pair.settle();
    read_all(&mut pair.server, pair.now, first);
    let late = frame::Stream { stream_id: first, offset: code(5), fin: true, data: b"" };
    pair.server.on_stream(pair.now, &late).unwrap();
    let second = id(Side::Client, UNIDIRECTIONAL, 1);
    let data = frame::Stream { stream_id: second, offset: code(0), fin: false, data: b"second" };
    pair.server.on_stream(pair.now, &data).unwrap();
    for id in [first, second] {
        let late = frame::Stream { stream_id: id, offset: code(0), fin: false, data: b"first" };
        pair.server.on_stream(pair.now, &late).unwrap();
    }
    assert_eq!(pair.server.read(pair.now, first, 9), Err(ReadError::UnknownStream));
    assert_eq!(read_all(&mut pair.server, pair.now, second), b"second");
}

#[test]
fn a_higher_stream_opens_those_below_it() {
    let mut pair = Pair::new(config());
    let used = id(Side::Client, UNIDIRECTIONAL, 2);
    let frame = frame::Stream { stream_id: used, offset: code(0), fin: false, data: b"x" };
    pair.server.on_stream(pair.now, &frame).unwrap();
    pair.server.on_stream(pair.now, &frame).unwrap();
    assert_eq!(events(&mut pair.server), [StreamEvent::Opened(UNIDIRECTIONAL)]);
    let accepted: Vec<u64> =
        core::iter::from_fn(|| pair.server.accept(UNIDIRECTIONAL)).map(StreamId::index).collect();
    assert_eq!(accepted, [0, 1, 2]);
    assert_eq!(events(&mut pair.server), [StreamEvent::Readable(used)]);
    assert_eq!(pair.server.accept(BIDIRECTIONAL), None);
}

#[test]
fn a_reset_reaches_the_reader_and_frees_both_ends() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, b"some");
    pair.client.write_slice(id, b"never sent").unwrap();
    pair.client.reset(id, code(5)).unwrap();
    assert_eq!(pair.client.statistics().bytes_buffered, 0);
    pair.settle();
    assert_eq!(events(&mut pair.client), [StreamEvent::ResetAcknowledged(id)]);
    assert_eq!(pair.client.statistics().open, 0);
    assert_eq!(pair.server.statistics().open, 1, "until the application knows");
    assert_eq!(pair.server.read(pair.now, id, 9), Err(ReadError::Reset(code(5))));
    assert_eq!(pair.server.statistics().open, 0);
    check_ledger(&pair.server);
}

#[test]
fn a_reset_is_reported_while_data_is_unread() {
    let mut pair = Pair::new(config());
    let id = pair.opened(BIDIRECTIONAL, b"nobody reads this");
    pair.settle();
    assert_eq!(
        events(&mut pair.server),
        [StreamEvent::Opened(BIDIRECTIONAL), StreamEvent::Readable(id)]
    );
    assert_eq!(pair.server.received_reset(id), Ok(None));
    assert!(!pair.server.is_reset_by_peer(id));
    assert_eq!(pair.server.readable_bytes(id), 17);
    pair.client.reset(id, code(5)).unwrap();
    pair.settle();
    assert_eq!(events(&mut pair.server), [StreamEvent::Readable(id)]);
    assert!(pair.server.is_reset_by_peer(id));
    // The stream's bytes were returned to the connection's window exactly once, before and after
    // the reset is read.
    for _ in 0..2 {
        let window = pair.server.flow.receive_window();
        assert_eq!((window.consumed(), window.received()), (17, 17));
        assert_eq!(pair.server.received_reset(id), Ok(Some(code(5))));
    }
    pair.server.finish(id).unwrap();
    pair.settle();
    assert_eq!(pair.server.statistics().open, 0);
    assert_eq!(pair.server.received_reset(id), Err(UnknownStream));
}

#[test]
fn a_reset_in_every_state_of_the_receiver() {
    // The cases are: data received but not read, partly read, with a known final size and a gap,
    // and complete.
    for (offset, fin, expected) in
        [(0, false, true), (1, false, true), (1, true, true), (0, true, false)]
    {
        let mut pair = Pair::new(config());
        let id = id(Side::Client, UNIDIRECTIONAL, 0);
        let frame = frame::Stream { stream_id: id, offset: code(offset), fin, data: b"data" };
        pair.server.on_stream(pair.now, &frame).unwrap();
        let final_size = code(offset + 4);
        let reset = frame::ResetStream { stream_id: id, error_code: code(6), final_size };
        pair.server.on_reset_stream(pair.now, &reset).unwrap();
        pair.server.on_reset_stream(pair.now, &reset).unwrap();
        check_ledger(&pair.server);
        let read = pair.server.read(pair.now, id, 9);
        assert_eq!(read == Err(ReadError::Reset(code(6))), expected, "{offset} {fin}");
        check_ledger(&pair.server);
    }
}

#[test]
fn a_stop_resets_the_sender_with_its_code() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, b"some");
    pair.server.stop_sending(pair.now, id, code(8)).unwrap();
    assert_eq!(pair.server.read(pair.now, id, 9), Err(ReadError::UnknownStream));
    let stop = packet(&mut pair.server, 1200).unwrap();
    stop.tokens.iter().for_each(|token| pair.server.on_lost(token));
    pair.settle();
    assert_eq!(
        events(&mut pair.client),
        [StreamEvent::Stopped { id, code: code(8) }, StreamEvent::ResetAcknowledged(id)]
    );
    assert_eq!((pair.client.statistics().open, pair.server.statistics().open), (0, 0));
    check_ledger(&pair.server);
    stop.tokens.iter().for_each(|token| pair.server.on_lost(token));
    assert!(!pair.server.has_control_pending(), "no longer of use");
}

#[test]
fn a_stopped_stream_takes_what_is_under_way_and_gives_its_credit_back() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, &data(1000));
    pair.client.write_slice(id, &data(2000)).unwrap();
    let under_way = packets(&mut pair.client);
    pair.server.stop_sending(pair.now, id, code(8)).unwrap();
    for packet in &under_way {
        deliver(&mut pair.server, pair.now, packet).unwrap();
        check_ledger(&pair.server);
    }
    assert_eq!(pair.server.flow.receive_window().consumed(), 3000);
    assert_eq!(pair.server.readable_bytes(id), 0);
}

#[test]
fn a_stop_after_the_end_is_known_frees_the_stream() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, b"some");
    pair.client.finish(id).unwrap();
    pair.settle();
    pair.server.stop_sending(pair.now, id, code(8)).unwrap();
    assert_eq!(pair.server.statistics().open, 0);
    let tokens = packets(&mut pair.server).into_iter().flat_map(|packet| packet.tokens);
    assert!(tokens.into_iter().all(|token| token != Token::StopSending { stream_id: id }));
    check_ledger(&pair.server);
}

#[test]
fn a_stop_that_finds_everything_acknowledged_does_nothing() {
    let mut pair = Pair::new(config());
    let id = pair.opened(BIDIRECTIONAL, b"some");
    pair.client.finish(id).unwrap();
    pair.settle();
    events(&mut pair.client);
    let stop = frame::StopSending { stream_id: id, error_code: code(1) };
    pair.client.on_stop_sending(&stop).unwrap();
    assert_eq!(events(&mut pair.client), []);
    assert!(!pair.client.has_control_pending());
}

#[test]
fn streams_are_refused_reported_once_and_available_when_others_end() {
    let mut pair = Pair::new(config());
    let ids: Vec<StreamId> = core::iter::from_fn(|| pair.client.open(UNIDIRECTIONAL)).collect();
    assert_eq!(ids.len(), 4);
    let blocked = packet(&mut pair.client, 1200).unwrap();
    let expected = frame::StreamsBlocked { direction: UNIDIRECTIONAL, limit: code(4) };
    assert_eq!(blocked.frames(), [Frame::StreamsBlocked(expected)]);
    assert_eq!(pair.client.open(UNIDIRECTIONAL), None);
    assert!(packet(&mut pair.client, 1200).is_none(), "once for each limit");
    blocked.tokens.iter().for_each(|token| pair.client.on_lost(token));
    assert!(packet(&mut pair.client, 1200).is_some(), "again when it was lost");
    for id in &ids {
        pair.client.finish(*id).unwrap();
    }
    pair.settle();
    for id in &ids {
        assert_eq!(pair.server.accept(UNIDIRECTIONAL), Some(*id));
        assert_eq!(pair.server.read(pair.now, *id, 1), Ok(ReadOutcome::Finished));
    }
    pair.settle();
    let available = StreamEvent::StreamsAvailable(UNIDIRECTIONAL);
    assert_eq!(events(&mut pair.client).iter().filter(|event| **event == available).count(), 1);
    assert_eq!(core::iter::from_fn(|| pair.client.open(UNIDIRECTIONAL)).count(), 4);
}

#[test]
fn a_lost_max_streams_is_sent_again_with_the_current_limit() {
    let mut pair = Pair::new(StreamsConfig { max_concurrent_unidirectional: 1, ..config() });
    let mut lost = Vec::new();
    for _ in 0..2 {
        let id = pair.opened(UNIDIRECTIONAL, b"x");
        pair.client.reset(id, code(0)).unwrap();
        pair.settle();
        let _ = pair.server.read(pair.now, id, 1);
        let packet = packet(&mut pair.server, 1200).unwrap();
        deliver(&mut pair.client, pair.now, &packet).unwrap();
        lost.push(packet);
    }
    lost[0].tokens.iter().for_each(|token| pair.server.on_lost(token));
    let again = packet(&mut pair.server, 1200).unwrap();
    let expected = frame::MaxStreams { direction: UNIDIRECTIONAL, maximum: code(3) };
    assert_eq!(again.frames(), [Frame::MaxStreams(expected)]);
}

#[test]
fn a_thousand_streams_leave_nothing_behind() {
    let mut pair = Pair::new(config());
    for round in 0..1000u32 {
        let id = pair.opened(BIDIRECTIONAL, &data(100));
        if round % 3 == 0 {
            pair.client.reset(id, code(round)).unwrap();
        } else {
            pair.client.finish(id).unwrap();
        }
        pair.settle();
        read_all(&mut pair.server, pair.now, id);
        if round % 2 == 0 {
            pair.client.stop_sending(pair.now, id, code(1)).unwrap();
        } else {
            pair.server.finish(id).unwrap();
        }
        pair.settle();
        let _ = pair.client.read(pair.now, id, 1);
        events(&mut pair.client);
        events(&mut pair.server);
    }
    assert_eq!((pair.client.table.len(), pair.server.table.len()), (0, 0));
    assert!(pair.client.queues.control.is_empty() && pair.client.queues.writers.is_empty());
    assert_eq!(pair.server.statistics().opened_by_peer, 1000);
}

/// Data is awaited while a response is incomplete and the application has read everything that was
/// received.
#[test]
fn an_answer_is_awaited_from_the_end_of_the_request_to_its_own() {
    let mut pair = Pair::new(config());
    let id = pair.opened(BIDIRECTIONAL, b"request");
    assert!(!pair.client.awaits_peer(), "more may be asked");
    pair.client.finish(id).unwrap();
    assert!(!pair.client.awaits_peer(), "it is not sent yet");
    pair.settle();
    assert!(pair.client.awaits_peer());
    assert!(!pair.server.awaits_peer(), "the request is complete");
    pair.server.write_slice(id, b"answer").unwrap();
    pair.settle();
    assert!(!pair.client.awaits_peer(), "there is something to read");
    read_all(&mut pair.client, pair.now, id);
    assert!(pair.client.awaits_peer());
    pair.server.finish(id).unwrap();
    pair.settle();
    assert!(!pair.client.awaits_peer());
    check_ledger(&pair.client);
}

/// On a stream opened by the peer, it is unknown whether more data will arrive, unless something is
/// missing.
#[test]
fn a_gap_is_awaited_on_any_stream() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, b"one");
    read_all(&mut pair.server, pair.now, id);
    assert!(!pair.server.awaits_peer());
    let later = frame::Stream { stream_id: id, offset: code(4), fin: false, data: b"two" };
    pair.server.on_stream(pair.now, &later).unwrap();
    assert!(pair.server.awaits_peer());
    pair.server.stop_sending(pair.now, id, code(0)).unwrap();
    assert!(!pair.server.awaits_peer(), "nobody waits any more");
    check_ledger(&pair.server);
}

/// No data is awaited from a peer that is blocked because another stream is not read.
#[test]
fn a_peer_that_flow_control_stops_is_not_awaited() {
    let small = StreamsConfig { initial_connection_receive_window: 2000, ..config() };
    let mut pair = Pair::new(StreamsConfig { max_connection_receive_window: 2000, ..small });
    let [read, unread] = [0; 2].map(|_| {
        let id = pair.opened(BIDIRECTIONAL, b"request");
        pair.client.finish(id).unwrap();
        pair.settle();
        id
    });
    assert!(pair.client.awaits_peer());
    pair.server.write(unread, data(2000)).unwrap();
    pair.settle();
    assert_eq!(pair.client.read(pair.now, read, 1), Ok(ReadOutcome::Blocked));
    assert!(!pair.client.awaits_peer());
    read_all(&mut pair.client, pair.now, unread);
    assert!(pair.client.awaits_peer());
}

#[test]
fn what_is_read_ahead_counts_until_it_is_given_back() {
    let mut pair = Pair::new(config());
    let id = pair.opened(Direction::Unidirectional, &data(1000));
    pair.client.finish(id).unwrap();
    pair.settle();
    assert_eq!(pair.server.read_ahead(id, 600), Ok(ReadOutcome::Data(data(1000).slice(..600))));
    let consumed = |pair: &Pair| pair.server.flow.receive_window().consumed();
    assert_eq!(consumed(&pair), 0);
    assert_eq!(pair.server.return_credit(pair.now, id, 500), Ok(()));
    assert_eq!(consumed(&pair), 500);
    // No more credit is returned than was used.
    assert_eq!(pair.server.return_credit(pair.now, id, 500), Ok(()));
    assert_eq!(consumed(&pair), 600);
    assert_eq!(pair.server.read_ahead(id, 600), Ok(ReadOutcome::Data(data(1000).slice(600..))));
    // Reaching the end by reading ahead does not end the stream, even if repeated; reading the end
    // does.
    assert_eq!(pair.server.read_ahead(id, 1), Ok(ReadOutcome::Finished));
    assert_eq!(pair.server.read_ahead(id, 1), Ok(ReadOutcome::Finished));
    assert_eq!(consumed(&pair), 600);
    assert_eq!(pair.server.read(pair.now, id, 1), Ok(ReadOutcome::Finished));
    assert_eq!(consumed(&pair), 1000);
    assert_eq!(pair.server.read_ahead(id, 1), Err(ReadError::UnknownStream));
    assert_eq!(pair.server.return_credit(pair.now, id, 1), Err(UnknownStream));
}
