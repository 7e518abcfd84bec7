use core::time::Duration;

use clearway_units::Timestamp;
use clearway_wire::{PacketNumber, TransportErrorCode};
use rustls::quic::{HeaderProtectionKey, Keys, PacketKey, PacketKeySet};

use super::super::session::KeySchedule;
use super::seal_counter::SealCounter;
use crate::TransportError;

/// The keys of 1-RTT packets: of the current key phase, of the next, and for some time of the previous one
/// (RFC 9001 §6).
pub(super) struct ApplicationKeys {
    local_header: Box<dyn HeaderProtectionKey>,
    remote_header: Box<dyn HeaderProtectionKey>,
    local: Box<dyn PacketKey>,
    remote: Box<dyn PacketKey>,
    /// Derived in advance, so that a packet of the next phase takes no more time than any other (§6.3).
    next: PacketKeySet,
    previous: Option<PreviousKeys>,
    schedule: Box<dyn KeySchedule>,
    /// The number of updates. Its lowest bit is the key phase.
    generation: u64,
    sealed: SealCounter,
    /// The first packet sent in this phase.
    first_sealed: Option<PacketNumber>,
    /// When the peer first acknowledged a packet of this phase.
    acknowledged_at: Option<Timestamp>,
    received: Option<ReceivedWindow>,
}

/// The lowest and the highest packet number decrypted with the keys of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ReceivedWindow {
    lowest: PacketNumber,
    highest: PacketNumber,
}

struct PreviousKeys {
    remote: Box<dyn PacketKey>,
    /// The highest packet number decrypted with these keys.
    highest: Option<PacketNumber>,
    /// Set once a packet of the current phase was decrypted; until then the keys must be kept (§6.1).
    discard_at: Option<Timestamp>,
}

/// The keys that decrypt a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Previous,
    Current,
    Next,
}

impl ApplicationKeys {
    pub(super) fn new(keys: Keys, mut schedule: Box<dyn KeySchedule>) -> Self {
        let next = schedule.next_packet_keys();
        Self {
            local_header: keys.local.header,
            remote_header: keys.remote.header,
            local: keys.local.packet,
            remote: keys.remote.packet,
            next,
            previous: None,
            schedule,
            generation: 0,
            sealed: SealCounter::default(),
            first_sealed: None,
            acknowledged_at: None,
            received: None,
        }
    }

