//! Tests of connection errors: control and QPACK streams, unexpected frames, and pushes.

use super::pair::{Alone, control, data, frame, frame_header, headers, plain, request, response};
use crate::{Code, Event, QpackError, Role, Settings};

#[track_caller]
fn assert_closes(alone: &mut Alone, code: Code) {
    assert_eq!(alone.close_code(), Some(code));
}

fn both() -> [Alone; 2] {
    [Alone::server(), Alone::client()]
}

#[test]
fn settings_are_told() {
    for mut alone in both() {
        alone.open_unidirectional(&[0x00, 0x04, 0x03, 0x06, 0x43, 0xe8]);
        let expected = Settings { max_field_section_size: Some(1000), ..Settings::default() };
        let events = alone.events();
        assert!(matches!(&events[..], [Event::Settings(settings)] if *settings == expected));
        assert_eq!(alone.connection.peer_settings(), Some(&expected));
    }
}

/// SETTINGS is the first frame of the control stream (RFC 9114 §6.2.1).
#[test]
fn section_6_2_1_missing_settings() {
    for first in [frame(0x07, &[0]), frame(0x21, &[]), data(b""), frame(0x0d, &[0])] {
        for mut alone in both() {
            alone.open_unidirectional(&[&[0x00][..], &first].concat());
            assert_closes(&mut alone, Code::MISSING_SETTINGS);
        }
    }
}

/// SETTINGS may be sent only once (RFC 9114 §7.2.4), with valid contents (§7.2.4.1).
#[test]
fn section_7_2_4_settings() {
    for mut alone in both() {
        alone.open_unidirectional(&control(&frame(0x04, &[])));
        assert_closes(&mut alone, Code::FRAME_UNEXPECTED);
    }
    for payload in [&[0x02, 0x00][..], &[0x06, 0x01, 0x06, 0x01]] {
        let mut alone = Alone::server();
        alone.open_unidirectional(&[&[0x00][..], &frame(0x04, payload)].concat());
        assert_closes(&mut alone, Code::SETTINGS_ERROR);
    }
    let mut alone = Alone::server();
    alone.open_unidirectional(&[&[0x00][..], &frame(0x04, &[0x06])].concat());
    assert_closes(&mut alone, Code::FRAME_ERROR);
    let mut alone = Alone::server();
    alone.open_unidirectional(&[&[0x00][..], &frame_header(0x04, 1 << 40)].concat());
    assert_closes(&mut alone, Code::EXCESSIVE_LOAD);
}

/// Tests frames that are not allowed on a control stream (RFC 9114 §7.2.1, §7.2.2, §7.2.5, §7.2.8).
#[test]
fn section_7_2_frames_on_the_control_stream() {
    for frame_type in [0x00, 0x01, 0x05, 0x02, 0x06, 0x08, 0x09] {
        for mut alone in both() {
            alone.open_unidirectional(&control(&frame(frame_type, &[0])));
            assert_closes(&mut alone, Code::FRAME_UNEXPECTED);
        }
    }
}

/// Tests frames that are not allowed on a request stream (RFC 9114 §7.2.3 to §7.2.8).
#[test]
fn section_7_2_frames_on_a_request_stream() {
    for frame_type in [0x03, 0x04, 0x07, 0x0d, 0x02, 0x06, 0x08, 0x09] {
        let mut server = Alone::server();
        server.open_bidirectional(&frame(frame_type, &[0]));
        assert_closes(&mut server, Code::FRAME_UNEXPECTED);
        let mut client = Alone::client();
        client.say(0, &frame(frame_type, &[0]));
        assert_closes(&mut client, Code::FRAME_UNEXPECTED);
    }
}

/// A client never sends PUSH_PROMISE, and a server only after MAX_PUSH_ID (RFC 9114 §7.2.5).
#[test]
fn section_7_2_5_push_promise() {
    let mut server = Alone::server();
    server.open_bidirectional(&frame(0x05, &[0, 0, 0]));
    assert_closes(&mut server, Code::FRAME_UNEXPECTED);
    let mut client = Alone::client();
    client.say(0, &frame(0x05, &[0, 0, 0]));
    assert_closes(&mut client, Code::ID_ERROR);
}

/// Tests push streams (RFC 9114 §6.2.2, §4.6).
#[test]
fn section_6_2_2_push_streams() {
    let mut server = Alone::server();
    server.open_unidirectional(&[0x01, 0x00]);
    assert_closes(&mut server, Code::STREAM_CREATION_ERROR);
    let mut client = Alone::client();
    client.open_unidirectional(&[0x01, 0x00]);
    assert_closes(&mut client, Code::ID_ERROR);
}

/// There is no promised or allowed push to cancel (RFC 9114 §7.2.3).
#[test]
fn section_7_2_3_cancel_push() {
    for mut alone in both() {
        alone.open_unidirectional(&control(&frame(0x03, &[0])));
        assert_closes(&mut alone, Code::ID_ERROR);
    }
}

