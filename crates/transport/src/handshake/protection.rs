//! Packet protection (RFC 9001 §5, §6).

mod application;
mod early;
mod seal_counter;

use core::time::Duration;

use application::{ApplicationKeys, Phase};
use clearway_units::Timestamp;
use clearway_wire::{PacketNumber, TransportErrorCode};
use early::EarlyKeys;
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Keys, PacketKey};
use seal_counter::SealCounter;

use super::session::KeySchedule;
use crate::{SpaceId, TransportError};

/// The offset of the sample from the start of the Packet Number field, assuming a four-byte packet
/// number (§5.4.2).
const SAMPLE_OFFSET: usize = PacketNumber::MAX_ENCODED_LEN;

/// The keys of all packet number spaces.
pub(crate) struct Protection {
    initial: Option<Box<FixedKeys>>,
    /// The Initial keys of another version: on a server that has switched versions, the keys of the
    /// client's first flight; on a client, the keys of a version to which the server may switch
    /// (RFC 9369 §4.1).
    other_initial: Option<Box<FixedKeys>>,
    handshake: Option<Box<FixedKeys>>,
    early: Option<Box<EarlyKeys>>,
    application: Option<ApplicationKeys>,
    /// The first 1-RTT packet that was protected.
    first_application: Option<PacketNumber>,
    /// 1-RTT packets are not decrypted before the handshake is complete (§5.7).
    is_handshake_complete: bool,
    /// The number of received packets that failed authentication, over all keys (§6.6).
    authentication_failures: u64,
    probe_timeout: Duration,
    update_after: Option<u64>,
}

/// Keys that are not updated.
struct FixedKeys {
    keys: Keys,
    sealed: SealCounter,
}

impl FixedKeys {
    fn new(keys: Keys) -> Box<Self> {
        Box::new(Self { keys, sealed: SealCounter::default() })
    }

    fn sealing(&mut self) -> Result<(&dyn PacketKey, &dyn HeaderProtectionKey), TransportError> {
        self.sealed.count(&*self.keys.local.packet)?;
        Ok((&*self.keys.local.packet, &*self.keys.local.header))
    }
}

/// A packet whose protection was removed.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Opened<'a> {
    /// The decoded packet number.
    pub(crate) number: PacketNumber,
    /// The frames.
    pub(crate) payload: &'a [u8],
    /// Whether the reserved bits are nonzero: a PROTOCOL_VIOLATION (RFC 9000 §17.2, §17.3.1).
    pub(crate) reserved_bits_set: bool,
    /// Whether this packet initiated a key update.
    pub(crate) key_phase_changed: bool,
    /// Whether the packet was protected with the previous keys.
    pub(crate) with_previous_keys: bool,
}

/// The reason why a packet cannot be decrypted. The packet's bytes have been modified, unless the
/// variant says otherwise.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum OpenError {
    /// The keys are not available, or no longer available. The packet is unchanged.
    NoKeys,
    /// The packet is too short for a header protection sample (RFC 9001 §5.4.2). It is unchanged.
    TooShort,
    /// The packet is damaged or not from the peer, and has to be dropped.
    Authentication,
    /// The connection has to be closed because of this error.
    Close(TransportError),
}

/// A packet whose header protection was removed.
struct Unprotected {
    number: PacketNumber,
    payload_offset: usize,
    first_byte: u8,
}

impl Unprotected {
    fn is_long(&self) -> bool {
        self.first_byte & 0x80 != 0
    }

    fn key_phase(&self) -> bool {
        self.first_byte & 0x04 != 0
    }

    fn reserved_bits_set(&self) -> bool {
        self.first_byte & if self.is_long() { 0x0c } else { 0x18 } != 0
    }
}

impl Protection {
    /// Creates an empty set of keys. The probe timeout is assumed to be one second until it is set.
    pub(crate) fn new() -> Self {
        Self {
            initial: None,
            other_initial: None,
            handshake: None,
            early: None,
            application: None,
            first_application: None,
            is_handshake_complete: false,
            authentication_failures: 0,
            probe_timeout: Duration::from_secs(1),
            update_after: None,
        }
    }

    /// Installs the keys of Initial or Handshake packets. Does nothing for 1-RTT packets: see
    /// [`Protection::install_application`].
    pub(crate) fn install(&mut self, space: SpaceId, keys: Keys) {
        match space {
            SpaceId::Initial => self.initial = Some(FixedKeys::new(keys)),
            SpaceId::Handshake => self.handshake = Some(FixedKeys::new(keys)),
            SpaceId::Application => {}
        }
    }

    /// Installs the Initial keys of another version, which are only used to decrypt packets.
    pub(crate) fn install_other_initial(&mut self, keys: Keys) {
        self.other_initial = Some(FixedKeys::new(keys));
    }

