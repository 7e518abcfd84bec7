//! Attacks on streams: reassembly, flow control, the stream table, and application events.

use clearway_transport::Side;
use clearway_wire::{Direction, Frame, Initiator, StreamId, VarInt, frame};

use super::packets::LEDGER;
use super::{Attack, KIB, MIB, Target};
use crate::scene::{Application, Scene};

/// The connection's initial receive window. It does not grow, because the application reads
/// nothing.
const CONNECTION_WINDOW: u64 = MIB;
/// Maximum sizes of the receive windows with the default settings.
const LARGEST_CONNECTION_WINDOW: u64 = 48 * MIB;
const LARGEST_STREAM_WINDOW: u64 = 32 * MIB;
/// Memory per stream in addition to its data: both halves, table entries, and events.
const STREAM: u64 = 2 * KIB;
/// Number of open streams in both directions.
const STREAMS: u64 = 200;

pub(super) fn attacks() -> Vec<Attack> {
    let on_server = |application| Target::Connection(Side::Server, application);
    vec![
        Attack {
            name: "fragments",
            target: on_server(Application::Idle),
            drive: fragments_of_one_stream,
            bound: 512 * KIB,
            because: "1,024 pieces per stream, each in a node of a tree",
        },
        Attack {
            name: "fragments on all streams",
            target: on_server(Application::Idle),
            drive: fragments_of_all_streams,
            bound: 40 * MIB,
            because: "1,024 pieces on each of 200 streams, 200 bytes per piece",
        },
        Attack {
            name: "data that is not read",
            target: on_server(Application::Idle),
            drive: data,
            bound: 2 * CONNECTION_WINDOW + STREAMS * STREAM,
            because: "twice the connection's window, since chunks grow by doubling",
        },
        Attack {
            name: "data that is not read any more",
            target: on_server(Application::Reads),
            drive: data_after_growth,
            bound: 2 * LARGEST_CONNECTION_WINDOW + STREAMS * STREAM,
            because: "twice the connection's largest window, since chunks grow by doubling",
        },
        Attack {
            name: "one byte on each stream, then reset",
            target: on_server(Application::Reads),
            drive: reset_streams,
            bound: STREAMS * 2 * STREAM,
            because: "200 streams at a time, each removed when it is closed",
        },
        Attack {
            name: "finished streams that are not accepted",
            target: on_server(Application::Idle),
            drive: ended_streams,
            bound: STREAMS * 2 * STREAM,
            because: "the stream limit is raised only for streams that were accepted and are closed",
        },
        Attack {
            name: "partial resets of data that never comes",
            target: on_server(Application::Reads),
            drive: partial_resets,
            bound: STREAMS * 2 * STREAM + LEDGER,
            because: "200 streams at a time, and the records of sent ACKs",
        },
        Attack {
            name: "partial resets that shrink again and again",
            target: on_server(Application::Idle),
            drive: shrinking_partial_resets,
            bound: 2 * CONNECTION_WINDOW + STREAMS * STREAM,
            because: "only the smallest reliable size is kept, and the data of the connection's window",
        },
        Attack {
            name: "streams stopped by the peer",
            target: on_server(Application::Writes),
            drive: stopped_streams,
            bound: MIB,
            because: "200 streams at a time; their data is shared by reference",
        },
        Attack {
            name: "responses that are never acknowledged",
            target: on_server(Application::Writes),
            drive: unacknowledged_answers,
            bound: 2 * MIB,
            because: "the send buffer, at least 256 KiB, 64 KiB per stream kept by reference, and a \
                      congestion window of sent packets",
        },
    ]
}

fn stream(direction: Direction, index: u64) -> StreamId {
    StreamId::new(Initiator::Client, direction, index).expect("a stream ID")
}

fn varint(value: u64) -> VarInt {
    VarInt::new(value).expect("a small number")
}

fn partial_reset(stream_id: StreamId, final_size: u64, reliable_size: u64) -> Frame<'static> {
    Frame::ResetStreamAt(frame::ResetStreamAt {
        stream_id,
        error_code: varint(7),
        final_size: varint(final_size),
        reliable_size: varint(reliable_size),
    })
}

/// Sends as much data as the stream limit and the connection's window allow. None of the data can
/// be delivered.
fn partial_resets(scene: &mut Scene) {
    for index in 0..20_000 {
        for direction in [Direction::Bidirectional, Direction::Unidirectional] {
            scene.send(&[partial_reset(stream(direction, index % 100), 5_000, 4_000)]);
        }
    }
    assert!(!scene.is_closed(), "{:?}", scene.closed);
}

