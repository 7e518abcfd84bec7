//! Tests of the [`Transport`] contract, which run against any implementation.
//!
//! An implementation provides a [`Harness`] of two connected endpoints, and its test calls
//! [`check`].
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "a test that fails panics"
)]

use bytes::Bytes;

use crate::{ReadEnd, Role, Transport, WriteError};

/// The two endpoints of one established connection. Each endpoint must allow the other at least
/// [`STREAMS`] and at most [`MANY`] streams of each kind, and at most [`MANY`] times [`CHUNK`]
/// unread bytes.
pub trait Harness {
    /// Calls `act` with the endpoint that has this role.
    fn end(&mut self, role: Role, act: &mut dyn FnMut(&mut dyn Transport));

    /// Delivers the output of both endpoints until neither has more to send.
    fn deliver(&mut self);

    /// Returns the notices that an endpoint's connection has issued since the last call.
    fn notices(&mut self, role: Role) -> Vec<Notice>;
}

/// An event that the owner of a connection reports to the HTTP/3 layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// More streams can be opened than before.
    StreamsAvailable,
    /// The peer opened streams.
    StreamsArrived,
    /// A stream is readable: it has data, its end or a reset.
    Readable(u64),
    /// A stream is writable again.
    Writable(u64),
    /// The peer sent STOP_SENDING for a stream.
    Stopped {
        /// The stream.
        stream: u64,
        /// The peer's application error code.
        code: u64,
    },
    /// The connection is gone.
    Closed,
}

/// Minimum number of streams of each kind that a [`Harness`] must allow.
pub const STREAMS: usize = 4;
/// Maximum number of streams of each kind, and of unread chunks of [`CHUNK`] bytes, that a
/// [`Harness`] may allow.
pub const MANY: usize = 1000;
/// Number of bytes per write when a test fills a stream.
pub const CHUNK: usize = 16 << 10;

/// Runs every test of the contract, each with a new connection.
///
/// # Panics
/// Panics if a test fails.
pub fn check<H: Harness>(mut connect: impl FnMut() -> H) {
    let mut with = |test: fn(&mut Ends<H>)| test(&mut Ends(connect()));
    with(opens_up_to_the_limit::<H, false>);
    with(opens_up_to_the_limit::<H, true>);
    with(accepts_in_order);
    with(reads_in_order_at_most_max);
    with(reports_the_end_of_an_empty_stream);
    with(write_takes_nothing_while_blocked);
    with(writes_two_parts_and_the_end);
    with(write_fails_after_the_end);
    with(reports_a_reset_while_data_is_unread);
    with(reports_a_reset_instead_of_data);
    with(resets_once);
    with(resets_nothing_that_has_ended);
    with(stop_sending_reaches_the_sender);
    with(stops_nothing_that_has_ended);
    with(rejects_streams_that_were_not_opened);
    with(closes);
}

/// A wrapper around a harness with shorter method calls.
struct Ends<H>(H);

const C: Role = Role::Client;
const S: Role = Role::Server;

impl<H: Harness> Ends<H> {
    fn at<T>(&mut self, role: Role, mut act: impl FnMut(&mut dyn Transport) -> T) -> T {
        let mut result = None;
        self.0.end(role, &mut |transport| result = Some(act(transport)));
        result.expect("the harness calls `act`")
    }

    /// Returns the notices of an endpoint after everything has been delivered.
    fn notices(&mut self, role: Role) -> Vec<Notice> {
        self.0.deliver();
        self.0.notices(role)
    }

    fn open(&mut self, is_bidirectional: bool) -> Option<u64> {
        self.at(C, |end| match is_bidirectional {
            true => end.open_bidirectional(),
            false => end.open_unidirectional(),
        })
    }

    fn accept(&mut self, is_bidirectional: bool) -> Option<u64> {
        self.at(S, |end| match is_bidirectional {
            true => end.accept_bidirectional(),
            false => end.accept_unidirectional(),
        })
    }

    fn write(&mut self, role: Role, stream: u64, data: &[u8]) -> Result<usize, WriteError> {
        self.at(role, |end| end.write(stream, Bytes::copy_from_slice(data)))
    }

