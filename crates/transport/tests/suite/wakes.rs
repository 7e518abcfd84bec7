//! Tests that actions enabled by an application call happen immediately: the required frames are
//! sent without time passing and without another event, and the peer sees the result one trip or
//! one round trip later. A result that requires a later timer or packet counts as too late here,
//! even though a transfer would complete.

use crate::support::ids::Rotating;
use crate::support::{
    Pair, Route, SECOND_SOCKET, delayed, milliseconds, pattern, quiet, seconds, tls,
};
use bytes::Bytes;
use clearway_transport::{Connection, Event, ReadError, ReadOutcome, Side, TransportConfig};
use clearway_wire::{Direction, StreamId, VarInt};

const PING: u64 = 0x01;
const ACK: u64 = 0x02;
const RESET_STREAM: u64 = 0x04;
const STOP_SENDING: u64 = 0x05;
const STREAM: u64 = 0x08;
const MAX_DATA: u64 = 0x10;
const MAX_STREAM_DATA: u64 = 0x11;
const MAX_STREAMS: u64 = 0x13;
const NEW_CONNECTION_ID: u64 = 0x18;
const PATH_CHALLENGE: u64 = 0x1a;
const CLOSE: u64 = 0x1d;
const RESET_STREAM_AT: u64 = 0x24;
const DATAGRAM: u64 = 0x31;

/// The path's one-way delay, in milliseconds.
const DELAY: u64 = 10;
const STREAM_WINDOW: usize = 64 << 10;
const CONNECTION_WINDOW: usize = 96 << 10;
const CODE: VarInt = VarInt::from_u32(7);

/// Returns a configuration with small windows that do not grow, and two streams of each kind.
fn config() -> TransportConfig {
    quiet()
        .to_builder()
        .initial_stream_receive_window(STREAM_WINDOW as u64)
        .max_stream_receive_window(STREAM_WINDOW as u64)
        .initial_connection_receive_window(CONNECTION_WINDOW as u64)
        .max_connection_receive_window(CONNECTION_WINDOW as u64)
        .max_concurrent_bidirectional_streams(2)
        .max_concurrent_unidirectional_streams(2)
        .max_datagram_frame_size(Some(1500))
        .datagram_send_limit(4)
        .reset_stream_at(true)
        .build()
        .unwrap()
}

/// A client and a server, and the streams that the case uses.
struct World {
    pair: Pair,
    streams: Vec<StreamId>,
    ids: std::sync::Arc<Rotating>,
}

impl World {
    fn new() -> Self {
        let ids = Rotating::new();
        let generators = [Rotating::new() as _, ids.clone() as _];
        let mut pair = Pair::with_ids(delayed(DELAY, 1), [config(), config()], tls(), generators);
        pair.routes.push(Route::second_socket("10.0.7.1:50000", delayed(DELAY, 2)));
        pair.establish();
        pair.run_for(milliseconds(300));
        Self { pair, streams: Vec::new(), ids }
    }

    fn client(&mut self) -> &mut Connection {
        self.pair.client()
    }

    fn server(&mut self) -> &mut Connection {
        self.pair.server()
    }

    /// Opens streams on the server and writes these sizes; the client accepts the streams, and
    /// reads nothing.
    fn serve(&mut self, direction: Direction, sizes: &[usize]) {
        for size in sizes {
            let stream = self.server().open(direction).unwrap();
            assert_eq!(self.server().write(stream, pattern(*size)), Ok(*size));
            self.streams.push(stream);
        }
        self.pair.run_for(seconds(2));
        for _ in sizes {
            self.client().accept(direction).unwrap();
        }
    }

    /// Reads up to `most` bytes of a stream on the client.
    fn read(&mut self, index: usize, most: usize) -> usize {
        let (now, stream) = (self.pair.now, self.streams[index]);
        let mut left = most;
        while left > 0
            && let Ok(ReadOutcome::Data(data)) = self.client().read(now, stream, left)
        {
            left -= data.len();
        }
        most - left
    }

    /// Tries to read more of a stream on the client than there is.
    fn await_data(&mut self, index: usize) {
        let (now, stream) = (self.pair.now, self.streams[index]);
        assert_eq!(self.client().read(now, stream, 1), Ok(ReadOutcome::Blocked));
    }