fn shrinking_partial_resets(scene: &mut Scene) {
    let data = [7; 1_000];
    for index in 0..100 {
        let id = stream(Direction::Bidirectional, index);
        // A gap at the beginning, so that the data after it is buffered.
        scene.send(&[data_frame(id, 1, &data, false)]);
        for reliable_size in (0..200).rev() {
            scene.send(&[partial_reset(id, 1_001, 5 * reliable_size)]);
        }
    }
    assert!(!scene.is_closed(), "{:?}", scene.closed);
}

fn data_frame(stream_id: StreamId, offset: u64, data: &[u8], fin: bool) -> Frame<'_> {
    Frame::Stream(frame::Stream { stream_id, offset: varint(offset), data, fin })
}

/// Sends single bytes with gaps between them, ten times as many as the number of fragments that a
/// stream may store.
fn fragments_of_one_stream(scene: &mut Scene) {
    let id = stream(Direction::Bidirectional, 0);
    for piece in 1..10_240 {
        scene.send(&[data_frame(id, 2 * piece, b"x", false)]);
    }
}

fn fragments_of_all_streams(scene: &mut Scene) {
    for direction in [Direction::Bidirectional, Direction::Unidirectional] {
        for index in 0..100 {
            for group in 0..50 {
                let at = |piece: u64| 2 * (20 * group + piece) + 2;
                let frames: Vec<Frame<'_>> = (0..20)
                    .map(|piece| data_frame(stream(direction, index), at(piece), b"x", false))
                    .collect();
                scene.send(&frames);
            }
        }
    }
}

/// Sends ten times the connection's window, spread over all streams.
fn data(scene: &mut Scene) {
    let bytes = [7; 1_000];
    for chunk in 0..10 * CONNECTION_WINDOW / 1_000 {
        let (index, place) = (chunk % 100, chunk / 100);
        let id = stream(Direction::Bidirectional, index);
        scene.send(&[data_frame(id, 1_000 * place, &bytes, false)]);
    }
}

/// Makes the receive windows grow by repeatedly reporting that they block although all data is
/// read, and then fills them.
fn data_after_growth(scene: &mut Scene) {
    let bytes = [7; 1_000];
    let mut limits = [0, 1].map(|index| (stream(Direction::Bidirectional, index), 0));
    for round in 0..20 {
        for (id, sent) in &mut limits {
            scene.send(&[data_frame(*id, *sent, &bytes, false)]);
            *sent += 1_000;
            let limit = varint(*sent);
            scene.send(&[Frame::StreamDataBlocked(frame::StreamDataBlocked {
                stream_id: *id,
                limit,
            })]);
        }
        scene
            .send(&[Frame::DataBlocked(frame::DataBlocked { limit: varint(2_000 * (round + 1)) })]);
        acknowledge_all(scene);
    }
    scene.set_application(Application::Idle);
    let (mut left, [first, second]) = (LARGEST_CONNECTION_WINDOW, limits);
    for (id, mut sent) in [first, second] {
        let end = sent + LARGEST_STREAM_WINDOW;
        while sent + 1_000 <= end && left >= 1_000 {
            scene.send(&[data_frame(id, sent, &bytes, false)]);
            (sent, left) = (sent + 1_000, left - 1_000);
        }
    }
    assert!(!scene.is_closed(), "the windows have grown to their maxima");
}

/// Opens a hundred times as many streams as may be open, and resets them.
fn reset_streams(scene: &mut Scene) {
    for index in 0..10_000 {
        let id = stream(Direction::Unidirectional, index);
        let reset =
            frame::ResetStream { stream_id: id, error_code: VarInt::ZERO, final_size: varint(1) };
        scene.send(&[data_frame(id, 0, b"x", false), Frame::ResetStream(reset)]);
        acknowledge_all(scene);
    }
}

fn ended_streams(scene: &mut Scene) {
    for index in 0..1_000 {
        scene.send(&[data_frame(stream(Direction::Unidirectional, index), 0, b"x", true)]);
    }
}

fn stopped_streams(scene: &mut Scene) {
    for index in 0..10_000 {
        let id = stream(Direction::Bidirectional, index);
        let stop = frame::StopSending { stream_id: id, error_code: VarInt::ZERO };
        scene.send(&[data_frame(id, 0, b"x", true)]);
        scene.send(&[Frame::StopSending(stop)]);
        acknowledge_all(scene);
    }
}

fn unacknowledged_answers(scene: &mut Scene) {
    for index in 0..100 {
        scene.send(&[data_frame(stream(Direction::Bidirectional, index), 0, b"x", true)]);
    }
    let maximum = VarInt::new(1 << 40).expect("a number");
    for _ in 0..10_000 {
        scene.send(&[Frame::MaxData(frame::MaxData { maximum })]);
    }
}

fn acknowledge_all(scene: &mut Scene) {
    if let Some(largest) = scene.largest_sent() {
        scene.acknowledge(core::iter::once(clearway_wire::PacketNumber::ZERO..=largest));
    }
}
