//! UDP tunnels (RFC 9298): conversion between HTTP Datagrams and UDP payloads.

use core::fmt;
use std::collections::BTreeMap;

use bytes::Bytes;
use clearway_http3::{Capsule, Code, DATAGRAM_CAPSULE};

use crate::capsule::{CapsuleReader, Piece};
use crate::context::{ContextId, Contexts, Datagram, Side};
use crate::queue::{DatagramQueue, QueueLimits};

/// Maximum length of a UDP payload in bytes, as limited by the length field of the UDP header (RFC
/// 9298 §5).
pub const MAX_UDP_PAYLOAD: usize = 65_527;

/// One side of a UDP tunnel.
///
/// HTTP Datagrams from the peer, from DATAGRAM frames or capsules, become UDP payloads for the
/// socket; UDP payloads from the socket become HTTP Datagrams. The flow starts closed: payloads
/// from the peer wait in a bounded queue until [`UdpFlow::open`], since a client may send some
/// before the proxy has resolved the target. Only datagrams that arrive before the request itself
/// are not for the flow: the HTTP/3 connection queues or drops them.
#[derive(Debug)]
pub struct UdpFlow {
    state: State,
    contexts: Contexts,
    reader: CapsuleReader,
    capsule: PartialCapsule,
    /// Maximum length of a UDP payload that the socket can send, in bytes.
    udp_limit: usize,
    received: DatagramQueue,
    to_send: DatagramQueue,
    statistics: UdpStatistics,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The proxy has not resolved the target, or the response has not been sent or received.
    Opening,
    Open,
    /// The stream was aborted.
    Aborted,
}

/// A DATAGRAM capsule that is not complete.
#[derive(Clone, PartialEq, Eq, Debug)]
enum PartialCapsule {
    Buffered(Vec<u8>),
    Discarded,
}

/// The result of processing an HTTP Datagram from the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Received {
    /// Send this UDP payload.
    Forward(Bytes),
    /// The UDP payload is queued until the flow is open; see [`UdpFlow::next_held`].
    Held,
    /// A datagram of an extension, whose Context ID is [registered](Contexts::register).
    Extension(Datagram),
    /// The datagram was dropped.
    Ignored(DropReason),
    /// Reset the stream with the error's [code](UdpError::code), and close the socket.
    Abort(UdpError),
}

/// The reason why a datagram was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum DropReason {
    /// The Context ID is neither [`ContextId::PAYLOAD`] nor registered, or the datagram belongs to
    /// an extension and is too long to be buffered.
    UnknownContext,
    /// The UDP payload is longer than the path to the target permits.
    TooLargeForPath,
    /// The UDP payload does not fit into a DATAGRAM frame. A proxy should send an ICMP Packet Too
    /// Big message to the target (RFC 9298 §6.1), if its system permits.
    TooLargeForDatagram,
    /// The UDP payload from the socket is longer than [`MAX_UDP_PAYLOAD`].
    TooLong,
    /// The queue was full, and this datagram was the oldest.
    QueueFull,
    /// The stream was aborted.
    Aborted,
    /// A bandwidth limit was reached.
    Bandwidth,
    /// The target has not answered yet ([`UnansweredGuard`](crate::limits::UnansweredGuard)).
    Unanswered,
    /// The socket or the stream had no room, or the system refused to send the datagram, for
    /// example because the path does not carry this size.
    NotSent,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [Self; 9] = [
        Self::UnknownContext,
        Self::TooLargeForPath,
        Self::TooLargeForDatagram,
        Self::TooLong,
        Self::QueueFull,
        Self::Aborted,
        Self::Bandwidth,
        Self::Unanswered,
        Self::NotSent,
    ];

    /// Returns the name of the reason in metrics, such as `queue_full`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownContext => "unknown_context",
            Self::TooLargeForPath => "too_large_for_path",
            Self::TooLargeForDatagram => "too_large_for_datagram",
            Self::TooLong => "too_long",
            Self::QueueFull => "queue_full",
            Self::Aborted => "aborted",
            Self::Bandwidth => "bandwidth",
            Self::Unanswered => "unanswered",
            Self::NotSent => "not_sent",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownContext => "unknown Context ID",
            Self::TooLargeForPath => "too large for the path to the target",
            Self::TooLargeForDatagram => "too large for a DATAGRAM frame",
            Self::TooLong => "longer than a UDP payload can be",
            Self::QueueFull => "queue full",
            Self::Aborted => "the stream was aborted",
            Self::Bandwidth => "bandwidth limit reached",
            Self::Unanswered => "no answer from the target yet",
            Self::NotSent => "could not be sent",
        })
    }
}

/// The reason why a UDP tunnel was aborted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum UdpError {
    /// A UDP payload is longer than 65,527 bytes (RFC 9298 §5).
    PayloadTooLong {
        /// The length in bytes.
        length: u64,
    },
    /// An HTTP Datagram ends inside its Context ID.
    TruncatedDatagram,
    /// The content ended inside a capsule (RFC 9297 §3.3).
    TruncatedCapsule,
}

