//! Consistency checks of the parts' cached values.

use super::Connection;

/// A connection with at most this many packets, streams and datagrams in total is checked on every
/// call. A connection with n of them is checked on one call in n on average, because the check
/// reads all of them.
const CHEAP: usize = 128;

impl Connection {
    /// Checks that every lookup table, sum, minimum and count of the parts equals its recomputed
    /// value. Runs in builds with debug assertions, at the beginning and the end of
    /// [`transmit`](Self::transmit), and therefore after every call.
    ///
    /// # Panics
    /// If a value is inconsistent, which is a bug in this crate.
    pub(super) fn check_caches(&self) {
        if self.lifecycle.is_closed() || self.outgoing.awaits_kernel || !self.is_cheap_to_check() {
            return;
        }
        if let Some(recovery) = self.recovery.unpacked() {
            recovery.check_caches();
        }
        if let Some(streams) = self.streams.unpacked() {
            streams.check_caches();
        }
        self.datagrams.check_caches();
        self.received.iter().for_each(|(_, received)| received.check_caches());
    }

    fn is_cheap_to_check(&self) -> bool {
        let packets = self.recovery.unpacked().map_or(0, |recovery| recovery.remembered());
        let streams =
            self.streams.unpacked().map_or(0, |streams| streams.statistics().open as usize);
        let size = packets.saturating_add(streams).saturating_add(self.datagrams.waiting());
        size <= CHEAP || self.counters.packets_opened.checked_rem(size as u64) == Some(0)
    }
}
