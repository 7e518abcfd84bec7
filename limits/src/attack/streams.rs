//! Streams: reassembly, flow control, the table of streams, what the application is told.

use clearway_transport::Side;
use clearway_wire::{Direction, Frame, Initiator, StreamId, VarInt, frame};

use super::{Attack, KIB, MIB, Target};
use crate::scene::{Application, Scene};

/// The connection's receive window at the start; nothing is read, so it does not grow.
const CONNECTION_WINDOW: u64 = MIB;
/// What a stream costs beside its data: its halves, its place in the tables, its events.
const STREAM: u64 = 2 * KIB;
/// Both kinds of stream.
const STREAMS: u64 = 200;

pub(super) fn attacks() -> Vec<Attack> {
    let on_server = |application| Target::Connection(Side::Server, application);
    vec![
        Attack {
            name: "fragments",
            target: on_server(Application::Idle),
            drive: fragments_of_one_stream,
            bound: 512 * KIB,
            because: "1,024 pieces a stream, each with its place in a tree",
        },
        Attack {
            name: "fragments on all streams",
            target: on_server(Application::Idle),
            drive: fragments_of_all_streams,
            bound: 40 * MIB,
            because: "1,024 pieces on each of 200 streams, 200 bytes a piece",
        },
        Attack {
            name: "data that nobody reads",
            target: on_server(Application::Idle),
            drive: data,
            bound: 2 * CONNECTION_WINDOW + STREAMS * STREAM,
            because: "twice the connection's window, since chunks grow by doubling",
        },
        Attack {
            name: "one byte on each stream, then reset",
            target: on_server(Application::Reads),
            drive: reset_streams,
            bound: STREAMS * 2 * STREAM,
            because: "200 streams at a time, each forgotten when it is over",
        },
        Attack {
            name: "streams that end and nobody accepts",
            target: on_server(Application::Idle),
            drive: ended_streams,
            bound: STREAMS * 2 * STREAM,
            because: "the limit on streams is raised only as they are accepted and over",
        },
        Attack {
            name: "streams that the peer stops",
            target: on_server(Application::Writes),
            drive: stopped_streams,
            bound: MIB,
            because: "200 streams at a time; what was written to them is shared by reference",
        },
        Attack {
            name: "answers that are never acknowledged",
            target: on_server(Application::Writes),
            drive: unacknowledged_answers,
            bound: 2 * MIB,
            because: "the send buffer, 256 KiB at the least, 64 KiB a stream kept by reference, and a \
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

fn data_frame(stream_id: StreamId, offset: u64, data: &[u8], fin: bool) -> Frame<'_> {
    Frame::Stream(frame::Stream { stream_id, offset: varint(offset), data, fin })
}

/// Single bytes with gaps between them: ten times the pieces that a stream may have.
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

/// Ten times the connection's window, on all streams.
fn data(scene: &mut Scene) {
    let bytes = [7; 1_000];
    for chunk in 0..10 * CONNECTION_WINDOW / 1_000 {
        let (index, place) = (chunk % 100, chunk / 100);
        let id = stream(Direction::Bidirectional, index);
        scene.send(&[data_frame(id, 1_000 * place, &bytes, false)]);
    }
}

/// A hundred times as many streams as may be open.
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