impl UdpError {
    /// Returns the code to reset the stream with.
    pub const fn code(self) -> Code {
        match self {
            Self::PayloadTooLong { .. } | Self::TruncatedDatagram => Code::DATAGRAM_ERROR,
            Self::TruncatedCapsule => Code::MESSAGE_ERROR,
        }
    }
}

impl fmt::Display for UdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PayloadTooLong { length } => write!(
                f,
                "the peer sent a UDP payload of {length} bytes; the maximum is {MAX_UDP_PAYLOAD}"
            ),
            Self::TruncatedDatagram => {
                f.write_str("the peer sent an HTTP Datagram that ends inside its Context ID")
            }
            Self::TruncatedCapsule => f.write_str("the peer's stream ended inside a capsule"),
        }
    }
}

impl core::error::Error for UdpError {}

/// Number of datagrams and bytes in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Number of datagrams.
    pub datagrams: u64,
    /// Total length of the payloads in bytes.
    pub bytes: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.datagrams = self.datagrams.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    pub(crate) fn remove(&mut self, removed: Self) {
        self.datagrams = self.datagrams.saturating_sub(removed.datagrams);
        self.bytes = self.bytes.saturating_sub(removed.bytes);
    }
}

/// Statistics of a UDP tunnel.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct UdpStatistics {
    /// UDP payloads from the peer that were passed to the socket.
    pub to_socket: Traffic,
    /// UDP payloads from the socket that were passed to the HTTP/3 connection.
    pub to_peer: Traffic,
    /// Dropped datagrams in both directions, by reason.
    pub dropped: BTreeMap<DropReason, u64>,
}

impl UdpFlow {
    /// Creates a flow that is not open yet, with the same limits for both queues.
    pub fn new(side: Side, limits: QueueLimits) -> Self {
        Self {
            state: State::Opening,
            contexts: Contexts::new(side),
            reader: CapsuleReader::new(),
            capsule: PartialCapsule::Buffered(Vec::new()),
            udp_limit: MAX_UDP_PAYLOAD,
            received: DatagramQueue::new(limits),
            to_send: DatagramQueue::new(limits),
            statistics: UdpStatistics::default(),
        }
    }

    /// Sets the length of the longest payload that the socket can send to the target, in bytes.
    /// Longer payloads from the peer are dropped (RFC 9298 §5).
    pub fn set_udp_limit(&mut self, bytes: usize) {
        self.udp_limit = bytes.min(MAX_UDP_PAYLOAD);
    }

    /// Opens the flow, because the proxy has a socket or the client has received a successful
    /// response. Afterwards, send the payloads that [`UdpFlow::next_held`] returns.
    pub fn open(&mut self) {
        if self.state == State::Opening {
            self.state = State::Open;
        }
    }

    /// Returns the Context IDs of this tunnel, for extensions.
    pub fn contexts_mut(&mut self) -> &mut Contexts {
        &mut self.contexts
    }

    /// Returns the statistics.
    pub const fn statistics(&self) -> &UdpStatistics {
        &self.statistics
    }

    /// Processes the payload of an HTTP Datagram from the peer.
    pub fn receive_datagram(&mut self, datagram: Bytes) -> Received {
        if self.state == State::Aborted {
            return self.ignore(DropReason::Aborted);
        }
        let Ok(Datagram { context, payload }) = Datagram::decode(datagram) else {
            return self.abort(UdpError::TruncatedDatagram);
        };
        if context != ContextId::PAYLOAD {
            return match self.contexts.is_known(context) {
                true => Received::Extension(Datagram { context, payload }),
                false => self.ignore(DropReason::UnknownContext),
            };
        }
        if payload.len() > MAX_UDP_PAYLOAD {
            return self.abort(UdpError::PayloadTooLong { length: payload.len() as u64 });
        }
        if payload.len() > self.udp_limit {
            return self.ignore(DropReason::TooLargeForPath);
        }
        if self.state == State::Open {
            self.statistics.to_socket.add(payload.len());
            return Received::Forward(payload);
        }
        let dropped = self.received.push(payload);
        self.count(DropReason::QueueFull, dropped);
        Received::Held
    }

    /// Processes content of the peer's stream: removes the next DATAGRAM capsule from the start of
    /// `content`. Returns `None` when `content` is exhausted. Capsules of other types are skipped.
    pub fn receive_content(&mut self, content: &mut Bytes) -> Option<Received> {
        if self.state == State::Aborted {
            content.clear();
            return None;
        }
        while let Some(piece) = self.reader.next(content) {
            if piece.capsule_type == DATAGRAM_CAPSULE
                && let Some(received) = self.receive_piece(piece)
            {
                return Some(received);
            }
        }
        None
    }