    /// Returns whether there are Initial keys of another version.
    pub(crate) fn has_other_initial(&self) -> bool {
        self.other_initial.is_some()
    }

    /// Swaps the Initial keys with those of the other version.
    pub(crate) fn exchange_initial(&mut self) {
        core::mem::swap(&mut self.initial, &mut self.other_initial);
    }

    /// Discards the Initial keys of the other version.
    pub(crate) fn discard_other_initial(&mut self) {
        self.other_initial = None;
    }

    /// Installs the 0-RTT keys. A client protects packets with them, and a server decrypts packets.
    pub(crate) fn install_early(&mut self, keys: DirectionalKeys) {
        self.early = Some(Box::new(EarlyKeys::new(keys)));
    }

    /// Returns whether there are 0-RTT keys.
    pub(crate) fn has_early(&self) -> bool {
        self.early.is_some()
    }

    /// Discards the 0-RTT keys (§4.9.3).
    pub(crate) fn discard_early(&mut self) {
        self.early = None;
    }

    /// Returns whether `number` is the number of a 1-RTT packet sent by this endpoint, or a later
    /// one; 0-RTT packets have lower numbers.
    pub(crate) fn is_application_packet(&self, number: PacketNumber) -> bool {
        self.first_application.is_some_and(|first| number >= first)
    }

    /// Installs the 1-RTT keys and the schedule of their updates.
    pub(crate) fn install_application(&mut self, keys: Keys, next: Box<dyn KeySchedule>) {
        self.application = Some(ApplicationKeys::new(keys, next));
    }

    /// Allows decryption of 1-RTT packets, because the handshake is complete (§5.7).
    pub(crate) fn on_handshake_complete(&mut self) {
        self.is_handshake_complete = true;
    }

    /// Discards the keys of `space` (§4.9).
    pub(crate) fn discard(&mut self, space: SpaceId) {
        match space {
            SpaceId::Initial => {
                self.initial = None;
                self.other_initial = None;
            }
            SpaceId::Handshake => self.handshake = None,
            SpaceId::Application => self.application = None,
        }
    }

    /// Returns whether packets can be sent in `space`.
    pub(crate) fn can_seal(&self, space: SpaceId) -> bool {
        match space {
            SpaceId::Initial => self.initial.is_some(),
            SpaceId::Handshake => self.handshake.is_some(),
            SpaceId::Application => self.application.is_some(),
        }
    }

    /// Returns whether packets in `space` can be decrypted.
    pub(crate) fn can_open(&self, space: SpaceId) -> bool {
        self.can_seal(space) && (space != SpaceId::Application || self.is_handshake_complete)
    }

    /// Sets the current probe timeout. Old keys are kept for three probe timeouts, and key updates
    /// are at least that far apart (§6.5).
    pub(crate) fn set_probe_timeout(&mut self, probe_timeout: Duration) {
        self.probe_timeout = probe_timeout;
    }

    /// Sets the number of packets after which keys are updated, unless the AEAD requires it earlier.
    pub(crate) fn set_update_after(&mut self, packets: Option<u64>) {
        self.update_after = packets;
    }

    /// Returns the number of received packets that failed authentication.
    pub(crate) fn authentication_failures(&self) -> u64 {
        self.authentication_failures
    }

    /// Protects a packet in place. `packet` consists of the header, the payload and room for the
    /// tag. The packet number and the payload together have at least four bytes.
    ///
    /// # Errors
    /// Returns AEAD_LIMIT_REACHED when the keys are used up (§6.6); INTERNAL_ERROR if the packet is
    /// malformed or there are no keys.
    pub(crate) fn seal(
        &mut self,
        space: SpaceId,
        number: PacketNumber,
        packet_number_offset: usize,
        payload_offset: usize,
        packet: &mut [u8],
    ) -> Result<(), TransportError> {
        let (packet_key, header_key) = match space {
            SpaceId::Initial => self.initial.as_mut().ok_or(CANNOT_SEAL)?.sealing()?,
            SpaceId::Handshake => self.handshake.as_mut().ok_or(CANNOT_SEAL)?.sealing()?,
            SpaceId::Application => {
                self.first_application.get_or_insert(number);
                self.application.as_mut().ok_or(CANNOT_SEAL)?.sealing(number)?
            }
        };
        encrypt(packet_key, number, payload_offset, packet).ok_or(CANNOT_SEAL)?;
        protect_header(header_key, packet_number_offset, packet).ok_or(CANNOT_SEAL)
    }