    /// Returns how many bytes written to the first stream the peer has received.
    fn received(&mut self, index: usize) -> u64 {
        let stream = self.streams[index];
        self.client().stream_progress(stream).map_or(0, |progress| progress.received)
    }

    fn has_event(&self, side: Side, event: &Event) -> bool {
        let events = match side {
            Side::Client => &self.pair.client_events,
            Side::Server => &self.pair.server_events,
        };
        events.contains(event)
    }

    /// Returns the types of the frames that `side` sends at this time, except acknowledgments.
    fn sent_now(&mut self, side: Side) -> Vec<u64> {
        let before = self.pair.watch.sent(side).len();
        self.pair.flush();
        let sent = self.pair.watch.sent(side);
        let frames = sent[before..].iter().flat_map(|packet| packet.frames.clone());
        let kind = |frame: u64| if (STREAM..STREAM + 8).contains(&frame) { STREAM } else { frame };
        frames.map(kind).filter(|frame| *frame != ACK).collect()
    }
}

/// An application call that enables an action.
struct Case {
    name: &'static str,
    /// The endpoint whose application makes the call.
    side: Side,
    prepare: fn(&mut World),
    act: fn(&mut World),
    /// The frames that must be sent immediately.
    sends: &'static [u64],
    /// Whether the call can also be made while the connection is compacted.
    can_rest: bool,
    /// The number of one-way trips after which the result is visible.
    trips: u64,
    /// A check for the result.
    result: fn(&mut World) -> bool,
}

const fn case(name: &'static str, side: Side) -> Case {
    let (prepare, act) = (|_: &mut World| {}, |_: &mut World| {});
    Case { name, side, prepare, act, sends: &[], can_rest: true, trips: 1, result: |_| true }
}

fn serve_window(world: &mut World) {
    world.serve(Direction::Unidirectional, &[2 * STREAM_WINDOW]);
}

fn serve_connection_window(world: &mut World) {
    world.serve(Direction::Unidirectional, &[STREAM_WINDOW, STREAM_WINDOW]);
}

fn open_client_stream(world: &mut World) {
    let stream = world.client().open(Direction::Unidirectional).unwrap();
    world.client().write_slice(stream, b"first").unwrap();
    world.streams.push(stream);
    world.pair.run_for(seconds(1));
    assert_eq!(world.server().accept(Direction::Unidirectional), Some(stream));
    let now = world.pair.now;
    assert!(world.server().read(now, stream, 5).is_ok());
    assert_eq!(world.server().read(now, stream, 5), Ok(ReadOutcome::Blocked));
    world.pair.server_events.clear();
}

fn is_readable(world: &mut World) -> bool {
    world.has_event(Side::Server, &Event::Readable(world.streams[0]))
}

/// Makes the peer send as much as it may on its streams, the first of which has been ended.
fn exhaust_streams(world: &mut World) {
    world.serve(Direction::Unidirectional, &[100, 100]);
    for index in 0..2 {
        let stream = world.streams[index];
        world.server().finish(stream).unwrap();
    }
    assert_eq!(world.server().open(Direction::Unidirectional), None);
    world.pair.run_for(seconds(1));
}