    fn finish(&mut self, role: Role, stream: u64) -> Result<(), WriteError> {
        self.at(role, |end| end.finish(stream))
    }

    fn read(&mut self, role: Role, stream: u64, max: usize) -> Result<Option<Bytes>, ReadEnd> {
        let read = self.at(role, |end| end.read(stream, max));
        if let Ok(Some(chunk)) = &read {
            assert!(!chunk.is_empty(), "an empty chunk of stream {stream}");
            assert!(chunk.len() <= max, "{} bytes read instead of at most {max}", chunk.len());
        }
        read
    }

    /// Reads all available data, and the end or the reset if it follows.
    fn drain(&mut self, role: Role, stream: u64) -> (Vec<u8>, Option<ReadEnd>) {
        let mut all = Vec::new();
        loop {
            match self.read(role, stream, CHUNK) {
                Ok(Some(chunk)) => all.extend_from_slice(&chunk),
                Ok(None) => return (all, None),
                Err(end) => return (all, Some(end)),
            }
        }
    }

    /// Opens a stream on the client, writes `data` to it, and accepts it on the server.
    fn opened(&mut self, data: &[u8]) -> u64 {
        let stream = self.open(true).expect("a stream is allowed");
        assert_eq!(self.write(C, stream, data), Ok(data.len()));
        assert!(self.notices(S).contains(&Notice::StreamsArrived));
        assert_eq!(self.accept(true), Some(stream));
        stream
    }

    /// Returns a stream with nothing in flight.
    fn opened_and_read(&mut self) -> u64 {
        let stream = self.opened(b"x");
        assert_eq!(self.drain(S, stream), (b"x".to_vec(), None));
        stream
    }

    /// Returns a stream that the server has read to its end.
    fn ended(&mut self) -> u64 {
        let stream = self.opened(b"all");
        assert_eq!(self.finish(C, stream), Ok(()));
        self.0.deliver();
        assert_eq!(self.drain(S, stream), (b"all".to_vec(), Some(ReadEnd::Finished)));
        self.0.deliver();
        self.0.notices(C);
        self.0.notices(S);
        stream
    }
}

fn opens_up_to_the_limit<H: Harness, const IS_BIDIRECTIONAL: bool>(ends: &mut Ends<H>) {
    let mut streams = Vec::new();
    while let Some(stream) = ends.open(IS_BIDIRECTIONAL) {
        assert_eq!(stream, 4 * streams.len() as u64 + if IS_BIDIRECTIONAL { 0 } else { 2 });
        streams.push(stream);
        assert!(streams.len() <= MANY, "there is a limit");
    }
    assert!(streams.len() >= STREAMS);
    assert_eq!(ends.open(IS_BIDIRECTIONAL), None, "again");
    for stream in streams.iter().copied() {
        assert_eq!(ends.write(C, stream, b"x"), Ok(1));
        assert_eq!(ends.finish(C, stream), Ok(()));
    }
    assert!(!ends.notices(C).contains(&Notice::StreamsAvailable), "while all streams are open");
    assert_eq!(ends.open(IS_BIDIRECTIONAL), None, "while all streams are open");
    for stream in streams {
        assert_eq!(ends.accept(IS_BIDIRECTIONAL), Some(stream));
        assert_eq!(ends.drain(S, stream), (b"x".to_vec(), Some(ReadEnd::Finished)));
        if IS_BIDIRECTIONAL {
            assert_eq!(ends.finish(S, stream), Ok(()));
            ends.0.deliver();
            assert_eq!(ends.drain(C, stream), (Vec::new(), Some(ReadEnd::Finished)));
        }
    }
    assert!(ends.notices(C).contains(&Notice::StreamsAvailable), "after all streams have ended");
    assert!(ends.open(IS_BIDIRECTIONAL).is_some(), "after all streams have ended");
}