    /// Removes the protection of a packet in place. `largest_received` is the largest packet number
    /// in the packet's space.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub(crate) fn open<'a>(
        &mut self,
        space: SpaceId,
        now: Timestamp,
        largest_received: Option<PacketNumber>,
        packet_number_offset: usize,
        packet: &'a mut [u8],
    ) -> Result<Opened<'a>, OpenError> {
        if !self.can_open(space) {
            return Err(OpenError::NoKeys);
        }
        if space == SpaceId::Application
            && let Some(keys) = &mut self.application
        {
            keys.prepare(now, self.probe_timeout);
        }
        let header_key = match space {
            SpaceId::Initial => self.initial.as_ref().map(|fixed| &*fixed.keys.remote.header),
            SpaceId::Handshake => self.handshake.as_ref().map(|fixed| &*fixed.keys.remote.header),
            SpaceId::Application => {
                self.application.as_ref().and_then(ApplicationKeys::remote_header)
            }
        };
        let header_key = header_key.ok_or(OpenError::NoKeys)?;
        let header = unprotect_header(header_key, packet_number_offset, largest_received, packet)
            .ok_or(OpenError::TooShort)?;
        let (phase, packet_key) = match space {
            SpaceId::Initial => (Phase::Current, self.initial.as_deref().map(remote_packet_key)),
            SpaceId::Handshake => {
                (Phase::Current, self.handshake.as_deref().map(remote_packet_key))
            }
            SpaceId::Application => self
                .application
                .as_mut()
                .and_then(|keys| keys.opening(header.key_phase(), header.number))
                .map_or((Phase::Current, None), |(phase, key)| (phase, Some(key))),
        };
        let packet_key = packet_key.ok_or(OpenError::NoKeys)?;
        let integrity_limit = packet_key.integrity_limit();
        match decrypt(packet_key, &header, packet) {
            Some(payload) => self.on_opened(space, phase, &header, now, payload),
            None => Err(self.on_authentication_failure(integrity_limit)),
        }
    }

    /// Opens a packet like [`Protection::open`], with the Initial keys of the other version.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub(crate) fn open_other_initial<'a>(
        &mut self,
        now: Timestamp,
        largest_received: Option<PacketNumber>,
        packet_number_offset: usize,
        packet: &'a mut [u8],
    ) -> Result<Opened<'a>, OpenError> {
        self.exchange_initial();
        let space = SpaceId::Initial;
        let opened = self.open(space, now, largest_received, packet_number_offset, packet);
        self.exchange_initial();
        opened
    }

    fn on_opened<'a>(
        &mut self,
        space: SpaceId,
        phase: Phase,
        header: &Unprotected,
        now: Timestamp,
        payload: &'a [u8],
    ) -> Result<Opened<'a>, OpenError> {
        let number = header.number;
        if space == SpaceId::Application
            && let Some(early) = &mut self.early
        {
            early.on_application_packet(now, self.probe_timeout);
        }
        let key_phase_changed = match &mut self.application {
            Some(keys) if space == SpaceId::Application => {
                keys.on_opened(phase, number, now, self.probe_timeout).map_err(OpenError::Close)?
            }
            _ => false,
        };
        Ok(Opened {
            number,
            payload,
            reserved_bits_set: header.reserved_bits_set(),
            key_phase_changed,
            with_previous_keys: phase == Phase::Previous,
        })
    }

    fn on_authentication_failure(&mut self, integrity_limit: u64) -> OpenError {
        self.authentication_failures = self.authentication_failures.saturating_add(1);
        if self.authentication_failures > integrity_limit {
            return OpenError::Close(TransportError::rule(
                TransportErrorCode::AEAD_LIMIT_REACHED,
                "too many packets failed authentication",
                "RFC 9001 §6.6",
            ));
        }
        OpenError::Authentication
    }

    /// Releases the 1-RTT keys of an idle connection until the next packet, if the schedule can
    /// provide them again.
    pub(crate) fn compact(&mut self) {
        if let Some(keys) = &mut self.application {
            keys.compact(self.update_after);
        }
    }

    /// Discards all keys, because a draining connection sends and receives nothing more.
    pub(crate) fn end(&mut self) {
        self.initial = None;
        self.other_initial = None;
        self.handshake = None;
        self.early = None;
        if let Some(keys) = &mut self.application {
            keys.end();
        }
    }

    /// Returns the Key Phase bit of packets that are sent now.
    pub(crate) fn key_phase(&self) -> bool {
        self.application.as_ref().is_some_and(ApplicationKeys::key_phase)
    }

    /// Returns the number of key updates, by either side.
    pub(crate) fn key_updates(&self) -> u64 {
        self.application.as_ref().map_or(0, ApplicationKeys::generation)
    }

    /// Returns whether the current 1-RTT keys have protected so many packets that an update is due.
    pub(crate) fn is_update_due(&self) -> bool {
        self.application.as_ref().is_some_and(|keys| keys.is_update_due(self.update_after))
    }

    /// Updates the 1-RTT keys if this is currently allowed: the handshake is confirmed, the peer
    /// has acknowledged a packet of this key phase, and, after an earlier update, three probe
    /// timeouts have passed since that acknowledgment (§6.1, §6.5). Returns whether the keys were
    /// updated.
    pub(crate) fn initiate_update(&mut self, now: Timestamp, handshake_confirmed: bool) -> bool {
        let probe_timeout = self.probe_timeout;
        handshake_confirmed
            && self
                .application
                .as_mut()
                .is_some_and(|keys| keys.initiate_update(now, probe_timeout))
    }

    /// Handles the acknowledgment of packet `number` in `space`; it suffices to report the largest
    /// newly acknowledged packet. `with_previous_keys` states whether the packet with the ACK frame
    /// used the previous keys.
    ///
    /// # Errors
    /// Returns KEY_UPDATE_ERROR if the peer acknowledges a key update without updating its own keys
    /// (§6.2).
    pub(crate) fn on_acknowledged(
        &mut self,
        now: Timestamp,
        space: SpaceId,
        number: PacketNumber,
        with_previous_keys: bool,
    ) -> Result<(), TransportError> {
        match &mut self.application {
            Some(keys) if space == SpaceId::Application => {
                keys.on_acknowledged(now, number, with_previous_keys)
            }
            _ => Ok(()),
        }
    }

    /// Returns when [`Protection::on_deadline`] has to be called.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let application = self.application.as_ref().and_then(ApplicationKeys::deadline);
        let early = self.early.as_ref().and_then(|keys| keys.deadline());
        application.into_iter().chain(early).min()
    }

    /// Discards keys that are no longer needed.
    pub(crate) fn on_deadline(&mut self, now: Timestamp) {
        if let Some(keys) = &mut self.application {
            keys.on_deadline(now);
        }
        let is_due = |keys: &EarlyKeys| keys.deadline().is_some_and(|deadline| deadline <= now);
        if self.early.as_deref().is_some_and(is_due) {
            self.early = None;
        }
    }
}

