//! Attacks on HTTP/3 and QPACK, over a transport with the maximum number of streams that the peer
//! may open.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use clearway_http3::{Config, Connection, ReadEnd, Role, Transport, WriteError};
use clearway_units::Random;
use http::Response;

use super::{Attack, KIB, MIB, Target};
use crate::scene::Scene;

/// The transport's stream limit for each stream type.
pub(super) const STREAMS: u64 = 100;

pub(super) fn attacks() -> Vec<Attack> {
    let on =
        |name, drive, bound, because| Attack { name, target: Target::Own, drive, bound, because };
    vec![
        on(
            "field sections that never end",
            endless_sections,
            3 * MIB,
            "1 MiB of incomplete HEADERS",
        ),
        on(
            "requests that are not accepted",
            requests,
            2 * MIB,
            "100 streams, a few hundred bytes each",
        ),
        on(
            "requests that are reset",
            reset_requests,
            MIB,
            "the connection is closed after 1,000 cancelled requests",
        ),
        on("frames of unknown types", unknown_frames, 256 * KIB, "their payload is skipped"),
        on(
            "streams of unknown types",
            unknown_streams,
            256 * KIB,
            "reading is stopped as soon as their type is received",
        ),
        on(
            "frames on the control stream",
            control_frames,
            256 * KIB,
            "only the last value is kept",
        ),
        on(
            "SETTINGS of a megabyte",
            settings,
            256 * KIB,
            "each setting is processed as it arrives",
        ),
        on(
            "field sections that grow when decoded",
            growing_sections,
            512 * KIB,
            "64 KiB per section",
        ),
    ]
}

/// The victim's transport. Only one stream at a time has data, which the attacker provides.
struct Link {
    arrived: [VecDeque<u64>; 2],
    stream: u64,
    data: Option<Bytes>,
    is_reset: bool,
    /// Whether the stream ends after the data.
    is_finished: bool,
    opened: u64,
    /// Whether the peer's flow control blocks all sending.
    is_blocked: bool,
    datagram: Option<Bytes>,
}

impl Link {
    fn take(&mut self, stream: u64, max: usize) -> Option<Bytes> {
        let data = self.data.as_mut().filter(|data| self.stream == stream && !data.is_empty())?;
        Some(data.split_to(max.min(data.len()))).filter(|data| !data.is_empty())
    }
}

impl Transport for Link {
    fn open_bidirectional(&mut self) -> Option<u64> {
        None
    }

    fn open_unidirectional(&mut self) -> Option<u64> {
        self.opened += 1;
        Some(self.opened * 4 + 3)
    }

    fn accept_bidirectional(&mut self) -> Option<u64> {
        self.arrived[0].pop_front()
    }

    fn accept_unidirectional(&mut self) -> Option<u64> {
        self.arrived[1].pop_front()
    }

    fn write(&mut self, _: u64, data: Bytes) -> Result<usize, WriteError> {
        Ok(if self.is_blocked { 0 } else { data.len() })
    }

    fn receive_datagram(&mut self) -> Option<Bytes> {
        self.datagram.take()
    }

    fn finish(&mut self, _: u64) -> Result<(), WriteError> {
        Ok(())
    }

    fn reset(&mut self, _: u64, _: u64) {}

    fn stop_sending(&mut self, _: u64, _: u64) {}

    fn read(&mut self, stream: u64, max: usize) -> Result<Option<Bytes>, ReadEnd> {
        if self.is_reset && self.stream == stream {
            return Err(ReadEnd::Reset(0x10c));
        }
        match self.take(stream, max) {
            None if self.is_finished && self.stream == stream => Err(ReadEnd::Finished),
            data => Ok(data),
        }
    }

    fn close(&mut self, _: u64, _: &str) {}
}

/// A server, and the client that attacks the server.
pub(super) struct Server {
    connection: Connection,
    link: Link,
}

impl Server {
    pub(super) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(super) fn with(config: Config) -> Self {
        let mut random = Random::from_number(1);
        let mut connection = Connection::new(Role::Server, config, &mut random);
        let mut link = Link {
            arrived: [VecDeque::new(), VecDeque::new()],
            stream: 0,
            data: None,
            is_reset: false,
            is_finished: false,
            opened: 0,
            is_blocked: false,
            datagram: None,
        };
        connection.on_streams_available(&mut link);
        Self { connection, link }
    }

    /// Makes the client open a stream, and sends `data` on it.
    pub(super) fn open(&mut self, stream: u64, data: Bytes) {
        self.link.arrived[usize::from(stream & 2 != 0)].push_back(stream);
        (self.link.stream, self.link.data, self.link.is_reset) = (stream, Some(data), false);
        self.connection.on_streams_arrived(&mut self.link);
        self.drain();
    }

