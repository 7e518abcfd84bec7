//! Test helpers: a client and a server connected by a [`Link`], or one of them with a peer that the
//! test controls.

use bytes::Bytes;
use clearway_units::Random;

use super::link::{End, Link};
use crate::frame::{put_frame, put_varint};
use crate::qpack::{FieldLines, encode_static};
use crate::{Code, Config, Connection, Event, Role};

/// Returns a configuration that sends no random reserved values.
pub(super) fn plain() -> Config {
    Config { grease: false, ..Config::default() }
}

/// Calls every `on_*` method that the connection's owner could have a reason to call. The
/// connection frees memory before and after these calls, which must have no visible effect.
pub(super) fn drive(connection: &mut Connection, link: &mut Link) {
    connection.compact();
    let role = connection.role();
    connection.on_streams_available(&mut link.end(role));
    connection.on_streams_arrived(&mut link.end(role));
    for stream in link.streams() {
        let half = link.half(stream, role == Role::Server);
        if let Some(code) = half.stopped {
            connection.on_stopped(&mut link.end(role), stream, code);
        }
        connection.on_readable(&mut link.end(role), stream);
        connection.on_writable(&mut link.end(role), stream);
    }
    connection.compact();
}

pub(super) fn events(connection: &mut Connection) -> Vec<Event> {
    std::iter::from_fn(|| connection.next_event()).collect()
}

/// Connects a client and a server, which then exchange SETTINGS.
pub(super) fn connected(client: Config, server: Config) -> (Link, Connection, Connection) {
    let mut link = Link::default();
    let mut random = Random::from_number(7);
    let mut client = Connection::new(Role::Client, client, &mut random);
    let mut server = Connection::new(Role::Server, server, &mut random);
    for _ in 0..2 {
        drive(&mut client, &mut link);
        drive(&mut server, &mut link);
    }
    assert!(matches!(events(&mut client)[..], [Event::Settings(_)]));
    assert!(matches!(events(&mut server)[..], [Event::Settings(_)]));
    (link, client, server)
}

/// One connection, whose peer is simulated by the test.
pub(super) struct Alone {
    pub(super) connection: Connection,
    pub(super) link: Link,
}

impl Alone {
    pub(super) fn new(role: Role, config: Config) -> Self {
        let connection = Connection::new(role, config, &mut Random::from_number(1));
        Self { connection, link: Link::default() }
    }

    pub(super) fn server() -> Self {
        Self::new(Role::Server, plain())
    }

    /// Creates a client with a GET request on stream 0.
    pub(super) fn client() -> Self {
        Self::client_with("GET")
    }

    pub(super) fn client_with(method: &str) -> Self {
        let mut alone = Self::new(Role::Client, plain());
        let uri = if method == "CONNECT" { "a.example:443" } else { "https://a.example/" };
        let request = http::Request::builder().method(method).uri(uri).body(()).unwrap();
        let end = method != "CONNECT";
        let (connection, mut end_of_link) = alone.split();
        assert_eq!(connection.send_request(&mut end_of_link, &request, end), Ok(0));
        alone
    }

    pub(super) fn split(&mut self) -> (&mut Connection, End<'_>) {
        let role = self.connection.role();
        (&mut self.connection, self.link.end(role))
    }

    fn peer(&self) -> Role {
        match self.connection.role() {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        }
    }

    pub(super) fn peer_end(&mut self) -> End<'_> {
        let peer = self.peer();
        self.link.end(peer)
    }

    /// Writes `bytes` on `stream` as the peer.
    pub(super) fn say(&mut self, stream: u64, bytes: &[u8]) -> &mut Self {
        let is_server = self.peer() == Role::Server;
        self.link.half(stream, is_server).data.push_back(Bytes::copy_from_slice(bytes));
        self
    }

    /// Ends the peer's side of `stream`.
    pub(super) fn fin(&mut self, stream: u64) -> &mut Self {
        let is_server = self.peer() == Role::Server;
        self.link.half(stream, is_server).finished = true;
        self
    }

    /// Opens a bidirectional stream as the peer, and writes `bytes` on it.
    pub(super) fn open_bidirectional(&mut self, bytes: &[u8]) -> u64 {
        let kind = u64::from(self.peer() == Role::Server);
        let stream = self.peer_end().create(kind).unwrap();
        self.say(stream, bytes);
        stream
    }

    pub(super) fn open_unidirectional(&mut self, bytes: &[u8]) -> u64 {
        let kind = 2 + u64::from(self.peer() == Role::Server);
        let stream = self.peer_end().create(kind).unwrap();
        self.say(stream, bytes);
        stream
    }

    /// Lets the connection read, and returns the resulting events.
    pub(super) fn events(&mut self) -> Vec<Event> {
        drive(&mut self.connection, &mut self.link);
        let events = events(&mut self.connection);
        // A closed connection must not keep requests.
        if self.connection.is_closed() {
            assert!(self.connection.is_idle());
        }
        events
    }

    /// Returns the code with which the connection was closed.
    pub(super) fn close_code(&mut self) -> Option<Code> {
        self.events();
        let code = self.connection.error().map(|error| error.code);
        assert_eq!(self.link.closed.as_ref().map(|closed| Code::new(closed.0)), code);
        code
    }

    /// Returns the code with which the local side of `stream` was reset.
    pub(super) fn reset_code(&mut self, stream: u64) -> Option<Code> {
        self.events();
        assert_eq!(self.connection.error(), None);
        let is_server = self.connection.role() == Role::Server;
        self.link.half(stream, is_server).reset.map(Code::new)
    }
}

/// Returns an encoded frame.
pub(super) fn frame(frame_type: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_frame(&mut bytes, frame_type, payload);
    bytes
}

/// Returns a frame header without its payload.
pub(super) fn frame_header(frame_type: u64, length: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, frame_type);
    put_varint(&mut bytes, length);
    bytes
}

/// Returns a HEADERS frame.
pub(super) fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut lines = FieldLines::default();
    for (name, value) in fields {
        lines.field(name.as_bytes(), value.as_bytes(), false);
    }
    frame(0x01, &encode_static(&lines))
}

/// Returns the HEADERS frame of a request with `fields` after the pseudo-header fields.
pub(super) fn request(method: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let pseudo =
        [(":method", method), (":scheme", "https"), (":authority", "a.example"), (":path", "/")];
    headers(&[&pseudo, fields].concat())
}

pub(super) fn response(status: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    headers(&[&[(":status", status)], fields].concat())
}

pub(super) fn data(payload: &[u8]) -> Vec<u8> {
    frame(0x00, payload)
}

/// Returns the contents of a control stream: its type, an empty SETTINGS frame, and `frames`.
pub(super) fn control(frames: &[u8]) -> Vec<u8> {
    [&[0x00, 0x04, 0x00], frames].concat()
}
