//! ACK_FREQUENCY and IMMEDIATE_ACK frames, in both directions (draft-ietf-quic-ack-frequency).

use clearway_wire::{TransportErrorCode, frame};

use super::Connection;
use crate::TransportError;
use crate::ack_frequency::PathFacts;
use crate::space::AckPolicy;
use crate::space_id::SpaceId;

impl Connection {
    /// Decides which acknowledgment frequency to request from the peer, after an RTT sample.
    pub(super) fn consider_ack_frequency(&mut self) {
        if !self.ack_frequency.is_used() || !self.lifecycle.is_confirmed() {
            return;
        }
        let recovery = self.recovery.get();
        let Some(rtt) = recovery.rtt() else { return };
        let datagram = self.max_datagram_size() as u64;
        let has_more_data = recovery.delivery_rate().is_some_and(|it| !it.is_application_limited);
        self.ack_frequency.consider(&PathFacts {
            window: recovery.window().checked_div(datagram).unwrap_or(0),
            is_ack_clocked: has_more_data
                && recovery.controller().snapshot().slow_start_threshold.is_some(),
            smoothed_rtt: rtt.smoothed,
            packet_threshold: recovery.packet_threshold(),
        });
    }

    /// Returns whether a packet with stream data should contain an IMMEDIATE_ACK frame. Other
    /// packets contain none, because the frame must not make an ACK-only packet ack-eliciting.
    pub(super) fn wants_data_acknowledged_at_once(&self) -> bool {
        self.ack_frequency.wants_each_acknowledged()
            && self.lifecycle.is_confirmed()
            && self.streams.has_data_pending()
    }

    /// Returns whether IMMEDIATE_ACK frames are sent. They must not be in 0-RTT packets
    /// (draft-ietf-quic-ack-frequency §3).
    pub(super) fn asks_for_immediate_acks(&self) -> bool {
        self.ack_frequency.is_used() && self.lifecycle.is_confirmed()
    }

    /// Processes an ACK_FREQUENCY frame.
    pub(super) fn receive_ack_frequency(
        &mut self,
        space: SpaceId,
        frame: &frame::AckFrequency,
    ) -> Result<(), TransportError> {
        let least = self.config.least_ack_delay().ok_or(NOT_NEGOTIATED)?;
        let requested = AckPolicy::requested(frame, least)?;
        self.received.get_mut(space).on_frequency(frame, requested);
        Ok(())
    }

    /// Processes an IMMEDIATE_ACK frame.
    pub(super) fn receive_immediate_ack(&mut self, space: SpaceId) -> Result<(), TransportError> {
        if self.config.min_ack_delay.is_none() {
            return Err(NOT_NEGOTIATED);
        }
        self.received.get_mut(space).on_immediate_ack();
        Ok(())
    }
}

const NOT_NEGOTIATED: TransportError = TransportError::rule(
    TransportErrorCode::PROTOCOL_VIOLATION,
    "ACK_FREQUENCY or IMMEDIATE_ACK without the transport parameter min_ack_delay",
    "draft-ietf-quic-ack-frequency §3",
);
