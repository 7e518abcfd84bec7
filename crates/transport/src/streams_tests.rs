//! The streams of two endpoints, and packets between them that a test delivers, loses or reorders.

#[path = "streams_tests/errors.rs"]
mod errors;
#[path = "streams_tests/flow_control.rs"]
mod flow_control;
#[path = "streams_tests/life.rs"]
mod life;
#[path = "streams_tests/priority.rs"]
mod priority;
#[path = "streams_tests/reset_at.rs"]
mod reset_at;
#[path = "streams_tests/transfer.rs"]
mod transfer;

use bytes::Bytes;
use clearway_units::Timestamp;
use clearway_wire::{Frame, Reader, TransportErrorCode, Writer};

use super::sending_part::SendNeeds;
use super::*;
use crate::TransportError;
use crate::contents::PacketContents;
use crate::token::Token;

pub(super) const BIDIRECTIONAL: Direction = Direction::Bidirectional;
pub(super) const UNIDIRECTIONAL: Direction = Direction::Unidirectional;

pub(super) fn config() -> StreamsConfig {
    StreamsConfig {
        max_concurrent_bidirectional: 4,
        max_concurrent_unidirectional: 4,
        initial_stream_receive_window: 4000,
        max_stream_receive_window: 64_000,
        initial_connection_receive_window: 10_000,
        max_connection_receive_window: 100_000,
        send_buffer: 50_000,
    }
}

pub(super) fn parameters(config: &StreamsConfig) -> TransportParameters {
    let window = VarInt::saturating(config.initial_stream_receive_window);
    TransportParameters {
        initial_max_data: VarInt::saturating(config.initial_connection_receive_window),
        initial_max_stream_data_bidi_local: window,
        initial_max_stream_data_bidi_remote: window,
        initial_max_stream_data_uni: window,
        initial_max_streams_bidi: VarInt::saturating(config.max_concurrent_bidirectional),
        initial_max_streams_uni: VarInt::saturating(config.max_concurrent_unidirectional),
        ..TransportParameters::default()
    }
}

pub(super) fn code(value: u32) -> VarInt {
    VarInt::from_u32(value)
}

pub(super) fn id(initiator: Side, direction: Direction, index: u64) -> StreamId {
    StreamId::new(initiator.initiator(), direction, index).unwrap()
}

pub(super) fn data(length: usize) -> Bytes {
    (0..length).map(|index| (index * 7 + index / 256) as u8).collect::<Vec<_>>().into()
}

/// A packet: its encoded frames and its tokens.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) bytes: Vec<u8>,
    pub(super) tokens: Vec<Token>,
}

impl Packet {
    pub(super) fn frames(&self) -> Vec<Frame<'_>> {
        let mut reader = Reader::new(&self.bytes);
        let mut frames = Vec::new();
        while !reader.is_empty() {
            frames.push(Frame::decode(&mut reader).unwrap());
        }
        frames
    }
}

/// Returns the next packet with up to `room` bytes of frames, if there is anything to send.
pub(super) fn packet(streams: &mut Streams, room: usize) -> Option<Packet> {
    let pending = streams.has_control_pending() || streams.has_data_pending();
    let mut bytes = vec![0; room];
    let mut writer = Writer::new(&mut bytes);
    let mut tokens = Vec::new();
    let mut contents = PacketContents::new(&mut writer, &mut tokens);
    streams.write_control_frames(&mut contents);
    streams.write_stream_frames(&mut contents);
    let written = writer.written();
    assert_eq!(pending, written > 0, "what is pending is written, and nothing else");
    bytes.truncate(written);
    pending.then_some(Packet { bytes, tokens })
}

/// Returns all packets that can be sent.
pub(super) fn packets(streams: &mut Streams) -> Vec<Packet> {
    core::iter::from_fn(|| packet(streams, 1200)).collect()
}

pub(super) fn deliver(
    streams: &mut Streams,
    now: Timestamp,
    packet: &Packet,
) -> Result<(), TransportError> {
    packet.frames().iter().try_for_each(|frame| on_frame(streams, now, frame))
}

