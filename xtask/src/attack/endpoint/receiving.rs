//! Packet reception of an endpoint.

use clearway_wire::header::{HeaderKind, ProtectedHeader};
use clearway_wire::{
    ConnectionId, Frame, Initiator, PacketNumber, PacketType, Reader, TransportParameters, frame,
};

use super::{APPLICATION, Closed, Endpoint, HANDSHAKE, ID_LEN, INITIAL};
use crate::attack::protection::{SAMPLE_DISTANCE, initial_keys};

impl Endpoint {
    /// Processes a datagram from the peer. Packets that cannot be decrypted are ignored.
    pub(super) fn receive(&mut self, datagram: &mut [u8]) -> Result<(), String> {
        self.received_datagrams += 1;
        self.received_bytes += datagram.len() as u64;
        let mut rest = datagram;
        if !self.prefix.is_empty() && rest.first().is_some_and(|first| *first < 0x40) {
            let cut = self.prefix.len().min(rest.len());
            rest = &mut rest[cut..];
        }
        while !rest.is_empty() {
            let Ok(header) = ProtectedHeader::decode(rest, ID_LEN) else { return Ok(()) };
            let length = header.packet_len;
            if let HeaderKind::Retry(retry) = header.kind {
                let (destination, token) = (retry.source, retry.token.to_vec());
                self.retry(destination, token);
                return Ok(());
            }
            let Some((packet_type, number_at)) = header.packet_type() else { return Ok(()) };
            let space = match packet_type {
                PacketType::Initial => INITIAL,
                PacketType::Handshake => HANDSHAKE,
                PacketType::OneRtt => APPLICATION,
                PacketType::ZeroRtt => return Ok(()),
            };
            if let HeaderKind::Long { source, .. } = header.kind
                && self.is_client
            {
                self.destination = source;
            }
            let (packet, next) = rest.split_at_mut(length);
            if let Some(payload) = self.open(space, packet, number_at) {
                self.process(space, &payload)?;
            }
            rest = next;
        }
        Ok(())
    }

    fn retry(&mut self, destination: ConnectionId, token: Vec<u8>) {
        if self.is_client && self.token.is_empty() {
            self.destination = destination;
            self.token = token;
            self.spaces[INITIAL].keys = Some(initial_keys(&destination, true));
            self.spaces[INITIAL].sent = 0;
        }
    }

    fn open(&mut self, space: usize, packet: &mut [u8], number_at: usize) -> Option<Vec<u8>> {
        let state = &mut self.spaces[space];
        let keys = &state.keys.as_ref()?.remote;
        let (head, sampled) = packet.split_at_mut_checked(number_at + SAMPLE_DISTANCE)?;
        let (first, rest) = head.split_first_mut()?;
        let sample = sampled.get(..keys.header.sample_len())?;
        keys.header.decrypt_in_place(sample, first, rest.get_mut(number_at - 1..)?).ok()?;
        let number_len = usize::from(*first & 3) + 1;
        let (head, payload) = packet.split_at_mut_checked(number_at + number_len)?;
        let number = PacketNumber::decode_truncated(&head[number_at..], state.largest);
        let payload = keys.packet.decrypt_in_place(number.get(), head, payload).ok()?.to_vec();
        state.largest = state.largest.max(Some(number));
        state.note(number.get());
        Some(payload)
    }

    fn process(&mut self, space: usize, payload: &[u8]) -> Result<(), String> {
        let mut reader = Reader::new(payload);
        while reader.remaining() > 0 {
            let Ok(frame) = Frame::decode(&mut reader) else { return Ok(()) };
            self.spaces[space].is_ack_due |= frame.is_ack_eliciting();
            match frame {
                Frame::Crypto(crypto) => self.read_tls(space, crypto)?,
                Frame::HandshakeDone => self.is_confirmed = true,
                Frame::Stream(stream) => {
                    let incoming = self.streams.entry(stream.stream_id.get()).or_default();
                    incoming.add(stream.offset.get(), stream.data, stream.fin);
                }
                Frame::ResetStream(reset) => {
                    let incoming = self.streams.entry(reset.stream_id.get()).or_default();
                    incoming.reset = Some(reset.error_code.get());
                }
                Frame::NewConnectionId(new) => {
                    self.issued = self.issued.max(new.sequence.get());
                }
                Frame::PathChallenge(challenge) if self.answers_challenges => {
                    self.send_frames(&[Frame::PathResponse(frame::PathResponse {
                        data: challenge.data,
                    })]);
                }
                Frame::NewToken(new) => self.new_tokens.push(new.token.to_vec()),
                Frame::MaxStreams(limit)
                    if limit.direction == clearway_wire::Direction::Bidirectional =>
                {
                    self.max_streams = self.max_streams.max(limit.maximum.get());
                }
                Frame::ConnectionClose(close) => {
                    let is_application = close.kind == frame::CloseKind::Application;
                    let reason = String::from_utf8_lossy(close.reason).into_owned();
                    let code = close.error_code.get();
                    self.closed = Some(Closed { is_application, code, reason });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_tls(&mut self, space: usize, crypto: frame::Crypto<'_>) -> Result<(), String> {
        let state = &mut self.spaces[space];
        state.input.add(crypto.offset.get(), crypto.data, false);
        let new = state.input.data[state.read..].to_vec();
        state.read += new.len();
        if !new.is_empty() {
            self.tls.read_hs(&new).map_err(|error| format!("TLS: {error}"))?;
            self.write_tls();
        }
        if let Some(parameters) = self.tls.quic_transport_parameters() {
            let from = if self.is_client { Initiator::Server } else { Initiator::Client };
            if let Ok(parameters) = TransportParameters::decode(parameters, from) {
                let limit = parameters.initial_max_streams_bidi.get();
                self.max_streams = self.max_streams.max(limit);
            }
        }
        if !self.is_client && !self.tls.is_handshaking() && !self.is_confirmed {
            self.is_confirmed = true;
            self.flush()?;
            self.send_frames(&[Frame::HandshakeDone]);
        }
        Ok(())
    }
}
