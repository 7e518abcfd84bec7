//! Unreliable datagrams (RFC 9221): a queue of those to send and one of those received.

use core::fmt;
use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use clearway_wire::{Frame, TransportErrorCode, TransportParameters, frame};

use crate::TransportError;
use crate::contents::PacketContents;
use crate::token::Token;

/// What a datagram counts beyond its payload, so that empty ones cannot fill a queue for nothing.
const OVERHEAD: u64 = 64;

/// Received datagrams are copied into chunks of this size, so that not each allocates.
const CHUNK: usize = 16 << 10;

/// Why a datagram cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DatagramError {
    /// The peer does not accept datagrams.
    Unsupported,
    /// The payload is larger than the peer or the path permits.
    TooLarge {
        /// The largest payload that can be sent now.
        maximum: usize,
    },
    /// Too many datagrams wait to be sent.
    QueueFull,
    /// The connection is closed or draining.
    ConnectionClosed,
}

impl fmt::Display for DatagramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("the peer does not accept datagrams"),
            Self::TooLarge { maximum } => {
                write!(f, "a datagram can hold no more than {maximum} bytes")
            }
            Self::QueueFull => f.write_str("too many datagrams wait to be sent"),
            Self::ConnectionClosed => f.write_str("the connection is closed"),
        }
    }
}

impl core::error::Error for DatagramError {}

/// Counts over a connection's life, in datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatagramStatistics {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams sent and declared lost.
    pub lost: u64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams received and dropped, because the application did not read them in time.
    pub dropped: u64,
    /// Datagrams dropped before they were sent, because the path no longer carries them (RFC 8899 §4.4).
    pub outgrown: u64,
}

/// Limits of the datagrams that are accepted and queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DatagramsConfig {
    /// The largest DATAGRAM frame that is accepted, in bytes, as in the transport parameters; 0 accepts none.
    pub(crate) max_frame_size: u64,
    /// How many bytes of received datagrams are kept for the application.
    pub(crate) receive_buffer: u64,
    /// How many bytes of datagrams are kept to be sent.
    pub(crate) send_buffer: u64,
}

/// The datagrams of one connection.
#[derive(Debug)]
pub(crate) struct Datagrams {
    config: DatagramsConfig,
    /// The largest frame that the peer accepts; 0 until that is known.
    peer_max_frame_size: u64,
    /// The room that a packet has for frames.
    packet_room: usize,
    outgoing: Queue,
    incoming: Queue,
    chunk: BytesMut,
    /// Datagrams were received of which the application has not been notified.
    has_news: bool,
    statistics: DatagramStatistics,
}

/// The unreliable datagrams of a connection, and their counts.
#[derive(Debug, Default)]
struct Queue {
    datagrams: VecDeque<Bytes>,
    cost: u64,
}

impl Queue {
    fn cost_of(data: &Bytes) -> u64 {
        (data.len() as u64).saturating_add(OVERHEAD)
    }

    fn push(&mut self, data: Bytes) {
        self.cost = self.cost.saturating_add(Self::cost_of(&data));
        self.datagrams.push_back(data);
    }

    fn pop(&mut self) -> Option<Bytes> {
        let data = self.datagrams.pop_front()?;
        self.cost = self.cost.saturating_sub(Self::cost_of(&data));
        Some(data)
    }
}

impl Datagrams {
    /// The datagrams of a new connection, whose packets have `packet_room` bytes for frames.
    pub(crate) fn new(config: DatagramsConfig, packet_room: usize) -> Self {
        Self {
            config,
            peer_max_frame_size: 0,
            packet_room,
            outgoing: Queue::default(),
            incoming: Queue::default(),
            chunk: BytesMut::new(),
            has_news: false,
            statistics: DatagramStatistics::default(),
        }
    }

    /// Takes what the peer permits (RFC 9221 §3).
    pub(crate) fn set_peer_parameters(&mut self, parameters: &TransportParameters) {
        self.peer_max_frame_size = parameters.max_datagram_frame_size.get();
    }

