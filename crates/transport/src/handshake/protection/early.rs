//! The 0-RTT keys (RFC 9001 §5.6).

use core::time::Duration;

use clearway_units::Timestamp;
use clearway_wire::PacketNumber;
use rustls::quic::DirectionalKeys;

use super::seal_counter::SealCounter;
use super::{CANNOT_SEAL, OpenError, Opened, Protection};
use super::{decrypt, encrypt, protect_header, unprotect_header};
use crate::TransportError;

/// The keys of the client's direction; the server sends no 0-RTT packets. They are never updated.
pub(super) struct EarlyKeys {
    keys: DirectionalKeys,
    sealed: SealCounter,
    /// The time at which a server discards the keys; set once it has received a 1-RTT packet.
    discard_at: Option<Timestamp>,
}

/// The number of probe timeouts after the first 1-RTT packet for which a server keeps the keys, for
/// reordered packets (§4.9.3).
const KEPT_PROBE_TIMEOUTS: u32 = 3;

impl EarlyKeys {
    pub(super) fn new(keys: DirectionalKeys) -> Self {
        Self { keys, sealed: SealCounter::default(), discard_at: None }
    }

    /// Handles the receipt of a 1-RTT packet.
    pub(super) fn on_application_packet(&mut self, now: Timestamp, probe_timeout: Duration) {
        self.discard_at
            .get_or_insert_with(|| now + probe_timeout.saturating_mul(KEPT_PROBE_TIMEOUTS));
    }

    /// Returns when the keys have to be discarded.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.discard_at
    }
}

impl Protection {
    /// Protects a 0-RTT packet like [`Protection::seal`].
    ///
    /// # Errors
    /// Returns AEAD_LIMIT_REACHED when the keys are used up; INTERNAL_ERROR if the packet is
    /// malformed or there are no keys.
    pub(crate) fn seal_early(
        &mut self,
        number: PacketNumber,
        packet_number_offset: usize,
        payload_offset: usize,
        packet: &mut [u8],
    ) -> Result<(), TransportError> {
        let early = self.early.as_mut().ok_or(CANNOT_SEAL)?;
        early.sealed.count(&*early.keys.packet)?;
        encrypt(&*early.keys.packet, number, payload_offset, packet).ok_or(CANNOT_SEAL)?;
        protect_header(&*early.keys.header, packet_number_offset, packet).ok_or(CANNOT_SEAL)
    }

    /// Removes the protection of a 0-RTT packet like [`Protection::open`]. `largest_received` is
    /// the largest packet number in the Application space.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub(crate) fn open_early<'a>(
        &mut self,
        largest_received: Option<PacketNumber>,
        packet_number_offset: usize,
        packet: &'a mut [u8],
    ) -> Result<Opened<'a>, OpenError> {
        let keys = self.early.as_ref().map(|early| &early.keys).ok_or(OpenError::NoKeys)?;
        let header =
            unprotect_header(&*keys.header, packet_number_offset, largest_received, packet)
                .ok_or(OpenError::TooShort)?;
        let integrity_limit = keys.packet.integrity_limit();
        match decrypt(&*keys.packet, &header, packet) {
            Some(payload) => Ok(Opened {
                number: header.number,
                payload,
                reserved_bits_set: header.reserved_bits_set(),
                key_phase_changed: false,
                with_previous_keys: false,
            }),
            None => Err(self.on_authentication_failure(integrity_limit)),
        }
    }
}
