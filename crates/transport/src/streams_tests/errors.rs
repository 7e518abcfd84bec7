//! Protocol violations by a peer, and the error code of each.

use clearway_wire::frame;

use super::*;

fn server() -> Streams {
    let mut server = Streams::new(Side::Server, config());
    server.set_peer_parameters(&parameters(&config()));
    server
}

fn stream(id: StreamId, offset: u64, data: &[u8], fin: bool) -> Frame<'_> {
    let offset = VarInt::new(offset).unwrap();
    Frame::Stream(frame::Stream { stream_id: id, offset, fin, data })
}

fn reset(stream_id: StreamId, final_size: u32) -> Frame<'static> {
    let (error_code, final_size) = (code(9), code(final_size));
    Frame::ResetStream(frame::ResetStream { stream_id, error_code, final_size })
}

fn stop(stream_id: StreamId) -> Frame<'static> {
    Frame::StopSending(frame::StopSending { stream_id, error_code: code(9) })
}

fn max_stream_data(stream_id: StreamId) -> Frame<'static> {
    Frame::MaxStreamData(frame::MaxStreamData { stream_id, maximum: code(1) })
}

fn stream_data_blocked(stream_id: StreamId) -> Frame<'static> {
    Frame::StreamDataBlocked(frame::StreamDataBlocked { stream_id, limit: code(1) })
}

fn result_of(frames: &[Frame<'_>]) -> Result<(), TransportError> {
    let mut server = server();
    frames.iter().try_for_each(|frame| on_frame(&mut server, Timestamp::ORIGIN, frame))
}

#[test]
fn a_frame_for_the_part_that_a_stream_lacks_is_a_state_error() {
    let mut server = server();
    let sent_here = server.open(UNIDIRECTIONAL).unwrap();
    let sent_there = id(Side::Client, UNIDIRECTIONAL, 0);
    for frame in [
        stream(sent_here, 0, b"x", false),
        reset(sent_here, 0),
        stream_data_blocked(sent_here),
        stop(sent_there),
        max_stream_data(sent_there),
    ] {
        let result = on_frame(&mut server, Timestamp::ORIGIN, &frame);
        assert_eq!(error_code(result), TransportErrorCode::STREAM_STATE_ERROR, "{frame:?}");
    }
}

#[test]
fn a_frame_for_a_stream_that_this_end_has_not_opened_is_a_state_error() {
    let local = id(Side::Server, BIDIRECTIONAL, 0);
    for frame in [
        stream(local, 0, b"x", false),
        reset(local, 0),
        stop(local),
        max_stream_data(local),
        stream_data_blocked(local),
    ] {
        let code = error_code(result_of(&[frame]));
        assert_eq!(code, TransportErrorCode::STREAM_STATE_ERROR, "{frame:?}");
    }
}

#[test]
fn a_stream_beyond_the_limit_is_a_limit_error() {
    for direction in [BIDIRECTIONAL, UNIDIRECTIONAL] {
        assert_eq!(result_of(&[stream(id(Side::Client, direction, 3), 0, b"x", false)]), Ok(()));
        for frame in [
            stream(id(Side::Client, direction, 4), 0, b"x", false),
            reset(id(Side::Client, direction, 4), 0),
            stream_data_blocked(id(Side::Client, direction, 1 << 59)),
        ] {
            let code = error_code(result_of(&[frame]));
            assert_eq!(code, TransportErrorCode::STREAM_LIMIT_ERROR, "{frame:?}");
        }
    }
    let bidirectional = id(Side::Client, BIDIRECTIONAL, 4);
    for frame in [stop(bidirectional), max_stream_data(bidirectional)] {
        let code = error_code(result_of(&[frame]));
        assert_eq!(code, TransportErrorCode::STREAM_LIMIT_ERROR, "{frame:?}");
    }
}

#[test]
fn one_byte_beyond_a_limit_is_a_flow_control_error() {
    let first = id(Side::Client, UNIDIRECTIONAL, 0);
    let second = id(Side::Client, UNIDIRECTIONAL, 1);
    let third = id(Side::Client, BIDIRECTIONAL, 0);
    let full = [stream(first, 3999, b"x", false), stream(second, 3999, b"x", true)];
    assert_eq!(result_of(&full), Ok(()));
    let beyond_stream = error_code(result_of(&[stream(first, 4000, b"x", false)]));
    assert_eq!(beyond_stream, TransportErrorCode::FLOW_CONTROL_ERROR);
    // 2,000 of the connection's 10,000 bytes are left.
    let last = stream(third, 1999, b"x", false);
    assert_eq!(result_of(&[full[0], full[1], last, last]), Ok(()), "the same bytes count once");
    for frame in [stream(third, 2000, b"x", false), reset(third, 2001), reset(third, 4000)] {
        let code = error_code(result_of(&[full[0], full[1], frame]));
        assert_eq!(code, TransportErrorCode::FLOW_CONTROL_ERROR, "{frame:?}");
    }
    let beyond_stream = error_code(result_of(&[reset(first, 4001)]));
    assert_eq!(beyond_stream, TransportErrorCode::FLOW_CONTROL_ERROR);
}

#[test]
fn a_final_size_that_changes_is_a_final_size_error() {
    let id = id(Side::Client, UNIDIRECTIONAL, 0);
    let ended = stream(id, 0, b"12345", true);
    let reset_at_5 = reset(id, 5);
    for frames in [
        [ended, stream(id, 5, b"6", false)],
        [ended, stream(id, 3, b"4", true)],
        [ended, stream(id, 6, b"", true)],
        [ended, reset(id, 4)],
        [ended, reset(id, 6)],
        [reset_at_5, reset(id, 6)],
        [reset_at_5, stream(id, 5, b"6", false)],
        [reset_at_5, stream(id, 0, b"", true)],
        [stream(id, 10, b"x", false), reset(id, 10)],
        [stream(id, 10, b"x", false), stream(id, 0, b"x", true)],
    ] {
        let code = error_code(result_of(&frames));
        assert_eq!(code, TransportErrorCode::FINAL_SIZE_ERROR, "{frames:?}");
    }
    for frames in [
        [ended, ended],
        [ended, reset_at_5],
        [reset_at_5, ended],
        [reset_at_5, reset_at_5],
        [ended, stream(id, 5, b"", true)],
        [ended, stream(id, 2, b"345", false)],
    ] {
        assert_eq!(result_of(&frames), Ok(()), "{frames:?}");
    }
}

#[test]
fn a_final_size_holds_after_everything_was_read() {
    let mut server = server();
    let id = id(Side::Client, BIDIRECTIONAL, 0);
    on_frame(&mut server, Timestamp::ORIGIN, &stream(id, 0, b"12345", true)).unwrap();
    assert_eq!(read_all(&mut server, Timestamp::ORIGIN, id), b"12345");
    let late = on_frame(&mut server, Timestamp::ORIGIN, &stream(id, 5, b"6", false));
    assert_eq!(error_code(late), TransportErrorCode::FINAL_SIZE_ERROR);
}

#[test]
fn fragments_without_end_close_the_connection() {
    let wide = StreamsConfig {
        initial_stream_receive_window: 1 << 20,
        initial_connection_receive_window: 1 << 20,
        ..config()
    };
    let mut server = Streams::new(Side::Server, wide);
    let id = id(Side::Client, UNIDIRECTIONAL, 0);
    let refused = (0..100_000u64).rev().find_map(|index| {
        on_frame(&mut server, Timestamp::ORIGIN, &stream(id, 2 * index + 1, b"x", false)).err()
    });
    assert_eq!(refused.unwrap().code, TransportErrorCode::INTERNAL_ERROR);
}