fn accepts_in_order<H: Harness>(ends: &mut Ends<H>) {
    assert_eq!((ends.accept(true), ends.accept(false)), (None, None));
    for is_bidirectional in [true, false] {
        let streams: Vec<_> = (0..3).filter_map(|_| ends.open(is_bidirectional)).collect();
        for stream in streams.iter().rev() {
            assert_eq!(ends.write(C, *stream, b"x"), Ok(1));
            ends.0.deliver();
        }
        assert!(ends.notices(S).contains(&Notice::StreamsArrived));
        for stream in streams {
            assert_eq!(ends.accept(is_bidirectional), Some(stream));
            assert_eq!(ends.drain(S, stream), (b"x".to_vec(), None));
        }
        assert_eq!(ends.accept(is_bidirectional), None);
    }
}

fn reads_in_order_at_most_max<H: Harness>(ends: &mut Ends<H>) {
    let stream = ends.opened_and_read();
    let sent: Vec<u8> = (0..5000_u32).map(|index| (index % 251) as u8).collect();
    for part in [&sent[..1], &sent[1..1], &sent[1..3000], &sent[3000..]] {
        assert_eq!(ends.write(C, stream, part), Ok(part.len()));
        ends.0.deliver();
    }
    assert_eq!(ends.finish(C, stream), Ok(()));
    assert!(ends.notices(S).contains(&Notice::Readable(stream)));
    let (mut received, mut max) = (Vec::new(), 0);
    while received.len() < sent.len() {
        let chunk = ends.read(S, stream, max);
        assert!(max == 0 || !matches!(chunk, Ok(None)), "everything is there");
        assert!(max > 0 || chunk == Ok(None), "{chunk:?} of zero bytes");
        received.extend_from_slice(&chunk.ok().flatten().unwrap_or_default());
        max = (max + 1) % 700;
    }
    assert_eq!(received, sent);
    assert_eq!(ends.read(S, stream, 1), Err(ReadEnd::Finished));
}

fn reports_the_end_of_an_empty_stream<H: Harness>(ends: &mut Ends<H>) {
    let stream = ends.open(false).expect("a stream is allowed");
    assert_eq!(ends.finish(C, stream), Ok(()));
    assert!(ends.notices(S).contains(&Notice::StreamsArrived));
    assert_eq!(ends.accept(false), Some(stream));
    assert_eq!(ends.read(S, stream, 9), Err(ReadEnd::Finished));
}

fn write_takes_nothing_while_blocked<H: Harness>(ends: &mut Ends<H>) {
    let stream = ends.opened_and_read();
    let chunk = [7; CHUNK];
    let mut written = 0;
    loop {
        match ends.write(C, stream, &chunk) {
            Ok(CHUNK) => written += CHUNK,
            other => {
                written += other.expect("the stream takes data");
                break;
            }
        }
        assert!(written <= CHUNK * MANY, "there is a limit");
    }
    assert_eq!(ends.write(C, stream, b"x"), Ok(0));
    // Reading on the server eventually makes room.
    let mut read = 0;
    while !ends.notices(C).contains(&Notice::Writable(stream)) {
        let (data, end) = ends.drain(S, stream);
        assert!(
            !data.is_empty() && end.is_none(),
            "still blocked after {read} bytes were read: {end:?}"
        );
        read += data.len();
    }
    let more = ends.write(C, stream, &chunk).expect("the stream takes data");
    assert!(more > 0);
    assert_eq!(ends.finish(C, stream), Ok(()));
    loop {
        ends.0.deliver();
        let (data, end) = ends.drain(S, stream);
        assert!(data.iter().all(|byte| *byte == 7));
        read += data.len();
        if end == Some(ReadEnd::Finished) {
            break;
        }
        assert!(!data.is_empty() && end.is_none(), "{read} of {} bytes: {end:?}", written + more);
    }
    assert_eq!(read, written + more);
}

