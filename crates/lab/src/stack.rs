//! What is put under test: an end of a QUIC connection that takes its clock as an argument.
//!
//! There are ours and, with the cargo feature `quinn`, quinn's. The application (HTTP/3, in
//! `application/`) and the network are the same for all, so that two stacks are compared with the same
//! bytes over the same losses. Each end of a flow has its own, so that two stacks can talk to each other.
//!
//! # How to add a stack
//!
//! Implement [`Stack`] for it in a file beside `quinn.rs`, which is the model, give it a name in
//! [`StackKind`](crate::setup::StackKind) behind a cargo feature, and make it in `run.rs`, where the ends
//! of a flow are made. The world keeps to this order: it calls [`Stack::receive`] for all that arrives at
//! a moment, [`Stack::on_deadline`] if that is due, [`Stack::next_event`] and [`Stack::with_streams`] for
//! the application, then [`Stack::transmit`]; only after that it asks for [`Stack::deadline`]. A deadline
//! that has passed is acted on at once, so it must not stay. Streams are named by their QUIC stream IDs,
//! and a stream that took less than it was offered must announce itself with [`StackEvent::Writable`].
//!
//! Everything random has to come from the seed, and time from the arguments. A stack that gives no
//! observer is seen from outside: its datagrams, and its [`Vitals`]. The README of this crate has the
//! steps one by one.

mod clearway;
mod null_keys;
mod null_session;
#[cfg(feature = "quinn")]
mod quinn;
mod tls;

use std::net::SocketAddr;

use clearway_http3::Transport;
use clearway_network::Ecn;
use clearway_units::Timestamp;

pub use clearway::ClearwayStack;
pub use null_session::{NullSessions, null_application_key, null_initial_key};
#[cfg(feature = "quinn")]
pub use quinn::{QuinnError, QuinnStack};
pub use tls::LabCertificateError;

/// Takes a datagram that an end sends: to where, with which ECN codepoint, and its payload.
pub type Sink<'a> = dyn FnMut(SocketAddr, Ecn, &[u8]) + 'a;

/// One end of one connection, without I/O.
pub trait Stack {
    /// A datagram arrives at `now`. Its bytes mean nothing afterwards.
    fn receive(&mut self, now: Timestamp, from: SocketAddr, ecn: Ecn, payload: &mut [u8]);

    /// Sends all that may be sent at `now`.
    fn transmit(&mut self, now: Timestamp, sink: &mut Sink<'_>);

    /// When [`on_deadline`](Self::on_deadline) has to be called; `None` while nothing is awaited.
    fn deadline(&self) -> Option<Timestamp>;

    /// Does what is due at `now`.
    fn on_deadline(&mut self, now: Timestamp);

    /// What the application has to know next.
    fn next_event(&mut self) -> Option<StackEvent>;

    /// Lends the connection's streams to `act`.
    fn with_streams(&mut self, now: Timestamp, act: &mut dyn FnMut(&mut dyn Transport));

    /// Starts a key update at `now` (RFC 9001 §6.1), if the connection can make one then.
    fn update_keys(&mut self, now: Timestamp);

    /// The metrics that a stack reports of itself.
    fn vitals(&self) -> Vitals;
}

/// What an end tells its application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StackEvent {
    /// The handshake is complete.
    Connected,
    /// Streams can be opened that could not be before.
    StreamsAvailable,
    /// The peer opened a stream.
    StreamsArrived,
    /// A stream can be read.
    Readable(u64),
    /// Data can be written again to a stream that was blocked.
    Writable(u64),
    /// The peer sent STOP_SENDING for a stream.
    Stopped {
        /// The stream.
        stream: u64,
        /// The application's error code.
        code: u64,
    },
    /// The connection is over, for this reason.
    Closed(String),
}

/// What an end says of its congestion control. A checker compares it with what it sees itself.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Vitals {
    /// The congestion window in bytes.
    pub window: u64,
    /// The smallest window that its controller ever sets, in bytes; 0 if it does not say.
    pub minimum_window: u64,
    /// Bytes in flight, as it counts them; `None` if it does not say.
    pub bytes_in_flight: Option<u64>,
    /// Packets that it declared lost.
    pub packets_lost: u64,
    /// Packets that it declared lost and that arrived; `None` if it does not say.
    pub packets_spuriously_lost: Option<u64>,
    /// Times that it reduced its window because of congestion.
    pub congestion_events: u64,
    /// Its smoothed round-trip time in nanoseconds; 0 before the first sample.
    pub smoothed_rtt: u64,
    /// Whether its connection is over.
    pub is_closed: bool,
}