    pub(super) fn key_phase(&self) -> bool {
        self.generation & 1 == 1
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The keys for protecting packet `number`, which is counted.
    pub(super) fn sealing(
        &mut self,
        number: PacketNumber,
    ) -> Result<(&dyn PacketKey, &dyn HeaderProtectionKey), TransportError> {
        self.sealed.count(&*self.local)?;
        self.first_sealed.get_or_insert(number);
        Ok((&*self.local, &*self.local_header))
    }

    pub(super) fn remote_header(&self) -> &dyn HeaderProtectionKey {
        &*self.remote_header
    }

    /// The keys for a received packet, by its key phase and number (§6.5). Decryption is always attempted, whatever is
    /// known of the packet, so that the time it takes reveals nothing (§6.3).
    pub(super) fn opening(&self, key_phase: bool, number: PacketNumber) -> (Phase, &dyn PacketKey) {
        if key_phase == self.key_phase() {
            return (Phase::Current, &*self.remote);
        }
        let is_beyond_current = self.received.is_some_and(|received| number > received.highest);
        match &self.previous {
            Some(previous) if !is_beyond_current => (Phase::Previous, &*previous.remote),
            _ => (Phase::Next, &*self.next.remote),
        }
    }

    /// Packet `number` was decrypted with the keys of `phase`. Returns whether that updated the keys.
    pub(super) fn on_opened(
        &mut self,
        phase: Phase,
        number: PacketNumber,
        now: Timestamp,
        probe_timeout: Duration,
    ) -> Result<bool, TransportError> {
        match phase {
            Phase::Previous => self.on_opened_with_previous(number)?,
            Phase::Current => {
                // Higher packet numbers never have older keys (§6.4).
                let previous_highest = self.previous.as_ref().and_then(|keys| keys.highest);
                if previous_highest.is_some_and(|highest| highest > number) {
                    let violation = "older keys protect a higher packet number";
                    return Err(key_update_error(violation, "RFC 9001 §6.4"));
                }
                self.note_received(number, now, probe_timeout);
            }
            Phase::Next => {
                if self.received.is_some_and(|received| received.highest > number) {
                    let violation = "older keys protect a higher packet number";
                    return Err(key_update_error(violation, "RFC 9001 §6.4"));
                }
                // The peer may update again only after an acknowledgment in this phase (§6.2).
                if self.first_sealed.is_none() {
                    let violation = "the keys were updated without waiting";
                    return Err(key_update_error(violation, "RFC 9001 §6.2"));
                }
                self.rotate();
                self.note_received(number, now, probe_timeout);
            }
        }
        Ok(phase == Phase::Next)
    }

    fn on_opened_with_previous(&mut self, number: PacketNumber) -> Result<(), TransportError> {
        if self.received.is_some_and(|received| received.lowest < number) {
            let violation = "old keys were used after newer ones";
            return Err(key_update_error(violation, "RFC 9001 §6.4"));
        }
        if let Some(previous) = &mut self.previous {
            previous.highest = previous.highest.max(Some(number));
        }
        Ok(())
    }

    fn note_received(&mut self, number: PacketNumber, now: Timestamp, probe_timeout: Duration) {
        match &mut self.received {
            Some(received) => {
                received.lowest = received.lowest.min(number);
                received.highest = received.highest.max(number);
            }
            None => {
                self.received = Some(ReceivedWindow { lowest: number, highest: number });
                if let Some(previous) = &mut self.previous {
                    previous.discard_at = Some(now + probe_timeout.saturating_mul(3));
                }
            }
        }
    }

    /// Moves both directions to the next phase.
    fn rotate(&mut self) {
        let after_next = self.schedule.next_packet_keys();
        let next = core::mem::replace(&mut self.next, after_next);
        self.local = next.local;
        self.previous = Some(PreviousKeys {
            remote: core::mem::replace(&mut self.remote, next.remote),
            highest: self.received.map(|received| received.highest),
            discard_at: None,
        });
        self.generation = self.generation.wrapping_add(1);
        self.sealed = SealCounter::default();
        self.first_sealed = None;
        self.acknowledged_at = None;
        self.received = None;
    }

    /// The peer acknowledged packet `number`, in a packet with the previous keys or with the current ones.
    pub(super) fn on_acknowledged(
        &mut self,
        now: Timestamp,
        number: PacketNumber,
        with_previous_keys: bool,
    ) -> Result<(), TransportError> {
        if self.first_sealed.is_none_or(|first| number < first) {
            return Ok(());
        }
        // The peer received newer keys and did not update its own (§6.2).
        if with_previous_keys {
            let violation = "an update was acknowledged but not followed";
            return Err(key_update_error(violation, "RFC 9001 §6.2"));
        }
        self.acknowledged_at.get_or_insert(now);
        Ok(())
    }

    /// Whether so many packets were protected with the current keys that an update is due.
    pub(super) fn is_update_due(&self, update_after: Option<u64>) -> bool {
        self.sealed.is_update_due(&*self.local, update_after)
    }

    /// Updates the keys if §6.1 and §6.5 allow it now.
    pub(super) fn initiate_update(&mut self, now: Timestamp, probe_timeout: Duration) -> bool {
        let Some(acknowledged_at) = self.acknowledged_at else { return false };
        let is_first = self.generation == 0;
        if !is_first && now < acknowledged_at + probe_timeout.saturating_mul(3) {
            return false;
        }
        self.rotate();
        true
    }

    /// When the previous keys are to be discarded.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.previous.as_ref()?.discard_at
    }

    pub(super) fn on_deadline(&mut self, now: Timestamp) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.previous = None;
        }
    }
}

const fn key_update_error(violation: &'static str, section: &'static str) -> TransportError {
    TransportError::rule(TransportErrorCode::KEY_UPDATE_ERROR, violation, section)
}
