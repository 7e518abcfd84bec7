//! Streams that are reset but whose beginning is still delivered
//! (draft-ietf-quic-reliable-stream-reset).

use clearway_wire::frame;
use proptest::prelude::*;

use super::*;

fn frame(id: StreamId, error: u32, final_size: u32, reliable: u32) -> Frame<'static> {
    Frame::ResetStreamAt(frame::ResetStreamAt {
        stream_id: id,
        error_code: code(error),
        final_size: code(final_size),
        reliable_size: code(reliable),
    })
}

/// Returns the reset frames in a packet: error code, final size, reliable size.
fn resets(packet: &Packet) -> Vec<(u64, u64, u64)> {
    packet
        .frames()
        .iter()
        .filter_map(|frame| match frame {
            Frame::ResetStreamAt(it) => {
                Some((it.error_code.get(), it.final_size.get(), it.reliable_size.get()))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn the_beginning_is_delivered_and_then_the_reset() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, b"header and content");
    pair.client.write_slice(id, b" never sent").unwrap();
    pair.client.reset_at(id, code(7), 6).unwrap();
    assert_eq!(pair.client.write(id, data(1)), Err(WriteError::Closed));
    pair.settle();
    assert_eq!(pair.server.received_reliable_size(id), Some(6));
    assert_eq!(pair.server.received_reset(id), Ok(None), "there is data before it");
    assert_eq!(pair.server.read(pair.now, id, 4), Ok(ReadOutcome::Data(Bytes::from("head"))));
    assert_eq!(pair.server.read(pair.now, id, 99), Ok(ReadOutcome::Data(Bytes::from("er"))));
    assert_eq!(pair.server.read(pair.now, id, 99), Err(ReadError::Reset(code(7))));
    assert_eq!(events(&mut pair.client), [StreamEvent::ResetAcknowledged(id)]);
    assert_eq!((pair.client.statistics().open, pair.server.statistics().open), (0, 0));
    assert_eq!(pair.client.statistics().bytes_buffered, 0);
    check_ledger(&pair.server);
}

#[test]
fn data_up_to_the_reliable_size_that_was_not_sent_is_sent_before_the_reset() {
    let mut pair = Pair::new(config());
    let id = pair.client.open(UNIDIRECTIONAL).unwrap();
    pair.client.write(id, data(3000)).unwrap();
    pair.client.reset_at(id, code(7), 2000).unwrap();
    let sent = packets(&mut pair.client);
    let frames: Vec<_> = sent.iter().flat_map(resets).collect();
    assert_eq!(frames, [(7, 2000, 2000)], "the final size is what was sent");
    assert!(resets(sent.last().unwrap()).len() == 1, "after the data");
}

#[test]
fn more_than_was_written_is_all_of_it() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, b"all");
    pair.client.reset_at(id, code(7), 1000).unwrap();
    pair.settle();
    assert_eq!(read_all(&mut pair.server, pair.now, id), b"all");
    assert_eq!(pair.server.statistics().open, 0);
}

#[test]
fn a_reliable_size_of_nothing_is_a_reset() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, b"all");
    pair.client.reset_at(id, code(7), 0).unwrap();
    let sent = packet(&mut pair.client, 1200).unwrap();
    assert!(matches!(sent.frames()[..], [Frame::ResetStream(_)]), "{sent:?}");
}

#[test]
fn lost_data_is_sent_again_only_before_the_reliable_size() {
    let mut pair = Pair::new(config());
    let id = pair.client.open(UNIDIRECTIONAL).unwrap();
    pair.client.write(id, data(3000)).unwrap();
    let lost = packets(&mut pair.client);
    pair.client.reset_at(id, code(7), 500).unwrap();
    let reset = packet(&mut pair.client, 1200).unwrap();
    assert_eq!(resets(&reset), [(7, 3000, 500)]);
    for packet in lost.iter().chain([&reset]) {
        packet.tokens.iter().for_each(|token| pair.client.on_lost(token));
    }
    let again = packets(&mut pair.client);
    let bytes: u64 = again
        .iter()
        .flat_map(|packet| packet.tokens.clone())
        .map(|token| match token {
            Token::Stream { length, fin, .. } => {
                assert!(!fin, "the reset is its end");
                length
            }
            _ => 0,
        })
        .sum();
    assert_eq!(bytes, 500);
    assert_eq!(again.iter().flat_map(resets).collect::<Vec<_>>(), [(7, 3000, 500)]);
    for packet in &again {
        deliver(&mut pair.server, pair.now, packet).unwrap();
        packet.tokens.iter().for_each(|token| pair.client.on_acked(token));
    }
    pair.server.accept(UNIDIRECTIONAL).unwrap();
    assert_eq!(read_all(&mut pair.server, pair.now, id), data(3000)[..500]);
    assert_eq!((pair.client.statistics().open, pair.server.statistics().open), (0, 0));
    check_ledger(&pair.client);
}