fn may_open(world: &mut World) -> bool {
    world.has_event(Side::Server, &Event::StreamsAvailable(Direction::Unidirectional))
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            act: |world| {
                let stream = world.client().open(Direction::Unidirectional).unwrap();
                world.client().write_slice(stream, b"data").unwrap();
            },
            sends: &[STREAM],
            result: |world| {
                world.has_event(Side::Server, &Event::Opened(Direction::Unidirectional))
            },
            ..case("write", Side::Client)
        },
        Case {
            prepare: open_client_stream,
            act: |world| {
                let stream = world.streams[0];
                world.client().finish(stream).unwrap();
            },
            sends: &[STREAM],
            result: is_readable,
            ..case("finish", Side::Client)
        },
        Case {
            prepare: open_client_stream,
            act: |world| {
                let stream = world.streams[0];
                world.client().reset(stream, CODE).unwrap();
            },
            sends: &[RESET_STREAM],
            result: is_readable,
            ..case("reset", Side::Client)
        },
        Case {
            prepare: open_client_stream,
            act: |world| {
                let stream = world.streams[0];
                world.client().reset_at(stream, CODE, 5).unwrap();
            },
            sends: &[RESET_STREAM_AT],
            result: |world| {
                let (now, stream) = (world.pair.now, world.streams[0]);
                world.server().read(now, stream, 1) == Err(ReadError::Reset(CODE))
            },
            ..case("reset in part", Side::Client)
        },
        Case {
            prepare: |world| {
                open_client_stream(world);
                let stream = world.streams[0];
                world.client().reset_at(stream, CODE, 5).unwrap();
                world.pair.filter = Some(Box::new(|_, _, _| false));
                world.pair.settle();
                world.pair.filter = None;
            },
            act: |world| {
                let stream = world.streams[0];
                world.client().reset_at(stream, CODE, 2).unwrap();
            },
            sends: &[RESET_STREAM_AT],
            can_rest: false,
            ..case("reset in part, again and earlier", Side::Client)
        },
        Case {
            prepare: serve_window,
            act: |world| {
                let (now, stream) = (world.pair.now, world.streams[0]);
                world.client().stop_sending(now, stream, CODE).unwrap();
            },
            sends: &[STOP_SENDING],
            result: |world| {
                let stopped = Event::Stopped { stream_id: world.streams[0], error_code: CODE };
                world.has_event(Side::Server, &stopped)
            },
            ..case("stop", Side::Client)
        },
        Case {
            prepare: serve_connection_window,
            act: |world| {
                let (now, stream) = (world.pair.now, world.streams[0]);
                world.client().stop_sending(now, stream, CODE).unwrap();
            },
            sends: &[STOP_SENDING, MAX_DATA],
            trips: 2,
            result: |world| world.received(1) > (CONNECTION_WINDOW - STREAM_WINDOW) as u64,
            ..case("stop one stream where another needs the credit", Side::Client)
        },
        Case {
            prepare: serve_window,
            act: |world| assert_eq!(world.read(0, STREAM_WINDOW), STREAM_WINDOW),
            sends: &[MAX_STREAM_DATA, MAX_DATA],
            trips: 2,
            result: |world| world.received(0) > STREAM_WINDOW as u64,
            ..case("read the window of a stream", Side::Client)
        },
        Case {
            prepare: serve_connection_window,
            act: |world| {
                let most = world.received(0) as usize;
                assert_eq!(world.read(0, most), most);
            },
            sends: &[MAX_DATA],
            trips: 2,
            result: |world| world.received(0) + world.received(1) > CONNECTION_WINDOW as u64,
            ..case("read what the connection's window holds", Side::Client)
        },
        Case {
            // The first stream uses a little of the connection's window, and the second one uses
            // the rest.
            prepare: |world| {
                world.serve(Direction::Unidirectional, &[8 << 10]);
                let stream = world.server().open(Direction::Unidirectional).unwrap();
                world.streams.push(stream);
                world.server().write(stream, pattern(STREAM_WINDOW)).unwrap();
                let third = world.server().open(Direction::Bidirectional).unwrap();
                world.server().write(third, pattern(STREAM_WINDOW)).unwrap();
                world.pair.run_for(seconds(3));
                let first = world.streams[0];
                world.server().write(first, pattern(100)).unwrap();
                world.pair.run_for(seconds(3));
            },
            act: |world| {
                assert_eq!(world.read(0, 8 << 10), 8 << 10);
                world.await_data(0);
            },
            sends: &[MAX_DATA],
            trips: 2,
            result: |world| {
                let stream = world.streams[0];
                world.client().stream_progress(stream).unwrap().received > 8 << 10
            },
            ..case("wait on a stream that has less than an eighth of the full window", Side::Client)
        },
        Case {
            prepare: |world| {
                serve_window(world);
                let stream = world.streams[0];
                let now = world.pair.now;
                let mut left = STREAM_WINDOW;
                while left > 0 {
                    match world.client().read_ahead(stream, left).unwrap() {
                        ReadOutcome::Data(data) => left -= data.len(),
                        other => panic!("{other:?} at {now:?}"),
                    }
                }
                world.pair.run_for(seconds(2));
            },
            act: |world| {
                let (now, stream) = (world.pair.now, world.streams[0]);
                world.client().return_credit(now, stream, STREAM_WINDOW as u64).unwrap();
            },
            sends: &[MAX_STREAM_DATA, MAX_DATA],
            trips: 2,
            result: |world| world.received(0) > STREAM_WINDOW as u64,
            ..case("return the credit of data read ahead", Side::Client)
        },
        Case {
            prepare: |world| {
                serve_connection_window(world);
                world.client().limit_receive_window(true);
                world.pair.run_for(seconds(1));
            },
            act: |world| {
                world.client().limit_receive_window(false);
                let most = world.received(1) as usize;
                world.read(1, most);
            },
            sends: &[MAX_DATA],
            trips: 2,
            result: |world| world.received(0) + world.received(1) > CONNECTION_WINDOW as u64,
            ..case("lift a limit, and read", Side::Client)
        },
        Case {
            prepare: |world| {
                world.client().set_max_receive_window(CONNECTION_WINDOW as u64 / 2);
                serve_connection_window(world);
                let most = world.received(0) as usize;
                world.read(0, most);
                world.pair.run_for(seconds(1));
            },
            act: |world| world.client().set_max_receive_window(CONNECTION_WINDOW as u64),
            sends: &[MAX_DATA],
            trips: 2,
            result: |world| {
                world.received(0) + world.received(1)
                    > CONNECTION_WINDOW as u64 / 2 + world.streams.len() as u64
            },
            ..case("restore the connection's window", Side::Client)
        },
        Case {
            prepare: exhaust_streams,
            act: |world| {
                world.client().set_max_concurrent_streams(Direction::Unidirectional, 3);
            },
            sends: &[MAX_STREAMS],
            result: may_open,
            ..case("permit more streams", Side::Client)
        },
        Case {
            prepare: |world| {
                let stream = world.client().open(Direction::Unidirectional).unwrap();
                world.client().set_send_buffer(1);
                world.streams.push(stream);
                assert_eq!(world.client().write(stream, pattern(2)), Ok(1));
            },
            act: |world| world.client().set_send_buffer(1 << 20),
            sends: &[],
            trips: 0,
            can_rest: false,
            result: |world| world.has_event(Side::Client, &Event::Writable(world.streams[0])),
            ..case("enlarge the send buffer", Side::Client)
        },
        Case {
            prepare: exhaust_streams,
            act: |world| {
                let (now, stream) = (world.pair.now, world.streams[0]);
                assert_eq!(world.read(0, 100), 100);
                assert_eq!(world.client().read(now, stream, 1), Ok(ReadOutcome::Finished));
            },
            sends: &[MAX_STREAMS],
            result: may_open,
            ..case("read a stream to its end", Side::Client)
        },
        Case {
            prepare: exhaust_streams,
            act: |world| {
                let (now, stream) = (world.pair.now, world.streams[0]);
                world.client().stop_sending(now, stream, CODE).unwrap();
            },
            sends: &[MAX_STREAMS],
            result: may_open,
            ..case("stop a stream that was received completely", Side::Client)
        },
        Case {
            prepare: |world| {
                world.serve(Direction::Unidirectional, &[100, 100]);
                let stream = world.streams[0];
                world.server().reset(stream, CODE).unwrap();
                assert_eq!(world.server().open(Direction::Unidirectional), None);
                world.pair.run_for(seconds(1));
            },
            act: |world| {
                let stream = world.streams[0];
                assert_eq!(world.client().received_reset(stream), Ok(Some(CODE)));
            },
            sends: &[MAX_STREAMS],
            result: may_open,
            ..case("learn of a reset", Side::Client)
        },
        Case {
            prepare: |world| {
                world.serve(Direction::Bidirectional, &[100, 100]);
                let [stream, _] = world.streams[..] else { panic!("two streams") };
                world.server().finish(stream).unwrap();
                assert_eq!(world.server().open(Direction::Bidirectional), None);
                world.pair.run_for(seconds(1));
                assert_eq!(world.read(0, 100), 100);
                let now = world.pair.now;
                assert_eq!(world.client().read(now, stream, 1), Ok(ReadOutcome::Finished));
                world.pair.run_for(seconds(1));
            },
            act: |world| {
                let stream = world.streams[0];
                world.client().finish(stream).unwrap();
            },
            sends: &[STREAM],
            trips: 3,
            result: |world| {
                world.has_event(Side::Server, &Event::StreamsAvailable(Direction::Bidirectional))
            },
            ..case("finish the other half of a stream", Side::Client)
        },
        Case {
            prepare: exhaust_streams,
            act: |world| {
                let blocked = world.server().open(Direction::Unidirectional);
                assert_eq!(blocked, None);
            },
            ..case("open a stream that is not permitted", Side::Server)
        },
        Case {
            prepare: |world| {
                serve_window(world);
                let stream = world.streams[0];
                assert_eq!(world.server().send_credit(stream).unwrap().stream, 0);
                world.server().await_credit(stream).unwrap();
                world.pair.server_events.clear();
            },
            act: |world| assert_eq!(world.read(0, STREAM_WINDOW), STREAM_WINDOW),
            sends: &[MAX_STREAM_DATA],
            result: |world| {
                // Written data uses all of the new credit, so only raising another limit provides
                // more.
                let stream = world.streams[0];
                world.server().send_credit(stream).unwrap().stream == 0
            },
            ..case("read where the credit is already spoken for", Side::Client)
        },
        Case {
            act: |world| {
                world.client().send_datagram(Bytes::from_static(b"datagram")).unwrap();
            },
            sends: &[DATAGRAM],
            result: |world| world.has_event(Side::Server, &Event::DatagramReceived),
            ..case("send a datagram", Side::Client)
        },
        Case { act: |world| world.client().ping(), sends: &[PING], ..case("ping", Side::Client) },
        Case {
            act: |world| {
                world.ids.rotate();
                assert!(world.server().replace_connection_ids());
            },
            sends: &[NEW_CONNECTION_ID],
            ..case("replace connection IDs", Side::Server)
        },
        Case {
            act: |world| {
                let now = world.pair.now;
                let ip = world.pair.routes[0].client.ip();
                world.client().migrate(now, SECOND_SOCKET, Some(ip)).unwrap();
            },
            sends: &[PATH_CHALLENGE],
            trips: 2,
            result: |world| {
                let migrated = |event: &Event| matches!(event, Event::Migrated { .. });
                world.pair.client_events.iter().any(migrated)
            },
            ..case("migrate", Side::Client)
        },
        Case {
            prepare: serve_window,
            act: |world| {
                let now = world.pair.now;
                world.client().close(now, CODE, b"over");
            },
            sends: &[CLOSE],
            result: |world| {
                world.pair.server_events.iter().any(|event| matches!(event, Event::Closed(_)))
            },
            ..case("close", Side::Client)
        },
    ]
}