    /// Makes the client send more data on a stream.
    pub(super) fn send(&mut self, stream: u64, data: Bytes) {
        (self.link.stream, self.link.data, self.link.is_reset) = (stream, Some(data), false);
        self.connection.on_readable(&mut self.link, stream);
        self.drain();
    }

    pub(super) fn reset(&mut self, stream: u64) {
        (self.link.stream, self.link.data, self.link.is_reset) = (stream, None, true);
        self.connection.on_readable(&mut self.link, stream);
        self.drain();
    }

    /// Makes the client send a complete request on a stream.
    pub(super) fn request(&mut self, stream: u64, data: Bytes) {
        self.link.is_finished = true;
        self.open(stream, data);
        self.link.is_finished = false;
    }

    /// Makes the transport reject all data that the server writes from now on.
    pub(super) fn takes_nothing(&mut self) {
        self.link.is_blocked = true;
    }

    /// Makes the client send an HTTP datagram.
    pub(super) fn datagram(&mut self, data: Bytes) {
        self.link.datagram = Some(data);
        while self.connection.next_datagram(&mut self.link).is_some() {}
    }

    /// Makes the server respond to a request without content.
    pub(super) fn answer(&mut self, stream: u64, response: &Response<()>) {
        self.connection.send_response(&mut self.link, stream, response, true).expect("a request");
    }

    pub(super) fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    fn drain(&mut self) {
        while self.connection.next_event().is_some() {}
    }
}

/// Encodes a frame's type and length, in eight bytes each.
fn frame_header(frame_type: u64, length: u64) -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_u64(frame_type | 3 << 62);
    bytes.put_u64(length | 3 << 62);
    bytes
}

pub(super) fn frame(frame_type: u64, payload: &[u8]) -> Bytes {
    let mut bytes = frame_header(frame_type, payload.len() as u64);
    bytes.put_slice(payload);
    bytes.freeze()
}

/// The fields of GET https://a/: indexed fields from the static table, and `:authority: a`.
pub(super) const GET: &[u8] = &[0, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, b'a'];

fn endless_sections(_: &mut Scene) {
    let mut server = Server::new();
    let piece = Bytes::from_static(&[0; 1_000]);
    for index in 0..STREAMS {
        server.open(4 * index, frame_header(1, 60_000).freeze());
    }
    for _ in 0..59 {
        for index in 0..STREAMS {
            server.send(4 * index, piece.clone());
        }
    }
}

fn requests(_: &mut Scene) {
    let mut server = Server::new();
    for index in 0..STREAMS {
        server.open(4 * index, frame(1, GET));
    }
}

fn reset_requests(_: &mut Scene) {
    let mut server = Server::new();
    for index in 0..10_000 {
        server.open(4 * index, frame(1, GET));
        server.reset(4 * index);
    }
    assert!(
        server.connection.is_closed(),
        "the connection is still open after 10,000 reset requests"
    );
}

fn unknown_frames(_: &mut Scene) {
    let mut server = Server::new();
    let piece = Bytes::from_static(&[0; 4_000]);
    server.open(0, frame_header(0x21, 10 << 20).freeze());
    for _ in 0..2_600 {
        server.send(0, piece.clone());
    }
}

fn unknown_streams(_: &mut Scene) {
    let mut server = Server::new();
    for index in 0..10_000 {
        server.open(4 * index + 2, Bytes::from_static(&[0x40, 0x21, 1, 2, 3]));
    }
}

fn control_frames(_: &mut Scene) {
    let mut server = Server::new();
    server.open(2, Bytes::from_static(&[0, 4, 0]));
    for number in 0..20_000_u64 {
        let identifier = ((1 << 40) - number) | 3 << 62;
        let frame_type = [0x07, 0x0d, 0x03, 0x21][number as usize % 4];
        server.send(2, frame(frame_type, &identifier.to_be_bytes()));
    }
}

fn settings(_: &mut Scene) {
    let mut server = Server::new();
    server.open(2, Bytes::from_static(&[0]));
    server.send(2, frame_header(4, 1 << 20).freeze());
    for number in 0..65_536_u64 {
        let mut setting = BytesMut::with_capacity(16);
        setting.put_u64((0x1000 + number) | 3 << 62);
        setting.put_u64(3 << 62);
        server.send(2, setting.freeze());
    }
}

/// Sends single bytes, each of which refers to a 60-byte entry of the static table.
fn growing_sections(_: &mut Scene) {
    let mut server = Server::new();
    let mut section = GET.to_vec();
    // Static table index 58: strict-transport-security with its longest value, encoded in one byte.
    section.resize(60_000, 0xc0 | 58);
    for index in 0..STREAMS {
        server.open(4 * index, frame(1, &section));
    }
}