const CANNOT_SEAL: TransportError = TransportError::internal("a packet cannot be sealed");

fn remote_packet_key(fixed: &FixedKeys) -> &dyn PacketKey {
    &*fixed.keys.remote.packet
}

fn encrypt(
    key: &dyn PacketKey,
    number: PacketNumber,
    payload_offset: usize,
    packet: &mut [u8],
) -> Option<()> {
    let payload_end = packet.len().checked_sub(key.tag_len())?;
    let (packet, tag_room) = packet.split_at_mut_checked(payload_end)?;
    let (header, payload) = packet.split_at_mut_checked(payload_offset)?;
    let tag = key.encrypt_in_place(number.get(), header, payload).ok()?;
    let tag = tag.as_ref().get(..tag_room.len())?;
    tag_room.copy_from_slice(tag);
    Some(())
}

fn decrypt<'a>(
    key: &dyn PacketKey,
    header: &Unprotected,
    packet: &'a mut [u8],
) -> Option<&'a [u8]> {
    let (header_bytes, payload) = packet.split_at_mut_checked(header.payload_offset)?;
    key.decrypt_in_place(header.number.get(), header_bytes, payload).ok()
}

/// Returns the first byte, the four bytes of the packet number field, and the sample.
fn header_protection_parts<'a>(
    key: &dyn HeaderProtectionKey,
    packet_number_offset: usize,
    packet: &'a mut [u8],
) -> Option<(&'a mut u8, &'a mut [u8; SAMPLE_OFFSET], &'a [u8])> {
    let sample_offset = packet_number_offset.checked_add(SAMPLE_OFFSET)?;
    let (header, rest) = packet.split_at_mut_checked(sample_offset)?;
    let (before, number) = header.split_last_chunk_mut::<SAMPLE_OFFSET>()?;
    Some((before.first_mut()?, number, rest.get(..key.sample_len())?))
}

fn protect_header(
    key: &dyn HeaderProtectionKey,
    packet_number_offset: usize,
    packet: &mut [u8],
) -> Option<()> {
    let (first, number, sample) = header_protection_parts(key, packet_number_offset, packet)?;
    key.encrypt_in_place(sample, first, number).ok()
}

fn unprotect_header(
    key: &dyn HeaderProtectionKey,
    packet_number_offset: usize,
    largest_received: Option<PacketNumber>,
    packet: &mut [u8],
) -> Option<Unprotected> {
    let (first, number, sample) = header_protection_parts(key, packet_number_offset, packet)?;
    key.decrypt_in_place(sample, first, number).ok()?;
    let first_byte = *first;
    let number_len = usize::from(first_byte & 0x03).saturating_add(1);
    let number = PacketNumber::decode_truncated(number.get(..number_len)?, largest_received);
    let payload_offset = packet_number_offset.checked_add(number_len)?;
    Some(Unprotected { number, payload_offset, first_byte })
}

#[cfg(test)]
#[path = "protection_tests.rs"]
mod tests;
