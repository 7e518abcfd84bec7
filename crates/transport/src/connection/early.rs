//! Early data: what a client sends in 0-RTT packets, and a server receives in them, before the handshake is complete
//! (RFC 9001 §4.6, RFC 9000 §7.4.1).

use clearway_units::Timestamp;
use clearway_wire::{Frame, StreamId, TransportErrorCode, TransportParameters};

use super::Connection;
use crate::contents::PacketContents;
use crate::event::Event;
use crate::handshake::{EarlyData, EarlyLimits};
use crate::observer::Observation;
use crate::space_id::SpaceId;
use crate::{Side, TransportError};

/// The early data of a connection.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// What became of it, as far as the application was told.
    outcome: EarlyData,
    /// The server's parameters of the connection that this client resumes, until those of this connection take their
    /// place.
    remembered: Option<Box<TransportParameters>>,
}

impl Connection {
    /// What became of early data. A client offers it if its session permits it
    /// ([`TlsClientConfig::early_data`](crate::TlsClientConfig::early_data)): then it may open streams and write to them
    /// before [`Event::Connected`]. What it writes until then may be processed more than once, if someone on the path
    /// repeats its packets (RFC 9001 §9.2).
    ///
    /// A server has [accepted](EarlyData::Accepted) it or was not offered any.
    pub fn early_data(&self) -> EarlyData {
        self.early.outcome
    }

    /// What a client's application [noted](Self::set_early_data_context) on the connection that
    /// this one resumes, while early data is offered or accepted: it must comply with these
    /// settings of the server until new ones arrive, and the server must not have lowered them (RFC
    /// 9114 §7.2.4.2).
    pub fn early_data_context(&self) -> Option<&[u8]> {
        match self.early.outcome {
            EarlyData::Offered | EarlyData::Accepted => {
                self.handshake.session().remembered_context()
            }
            EarlyData::None | EarlyData::Rejected => None,
        }
    }

    /// Adds the server's settings, in the application's encoding, to the sessions that this
    /// client's connection receives, before or after this call. Only the first call has an effect.
    /// At most [`MAX_EARLY_DATA_CONTEXT`](crate::MAX_EARLY_DATA_CONTEXT) bytes; a longer context is
    /// not kept.
    pub fn set_early_data_context(&mut self, context: &[u8]) {
        self.handshake.session_mut().set_context(context);
    }

    /// Whether data of this stream came in 0-RTT packets, and the handshake is not complete: then it may have been sent
    /// by someone who repeats the packets of a client (RFC 9001 §9.2). No more of that can follow once the handshake is
    /// complete.
    pub fn is_early(&mut self, stream_id: StreamId) -> bool {
        self.side.is_server()
            && !self.handshake.is_complete()
            && self.streams.get_mut().has_early_data(stream_id)
    }

    /// Whether packets of the Application space are 0-RTT packets now: this client offers early data and has no 1-RTT
    /// keys yet.
    pub(super) fn sends_early(&self) -> bool {
        let protection = self.handshake.protection();
        self.side.is_client()
            && protection.has_early()
            && !protection.can_seal(SpaceId::Application)
    }

    /// Whether packets of `space` can be sent.
    pub(super) fn can_send(&self, space: SpaceId) -> bool {
        let is_early = space == SpaceId::Application && self.sends_early();
        is_early || self.handshake.protection().can_seal(space)
    }

    /// A client's handshake has begun: if it has the keys for early data, the remembered parameters permit it.
    pub(super) fn offer_early_data(&mut self, now: Timestamp) {
        if self.side.is_server() || !self.handshake.protection().has_early() {
            return;
        }
        let encoded = self.handshake.session().remembered_parameters();
        let decoded = encoded.and_then(|encoded| {
            TransportParameters::decode(encoded, Side::Server.initiator()).ok().map(remembered)
        });
        let Some(parameters) = decoded else {
            self.handshake.protection_mut().discard_early();
            return;
        };
        self.streams.get_mut().set_peer_parameters(&parameters);
        self.datagrams.set_peer_parameters(&parameters);
        self.paths.mtu_mut().set_peer_maximum(parameters.max_udp_payload_size);
        self.observe(now, &Observation::ParametersRestored(&parameters));
        self.early = Early { outcome: EarlyData::Offered, remembered: Some(Box::new(parameters)) };
    }

    /// TLS has gone on. If early data is accepted or rejected now, that is reported.
    ///
    /// # Errors
    /// INTERNAL_ERROR if the ledger is inconsistent.
    pub(super) fn settle_early_data(&mut self, now: Timestamp) -> Result<(), TransportError> {
        let outcome = self.handshake.session().early_data();
        if self.early.outcome == outcome {
            return Ok(());
        }
        match (self.side, self.early.outcome, outcome) {
            (Side::Client, EarlyData::Offered, EarlyData::Accepted)
            | (Side::Server, EarlyData::None, EarlyData::Accepted) => {
                self.early.outcome = outcome;
                self.events.push_back(Event::EarlyDataAccepted);
            }
            (Side::Client, EarlyData::Offered, EarlyData::Rejected) => {
                self.forget_early_packets(now)?;
                self.early = Early { outcome, remembered: None };
                self.events.push_back(Event::EarlyDataRejected);
            }
            _ => {}
        }
        Ok(())
    }