    /// Processes a piece of a DATAGRAM capsule. Capsules that are too long are not buffered.
    fn receive_piece(&mut self, piece: Piece) -> Option<Received> {
        let longest = self.udp_limit.saturating_add(ContextId::MAX_LENGTH);
        let is_long = piece.length > longest as u64;
        if piece.is_first && piece.is_last && !is_long {
            return Some(self.receive_datagram(piece.data));
        }
        if piece.is_first {
            self.capsule = PartialCapsule::Buffered(Vec::new());
        }
        let PartialCapsule::Buffered(buffer) = &mut self.capsule else { return None };
        if is_long {
            let missing = ContextId::MAX_LENGTH.saturating_sub(buffer.len());
            buffer.extend(piece.data.iter().take(missing));
            let (context, length) = ContextId::read(buffer)?;
            self.capsule = PartialCapsule::Discarded;
            let length = piece.length.saturating_sub(length as u64);
            return Some(match context {
                ContextId::PAYLOAD if length > MAX_UDP_PAYLOAD as u64 => {
                    self.abort(UdpError::PayloadTooLong { length })
                }
                ContextId::PAYLOAD => self.ignore(DropReason::TooLargeForPath),
                _ => self.ignore(DropReason::UnknownContext),
            });
        }
        buffer.extend_from_slice(&piece.data);
        if !piece.is_last {
            return None;
        }
        let datagram = core::mem::take(buffer);
        Some(self.receive_datagram(datagram.into()))
    }

    /// Checks that the peer's stream may end here. The tunnel is then closed.
    ///
    /// # Errors
    /// [`UdpError::TruncatedCapsule`] if the stream ends inside a capsule.
    pub fn finish(&self) -> Result<(), UdpError> {
        match self.state == State::Aborted || self.reader.is_between_capsules() {
            true => Ok(()),
            false => Err(UdpError::TruncatedCapsule),
        }
    }

    /// Returns the next UDP payload that has waited for [`UdpFlow::open`].
    pub fn next_held(&mut self) -> Option<Bytes> {
        if self.state != State::Open {
            return None;
        }
        let payload = self.received.pop()?;
        self.statistics.to_socket.add(payload.len());
        Some(payload)
    }

    /// Queues a UDP payload that was received on the socket, to send it to the peer. If the queue
    /// is full, its oldest payloads are dropped.
    pub fn queue(&mut self, payload: &[u8]) {
        if self.state == State::Aborted {
            return self.count(DropReason::Aborted, 1);
        }
        if payload.len() > MAX_UDP_PAYLOAD {
            return self.count(DropReason::TooLong, 1);
        }
        let dropped = self.to_send.push(Datagram::encode(ContextId::PAYLOAD, payload));
        self.count(DropReason::QueueFull, dropped);
    }

    /// Returns whether any HTTP Datagrams are waiting to be sent.
    pub fn has_queued(&self) -> bool {
        self.to_send.len() > 0
    }

    /// Returns the next HTTP Datagram to send in a DATAGRAM frame. Datagrams longer than `maximum`
    /// bytes are dropped: a capsule would hide the path's MTU (RFC 9298 §6.1).
    pub fn next_datagram(&mut self, maximum: usize) -> Option<Bytes> {
        loop {
            let datagram = self.to_send.pop()?;
            if datagram.len() <= maximum {
                self.count_sent(&datagram);
                return Some(datagram);
            }
            self.count(DropReason::TooLargeForDatagram, 1);
        }
    }

    /// Returns the next HTTP Datagram as a DATAGRAM capsule, for a connection without DATAGRAM
    /// frames.
    pub fn next_capsule(&mut self) -> Option<Bytes> {
        let datagram = self.to_send.pop()?;
        self.count_sent(&datagram);
        Some(Capsule::encode(DATAGRAM_CAPSULE, &datagram))
    }

    /// Records that UDP payloads for the socket ([`Received::Forward`]) were dropped instead of sent.
    pub fn discard_for_socket(&mut self, payloads: Traffic, reason: DropReason) {
        self.statistics.to_socket.remove(payloads);
        self.count(reason, payloads.datagrams);
    }

    /// Records that a UDP payload for the peer, which [`UdpFlow::next_datagram`] or
    /// [`UdpFlow::next_capsule`] has returned, was dropped instead of sent.
    pub fn discard_for_peer(&mut self, payload: usize, reason: DropReason) {
        self.statistics.to_peer.remove(Traffic { datagrams: 1, bytes: payload as u64 });
        self.count(reason, 1);
    }

    /// Records that datagrams were dropped before they reached the flow.
    pub fn discard(&mut self, datagrams: u64, reason: DropReason) {
        self.count(reason, datagrams);
    }

    fn count_sent(&mut self, datagram: &Bytes) {
        let header = ContextId::PAYLOAD.encoded_len();
        self.statistics.to_peer.add(datagram.len().saturating_sub(header));
    }

    fn ignore(&mut self, reason: DropReason) -> Received {
        self.count(reason, 1);
        Received::Ignored(reason)
    }

    fn count(&mut self, reason: DropReason, dropped: u64) {
        if dropped > 0 {
            let count = self.statistics.dropped.entry(reason).or_default();
            *count = count.saturating_add(dropped);
        }
    }

    fn abort(&mut self, error: UdpError) -> Received {
        self.state = State::Aborted;
        let queued = self.received.len().saturating_add(self.to_send.len());
        self.count(DropReason::Aborted, queued as u64);
        self.received.clear();
        self.to_send.clear();
        self.capsule = PartialCapsule::Discarded;
        Received::Abort(error)
    }
}

#[cfg(test)]
#[path = "udp_tests.rs"]
mod tests;
