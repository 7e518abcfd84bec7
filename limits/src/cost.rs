//! Operations whose instructions are counted: single operations on an endpoint with many objects of
//! one kind, whose cost must not grow with the number of objects, and the most frequent operations
//! of servers, whose cost must not grow between commits.

use clearway_transport::{Side, TransportConfig};
use clearway_wire::{
    ConnectionId, Direction, Frame, Initiator, PacketNumber, StreamId, VarInt, frame,
};

use crate::idle::{IdleServer, LARGE_CONTENT, SMALL_CONTENT, Stage};
use crate::scene::{Application, Scene, address, settings};

/// Number of repetitions of an operation, whose cost is the mean over all repetitions.
pub const REPETITIONS: u64 = 32;

/// An operation whose instructions are counted.
pub struct Operation {
    /// Name of the operation.
    pub name: &'static str,
    /// The subject of the operation.
    pub with: With,
}

/// The subject of an operation.
pub enum With {
    /// An endpoint with many objects of one kind.
    Many {
        /// The kind of objects.
        of: &'static str,
        /// Three object counts to compare. The last one is the limit that the peer cannot exceed,
        /// if there is one.
        counts: [u64; 3],
        /// Creates an endpoint with this many objects.
        prepare: fn(u64) -> Scene,
        /// Performs the operation once; the argument is the number of the repetition.
        perform: fn(&mut Scene, u64),
    },
    /// Clients of a server with TLS and HTTP/3, one client per repetition. Each client makes a
    /// request and, if the second request is the one to count, another one after the connection has
    /// been compacted.
    Requests {
        /// The endpoint whose instructions are counted.
        side: Side,
        /// The stage whose instructions are counted.
        stage: Stage,
        /// Size of a response's content in bytes.
        content: usize,
    },
}

/// Returns all operations whose instructions are counted.
pub fn all() -> Vec<Operation> {
    const FREE: [u64; 3] = [1, 100, 10_000];
    let on = |name, of, counts, prepare, perform| Operation {
        name,
        with: With::Many { of, counts, prepare, perform },
    };
    let serve = |name, side, stage, content| Operation {
        name,
        with: With::Requests { side, stage, content },
    };
    let (client, server) = (Side::Client, Side::Server);
    vec![
        on("receive data", "open streams", FREE, streams, receive_data),
        on("receive MAX_STREAM_DATA", "open streams", FREE, streams, receive_limit),
        on("receive RESET_STREAM", "open streams", FREE, streams, receive_reset),
        on("transmit", "streams with data", FREE, writing_streams, transmit_once),
        on("receive an ACK", "packets in flight", FREE, in_flight, acknowledge_oldest),
        on("receive an ACK", "lost packets", FREE, lost, acknowledge_newest),
        on("read the deadline", "lost packets", FREE, lost, read_deadline),
        on("receive a fragment", "fragments", [1, 32, 1_000], fragments, receive_fragment),
        on("receive CRYPTO", "CRYPTO fragments", [1, 8, 60], crypto_fragments, receive_crypto),
        on("receive a packet", "gaps in packet numbers", [1, 16, 256], gaps, receive_ping),
        on("receive a packet", "connections", FREE, connections, receive_ping),
        on("receive an unknown ID", "connections", FREE, connections, receive_unknown),
        on("receive a first packet", "connections", FREE, connections, receive_first),
        on("receive PATH_CHALLENGE", "connections", FREE, connections, receive_path_challenge),
        serve("complete a handshake", server, Stage::Handshake, LARGE_CONTENT),
        serve("serve a request of 100 kB", server, Stage::Request, LARGE_CONTENT),
        serve(
            "answer a request of 1 KiB after a rest",
            server,
            Stage::RequestAfterRest,
            SMALL_CONTENT,
        ),
        serve(
            "make a request of 1 KiB after a rest",
            client,
            Stage::RequestAfterRest,
            SMALL_CONTENT,
        ),
    ]
}

impl Operation {
    /// Returns the kind of objects that the endpoint has many of, and the object counts to compare.
    pub fn many(&self) -> Option<(&'static str, [u64; 3])> {
        match self.with {
            With::Many { of, counts, .. } => Some((of, counts)),
            With::Requests { .. } => None,
        }
    }

