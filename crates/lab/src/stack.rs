//! The QUIC stacks under test. A stack is one end of a QUIC connection that receives the time as an argument.
//!
//! There is Clearway's and, with the cargo feature `quinn`, quinn's. The application (HTTP/3, in
//! `application/`) and the network are the same for all, so that two stacks are compared with the same
//! bytes over the same losses. Each end of a flow has its own stack, so that two stacks can be connected to each
//! other.
//!
//! # How to add a stack
//!
//! Implement [`Stack`] for it in a file next to `quinn.rs`, which is the model, add it to
//! [`StackKind`](crate::setup::StackKind) behind a cargo feature, and construct it in `run.rs`, where the ends
//! of a flow are made. The world calls the methods in this order: [`Stack::receive`] for every datagram that
//! arrives at a point in time, [`Stack::on_deadline`] if the deadline has come, [`Stack::next_event`] and
//! [`Stack::with_streams`] for the application, then [`Stack::transmit`], and only after that
//! [`Stack::deadline`]. A deadline that has passed causes another call at once, so the stack must not keep
//! reporting it. Streams are named by their QUIC stream IDs. When a stream has accepted less data than it was
//! offered, the stack must report [`StackEvent::Writable`] once it accepts more.
//!
//! All randomness has to come from the seed, and time from the arguments. A stack that supports no
//! observer is checked only from outside: through its datagrams and its [`Vitals`]. The README of this crate
//! describes the steps one by one.

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
pub use resumption::Acquainted;
pub use tls::LabCertificateError;

/// Receives each datagram that an end sends: the number of the socket that sends it, its destination, its ECN codepoint and
/// its payload.
pub type Sink<'a> = dyn FnMut(u32, SocketAddr, Ecn, &[u8]) + 'a;

/// A local address of an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LocalAddress {
    /// The number of its socket: 0 is that with which the connection begins.
    pub socket: u32,
    /// Its IP address, if the end knows it.
    pub ip: Option<IpAddr>,
}

/// What the kernel of an end's host does with datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kernel {
    /// What has become of the IP address of the end's first socket.
    pub local_ip: LocalIp,
    /// Larger datagrams than this are refused.
    pub mtu: Option<usize>,
}

/// What has become of an IP address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LocalIp {
    /// The host still has it.
    #[default]
    Kept,
    /// The host has no address in its place.
    Gone,
    /// The host has this one in its place.
    Replaced(IpAddr),
}

/// One end of one connection, without I/O.
pub trait Stack {
    /// A datagram arrives at `now`. The contents of `payload` are undefined afterwards.
    fn receive(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        at: LocalAddress,
        ecn: Ecn,
        payload: &mut [u8],
    );

    /// Sends all that may be sent at `now`.
    fn transmit(&mut self, now: Timestamp, sink: &mut Sink<'_>);

    /// When [`on_deadline`](Self::on_deadline) has to be called; `None` while no timer runs.
    fn deadline(&self) -> Option<Timestamp>;

    /// Handles the timers that have expired at `now`.
    fn on_deadline(&mut self, now: Timestamp);

    /// The next event for the application.
    fn next_event(&mut self) -> Option<StackEvent>;

    /// Lends the connection's streams to `act`.
    fn with_streams(&mut self, now: Timestamp, act: &mut dyn FnMut(&mut dyn Transport));

    /// Starts a key update at `now` (RFC 9001 §6.1), if the connection can start one.
    fn update_keys(&mut self, now: Timestamp);

    /// Begins to move the connection to another local address of the client (RFC 9000 §9.2). Returns whether that has begun;
    /// a stack that cannot migrate never begins.
    fn migrate(&mut self, now: Timestamp, to: LocalAddress) -> bool {
        let _ = (now, to);
        false
    }

    /// Sets what the kernel of the end's host does with datagrams. Other stacks ignore it.
    fn set_kernel(&mut self, kernel: Kernel) {
        let _ = kernel;
    }

    /// The metrics that the stack reports about itself.
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
    /// The connection is over, for this reason.
    Closed(String),
}

/// The congestion control metrics that an end reports. The checker compares them with its own observations.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Vitals {
    /// The congestion window in bytes.
    pub window: u64,
    /// The smallest congestion window that its controller ever sets, in bytes; 0 if it does not report it.
    pub minimum_window: u64,
    /// Bytes in flight, as the stack counts them; `None` if it does not report them.
    pub bytes_in_flight: Option<u64>,
    /// Packets that it declared lost.
    pub packets_lost: u64,
    /// Packets that it declared lost but that arrived; `None` if it does not report them.
    pub packets_spuriously_lost: Option<u64>,
    /// How many times it reduced its congestion window because of congestion.
    pub congestion_events: u64,
    /// Its smoothed round-trip time in nanoseconds; 0 before the first sample.
    pub smoothed_rtt: u64,
    /// Whether its connection is over.
    pub is_closed: bool,
}
