use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Secrets};

use super::packet::{Level, Sealing};

/// The keys of all encryption levels.
#[derive(Default)]
pub(super) struct AllKeys {
    pub(super) initial: Option<Keys>,
    /// A client's keys for sending 0-RTT packets, or a server's for receiving them.
    pub(super) early: Option<DirectionalKeys>,
    pub(super) handshake: Option<Keys>,
    pub(super) application: Option<Application>,
}

/// The keys of 1-RTT packets for the current, previous and next key phase (RFC 9001 §6).
pub(super) struct Application {
    current: Keys,
    /// The keys of the previous phase.
    previous: Option<PacketKeySet>,
    next: PacketKeySet,
    secrets: Secrets,
    /// The current key phase.
    pub(super) phase: bool,
}

impl Application {
    pub(super) fn new(keys: Keys, mut secrets: Secrets) -> Self {
        let next = secrets.next_packet_keys();
        Self { current: keys, previous: None, next, secrets, phase: false }
    }

    /// Switches to the next key phase.
    pub(super) fn update(&mut self) {
        let after = self.secrets.next_packet_keys();
        let next = core::mem::replace(&mut self.next, after);
        let local = core::mem::replace(&mut self.current.local.packet, next.local);
        let remote = core::mem::replace(&mut self.current.remote.packet, next.remote);
        self.previous = Some(PacketKeySet { local, remote });
        self.phase = !self.phase;
    }

    /// Returns the keys that may protect a received packet with this key phase, in the order in
    /// which to try them. The flag is set for the keys of the next phase.
    pub(super) fn remote(&self, phase: bool) -> impl Iterator<Item = (&dyn PacketKey, bool)> {
        let current = (phase == self.phase).then_some((&*self.current.remote.packet, false));
        let other = phase != self.phase;
        let previous = self.previous.as_ref().filter(|_| other).map(|keys| (&*keys.remote, false));
        let next = other.then_some((&*self.next.remote, true));
        current.into_iter().chain(previous).chain(next)
    }

    pub(super) fn remote_header(&self) -> &dyn HeaderProtectionKey {
        &*self.current.remote.header
    }
}

impl AllKeys {
    /// Returns whether packets of `level` can be sent.
    pub(super) fn can_send(&self, level: Level) -> bool {
        self.local(level, Sealing::Current).is_some()
    }

    /// Returns the keys for sending packets of `level`.
    pub(super) fn local(
        &self,
        level: Level,
        sealing: Sealing,
    ) -> Option<(&dyn HeaderProtectionKey, &dyn PacketKey)> {
        fn both(keys: &DirectionalKeys) -> (&dyn HeaderProtectionKey, &dyn PacketKey) {
            (&*keys.header, &*keys.packet)
        }
        match (level, sealing) {
            (_, Sealing::Initial) | (Level::Initial, _) => {
                self.initial.as_ref().map(|keys| both(&keys.local))
            }
            (_, Sealing::Handshake) | (Level::Handshake, _) => {
                self.handshake.as_ref().map(|keys| both(&keys.local))
            }
            (Level::ZeroRtt, _) => self.early.as_ref().map(both),
            (Level::OneRtt, _) => {
                let keys = self.application.as_ref()?;
                let header = &*keys.current.local.header;
                let packet = match sealing {
                    Sealing::NextPhase => &*keys.next.local,
                    Sealing::PreviousPhase => &*keys.previous.as_ref()?.local,
                    _ => &*keys.current.local.packet,
                };
                Some((header, packet))
            }
        }
    }
}