    /// The server does not know of anything that was sent in 0-RTT packets. Streams stay open for the application, and
    /// everything on them is sent anew, as the limits of this connection permit (RFC 9001 §4.6.2).
    fn forget_early_packets(&mut self, now: Timestamp) -> Result<(), TransportError> {
        self.handshake.protection_mut().discard_early();
        self.recovery.get_mut().abandon_outstanding(SpaceId::Application, now)?;
        self.dispatch_tokens();
        *self.outgoing.probes.get_mut(SpaceId::Application) = 0;
        self.streams.get_mut().restart();
        self.datagrams.set_peer_parameters(&TransportParameters::default());
        self.observe(now, &Observation::EarlyDataRejected);
        Ok(())
    }

    /// The client begins again with another handshake, which may offer early data or not.
    ///
    /// # Errors
    /// INTERNAL_ERROR if the ledger is inconsistent.
    pub(super) fn withdraw_early_data(&mut self, now: Timestamp) -> Result<(), TransportError> {
        if self.early.outcome == EarlyData::Offered {
            self.forget_early_packets(now)?;
        }
        self.early = Early::default();
        Ok(())
    }

    /// The server's parameters have arrived. A client that goes on with early data keeps to the remembered ones until the
    /// handshake is complete (RFC 9000 §7.4.1).
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if the server accepted early data and permits less than before.
    pub(super) fn take_peer_limits(
        &mut self,
        parameters: &TransportParameters,
    ) -> Result<(), TransportError> {
        if let Some(remembered) = &self.early.remembered {
            return check_limits(remembered, parameters);
        }
        self.streams.get_mut().set_peer_parameters(parameters);
        self.datagrams.set_peer_parameters(parameters);
        Ok(())
    }

    /// The handshake is complete: the remembered parameters do not apply any more.
    pub(super) fn end_early_data(&mut self) {
        if self.early.remembered.take().is_some() {
            self.streams.get_mut().set_peer_parameters(&self.peer.parameters);
            self.datagrams.set_peer_parameters(&self.peer.parameters);
        }
    }

    /// Writes the frames of a 0-RTT packet. Those that must not be in one are written by none of these parts
    /// (RFC 9000 §12.5), and connection IDs wait for the server's limit.
    pub(super) fn fill_early(
        &mut self,
        may_elicit: bool,
        probe: bool,
        contents: &mut PacketContents<'_, '_>,
    ) {
        if !may_elicit {
            return;
        }
        self.streams.get_mut().write_control_frames(contents);
        self.datagrams.write_frames(contents);
        self.streams.get_mut().write_stream_frames(contents);
        if (probe || self.flags.ping_pending) && !contents.is_ack_eliciting() {
            let _ = contents.push(&Frame::Ping, None);
        }
        if contents.is_ack_eliciting() {
            self.flags.ping_pending = false;
        }
    }
}

/// What a client may use of the parameters of an earlier connection (RFC 9000 §7.4.1, RFC 9287 §3.1).
fn remembered(parameters: TransportParameters) -> TransportParameters {
    TransportParameters {
        max_idle_timeout: parameters.max_idle_timeout,
        max_udp_payload_size: parameters.max_udp_payload_size,
        initial_max_data: parameters.initial_max_data,
        initial_max_stream_data_bidi_local: parameters.initial_max_stream_data_bidi_local,
        initial_max_stream_data_bidi_remote: parameters.initial_max_stream_data_bidi_remote,
        initial_max_stream_data_uni: parameters.initial_max_stream_data_uni,
        initial_max_streams_bidi: parameters.initial_max_streams_bidi,
        initial_max_streams_uni: parameters.initial_max_streams_uni,
        active_connection_id_limit: parameters.active_connection_id_limit,
        disable_active_migration: parameters.disable_active_migration,
        max_datagram_frame_size: parameters.max_datagram_frame_size,
        ..TransportParameters::default()
    }
}

fn check_limits(
    remembered: &TransportParameters,
    new: &TransportParameters,
) -> Result<(), TransportError> {
    if !EarlyLimits::of(new).permit(&EarlyLimits::of(remembered)) {
        return Err(TransportError::rule(
            TransportErrorCode::PROTOCOL_VIOLATION,
            "the server accepted early data and lowered a limit",
            "RFC 9000 §7.4.1",
        ));
    }
    Ok(())
}

#[cfg(test)]
#[path = "early_tests.rs"]
mod tests;
