//! The QUIC stacks under test. A stack is one endpoint of a QUIC connection that receives the time
//! as an argument.
//!
//! The available stacks are Clearway's and, with the cargo feature `quinn`, quinn's. The
//! application (HTTP/3, in `application/`) and the network are the same for all stacks, so that
//! stacks are compared with the same data and the same losses. Each endpoint of a flow has its own
//! stack, so that two stacks can be connected to each other.
//!
//! # How to add a stack
//!
//! To add a stack, implement [`Stack`] for it in a file next to `quinn.rs`, which is the model, add
//! it to [`StackKind`](crate::setup::StackKind) behind a cargo feature, and construct it in
//! `run.rs`, where the endpoints of a flow are created. The world calls the methods in this order:
//! [`Stack::receive`] for every datagram that arrives at a point in time, [`Stack::on_deadline`] if
//! the deadline has been reached, [`Stack::next_event`] and [`Stack::with_streams`] for the
//! application, then [`Stack::transmit`], and only after that [`Stack::deadline`]. A deadline that
//! has passed causes another call immediately, so the stack must not keep returning it. Streams are
//! identified by their QUIC stream IDs. When a stream has accepted less data than it was offered,
//! the stack must report [`StackEvent::Writable`] once it accepts more.
//!
//! All randomness must come from the seed, and time from the arguments. A stack that does not
//! support observers is checked only from the outside: by its datagrams and its [`Vitals`]. The
//! README of this crate describes the steps one by one.

mod clearway;
mod null_keys;
mod null_session;
#[cfg(feature = "quinn")]
mod quinn;
mod resumption;
mod tls;

use std::net::{IpAddr, SocketAddr};

use clearway_http3::Transport;
use clearway_network::Ecn;
use clearway_units::Timestamp;

pub use clearway::ClearwayStack;
pub use null_session::{NullSessions, null_application_key, null_initial_key};
#[cfg(feature = "quinn")]
pub use quinn::{QuinnError, QuinnStack};
pub use resumption::ResumedTls;
pub use tls::LabCertificateError;

/// Receives each datagram that an endpoint sends: the sending socket's number, the destination, the
/// ECN codepoint and the payload.
pub type Sink<'a> = dyn FnMut(u32, SocketAddr, Ecn, &[u8]) + 'a;

/// A local address of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LocalAddress {
    /// The number of the local socket: 0 is the socket with which the connection begins.
    pub socket: u32,
    /// The IP address of the socket, if the endpoint knows it.
    pub ip: Option<IpAddr>,
}

/// The behavior of the kernel of an endpoint's host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kernel {
    /// The state of the IP address of the endpoint's first socket.
    pub local_ip: LocalIp,
    /// The size above which datagrams are rejected, if there is a limit.
    pub mtu: Option<usize>,
}

/// The state of an IP address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LocalIp {
    /// The host still has the address.
    #[default]
    Kept,
    /// The host has lost the address and has no other.
    Gone,
    /// The host has lost the address and has this one instead.
    Replaced(IpAddr),
}

/// One endpoint of one connection, without I/O.
pub trait Stack {
    /// Processes a datagram that arrives at `now`. The contents of `payload` are undefined
    /// afterwards.
    fn receive(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        at: LocalAddress,
        ecn: Ecn,
        payload: &mut [u8],
    );

    /// Sends everything that may be sent at `now`.
    fn transmit(&mut self, now: Timestamp, sink: &mut Sink<'_>);

    /// Returns when [`on_deadline`](Self::on_deadline) must be called; `None` while no timer runs.
    fn deadline(&self) -> Option<Timestamp>;

    /// Handles the timers that have expired at `now`.
    fn on_deadline(&mut self, now: Timestamp);

    /// Returns the next event for the application.
    fn next_event(&mut self) -> Option<StackEvent>;

    /// Lends the connection's streams to `act`.
    fn with_streams(&mut self, now: Timestamp, act: &mut dyn FnMut(&mut dyn Transport));

    /// Starts a key update at `now` (RFC 9001 §6.1), if the connection can start one.
    fn update_keys(&mut self, now: Timestamp);

    /// Begins to migrate the connection to another local address of the client (RFC 9000 §9.2).
    /// Returns whether the migration has begun, which is always `false` for a stack that cannot
    /// migrate.
    fn migrate(&mut self, now: Timestamp, to: LocalAddress) -> bool {
        let _ = (now, to);
        false
    }

    /// Sets the behavior of the host's kernel. Other stacks ignore it.
    fn set_kernel(&mut self, kernel: Kernel) {
        let _ = kernel;
    }

    /// Returns the metrics that the stack reports about itself.
    fn vitals(&self) -> Vitals;
}

/// An event that a stack reports to its application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StackEvent {
    /// The client offers early data: it may send before the handshake is complete.
    EarlyDataOffered,
    /// The handshake is complete.
    Connected,
    /// More streams can be opened.
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
    /// The connection has ended, for this reason.
    Closed(String),
}

/// The congestion control metrics that an endpoint reports. The checker compares them with its own
/// observations.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Vitals {
    /// The congestion window in bytes.
    pub window: u64,
    /// The controller's minimum congestion window, in bytes; 0 if the stack does not report it.
    pub minimum_window: u64,
    /// Bytes in flight, as counted by the stack; `None` if it does not report them.
    pub bytes_in_flight: Option<u64>,
    /// The number of packets that the stack declared lost.
    pub packets_lost: u64,
    /// The number of packets that the stack declared lost but that arrived; `None` if it does not
    /// report them.
    pub packets_spuriously_lost: Option<u64>,
    /// The number of times that the congestion window was reduced because of congestion.
    pub congestion_events: u64,
    /// The smoothed RTT in nanoseconds; 0 before the first sample.
    pub smoothed_rtt: u64,
    /// Whether the connection has ended.
    pub is_closed: bool,
}
