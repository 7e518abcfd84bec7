use core::time::Duration;

use clearway_units::Timestamp;
use clearway_wire::{PacketNumber, TransportErrorCode};
use rustls::quic::{HeaderProtectionKey, Keys, PacketKey, PacketKeySet};

use super::super::packet_keys::unusable_key;
use super::super::session::{KeySchedule, PhaseKeys};
use super::CANNOT_SEAL;
use super::seal_counter::SealCounter;
use crate::TransportError;

/// The 1-RTT keys of the current key phase, of the next phase, and temporarily of the previous
/// phase (RFC 9001 §6).
pub(super) struct ApplicationKeys {
    /// The keys ready for use; `None` while the connection is idle.
    ready: Option<Box<ReadyKeys>>,
    previous: Option<Box<PreviousKeys>>,
    schedule: Box<dyn KeySchedule>,
    /// The number of updates. Its lowest bit is the key phase.
    generation: u64,
    sealed: SealCounter,
    /// The first packet sent in this phase.
    first_sealed: Option<PacketNumber>,
    /// The time at which the peer first acknowledged a packet of this phase.
    acknowledged_at: Option<Timestamp>,
    received: Option<ReceivedWindow>,
    /// The time at which the keys of the second phase are derived: a probe timeout after the first
    /// packet was decrypted, as §6.3 allows after a key update. Many connections end before that
    /// time. Keys that are needed earlier are derived on demand.
    next_due: Option<Timestamp>,
}

/// Keys that are ready for use; they take more than three kilobytes.
struct ReadyKeys {
    local_header: Box<dyn HeaderProtectionKey>,
    remote_header: Box<dyn HeaderProtectionKey>,
    local: Box<dyn PacketKey>,
    remote: Box<dyn PacketKey>,
    /// The keys of the next phase; `None` initially.
    next: Option<NextKeys>,
}

/// The packet keys of the next phase.
struct NextKeys {
    /// The key for receiving, derived in advance so that a packet of the next phase takes no more
    /// time than any other (§6.3).
    remote: Box<dyn PacketKey>,
    /// The key for sending; `None` after an idle period, until needed.
    local: Option<Box<dyn PacketKey>>,
}

impl ReadyKeys {
    fn new(keys: Keys, next: Option<NextKeys>) -> Box<Self> {
        Box::new(Self {
            local_header: keys.local.header,
            remote_header: keys.remote.header,
            local: keys.local.packet,
            remote: keys.remote.packet,
            next,
        })
    }
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
    /// The time at which the previous keys are discarded. Set once a packet of the current phase
    /// has been decrypted; until then, the keys must be kept (§6.1).
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
    pub(super) fn new(keys: Keys, schedule: Box<dyn KeySchedule>) -> Self {
        Self {
            ready: Some(ReadyKeys::new(keys, None)),
            previous: None,
            schedule,
            generation: 0,
            sealed: SealCounter::default(),
            first_sealed: None,
            acknowledged_at: None,
            received: None,
            next_due: None,
        }
    }

