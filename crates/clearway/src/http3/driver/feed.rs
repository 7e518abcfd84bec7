//! Passes the transport's events to HTTP/3.

use clearway_http3::QuicStreams;
use clearway_transport::{ConnectionError, Event};
use clearway_units::StreamKeys;

use super::Core;

/// Connection-wide information from the transport's events.
#[derive(Default)]
pub(super) struct Feed {
    /// Whether the handshake is complete.
    pub(super) connected: bool,
    /// The reason why the connection has ended, if it has.
    pub(super) closed: Option<ConnectionError>,
    /// Streams that became writable, or for which the peer has granted more flow control credit.
    pub(super) writable: Vec<u64>,
    /// All other events, including path events.
    pub(super) others: Vec<Event>,
}

/// Finished streams with data that the peer has not acknowledged yet and, on a server, reset
/// streams whose reset the client has not acknowledged. Closing the connection while there are such
/// streams would lose data, or the reason why a request failed.
#[derive(Debug, Default)]
pub(super) struct Undelivered(StreamKeys);

impl Undelivered {
    pub(super) fn add(&mut self, stream: u64) {
        self.0.insert(stream, 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(|(stream, _)| stream)
    }

    pub(super) fn remove(&mut self, stream: u64) {
        self.0.remove(stream);
    }
}

impl Core {
    /// Passes the transport's events to HTTP/3, and records delivered streams.
    pub(super) fn feed(&mut self, streams: &mut QuicStreams<'_>) -> Feed {
        let Self { http3, undelivered, .. } = self;
        let mut fed = Feed::default();
        if streams.connection().is_closed() {
            http3.on_transport_closed();
        }
        while let Some(event) = streams.connection_mut().next_event() {
            match event {
                Event::Connected => {
                    fed.connected = true;
                    http3.on_streams_available(streams);
                }
                Event::StreamsAvailable(_) => http3.on_streams_available(streams),
                Event::Opened(_) => http3.on_streams_arrived(streams),
                Event::Readable(id) => http3.on_readable(streams, id.get()),
                Event::Writable(id) => {
                    http3.on_writable(streams, id.get());
                    fed.writable.push(id.get());
                }
                Event::Stopped { stream_id, error_code } => {
                    undelivered.remove(stream_id.get());
                    http3.on_stopped(streams, stream_id.get(), error_code.get());
                }
                Event::Finished(id) | Event::ResetAcknowledged(id) => {
                    undelivered.remove(id.get());
                }
                Event::Closed(error) => fed.closed = Some(error),
                other => fed.others.push(other),
            }
        }
        fed
    }
}