    /// Packets have `packet_room` bytes for frames from here on. Datagrams that are too large for them are dropped: they
    /// cannot be divided (RFC 9221 §5).
    pub(crate) fn set_packet_room(&mut self, packet_room: usize) {
        let has_shrunk = packet_room < self.packet_room;
        self.packet_room = packet_room;
        let Some(maximum) = self.max_payload().filter(|_| has_shrunk) else { return };
        for _ in 0..self.outgoing.datagrams.len() {
            let Some(data) = self.outgoing.pop() else { break };
            if data.len() <= maximum {
                self.outgoing.push(data);
            } else {
                self.statistics.outgrown = self.statistics.outgrown.saturating_add(1);
            }
        }
    }

    /// The largest payload that can be sent now; `None` if the peer takes no datagrams.
    pub(crate) fn max_payload(&self) -> Option<usize> {
        if self.peer_max_frame_size == 0 {
            return None;
        }
        let frame = usize::try_from(self.peer_max_frame_size).unwrap_or(usize::MAX);
        let frame = frame.min(self.packet_room);
        // The Length field counts against the limit; a shorter payload may shorten that field too.
        let header = frame::Datagram::header_len(Some(frame));
        Some(frame.saturating_sub(header))
    }

    /// Queues a datagram to be sent once.
    pub(crate) fn send(&mut self, data: Bytes) -> Result<(), DatagramError> {
        let maximum = self.max_payload().ok_or(DatagramError::Unsupported)?;
        if data.len() > maximum {
            return Err(DatagramError::TooLarge { maximum });
        }
        if self.outgoing.cost.saturating_add(Queue::cost_of(&data)) > self.config.send_buffer {
            return Err(DatagramError::QueueFull);
        }
        self.outgoing.push(data);
        Ok(())
    }

    /// Whether a datagram waits to be sent.
    pub(crate) fn has_pending(&self) -> bool {
        !self.outgoing.datagrams.is_empty()
    }

    /// Writes the datagrams that fit, oldest first.
    pub(crate) fn write_frames(&mut self, contents: &mut PacketContents<'_, '_>) {
        while let Some(data) = self.outgoing.datagrams.front() {
            let length = data.len() as u64;
            let datagram = Frame::Datagram(frame::Datagram { data });
            if contents.push(&datagram, Some(Token::Datagram { length })).is_err() {
                return;
            }
            self.statistics.sent = self.statistics.sent.saturating_add(1);
            self.outgoing.pop();
        }
    }

    /// A datagram was lost; it is not sent again (RFC 9221 §5.2).
    pub(crate) fn on_lost(&mut self) {
        self.statistics.lost = self.statistics.lost.saturating_add(1);
    }

    /// Processes DATAGRAM. If the application leaves too many unread, the oldest are dropped: it is most likely to need the
    /// newest.
    pub(crate) fn on_datagram(
        &mut self,
        frame: &frame::Datagram<'_>,
    ) -> Result<(), TransportError> {
        let least_frame = frame::Datagram::header_len(None).saturating_add(frame.data.len());
        if least_frame as u64 > self.config.max_frame_size {
            return Err(TransportError::rule(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "a datagram larger than max_datagram_frame_size permits",
                "RFC 9221 §3",
            ));
        }
        self.has_news = true;
        self.statistics.received = self.statistics.received.saturating_add(1);
        if self.chunk.capacity() < frame.data.len() {
            self.chunk.reserve(frame.data.len().max(CHUNK));
        }
        self.chunk.extend_from_slice(frame.data);
        self.incoming.push(self.chunk.split().freeze());
        while self.incoming.cost > self.config.receive_buffer && self.incoming.pop().is_some() {
            self.statistics.dropped = self.statistics.dropped.saturating_add(1);
        }
        Ok(())
    }

    /// Whether datagrams came since this was last asked.
    pub(crate) fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.has_news)
    }

    /// The oldest datagram that was received.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        self.incoming.pop()
    }

    /// Counts so far.
    pub(crate) fn statistics(&self) -> DatagramStatistics {
        self.statistics
    }
}

#[cfg(test)]
#[path = "datagram_tests.rs"]
mod tests;