/// The state of the connection before the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Quiet {
    Busy,
    Resting,
}

/// Checks that a case's call takes effect immediately; returns the reason if it does not.
fn check(case: &Case, quiet: Quiet) -> Result<(), String> {
    let name = case.name;
    let mut world = World::new();
    (case.prepare)(&mut world);
    if quiet == Quiet::Resting {
        let rests = |pair: &mut Pair| pair.client().is_compacted() && pair.server().is_compacted();
        world.pair.run_until(seconds(30), rests);
    }
    world.pair.settle();
    let probes = [world.client().statistics(), world.server().statistics()];
    (case.act)(&mut world);
    let sent = world.sent_now(case.side);
    for frame in case.sends {
        if !sent.contains(frame) {
            return Err(format!("{name}, {quiet:?}: {frame:#x} is not among {sent:x?}"));
        }
    }
    // Any other frames that could be sent now are sent together with a following PING.
    if !world.client().is_closed() {
        let connection = if case.side == Side::Client { world.client() } else { world.server() };
        connection.ping();
        let hidden = world.sent_now(case.side);
        if hidden.iter().any(|frame| *frame != PING) {
            return Err(format!("{name}, {quiet:?}: {hidden:x?} waited for another packet"));
        }
    }
    world.pair.run_for(milliseconds(DELAY * case.trips));
    world.pair.settle();
    if !(case.result)(&mut world) {
        return Err(format!("{name}, {quiet:?}: no result after {} trips", case.trips));
    }
    let after = [world.client().statistics(), world.server().statistics()];
    match probes.iter().zip(after).all(|(before, now)| before.probe_timeouts == now.probe_timeouts)
    {
        true => Ok(()),
        false => Err(format!("{name}, {quiet:?}: a probe was needed")),
    }
}

#[test]
fn what_a_call_enables_happens_at_once() {
    let mut late = Vec::new();
    for case in cases() {
        late.extend(check(&case, Quiet::Busy).err());
        if case.can_rest {
            late.extend(check(&case, Quiet::Resting).err());
        }
    }
    assert!(late.is_empty(), "{late:#?}");
}