    pub(super) fn key_phase(&self) -> bool {
        self.generation & 1 == 1
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Releases the keys, if the schedule can provide them again and they will not be replaced
    /// soon. Otherwise, derives the keys of the next phase now, while the connection is idle.
    pub(super) fn compact(&mut self, update_after: Option<u64>) {
        if self.previous.is_some() || self.is_update_due(update_after) || self.ready.is_none() {
            return;
        }
        if self.schedule.keep_keys() {
            self.ready = None;
        } else {
            self.derive_next();
        }
    }

    /// Discards the keys, because no more packets are sent or received.
    pub(super) fn end(&mut self) {
        self.ready = None;
        self.previous = None;
    }

    /// Makes released keys ready again, before anything is known about the packet that needs them,
    /// so that the time that this takes reveals nothing about the packet (§6.3).
    #[inline]
    pub(super) fn wake(&mut self) {
        if self.ready.is_none() {
            self.make_ready_again();
        }
    }

    #[cold]
    fn make_ready_again(&mut self) {
        let keys = self.schedule.keys_again();
        self.ready = keys.map(|PhaseKeys { current, next_remote: remote }| {
            ReadyKeys::new(current, Some(NextKeys { remote, local: None }))
        });
    }

    /// Derives the keys for decrypting a packet about which nothing is known yet.
    #[inline]
    pub(super) fn prepare(&mut self, now: Timestamp, probe_timeout: Duration) {
        self.wake();
        if self.ready.as_ref().is_some_and(|ready| ready.next.is_none())
            && now >= *self.next_due.get_or_insert(now + probe_timeout)
        {
            self.derive_next();
        }
    }

    #[cold]
    fn derive_next(&mut self) {
        if let Some(ready) = &mut self.ready {
            ready.next.get_or_insert_with(|| next_keys(&mut *self.schedule));
        }
    }

    /// Returns the keys for protecting packet `number`, and counts the packet.
    pub(super) fn sealing(
        &mut self,
        number: PacketNumber,
    ) -> Result<(&dyn PacketKey, &dyn HeaderProtectionKey), TransportError> {
        self.wake();
        let ready = self.ready.as_ref().ok_or(CANNOT_SEAL)?;
        self.sealed.count(&*ready.local)?;
        self.first_sealed.get_or_insert(number);
        Ok((&*ready.local, &*ready.local_header))
    }

    /// Returns the peer's header protection key; `None` while the keys are released.
    pub(super) fn remote_header(&self) -> Option<&dyn HeaderProtectionKey> {
        self.ready.as_ref().map(|ready| &*ready.remote_header)
    }

    /// Returns the keys for a received packet, according to its key phase and number (§6.5).
    /// Decryption is always attempted, regardless of what is known about the packet, so that the
    /// time that this takes reveals nothing (§6.3).
    pub(super) fn opening(
        &mut self,
        key_phase: bool,
        number: PacketNumber,
    ) -> Option<(Phase, &dyn PacketKey)> {
        if key_phase == self.key_phase() {
            return Some((Phase::Current, &*self.ready.as_ref()?.remote));
        }
        let is_beyond_current = self.received.is_some_and(|received| number > received.highest);
        if self.previous.is_none() || is_beyond_current {
            self.derive_next();
            let next = self.ready.as_ref()?.next.as_ref()?;
            return Some((Phase::Next, &*next.remote));
        }
        self.previous.as_ref().map(|previous| (Phase::Previous, &*previous.remote))
    }

    /// Handles the decryption of packet `number` with the keys of `phase`. Returns whether the
    /// packet caused a key update.
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
                // Packets with higher numbers never use older keys (§6.4).
                let previous_highest = self.previous.as_ref().and_then(|keys| keys.highest);
                if previous_highest.is_some_and(|highest| highest > number) {
                    let violation = "a packet with older keys has a higher packet number";
                    return Err(key_update_error(violation, "RFC 9001 §6.4"));
                }
                self.note_received(number, now, probe_timeout);
            }
            Phase::Next => {
                if self.received.is_some_and(|received| received.highest > number) {
                    let violation = "a packet with older keys has a higher packet number";
                    return Err(key_update_error(violation, "RFC 9001 §6.4"));
                }
                // The peer may update again only after an acknowledgment in this phase (§6.2).
                if self.first_sealed.is_none() {
                    let violation = "the keys were updated twice without an acknowledgment";
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
            let violation = "old keys were used after newer keys";
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
        self.wake();
        self.derive_next();
        let Some(ready) = &mut self.ready else { return };
        let Some(next) = ready.next.take() else { return };
        let again = || self.schedule.next_local_again();
        ready.local = next.local.or_else(again).unwrap_or_else(unusable_key);
        ready.next = Some(next_keys(&mut *self.schedule));
        self.previous = Some(Box::new(PreviousKeys {
            remote: core::mem::replace(&mut ready.remote, next.remote),
            highest: self.received.map(|received| received.highest),
            discard_at: None,
        }));
        self.generation = self.generation.wrapping_add(1);
        self.sealed = SealCounter::default();
        self.first_sealed = None;
        self.acknowledged_at = None;
        self.received = None;
    }

    /// Handles the acknowledgment of packet `number`; the packet with the ACK frame used either the
    /// previous or the current keys.
    pub(super) fn on_acknowledged(
        &mut self,
        now: Timestamp,
        number: PacketNumber,
        with_previous_keys: bool,
    ) -> Result<(), TransportError> {
        if self.first_sealed.is_none_or(|first| number < first) {
            return Ok(());
        }
        // The peer received newer keys but did not update its own (§6.2).
        if with_previous_keys {
            let violation = "a key update was acknowledged with old keys";
            return Err(key_update_error(violation, "RFC 9001 §6.2"));
        }
        self.acknowledged_at.get_or_insert(now);
        Ok(())
    }

    /// Returns whether so many packets were protected with the current keys that an update is due.
    pub(super) fn is_update_due(&self, update_after: Option<u64>) -> bool {
        // Keys are not released while an update is due.
        let ready = self.ready.as_ref();
        ready.is_some_and(|ready| self.sealed.is_update_due(&*ready.local, update_after))
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

    /// Returns when the previous keys have to be discarded.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.previous.as_ref()?.discard_at
    }

    pub(super) fn on_deadline(&mut self, now: Timestamp) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.previous = None;
        }
    }
}

/// Returns the keys of the next phase.
fn next_keys(schedule: &mut dyn KeySchedule) -> NextKeys {
    let PacketKeySet { local, remote } = schedule.next_packet_keys();
    NextKeys { remote, local: Some(local) }
}

const fn key_update_error(violation: &'static str, section: &'static str) -> TransportError {
    TransportError::rule(TransportErrorCode::KEY_UPDATE_ERROR, violation, section)
}