    /// Creates `count` objects, and performs the operation [`REPETITIONS`] times.
    pub fn run(&self, count: u64) {
        match self.with {
            With::Many { prepare, perform, .. } => {
                let mut scene = prepare(count);
                for repetition in 0..REPETITIONS {
                    counted_operation(&mut || perform(&mut scene, repetition));
                }
                assert!(!scene.is_closed(), "{} with {count}: {:?}", self.name, scene.closed);
            }
            With::Requests { side, stage, content } => {
                let mut server = IdleServer::new(content);
                let requests = if stage == Stage::RequestAfterRest { 2 } else { 1 };
                for _ in 0..REPETITIONS {
                    server.serve_one(requests, &mut |of, at, act| {
                        if (of, at) == (side, stage) { counted_operation(act) } else { act() }
                    });
                }
            }
        }
    }
}

/// The function that valgrind instruments: instructions are counted between its call and its
/// return.
#[inline(never)]
fn counted_operation(operation: &mut dyn FnMut()) {
    operation();
}

fn large_limits() -> TransportConfig {
    settings()
        .to_builder()
        .max_concurrent_bidirectional_streams(20_000)
        .max_concurrent_unidirectional_streams(20_000)
        .initial_stream_receive_window(1 << 20)
        .initial_connection_receive_window(1 << 28)
        .max_connection_receive_window(1 << 28)
        .initial_window(Some(1 << 26))
        .send_buffer(1 << 26)
        .build()
        .unwrap()
}

fn scene(application: Application, connections: usize) -> Scene {
    Scene::with(Side::Server, application, &large_limits(), connections)
}

fn varint(value: u64) -> VarInt {
    VarInt::new(value).expect("a small number")
}

fn stream(index: u64) -> StreamId {
    StreamId::new(Initiator::Client, Direction::Bidirectional, index).expect("a stream ID")
}

fn data_frame(index: u64, offset: u64, data: &[u8]) -> Frame<'_> {
    let (stream_id, offset) = (stream(index), varint(offset));
    Frame::Stream(frame::Stream { stream_id, offset, data, fin: false })
}

fn streams(count: u64) -> Scene {
    let mut scene = scene(Application::Idle, 1);
    for index in 0..count.max(REPETITIONS) {
        scene.send(&[data_frame(index, 0, b"x")]);
    }
    scene
}

fn receive_data(scene: &mut Scene, repetition: u64) {
    scene.send(&[data_frame(0, 1 + repetition, b"x")]);
}

fn receive_limit(scene: &mut Scene, repetition: u64) {
    let maximum = varint((1 << 30) + repetition);
    scene.send(&[Frame::MaxStreamData(frame::MaxStreamData { stream_id: stream(0), maximum })]);
}

fn receive_reset(scene: &mut Scene, repetition: u64) {
    let (stream_id, error_code) = (stream(repetition), VarInt::ZERO);
    let final_size = varint(1);
    scene.send(&[Frame::ResetStream(frame::ResetStream { stream_id, error_code, final_size })]);
}

/// Creates a connection with `count` streams that have unsent data.
fn writing_streams(count: u64) -> Scene {
    let mut scene = scene(Application::Idle, 1);
    scene.send(&[Frame::MaxData(frame::MaxData { maximum: varint(1 << 29) })]);
    scene.may_transmit = false;
    for index in 0..count {
        scene.send(&[data_frame(index, 0, b"x")]);
        let accepted = scene.connection().accept(Direction::Bidirectional);
        let written = scene.connection().write_slice(accepted.expect("a stream"), &[7; 1_000]);
        written.expect("room");
    }
    scene.may_transmit = true;
    scene
}

fn transmit_once(scene: &mut Scene, _: u64) {
    let (now, handle) = (scene.now, scene.handle);
    let mut buffer = [0; 1_200];
    if scene.victim.transmit(handle, now, &mut buffer, 1).is_some() {
        scene.victim.transmitted(handle, now);
    }
}