/// Tests the requirements of RFC 9114 §7.2.7.
#[test]
fn section_7_2_7_max_push_id() {
    let mut client = Alone::client();
    client.open_unidirectional(&control(&frame(0x0d, &[0])));
    assert_closes(&mut client, Code::FRAME_UNEXPECTED);
    let mut server = Alone::server();
    let stream = server.open_unidirectional(&control(&frame(0x0d, &[5])));
    server.say(stream, &frame(0x0d, &[5]));
    assert_eq!(server.close_code(), None);
    server.say(stream, &frame(0x0d, &[4]));
    assert_closes(&mut server, Code::ID_ERROR);
}

/// A frame's payload must contain exactly its fields (RFC 9114 §7.1).
#[test]
fn section_7_1_wrong_lengths() {
    for payload in [&[][..], &[0x40], &[0, 0], &[0; 9]] {
        for frame_type in [0x03, 0x07, 0x0d] {
            let mut server = Alone::server();
            server.open_unidirectional(&control(&frame(frame_type, payload)));
            assert_closes(&mut server, Code::FRAME_ERROR);
        }
    }
}

/// A cleanly terminated stream ends after a complete frame (RFC 9114 §7.1).
#[test]
fn section_7_1_truncated_frames() {
    for end in [&frame_header(0x00, 5)[..], &[0x00], &frame_header(0x21, 5), &[0x40]] {
        let mut server = Alone::server();
        let stream = server.open_bidirectional(&[&request("POST", &[])[..], end].concat());
        server.fin(stream);
        server.events();
        let (connection, mut transport) = server.split();
        assert_eq!(connection.read_body(&mut transport, stream, 100), None);
        assert_closes(&mut server, Code::FRAME_ERROR);
    }
    let whole = request("GET", &[]);
    for length in 1..whole.len() {
        let mut server = Alone::server();
        let stream = server.open_bidirectional(&whole[..length]);
        server.fin(stream);
        assert_closes(&mut server, Code::FRAME_ERROR);
    }
}

/// There may be only one critical stream of each type, and it must never be closed (RFC 9114
/// §6.2.1, RFC 9204 §4.2).
#[test]
fn section_6_2_1_critical_streams() {
    for stream_type in [0x00, 0x02, 0x03] {
        for mut alone in both() {
            alone.open_unidirectional(&[stream_type]);
            alone.open_unidirectional(&[stream_type]);
            assert_closes(&mut alone, Code::STREAM_CREATION_ERROR);
        }
        for mut alone in both() {
            let stream = alone.open_unidirectional(&[stream_type]);
            assert_eq!(alone.close_code(), None);
            alone.fin(stream);
            assert_closes(&mut alone, Code::CLOSED_CRITICAL_STREAM);
        }
        for mut alone in both() {
            let stream = alone.open_unidirectional(&[stream_type]);
            assert_eq!(alone.close_code(), None);
            crate::Transport::reset(&mut alone.peer_end(), stream, 0);
            assert_closes(&mut alone, Code::CLOSED_CRITICAL_STREAM);
        }
    }
}

/// The peer must not stop the local control stream (RFC 9114 §6.2.1).
#[test]
fn section_6_2_1_our_control_stream_is_stopped() {
    for mut alone in both() {
        alone.events();
        let stream = if alone.connection.role() == Role::Server { 3 } else { 2 };
        crate::Transport::stop_sending(&mut alone.peer_end(), stream, 0);
        assert_closes(&mut alone, Code::CLOSED_CRITICAL_STREAM);
    }
}

/// Neither unknown streams nor streams that end before their type are errors (RFC 9114 §6.2).
#[test]
fn section_6_2_unknown_streams() {
    for mut alone in both() {
        let unknown = alone.open_unidirectional(&[0x21, 1, 2, 3]);
        let empty = alone.open_unidirectional(&[]);
        let partial = alone.open_unidirectional(&[0x40]);
        let cut = alone.open_unidirectional(&[0x40]);
        alone.fin(empty).fin(partial);
        crate::Transport::reset(&mut alone.peer_end(), cut, 7);
        assert_eq!(alone.close_code(), None);
        let is_server = alone.connection.role() == Role::Server;
        let code = alone.link.half(unknown, !is_server).stopped;
        assert_eq!(code, Some(Code::STREAM_CREATION_ERROR.get()));
        assert!(alone.connection.unidirectional.is_empty());
    }
}

/// Tests the requirements of RFC 9114 §6.1.
#[test]
fn section_6_1_server_opens_a_bidirectional_stream() {
    let mut client = Alone::client();
    client.open_bidirectional(&[]);
    assert_closes(&mut client, Code::STREAM_CREATION_ERROR);
}

/// Each stream has its own error code (RFC 9204 §2.2, §4.3, §4.4).
#[test]
fn qpack_errors_have_their_codes() {
    let mut server = Alone::server();
    server.open_unidirectional(&[0x02, 0x3f, 0xe2, 0x1f]);
    assert_closes(&mut server, Code::QPACK_ENCODER_STREAM_ERROR);
    assert_eq!(server.connection.error().unwrap().qpack, Some(QpackError::CapacityTooLarge));
    let mut server = Alone::server();
    server.open_unidirectional(&[0x03, 0x00]);
    assert_closes(&mut server, Code::QPACK_DECODER_STREAM_ERROR);
    for section in
        [&[][..], &[0], &[1, 0], &[0xff, 0x80, 0x02, 0], &[0, 0, 0x80], &[0, 0, 0xff, 0x7f]]
    {
        let mut server = Alone::server();
        server.open_bidirectional(&frame(0x01, section));
        assert_closes(&mut server, Code::QPACK_DECOMPRESSION_FAILED);
    }
}

