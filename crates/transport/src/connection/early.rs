//! Early data: sent by a client in 0-RTT packets, and received by a server, before the handshake is
//! complete (RFC 9001 §4.6, RFC 9000 §7.4.1).

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
    /// The outcome as reported to the application.
    outcome: EarlyData,
    /// The server's parameters from the connection that this client resumes, until the new ones
    /// replace them.
    remembered: Option<Box<TransportParameters>>,
}

impl Connection {
    /// Returns the state of early data. A client offers it if its session allows that
    /// ([`TlsClientConfig::early_data`](crate::TlsClientConfig::early_data)): it may then open
    /// streams and write to them before [`Event::Connected`]. Data written until then may be
    /// processed more than once if an attacker on the path replays its packets (RFC 9001 §9.2).
    ///
    /// On a server, early data is either [accepted](EarlyData::Accepted) or was not offered.
    pub fn early_data(&self) -> EarlyData {
        self.early.outcome
    }

    /// Returns the server settings that a client's application
    /// [saved](Self::set_early_data_context) on the connection that this one resumes, while early
    /// data is offered or accepted: the application must comply with them until new ones arrive,
    /// and the server must not have lowered them (RFC 9114 §7.2.4.2).
    pub fn early_data_context(&self) -> Option<&[u8]> {
        match self.early.outcome {
            EarlyData::Offered | EarlyData::Accepted => {
                self.handshake.session().remembered_context()
            }
            EarlyData::None | EarlyData::Rejected => None,
        }
    }

    /// Adds the server's settings, in the application's encoding, to the sessions received on this
    /// client's connection, before or after this call. Only the first call has an effect. At most
    /// [`MAX_EARLY_DATA_CONTEXT`](crate::MAX_EARLY_DATA_CONTEXT) bytes; a longer context is not
    /// kept.
    pub fn set_early_data_context(&mut self, context: &[u8]) {
        self.handshake.session_mut().set_context(context);
    }

    /// Returns whether data of this stream arrived in 0-RTT packets and the handshake is not
    /// complete, in which case an attacker may be replaying a client's packets (RFC 9001 §9.2). No
    /// more such data can follow once the handshake is complete.
    pub fn is_early(&mut self, stream_id: StreamId) -> bool {
        self.side.is_server()
            && !self.handshake.is_complete()
            && self.streams.get_mut().has_early_data(stream_id)
    }

    /// Returns whether packets in the Application space are currently 0-RTT packets: this client
    /// offers early data and has no 1-RTT keys yet.
    pub(super) fn sends_early(&self) -> bool {
        let protection = self.handshake.protection();
        self.side.is_client()
            && protection.has_early()
            && !protection.can_seal(SpaceId::Application)
    }

    /// Returns whether packets can be sent in `space`.
    pub(super) fn can_send(&self, space: SpaceId) -> bool {
        let is_early = space == SpaceId::Application && self.sends_early();
        is_early || self.handshake.protection().can_seal(space)
    }

    /// Offers early data at the start of a client's handshake if its keys are available, within the
    /// limits of the remembered parameters.
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

    /// Reports whether early data has now been accepted or rejected, after a step of the TLS
    /// handshake.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the ledger is inconsistent.
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

    /// Handles the server's rejection of all 0-RTT packets. Streams stay open for the application,
    /// and everything on them is retransmitted within the limits of this connection (RFC 9001
    /// §4.6.2).
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

    /// Withdraws early data because the client restarts with another handshake, which may or may
    /// not offer it.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the ledger is inconsistent.
    pub(super) fn withdraw_early_data(&mut self, now: Timestamp) -> Result<(), TransportError> {
        if self.early.outcome == EarlyData::Offered {
            self.forget_early_packets(now)?;
        }
        self.early = Early::default();
        Ok(())
    }

    /// Applies the server's parameters. A client that continues with early data stays within the
    /// remembered ones until the handshake is complete (RFC 9000 §7.4.1).
    ///
    /// # Errors
    /// Returns PROTOCOL_VIOLATION if the server accepted early data with lower limits than before.
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

    /// Discards the remembered parameters once the handshake is complete.
    pub(super) fn end_early_data(&mut self) {
        if self.early.remembered.take().is_some() {
            self.streams.get_mut().set_peer_parameters(&self.peer.parameters);
            self.datagrams.set_peer_parameters(&self.peer.parameters);
        }
    }

    /// Writes the frames of a 0-RTT packet. None of the parts called here writes frames that are
    /// forbidden in 0-RTT packets (RFC 9000 §12.5), and no connection IDs are issued before the
    /// server's limit is known.
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

/// Returns the parameters of an earlier connection that a client may use (RFC 9000 §7.4.1, RFC 9287
/// §3.1).
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
            "the server accepted early data but lowered a limit",
            "RFC 9000 §7.4.1",
        ));
    }
    Ok(())
}

#[cfg(test)]
#[path = "early_tests.rs"]
mod tests;