#[test]
fn the_reliable_size_can_only_shrink_and_the_code_stays() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, b"0123456789");
    pair.client.reset_at(id, code(7), 8).unwrap();
    let first = packet(&mut pair.client, 1200).unwrap();
    pair.client.reset_at(id, code(8), 9).unwrap();
    assert!(packet(&mut pair.client, 1200).is_none(), "it would grow");
    pair.client.reset_at(id, code(8), 4).unwrap();
    let second = packet(&mut pair.client, 1200).unwrap();
    assert_eq!(resets(&second), [(7, 10, 4)]);
    // The acknowledgment and the loss of the first frame no longer matter.
    first.tokens.iter().for_each(|token| pair.client.on_acked(token));
    assert_eq!(pair.client.statistics().open, 1);
    first.tokens.iter().for_each(|token| pair.client.on_lost(token));
    assert!(packet(&mut pair.client, 1200).is_none());
    // The frames arrive in reverse order; a larger size is ignored.
    deliver(&mut pair.server, pair.now, &second).unwrap();
    deliver(&mut pair.server, pair.now, &first).unwrap();
    assert_eq!(read_all(&mut pair.server, pair.now, id), b"0123");
    second.tokens.iter().for_each(|token| pair.client.on_acked(token));
    assert_eq!(pair.client.statistics().open, 0);
}

#[test]
fn a_reset_after_it_discards_the_rest_with_the_same_code() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, b"0123456789");
    pair.client.reset_at(id, code(7), 8).unwrap();
    let first = packet(&mut pair.client, 1200).unwrap();
    pair.client.reset(id, code(9)).unwrap();
    let second = packet(&mut pair.client, 1200).unwrap();
    for packet in [&first, &second] {
        deliver(&mut pair.server, pair.now, packet).unwrap();
    }
    // Everything up to 8 has arrived, so the second frame changes nothing (RFC 9000 §3.2).
    assert_eq!(read_all(&mut pair.server, pair.now, id), b"01234567");
    second.tokens.iter().for_each(|token| pair.client.on_acked(token));
    assert_eq!(events(&mut pair.client), [StreamEvent::ResetAcknowledged(id)]);
}

#[test]
fn a_stream_that_was_finished_can_be_reset_in_part() {
    let mut pair = Pair::new(config());
    let id = pair.client.open(UNIDIRECTIONAL).unwrap();
    pair.client.write_slice(id, b"0123456789").unwrap();
    pair.client.finish(id).unwrap();
    let fin = packet(&mut pair.client, 1200).unwrap();
    pair.client.reset_at(id, code(7), 3).unwrap();
    let reset = packet(&mut pair.client, 1200).unwrap();
    assert_eq!(resets(&reset), [(7, 10, 3)]);
    // The FIN is lost and not retransmitted.
    fin.tokens.iter().for_each(|token| pair.client.on_lost(token));
    let again = packet(&mut pair.client, 1200).unwrap();
    assert_eq!(again.tokens, [Token::Stream { stream_id: id, offset: 0, length: 3, fin: false }]);
    deliver(&mut pair.server, pair.now, &reset).unwrap();
    deliver(&mut pair.server, pair.now, &again).unwrap();
    pair.server.accept(UNIDIRECTIONAL).unwrap();
    assert_eq!(read_all(&mut pair.server, pair.now, id), b"012");
}

#[test]
fn a_peer_that_stops_the_stream_ends_it() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, b"0123456789");
    pair.client.reset_at(id, code(7), 8).unwrap();
    pair.server.stop_sending(pair.now, id, code(1)).unwrap();
    pair.settle();
    assert_eq!((pair.client.statistics().open, pair.server.statistics().open), (0, 0));
    check_ledger(&pair.server);
}

#[test]
fn credit_of_what_never_comes_is_given_back_with_the_reset() {
    let mut pair = Pair::new(config());
    let id = pair.opened(UNIDIRECTIONAL, b"0123456789");
    let reset = frame(id, 7, 4000, 5);
    on_frame(&mut pair.server, pair.now, &reset).unwrap();
    assert_eq!(read_all(&mut pair.server, pair.now, id), b"01234");
    let window = pair.server.flow.receive_window();
    assert_eq!((window.received(), window.consumed()), (4000, 4000));
    check_ledger(&pair.server);
}

#[test]
fn missing_data_before_the_reliable_size_is_waited_for() {
    let mut pair = Pair::new(config());
    let id = pair.client.open(UNIDIRECTIONAL).unwrap();
    on_frame(&mut pair.server, pair.now, &frame(id, 7, 100, 10)).unwrap();
    pair.server.accept(UNIDIRECTIONAL).unwrap();
    assert_eq!(pair.server.read(pair.now, id, 9), Ok(ReadOutcome::Blocked));
    assert!(pair.server.awaits_peer());
    let later = frame::Stream { stream_id: id, offset: code(0), data: &[1; 20], fin: false };
    on_frame(&mut pair.server, pair.now, &Frame::Stream(later)).unwrap();
    assert!(events(&mut pair.server).contains(&StreamEvent::Readable(id)));
    assert_eq!(read_all(&mut pair.server, pair.now, id), [1; 10]);
}

