use core::time::Duration;

use clearway_units::Timestamp;
use clearway_wire::{PacketNumber, TransportErrorCode};
use rustls::quic::{HeaderProtectionKey, Keys, PacketKey, PacketKeySet};

use super::super::session::KeySchedule;
use super::seal_counter::SealCounter;
use crate::TransportError;

/// The keys of 1-RTT packets: the current phase, the next, and for a while the previous
/// (RFC 9001 §6).
pub(super) struct ApplicationKeys {
    local_header: Box<dyn HeaderProtectionKey>,
    remote_header: Box<dyn HeaderProtectionKey>,
    local: Box<dyn PacketKey>,
    remote: Box<dyn PacketKey>,
    /// Always at hand, so that an apparent update costs no more than any packet (§6.3).
    next: PacketKeySet,
    previous: Option<PreviousKeys>,
    schedule: Box<dyn KeySchedule>,
    /// How many updates there were; the key phase is its lowest bit.
    generation: u64,
    sealed: SealCounter,
    /// The first packet sent in this phase.
    first_sealed: Option<PacketNumber>,
    /// When the peer first acknowledged a packet of this phase.
    acknowledged_at: Option<Timestamp>,
    received: Option<ReceivedWindow>,
}

/// The lowest and the highest packet number opened with the keys of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ReceivedWindow {
    lowest: PacketNumber,
    highest: PacketNumber,
}

struct PreviousKeys {
    remote: Box<dyn PacketKey>,
    /// The highest packet number opened with these keys.
    highest: Option<PacketNumber>,
    /// Known once a packet of the current phase was opened; until then they must be kept (§6.1).
    discard_at: Option<Timestamp>,
}

/// Which keys open a packet.
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

    /// The keys to seal packet `number` with, counted as used.
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

    /// The keys for a received packet, by its key phase and number (§6.5). One of them is always
    /// tried, whatever is known about the packet, so that time tells nothing (§6.3).
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

    /// Packet `number` was opened with the keys of `phase`. Returns whether that updated the keys.
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
                // §6.4: higher packet numbers never have older keys.
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
                // The peer may update only when it has an acknowledgment from this phase (§6.2).
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

    /// The peer acknowledged packet `number`, in a packet with the previous keys or the current.
    pub(super) fn on_acknowledged(
        &mut self,
        now: Timestamp,
        number: PacketNumber,
        with_previous_keys: bool,
    ) -> Result<(), TransportError> {
        if self.first_sealed.is_none_or(|first| number < first) {
            return Ok(());
        }
        // §6.2: the peer saw newer keys and did not follow.
        if with_previous_keys {
            let violation = "an update was acknowledged but not followed";
            return Err(key_update_error(violation, "RFC 9001 §6.2"));
        }
        self.acknowledged_at.get_or_insert(now);
        Ok(())
    }

    /// Whether so much was sealed with the current keys that an update is due.
    pub(super) fn wants_update(&self, update_after: Option<u64>) -> bool {
        self.sealed.wants_update(&*self.local, update_after)
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