fn writes_two_parts_and_the_end<H: Harness>(ends: &mut Ends<H>) {
    let stream = ends.opened_and_read();
    let write = |ends: &mut Ends<H>, parts: [&'static [u8]; 2], end| {
        let written = ends.at(C, |it| it.write_parts(stream, parts.map(Bytes::from_static), end));
        ends.0.deliver();
        written
    };
    assert_eq!(write(ends, [b"one, ", b"two"], false), Ok(8));
    assert_eq!(ends.drain(S, stream), (b"one, two".to_vec(), None));
    assert_eq!(write(ends, [b", three", b""], true), Ok(7));
    assert_eq!(ends.drain(S, stream), (b", three".to_vec(), Some(ReadEnd::Finished)));
    assert_eq!(write(ends, [b"", b"more"], false), Err(WriteError::Closed));
    // If the data does not fit, it is not followed by the end.
    let stream = ends.opened_and_read();
    let whole = Bytes::from_static(&[7; CHUNK]);
    let parts = [Bytes::from_static(b"x"), Bytes::from(whole.repeat(MANY))];
    let written = ends.at(C, |it| it.write_parts(stream, parts.clone(), true));
    assert!(written.expect("the stream takes data") <= CHUNK * MANY, "there is a limit");
    assert_eq!(ends.finish(C, stream), Ok(()));
}

fn write_fails_after_the_end<H: Harness>(ends: &mut Ends<H>) {
    let (finished, reset) = (ends.opened(b"a"), ends.opened(b"b"));
    assert_eq!(ends.finish(C, finished), Ok(()));
    ends.at(C, |end| end.reset(reset, 1));
    for _ in 0..2 {
        for stream in [finished, reset] {
            assert_eq!(ends.write(C, stream, b"more"), Err(WriteError::Closed));
            assert_eq!(ends.finish(C, stream), Err(WriteError::Closed));
        }
        ends.0.deliver();
    }
    assert_eq!(ends.drain(S, finished), (b"a".to_vec(), Some(ReadEnd::Finished)));
}

fn reports_a_reset_while_data_is_unread<H: Harness>(ends: &mut Ends<H>) {
    let stream = ends.opened(b"nobody reads this to its end");
    assert_eq!(ends.read(S, stream, 6), Ok(Some(Bytes::from_static(b"nobody"))));
    assert_eq!(ends.read(S, stream, 0), Ok(None));
    ends.0.notices(S);
    ends.at(C, |end| end.reset(stream, 7));
    assert!(ends.notices(S).contains(&Notice::Readable(stream)), "a reset is reported");
    assert_eq!(ends.read(S, stream, 0), Err(ReadEnd::Reset(7)));
    // The other direction is not affected.
    assert_eq!(ends.write(S, stream, b"answer"), Ok(6));
    assert_eq!(ends.finish(S, stream), Ok(()));
    assert!(ends.notices(C).contains(&Notice::Readable(stream)));
    assert_eq!(ends.drain(C, stream), (b"answer".to_vec(), Some(ReadEnd::Finished)));
}

fn reports_a_reset_instead_of_data<H: Harness>(ends: &mut Ends<H>) {
    let stream = ends.opened(b"nobody reads this");
    ends.at(C, |end| end.reset(stream, 7));
    assert!(ends.notices(S).contains(&Notice::Readable(stream)));
    assert_eq!(ends.read(S, stream, 9), Err(ReadEnd::Reset(7)));
}

fn resets_once<H: Harness>(ends: &mut Ends<H>) {
    let stream = ends.opened(b"x");
    ends.at(C, |end| end.reset(stream, 7));
    ends.at(C, |end| end.reset(stream, 8));
    ends.0.deliver();
    assert_eq!(ends.read(S, stream, 9), Err(ReadEnd::Reset(7)));
}

fn resets_nothing_that_has_ended<H: Harness>(ends: &mut Ends<H>) {
    let stream = ends.ended();
    ends.at(C, |end| end.reset(stream, 7));
    assert_eq!(ends.notices(S), []);
    // The other direction is not affected either.
    assert_eq!(ends.write(S, stream, b"answer"), Ok(6));
    ends.0.deliver();
    assert_eq!(ends.drain(C, stream), (b"answer".to_vec(), None));
}