#[test]
fn violations() {
    let id = id(Side::Client, UNIDIRECTIONAL, 0);
    let result = |frames: &[Frame<'_>]| {
        let mut server = Streams::new(Side::Server, config());
        server.set_peer_parameters(&parameters(&config()));
        frames.iter().try_for_each(|frame| on_frame(&mut server, Timestamp::ORIGIN, frame))
    };
    type Code = TransportErrorCode;
    let stream = |offset, data, fin| {
        Frame::Stream(frame::Stream { stream_id: id, offset: code(offset), data, fin })
    };
    let reset = |error, size| {
        let (error_code, final_size) = (code(error), code(size));
        Frame::ResetStream(frame::ResetStream { stream_id: id, error_code, final_size })
    };
    let partial = |error, size, reliable| frame(id, error, size, reliable);
    for (frames, expected) in [
        ([partial(7, 9, 5), partial(7, 8, 5)], Code::FINAL_SIZE_ERROR),
        ([partial(7, 9, 5), reset(7, 8)], Code::FINAL_SIZE_ERROR),
        ([partial(7, 9, 5), stream(0, b"12345678", true)], Code::FINAL_SIZE_ERROR),
        ([partial(7, 9, 5), stream(5, b"56789", false)], Code::FINAL_SIZE_ERROR),
        ([stream(0, b"0123456789", false), partial(7, 9, 5)], Code::FINAL_SIZE_ERROR),
        ([stream(0, b"0123456789", true), partial(7, 11, 5)], Code::FINAL_SIZE_ERROR),
        ([partial(7, 9, 5), partial(8, 9, 5)], Code::STREAM_STATE_ERROR),
        ([partial(7, 9, 5), reset(8, 9)], Code::STREAM_STATE_ERROR),
        ([reset(8, 9), partial(7, 9, 5)], Code::STREAM_STATE_ERROR),
        ([partial(7, 4001, 5), reset(7, 4001)], Code::FLOW_CONTROL_ERROR),
    ] {
        assert_eq!(error_code(result(&frames)), expected, "{frames:?}");
    }
    for frames in [
        [partial(7, 9, 5), reset(7, 9)],
        [partial(7, 9, 5), stream(0, b"012345678", true)],
        [stream(0, b"012345678", true), partial(7, 9, 5)],
    ] {
        assert_eq!(result(&frames), Ok(()), "{frames:?}");
    }
    // The sending part of a stream that does not exist.
    let other = super::id(Side::Server, UNIDIRECTIONAL, 0);
    let error = result(&[frame(other, 7, 9, 5)]);
    assert_eq!(error_code(error), Code::STREAM_STATE_ERROR);
}

proptest! {
    /// Regardless of what is lost and how often the size is reduced, the reader gets the bytes
    /// guaranteed by the last size, and both endpoints forget the stream.
    #[test]
    fn the_promise_is_kept(
        length in 1_usize..4000,
        sizes in proptest::collection::vec(1_u64..5000, 1..4),
        losses in proptest::collection::vec(any::<bool>(), 64),
    ) {
        let mut pair = Pair::new(config());
        let id = pair.client.open(UNIDIRECTIONAL).unwrap();
        pair.client.write(id, data(length)).unwrap();
        let mut losses = losses.into_iter();
        let mut sizes = sizes.into_iter();
        let mut promised = length as u64;
        loop {
            if let Some(size) = sizes.next() {
                // This fails once everything is delivered.
                let _ = pair.client.reset_at(id, code(7), size);
                promised = promised.min(size);
            }
            let sent = packet(&mut pair.client, 700);
            if sent.is_none() && sizes.len() == 0 {
                break;
            }
            for packet in sent.iter() {
                if losses.next() == Some(true) {
                    packet.tokens.iter().for_each(|token| pair.client.on_lost(token));
                } else {
                    deliver(&mut pair.server, pair.now, packet).unwrap();
                    packet.tokens.iter().for_each(|token| pair.client.on_acked(token));
                }
            }
            check_ledger(&pair.client);
            check_ledger(&pair.server);
        }
        pair.server.accept(UNIDIRECTIONAL).unwrap();
        let read = read_all(&mut pair.server, pair.now, id);
        prop_assert!(read.len() as u64 >= promised && read[..] == data(length)[..read.len()]);
        prop_assert_eq!((pair.client.statistics().open, pair.server.statistics().open), (0, 0));
    }
}