/// Makes the victim send `count` packets, none of which are acknowledged.
fn in_flight(count: u64) -> Scene {
    let mut scene = scene(Application::Idle, 1);
    scene.send(&[data_frame(0, 0, b"x")]);
    let limits = [
        Frame::MaxData(frame::MaxData { maximum: varint(1 << 29) }),
        Frame::MaxStreamData(frame::MaxStreamData {
            stream_id: stream(0),
            maximum: varint(1 << 29),
        }),
    ];
    scene.send(&limits);
    let id = scene.connection().accept(Direction::Bidirectional).expect("a stream");
    let target = scene.largest_sent().map_or(0, PacketNumber::get) + count + 2 * REPETITIONS;
    while scene.largest_sent().is_none_or(|largest| largest.get() < target) {
        let data = bytes::Bytes::from_static(&[7; 1_000]);
        scene.connection().write(id, data).expect("a stream that takes data");
        scene.turn();
    }
    scene.may_transmit = false;
    scene
}

/// Like [`in_flight`], but all packets except the newest are declared lost.
fn lost(count: u64) -> Scene {
    let mut scene = in_flight(count);
    let largest = scene.largest_sent().expect("packets").get();
    acknowledge(&mut scene, largest - 2 * REPETITIONS);
    scene
}

fn acknowledge(scene: &mut Scene, number: u64) {
    let number = PacketNumber::new(number).expect("a packet number");
    scene.acknowledge(core::iter::once(number..=number));
}

/// Acknowledges one more of the newest packets. This does not cause any other packet to be declared
/// lost.
fn acknowledge_newest(scene: &mut Scene, repetition: u64) {
    let largest = scene.largest_sent().expect("packets").get();
    acknowledge(scene, largest - 2 * REPETITIONS + repetition + 1);
}

/// Acknowledges one more of the oldest packets. The handshake used fewer than 20 packet numbers.
fn acknowledge_oldest(scene: &mut Scene, repetition: u64) {
    acknowledge(scene, 20 + repetition);
}

fn read_deadline(scene: &mut Scene, _: u64) {
    let _ = scene.connection().deadline();
}

fn fragments(count: u64) -> Scene {
    let mut scene = scene(Application::Idle, 1);
    for piece in 0..count {
        scene.send(&[data_frame(0, 1_000 + 2 * piece, b"x")]);
    }
    scene
}

/// Passes one byte to the victim that does not close a gap. If there are many fragments, the byte
/// was already received.
fn receive_fragment(scene: &mut Scene, repetition: u64) {
    scene.send(&[data_frame(0, 1_000 + 2 * repetition, b"x")]);
}

fn crypto_fragments(count: u64) -> Scene {
    let mut scene = scene(Application::Idle, 1);
    for piece in 0..count {
        scene.send(&[Frame::Crypto(frame::Crypto { offset: varint(100 + 2 * piece), data: b"x" })]);
    }
    scene
}

fn receive_crypto(scene: &mut Scene, _: u64) {
    scene.send(&[Frame::Crypto(frame::Crypto { offset: varint(100), data: b"x" })]);
}

fn gaps(count: u64) -> Scene {
    let mut scene = scene(Application::Idle, 1);
    for _ in 0..count {
        scene.send(&[Frame::Ping]);
        scene.skip_numbers(1);
    }
    scene
}

fn receive_ping(scene: &mut Scene, _: u64) {
    scene.send(&[Frame::Ping]);
}

fn connections(count: u64) -> Scene {
    let mut scene = scene(Application::Idle, 20_000);
    for number in 1..count {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        scene.add_connection(&settings(), address(number + 1));
    }
    // During the time that the handshakes take, the first connection was compacted. Unpacking it
    // must not be counted.
    scene.send(&[Frame::Ping]);
    scene.turn();
    scene
}

fn receive_unknown(scene: &mut Scene, repetition: u64) {
    let mut packet = [0x40; 100];
    packet[1..9].copy_from_slice(&repetition.to_be_bytes());
    scene.send_raw(address(1), &packet);
}

fn receive_first(scene: &mut Scene, repetition: u64) {
    let id = ConnectionId::new(&(repetition + 1).to_be_bytes()).expect("a connection ID");
    let from = address(30_000 + u32::try_from(repetition).unwrap_or(0));
    let hello = frame::Crypto { offset: VarInt::ZERO, data: b"x" };
    scene.send_initial(from, id, &[Frame::Crypto(hello)]);
}

fn receive_path_challenge(scene: &mut Scene, repetition: u64) {
    let data = repetition.to_be_bytes();
    scene.send(&[Frame::PathChallenge(frame::PathChallenge { data })]);
}