/// Tests frame sequences that do not form a valid message (RFC 9114 §4.1).
#[test]
fn section_4_1_invalid_sequences() {
    let (head, trailers) = (request("POST", &[]), headers(&[("x", "1")]));
    for stream in [
        data(b"x"),
        [&head[..], &trailers, &trailers].concat(),
        [&head[..], &trailers, &data(b"x")].concat(),
        [&head[..], &trailers, &data(b"")].concat(),
    ] {
        let mut server = Alone::server();
        server.open_bidirectional(&stream);
        assert_closes(&mut server, Code::FRAME_UNEXPECTED);
    }
    let mut client = Alone::client();
    client.say(0, &[response("103", &[]), data(b"x")].concat());
    assert_closes(&mut client, Code::FRAME_UNEXPECTED);
}

/// Only DATA frames are allowed in a tunnel (RFC 9114 §4.4).
#[test]
fn section_4_4_frames_in_a_tunnel() {
    let connect = headers(&[(":method", "CONNECT"), (":authority", "a:1")]);
    let mut server = Alone::server();
    server.open_bidirectional(&[connect, headers(&[("x", "1")])].concat());
    assert_closes(&mut server, Code::FRAME_UNEXPECTED);
    let mut client = Alone::client_with("CONNECT");
    client.say(0, &[response("200", &[]), headers(&[("x", "1")])].concat());
    assert_closes(&mut client, Code::FRAME_UNEXPECTED);
    // A rejected CONNECT request has an ordinary response.
    let mut client = Alone::client_with("CONNECT");
    client.say(0, &[response("403", &[]), headers(&[("x", "1")])].concat());
    assert_eq!(client.close_code(), None);
}

/// GOAWAY must have the type of ID for the sender's role, and IDs must not increase (RFC 9114
/// §7.2.6, §5.2).
#[test]
fn section_5_2_goaway() {
    for id in [1, 2, 3] {
        let mut client = Alone::client();
        client.open_unidirectional(&control(&frame(0x07, &[id])));
        assert_closes(&mut client, Code::ID_ERROR);
    }
    for mut alone in both() {
        let stream = alone.open_unidirectional(&control(&frame(0x07, &[8])));
        alone.say(stream, &frame(0x07, &[4]));
        let events = alone.events();
        assert!(matches!(events[..], [Event::Settings(_), Event::GoAway { id: 4 }]), "{events:?}");
        alone.say(stream, &frame(0x07, &[8]));
        assert_closes(&mut alone, Code::ID_ERROR);
    }
}

/// Unknown frames are skipped anywhere, without being buffered (RFC 9114 §9).
#[test]
fn section_9_unknown_frames_are_skipped() {
    let unknown = frame(0x21, &[7; 1000]);
    let mut server = Alone::server();
    server.open_unidirectional(&control(&unknown));
    let parts = [&unknown[..], &request("POST", &[]), &unknown, &headers(&[("x", "1")]), &unknown];
    let stream = server.open_bidirectional(&parts.concat());
    server.fin(stream);
    let events = server.events();
    assert!(
        matches!(
            events[..],
            [
                Event::Settings(_),
                Event::Request { .. },
                Event::Trailers { .. },
                Event::Finished { .. }
            ]
        ),
        "{events:?}"
    );
    // A frame of 2^61 bytes uses no memory.
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&frame_header(0x21, 1 << 61));
    for _ in 0..100 {
        server.say(stream, &[0; 10_000]);
        assert_eq!(server.close_code(), None);
    }
}

#[test]
fn section_9_unknown_frames_on_a_control_stream_in_chunks() {
    let mut server = Alone::server();
    server.link.sizes = vec![7, 1];
    server.open_unidirectional(&control(&[frame(0x21, &[7; 1000]), frame(0x07, &[3])].concat()));
    let events = server.events();
    assert!(matches!(events[..], [Event::Settings(_), Event::GoAway { id: 3 }]), "{events:?}");
}

#[test]
fn a_closed_connection_reports_no_more_events() {
    let mut server = Alone::new(Role::Server, plain());
    let stream = server.open_bidirectional(&request("GET", &[]));
    server.open_bidirectional(&data(b""));
    let events = server.events();
    assert!(matches!(events.last(), Some(Event::Closed(_))));
    server.say(stream, &data(b"x"));
    server.open_bidirectional(&request("GET", &[]));
    assert!(server.events().is_empty());
    let (connection, mut transport) = server.split();
    let outcome = connection.finish(&mut transport, stream);
    assert_eq!(outcome, Err(crate::SendError::ConnectionClosed));
}
