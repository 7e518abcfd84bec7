use clearway_wire::{EncodeError, Frame, StreamId, VarInt, Writer, frame};

use crate::token::Token;

/// The payload of a packet under construction. The token of each frame is recorded when the frame
/// is written.
///
/// Every part of the connection writes its frames through this type, so that no frame can be sent
/// without specifying what to do if it is lost.
#[derive(Debug)]
pub(crate) struct PacketContents<'a, 'b> {
    writer: &'a mut Writer<'b>,
    tokens: &'a mut Vec<Token>,
    is_ack_eliciting: bool,
    counts_in_flight: bool,
}

impl<'a, 'b> PacketContents<'a, 'b> {
    /// Creates contents that are written to `writer`, whose capacity is already limited to the
    /// packet's payload.
    pub(crate) fn new(writer: &'a mut Writer<'b>, tokens: &'a mut Vec<Token>) -> Self {
        Self { writer, tokens, is_ack_eliciting: false, counts_in_flight: false }
    }

    /// Returns how many more bytes fit.
    pub(crate) fn remaining(&self) -> usize {
        self.writer.remaining()
    }

    /// Returns whether anything written so far is ack-eliciting.
    pub(crate) fn is_ack_eliciting(&self) -> bool {
        self.is_ack_eliciting
    }

    /// Returns whether anything written so far makes the packet count as in flight.
    pub(crate) fn counts_in_flight(&self) -> bool {
        self.counts_in_flight
    }

    /// Writes all of `frame` and records `token`, or fails and changes nothing.
    pub(crate) fn push(
        &mut self,
        frame: &Frame<'_>,
        token: Option<Token>,
    ) -> Result<(), EncodeError> {
        frame.encode(self.writer)?;
        self.is_ack_eliciting |= frame.is_ack_eliciting();
        self.counts_in_flight |= frame.counts_in_flight();
        self.tokens.extend(token);
        Ok(())
    }

    /// Writes an ACK frame from ranges in descending order, as many as fit, with the ECN counts
    /// `ecn`.
    pub(crate) fn push_ack(
        &mut self,
        delay: VarInt,
        ranges: impl Iterator<Item = core::ops::RangeInclusive<clearway_wire::PacketNumber>>,
        largest: clearway_wire::PacketNumber,
        ecn: Option<frame::EcnCounts>,
    ) -> Result<(), EncodeError> {
        frame::Ack::encode_ranges(self.writer, delay, ranges, ecn)?;
        self.tokens.push(Token::Ack { largest });
        Ok(())
    }

    /// Writes the header of a STREAM frame of `length` bytes and returns the buffer for its data.
    /// If `explicit_length` is false, the frame must be the last in the packet and fill it to the
    /// end.
    pub(crate) fn push_stream(
        &mut self,
        stream_id: StreamId,
        offset: VarInt,
        length: usize,
        fin: bool,
        explicit_length: bool,
    ) -> Result<&mut [u8], EncodeError> {
        let data = frame::Stream::encode_in_place(
            self.writer,
            stream_id,
            offset,
            length,
            fin,
            explicit_length,
        )?;
        self.is_ack_eliciting = true;
        self.counts_in_flight = true;
        self.tokens.push(Token::Stream {
            stream_id,
            offset: offset.get(),
            length: length as u64,
            fin,
        });
        Ok(data)
    }

    /// Writes the header of a CRYPTO frame of `length` bytes and returns the buffer for its data.
    pub(crate) fn push_crypto(
        &mut self,
        offset: VarInt,
        length: usize,
    ) -> Result<&mut [u8], EncodeError> {
        let data = frame::Crypto::encode_in_place(self.writer, offset, length)?;
        self.is_ack_eliciting = true;
        self.counts_in_flight = true;
        self.tokens.push(Token::Crypto { offset: offset.get(), length: length as u64 });
        Ok(data)
    }

    /// Writes bytes that need not be valid frames, as a misbehaving peer would.
    #[cfg(test)]
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.is_ack_eliciting = true;
        self.counts_in_flight = true;
        self.writer.bytes(bytes).unwrap_or_default();
    }
}
