//! HTTP datagrams in QUIC DATAGRAM frames (RFC 9297 §2.1).

use bytes::{Buf, Bytes};
use clearway_wire::{Reader, VarInt};

use super::Connection;
use crate::frame::put_varint;
use crate::message::Exchange;
use crate::{Code, ConnectionError, DatagramError, Role, StreamError, Transport};

/// The largest Quarter Stream ID.
const LARGEST_QUARTER: u64 = (1 << 60) - 1;

/// The action for a received datagram.
enum DatagramAction {
    Deliver,
    /// The datagram's request has not arrived.
    Early,
    Drop,
    /// The datagram's request does not use datagrams (§2).
    Refuse,
}

impl Connection {
    /// Sends a datagram that belongs to the extended CONNECT request on `stream`. Datagrams may be
    /// lost.
    ///
    /// # Errors
    /// Returns a [`DatagramError`] if the datagram cannot be sent.
    pub fn send_datagram<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        payload: &[u8],
    ) -> Result<(), DatagramError> {
        let header = self.check_datagram(stream)?;
        let mut data = Vec::with_capacity(header.saturating_add(payload.len()));
        put_varint(&mut data, stream / 4);
        data.extend_from_slice(payload);
        transport.send_datagram(data.into()).map_err(|error| match error {
            DatagramError::TooLarge { maximum } => {
                DatagramError::TooLarge { maximum: maximum.saturating_sub(header) }
            }
            other => other,
        })
    }

    /// Returns the largest datagram payload for `stream` that can be sent now, in bytes.
    ///
    /// # Errors
    /// Returns the same errors as [`Connection::send_datagram`].
    pub fn max_datagram<T: Transport + ?Sized>(
        &self,
        transport: &mut T,
        stream: u64,
    ) -> Result<usize, DatagramError> {
        let header = self.check_datagram(stream)?;
        let largest = transport.max_datagram().ok_or(DatagramError::Unsupported)?;
        Ok(largest.saturating_sub(header))
    }

    /// Checks that a datagram may be sent on `stream`, and returns the length of its Quarter Stream
    /// ID.
    fn check_datagram(&self, stream: u64) -> Result<usize, DatagramError> {
        if self.closed {
            return Err(DatagramError::ConnectionClosed);
        }
        let settings = self.peer_settings.ok_or(DatagramError::SettingsUnknown)?;
        if !settings.datagrams || !self.config.datagrams {
            return Err(DatagramError::Unsupported);
        }
        let entry = self.requests.get(&stream).filter(|entry| !entry.send.is_ended());
        match entry.ok_or(DatagramError::StreamClosed)?.exchange {
            Exchange::ExtendedConnect => Ok(VarInt::saturating(stream / 4).encoded_len()),
            _ => Err(DatagramError::NotForDatagrams),
        }
    }

    /// Returns the next received datagram, with the stream of the request to which it belongs.
    /// Whenever the transport has received datagrams or requests have arrived, call this until it
    /// returns `None`.
    ///
    /// A datagram for a request that does not use datagrams ends that request with
    /// H3_DATAGRAM_ERROR.
    pub fn next_datagram<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
    ) -> Option<(u64, Bytes)> {
        let next = self.next_datagram_before_streams(transport);
        // An idle connection must remain idle.
        if next.is_none()
            && let Some(busy) = self.busy.used()
        {
            let limit = self.config.max_early_datagrams;
            busy.early_datagrams.drain(..busy.early_datagrams.len().saturating_sub(limit));
        }
        next
    }

    /// Like [`next_datagram`](Self::next_datagram), but must be called before that method and
    /// before the streams are read.
    ///
    /// Then no datagrams are dropped because the end of their stream, or their request, arrived at
    /// the same time.
    pub fn next_datagram_before_streams<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
    ) -> Option<(u64, Bytes)> {
        while !self.closed {
            let (stream, payload) = match self.take_early() {
                Some(early) => early,
                None => {
                    let data = transport.receive_datagram()?;
                    if !self.config.datagrams {
                        continue;
                    }
                    match parse(data) {
                        Ok(datagram) => datagram,
                        Err(error) => {
                            self.fail(transport, error);
                            return None;
                        }
                    }
                }
            };
            match self.datagram_action(stream) {
                DatagramAction::Deliver => return Some((stream, payload)),
                DatagramAction::Drop => {}
                DatagramAction::Early => self.busy.early_datagrams.push_back((stream, payload)),
                DatagramAction::Refuse => {
                    let reason = "a datagram arrived for a request that does not use datagrams";
                    let error = StreamError::new(Code::DATAGRAM_ERROR, reason);
                    self.abandon(transport, stream, error.code, error);
                    self.flush_feedback(transport);
                }
            }
        }
        None
    }

    fn datagram_action(&self, stream: u64) -> DatagramAction {
        let Some(entry) = self.requests.get(&stream) else {
            // On a client, only streams that were never opened or have ended are unknown.
            let is_early = self.role == Role::Server
                && stream >= self.next_request
                && self.control.goaway().is_none_or(|id| stream < id);
            return if is_early { DatagramAction::Early } else { DatagramAction::Drop };
        };
        match entry.exchange {
            _ if entry.receive.is_ended() => DatagramAction::Drop,
            _ if !entry.shown => DatagramAction::Early,
            Exchange::ExtendedConnect => DatagramAction::Deliver,
            _ => DatagramAction::Refuse,
        }
    }

    /// Removes and returns a stored datagram whose request has arrived or will never arrive.
    fn take_early(&mut self) -> Option<(u64, Bytes)> {
        let mut early = self.busy.early_datagrams.iter();
        let place = early.position(|(stream, _)| {
            !matches!(self.datagram_action(*stream), DatagramAction::Early)
        })?;
        self.busy.early_datagrams.remove(place)
    }
}

/// Parses the stream and the payload of a datagram.
fn parse(mut data: Bytes) -> Result<(u64, Bytes), ConnectionError> {
    let mut reader = Reader::new(&data);
    let error = |reason| ConnectionError::new(Code::DATAGRAM_ERROR, reason);
    let quarter = VarInt::decode(&mut reader, "quarter stream ID")
        .map_err(|_| error("a datagram is too short for its Quarter Stream ID"))?;
    if quarter.get() > LARGEST_QUARTER {
        return Err(error("a datagram has an invalid Quarter Stream ID"));
    }
    let header = data.len().saturating_sub(reader.remaining());
    data.advance(header.min(data.len()));
    Ok((quarter.get().saturating_mul(4), data))
}
