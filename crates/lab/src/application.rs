//! The applications that run on a stack: an HTTP/3 client that downloads or uploads content, and a
//! server that answers its requests. All stacks use the same code.

mod body;
mod client;
mod content;
mod order;
mod plan;
mod server;

use std::collections::BTreeMap;

use clearway_http3::{Connection as Http3, Event, Transport};
use clearway_units::Timestamp;

use crate::stack::{Stack, StackEvent};
use body::Body;
pub use client::Client;
use order::Cancel;
pub use server::Server;

/// Maximum number of content bytes to read per call.
const READ: usize = 256 << 10;

/// The progress of an endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// The time at which its handshake completed.
    pub connected_at: Option<Timestamp>,
    /// Bytes of content received.
    pub received: u64,
    /// Bytes of content that the stack has accepted for sending.
    pub written: u64,
    /// The time at which the first byte of content arrived.
    pub first_received_at: Option<Timestamp>,
    /// The time at which the client had completed all of its requests.
    pub finished_at: Option<Timestamp>,
    /// The unrecoverable failure, if there was one.
    pub failure: Option<String>,
}

/// An endpoint's application.
pub trait Application {
    /// Handles the stack's events, and does everything that is due at `now`.
    fn run(&mut self, now: Timestamp, stack: &mut dyn Stack);

    /// Returns when the application has to run again without an event.
    fn deadline(&self) -> Option<Timestamp>;

    /// Returns the progress so far.
    fn progress(&self) -> &Progress;

    /// Returns whether there is content that the stack has not accepted yet.
    fn has_backlog(&self) -> bool;
}

/// The state shared by the client and server applications.
#[derive(Debug)]
struct Common {
    http3: Http3,
    bodies: BTreeMap<u64, Body>,
    /// Streams on which a message will be canceled midway.
    arranged: BTreeMap<u64, Arranged>,
    progress: Progress,
    /// Whether early data may be sent.
    is_early: bool,
}

/// How to cancel a message midway on a stream.
#[derive(Clone, Copy, Debug)]
struct Arranged {
    cancel: Cancel,
    /// Bytes of content that the stack has accepted for sending and has not discarded.
    written: u64,
}

impl Common {
    fn new(http3: Http3) -> Self {
        let (bodies, arranged) = (BTreeMap::new(), BTreeMap::new());
        Self { http3, bodies, arranged, progress: Progress::default(), is_early: false }
    }

    /// Records how to cancel the message on `stream`, if it will be canceled.
    fn arrange(&mut self, stream: u64, cancel: Option<Cancel>) {
        self.arranged.extend(cancel.map(|cancel| (stream, Arranged { cancel, written: 0 })));
    }

    /// Discards the content of `stream` that was passed to the stack: it is no longer sent.
    fn abandon(&mut self, stream: u64) {
        if let Some(arranged) = self.arranged.get_mut(&stream) {
            self.bodies.remove(&stream);
            self.progress.written -= core::mem::take(&mut arranged.written);
        }
    }

    fn is_arranged(&self, stream: u64, event: &Event) -> bool {
        let arranged = self.arranged.get(&stream);
        arranged.is_some_and(|it| it.cancel.explains(self.http3.role(), event))
    }

    /// Returns whether stream data can be sent.
    fn can_send(&self) -> bool {
        self.is_early || self.progress.connected_at.is_some()
    }

    fn fail(&mut self, why: String) {
        self.progress.failure.get_or_insert(why);
    }

    /// Passes the stack's events on to HTTP/3.
    fn feed(&mut self, now: Timestamp, stack: &mut dyn Stack) {
        while let Some(event) = stack.next_event() {
            let Self { http3, progress, .. } = self;
            match event {
                StackEvent::Connected => {
                    progress.connected_at.get_or_insert(now);
                    stack.with_streams(now, &mut |streams| http3.on_streams_available(streams));
                }
                StackEvent::EarlyDataOffered => {
                    self.is_early = true;
                    stack.with_streams(now, &mut |streams| http3.on_streams_available(streams));
                }
                StackEvent::StreamsAvailable => {
                    stack.with_streams(now, &mut |streams| http3.on_streams_available(streams));
                }
                StackEvent::StreamsArrived => {
                    stack.with_streams(now, &mut |streams| http3.on_streams_arrived(streams));
                }
                StackEvent::Readable(stream) => {
                    stack.with_streams(now, &mut |streams| http3.on_readable(streams, stream));
                }
                StackEvent::Writable(stream) => {
                    stack.with_streams(now, &mut |streams| http3.on_writable(streams, stream));
                }
                StackEvent::Stopped { stream, code } => {
                    stack.with_streams(now, &mut |streams| http3.on_stopped(streams, stream, code));
                    self.abandon(stream);
                }
                StackEvent::Closed(reason) => {
                    http3.on_transport_closed();
                    self.fail(reason);
                }
            }
        }
    }

    /// Handles the events that have the same meaning at both endpoints, and returns all other
    /// events.
    fn common_event(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Writable { stream } => {
                if let Some(body) = self.bodies.get_mut(&stream) {
                    body.on_writable();
                }
            }
            Event::Reset { stream, .. } | Event::Stopped { stream, .. }
                if self.is_arranged(stream, &event) =>
            {
                return Some(event);
            }
            Event::Reset { stream, code } | Event::Stopped { stream, code } => {
                self.fail(format!("the peer canceled stream {stream}: {code:?}"));
            }
            Event::Failed { stream, error } => self.fail(format!("stream {stream}: {error:?}")),
            Event::Closed(error) => self.fail(format!("HTTP/3: {error:?}")),
            Event::GoAway { .. } => self.fail("the peer sent GOAWAY".to_owned()),
            other => return Some(other),
        }
        None
    }

    /// Reads the content that has arrived on `stream`, up to `most` bytes in total, and verifies
    /// it. `from` is the number of bytes read previously.
    fn read(
        &mut self,
        now: Timestamp,
        streams: &mut dyn Transport,
        stream: u64,
        from: &mut u64,
        most: u64,
    ) {
        loop {
            let room = most.saturating_sub(*from).min(READ as u64) as usize;
            if room == 0 {
                return;
            }
            let Some(bytes) = self.http3.read_body(streams, stream, room) else { return };
            if !content::is_content(*from, &bytes) {
                self.fail(format!("stream {stream}: wrong content from byte {from} on"));
            }
            *from += bytes.len() as u64;
            self.progress.received += bytes.len() as u64;
            self.progress.first_received_at.get_or_insert(now);
        }
    }

    /// Sends as much as possible, and returns the streams that were reset in the process.
    fn pump(&mut self, now: Timestamp, streams: &mut dyn Transport) -> Vec<u64> {
        let mut failure = None;
        let mut cut = Vec::new();
        for (stream, body) in &mut self.bodies {
            let before = body.written();
            if let Err(error) = body.pump(now, &mut self.http3, streams) {
                failure = Some(format!("{error:?}"));
            }
            let written = body.written() - before;
            self.progress.written += written;
            if let Some(arranged) = self.arranged.get_mut(stream) {
                arranged.written += written;
            }
            cut.extend((body.is_ended() && body.is_cut()).then_some(*stream));
        }
        self.bodies.retain(|_, body| !body.is_ended());
        for stream in &cut {
            self.abandon(*stream);
        }
        if let Some(failure) = failure {
            self.fail(failure);
        }
        cut
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.bodies.values().filter_map(Body::deadline).min()
    }

    fn has_backlog(&self) -> bool {
        self.bodies.values().any(Body::has_backlog)
    }
}