pub(super) fn on_frame(
    streams: &mut Streams,
    now: Timestamp,
    frame: &Frame<'_>,
) -> Result<(), TransportError> {
    match frame {
        Frame::Stream(frame) => streams.on_stream(now, frame),
        Frame::ResetStream(frame) => streams.on_reset_stream(now, frame),
        Frame::ResetStreamAt(frame) => streams.on_reset_stream_at(now, frame),
        Frame::StopSending(frame) => streams.on_stop_sending(frame),
        Frame::MaxStreamData(frame) => streams.on_max_stream_data(frame),
        Frame::StreamDataBlocked(frame) => streams.on_stream_data_blocked(frame),
        Frame::MaxData(frame) => {
            streams.on_max_data(frame);
            Ok(())
        }
        Frame::MaxStreams(frame) => {
            streams.on_max_streams(frame);
            Ok(())
        }
        Frame::DataBlocked(frame) => {
            streams.on_data_blocked(frame);
            Ok(())
        }
        Frame::StreamsBlocked(frame) => {
            streams.on_streams_blocked(frame);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A client and a server that have received each other's transport parameters.
pub(super) struct Pair {
    pub(super) client: Streams,
    pub(super) server: Streams,
    pub(super) now: Timestamp,
}

impl Pair {
    pub(super) fn new(config: StreamsConfig) -> Self {
        let mut client = Streams::new(Side::Client, config);
        let mut server = Streams::new(Side::Server, config);
        client.set_peer_parameters(&parameters(&config));
        server.set_peer_parameters(&parameters(&config));
        Self { client, server, now: Timestamp::ORIGIN }
    }

    /// Delivers packets in both directions, acknowledging all of them, until neither endpoint has
    /// anything to send.
    pub(super) fn settle(&mut self) {
        loop {
            let up = packets(&mut self.client);
            let down = packets(&mut self.server);
            if up.is_empty() && down.is_empty() {
                return;
            }
            for packet in &up {
                deliver(&mut self.server, self.now, packet).unwrap();
                packet.tokens.iter().for_each(|token| self.client.on_acked(token));
            }
            for packet in &down {
                deliver(&mut self.client, self.now, packet).unwrap();
                packet.tokens.iter().for_each(|token| self.server.on_acked(token));
            }
            check_ledger(&self.client);
            check_ledger(&self.server);
        }
    }

    /// Opens a stream from the client that the server has accepted, with `content` sent.
    pub(super) fn opened(&mut self, direction: Direction, content: &[u8]) -> StreamId {
        let id = self.client.open(direction).unwrap();
        self.client.write_slice(id, content).unwrap();
        self.settle();
        assert_eq!(self.server.accept(direction), Some(id));
        id
    }
}

/// Checks S18: the connection's counters are the sums of the streams' counters, and each queue
/// contains the correct streams.
pub(super) fn check_ledger(streams: &Streams) {
    streams.check_caches();
    let (mut buffered, mut unread, mut blocked, mut awaited) = (0, 0, 0, 0);
    for key in streams.table.keys() {
        let stream = streams.table.get(key).unwrap();
        if let Some(send) = &stream.send {
            buffered += send.buffered();
            blocked += usize::from(send.is_blocked());
        }
        if let Some(receive) = &stream.receive {
            let window = receive.window();
            unread += window.received() - window.consumed();
        }
        awaited += usize::from(stream.awaits_peer());
        assert_eq!(stream.queued.control, streams.queues.control.contains(&key));
        assert_eq!(stream.queued.writers, streams.queues.writers.contains(key));
        if let Some(send) = &stream.send {
            let resets = send.pending_reset().is_some() || send.pending_reset_at().is_some();
            let needs = SendNeeds {
                control: resets || send.is_blocked_report_pending(),
                creditless: send.next_creditless().is_some(),
                fresh: send.fresh_allowed() > 0,
                blocked: send.is_blocked(),
            };
            assert_eq!(send.needs(), needs);
        }
    }
    let window = streams.flow.receive_window();
    assert_eq!(streams.queues.kept.total(), buffered);
    assert_eq!((streams.blocked, streams.awaited), (blocked, awaited));
    assert_eq!(window.received() - window.consumed(), unread);
    assert!(window.received() <= window.limit());
}

pub(super) fn events(streams: &mut Streams) -> Vec<StreamEvent> {
    core::iter::from_fn(|| streams.next_event()).collect()
}

pub(super) fn read_all(streams: &mut Streams, now: Timestamp, id: StreamId) -> Vec<u8> {
    let mut all = Vec::new();
    while let Ok(ReadOutcome::Data(data)) = streams.read(now, id, usize::MAX) {
        assert!(!data.is_empty());
        all.extend_from_slice(&data);
    }
    all
}

pub(super) fn error_code(result: Result<(), TransportError>) -> TransportErrorCode {
    result.expect_err("the peer broke a rule").code
}