fn stop_sending_reaches_the_sender<H: Harness>(ends: &mut Ends<H>) {
    let stream = ends.opened(b"nobody reads this");
    ends.at(S, |end| end.stop_sending(stream, 5));
    ends.at(S, |end| end.stop_sending(stream, 6));
    let stopped: Vec<_> = ends.notices(C);
    assert_eq!(stopped, [Notice::Stopped { stream, code: 5 }]);
    for _ in 0..2 {
        assert_eq!(ends.write(C, stream, b"more"), Err(WriteError::Stopped(5)));
        assert_eq!(ends.finish(C, stream), Err(WriteError::Stopped(5)));
    }
    assert_eq!(ends.write(S, stream, b"answer"), Ok(6));
    ends.0.deliver();
    assert_eq!(ends.drain(C, stream), (b"answer".to_vec(), None));
}

fn stops_nothing_that_has_ended<H: Harness>(ends: &mut Ends<H>) {
    let stream = ends.ended();
    let reset = ends.opened(b"x");
    ends.at(C, |end| end.reset(reset, 7));
    ends.0.deliver();
    assert_eq!(ends.read(S, reset, 9), Err(ReadEnd::Reset(7)));
    ends.0.notices(C);
    ends.0.notices(S);
    for ended in [stream, reset] {
        ends.at(S, |end| end.stop_sending(ended, 5));
    }
    assert_eq!(ends.notices(C), []);
    assert_eq!(ends.notices(S), []);
}

fn rejects_streams_that_were_not_opened<H: Harness>(ends: &mut Ends<H>) {
    let ours = ends.open(false).expect("a stream is allowed");
    assert_eq!(ends.write(C, ours, b"x"), Ok(1));
    ends.0.deliver();
    assert_eq!(ends.accept(false), Some(ours));
    let unknown = [400, 401, 402, 403].map(|stream| (C, stream));
    for (role, stream) in unknown.into_iter().chain([(S, ours)]) {
        assert_eq!(ends.write(role, stream, b"x"), Err(WriteError::Closed), "{stream}");
        assert_eq!(ends.finish(role, stream), Err(WriteError::Closed), "{stream}");
        ends.at(role, |end| end.reset(stream, 1));
    }
    for (role, stream) in unknown.into_iter().chain([(C, ours)]) {
        assert!(matches!(ends.read(role, stream, 9), Err(ReadEnd::Reset(_))), "{stream}");
        assert!(matches!(ends.read(role, stream, 0), Err(ReadEnd::Reset(_))), "{stream}");
        ends.at(role, |end| end.stop_sending(stream, 1));
    }
    assert_eq!(ends.notices(C), []);
    assert_eq!(ends.drain(S, ours), (b"x".to_vec(), None));
}

fn closes<H: Harness>(ends: &mut Ends<H>) {
    let stream = ends.opened(b"came before");
    let waiting = ends.opened_and_read();
    let ended = ends.opened(b"whole");
    assert_eq!(ends.finish(C, ended), Ok(()));
    ends.0.deliver();
    ends.at(C, |end| end.close(0x101, "the end"));
    assert!(ends.notices(S).contains(&Notice::Closed));
    assert_eq!(ends.read(S, stream, 4), Ok(Some(Bytes::from_static(b"came"))));
    assert_eq!(ends.read(S, stream, 0), Ok(None), "there is more to read");
    for (role, stream, before) in [(S, stream, " before"), (S, waiting, ""), (C, waiting, "")] {
        let (data, end) = ends.drain(role, stream);
        assert_eq!(data, before.as_bytes());
        assert!(matches!(end, Some(ReadEnd::Reset(_))), "{end:?}");
    }
    assert_eq!(ends.drain(S, ended), (b"whole".to_vec(), Some(ReadEnd::Finished)));
    for role in [C, S] {
        assert_eq!(ends.at(role, |end| end.open_bidirectional()), None);
        assert_eq!(ends.at(role, |end| end.open_unidirectional()), None);
        assert_eq!(ends.write(role, waiting, b"more"), Err(WriteError::Closed));
        assert_eq!(ends.finish(role, waiting), Err(WriteError::Closed));
        ends.at(role, |end| end.reset(waiting, 1));
        ends.at(role, |end| end.stop_sending(waiting, 1));
        ends.at(role, |end| end.close(1, "again"));
    }
}
