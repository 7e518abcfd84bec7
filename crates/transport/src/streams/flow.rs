//! Flow control in both directions (RFC 9000 §4.1). The same two types serve a stream and the connection.

use core::time::Duration;

use clearway_units::Timestamp;
use clearway_units::packed::Pack;

/// The credit for sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pack)]
pub(super) struct SendCredit {
    limit: u64,
    used: u64,
    reported_at: Option<u64>,
}

impl SendCredit {
    /// A credit of `limit` bytes, of which none is used.
    pub(super) const fn new(limit: u64) -> Self {
        Self { limit, used: 0, reported_at: None }
    }

    /// The peer's limit: the total number of bytes that may be sent.
    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    /// The number of bytes used. For a stream, this is the offset of the first byte that was never sent.
    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    /// How many more bytes may be sent.
    pub(super) const fn available(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// Uses `bytes`. Returns whether the limit permits it, and changes nothing if not.
    #[must_use]
    pub(super) fn consume(&mut self, bytes: u64) -> bool {
        match self.used.checked_add(bytes).filter(|used| *used <= self.limit) {
            Some(used) => {
                self.used = used;
                true
            }
            None => false,
        }
    }

    /// Sets a new limit of the peer, and returns whether it is higher. A lower one comes from a late frame and is ignored
    /// (RFC 9000 §4.1).
    pub(super) fn raise(&mut self, limit: u64) -> bool {
        let rises = limit > self.limit;
        self.limit = self.limit.max(limit);
        rises
    }

    /// Whether a frame has to report that this limit blocks: once for each limit.
    pub(super) fn is_report_pending(&self) -> bool {
        self.available() == 0 && self.reported_at != Some(self.limit)
    }

    /// The frame was sent.
    pub(super) fn on_reported(&mut self) {
        self.reported_at = Some(self.limit);
    }

    /// The frame was lost.
    pub(super) fn on_report_lost(&mut self) {
        self.reported_at = None;
    }
}

/// The peer has exceeded a flow control limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Exceeded;

/// The credit that the peer gets, and how fast it is consumed.
///
/// The window adapts to the application: each time half of it is consumed in less than two round trips, it doubles. So it
/// settles at no less than four times what is consumed per round trip. The limit is raised with every eighth that is
/// consumed (RFC 9000 §4.2 leaves the frequency open): several updates in a row may be lost before the peer is blocked.
/// A peer that has hardly any credit left gets even less than that if the application waits for its data.
/// Each update that is lost doubles their frequency, each that arrives halves it again.
#[derive(Clone, Copy, Debug, Pack)]
pub(super) struct ReceiveWindow {
    window: u64,
    max_window: u64,
    limit: u64,
    received: u64,
    consumed: u64,
    tuned: Option<Tuned>,
    /// The divisor of the window that gives the bytes consumed between two updates of the limit.
    update_part: u64,
}

/// The state when the window was last compared with the consumed bytes.
#[derive(Clone, Copy, Debug, Pack)]
struct Tuned {
    at: Timestamp,
    consumed: u64,
}

/// If half a window is consumed in fewer round trips than this, the window is too small.
const TUNING_ROUND_TRIPS: u32 = 2;
/// The number of updates per window on a path that loses none of them.
const FEWEST_UPDATES: u64 = 8;
/// The number of updates per window on a path that loses nearly all: if nine of ten are lost, one window in a million has
/// none.
const MOST_UPDATES: u64 = 128;

/// What a window of less than [`FEWEST_UPDATES`] bytes grows to, in bytes: doubling would leave one of 0 as it is.
const LEAST_GROWN: u64 = 1024;

impl ReceiveWindow {
    /// A window of `initial` bytes, which the peer receives in the transport parameters.
    pub(super) fn new(initial: u64, max_window: u64) -> Self {
        Self {
            window: initial,
            max_window: max_window.max(initial),
            limit: initial,
            received: 0,
            consumed: 0,
            tuned: None,
            update_part: FEWEST_UPDATES,
        }
    }

    /// The limit to send to the peer.
    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes received, each counted once; for a stream, its highest offset.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    /// Bytes that were consumed.
    pub(super) const fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The size of the window, in bytes.
    pub(super) const fn window(&self) -> u64 {
        self.window
    }

    /// Whether `bytes` more are within the limit.
    pub(super) fn check(&self, bytes: u64) -> Result<(), Exceeded> {
        match self.received.checked_add(bytes) {
            Some(received) if received <= self.limit => Ok(()),
            _ => Err(Exceeded),
        }
    }

    /// Counts `bytes` more. To be called after [`Self::check`].
    pub(super) fn receive(&mut self, now: Timestamp, bytes: u64) -> Result<(), Exceeded> {
        self.check(bytes)?;
        self.received = self.received.checked_add(bytes).ok_or(Exceeded)?;
        self.tuned.get_or_insert(Tuned { at: now, consumed: self.consumed });
        Ok(())
    }

    /// Returns the credit of `bytes` that were received. The result is whether the limit rose.
    pub(super) fn consume(
        &mut self,
        now: Timestamp,
        round_trip: Option<Duration>,
        bytes: u64,
    ) -> bool {
        let consumed = self.consumed.checked_add(bytes).filter(|sum| *sum <= self.received);
        debug_assert!(consumed.is_some(), "credit is given back once, and only for what came");
        self.consumed = consumed.unwrap_or(self.received);
        self.tune(now, round_trip);
        let left = self.limit.saturating_sub(self.consumed);
        left <= self.window.saturating_sub(self.step()) && self.renew()
    }

    /// How many more bytes the peer may send.
    pub(super) const fn available(&self) -> u64 {
        self.limit.saturating_sub(self.received)
    }

    /// How much is consumed between two updates.
    fn step(&self) -> u64 {
        self.window.checked_div(self.update_part).unwrap_or_default()
    }

    /// Raises the limit by what was consumed, however little that is, if the peer has hardly any credit left. Returns whether
    /// the limit rose.
    pub(super) fn relieve(&mut self) -> bool {
        self.available() < self.step() && self.renew()
    }

    /// A frame with the limit was lost.
    pub(super) fn on_update_lost(&mut self) {
        self.update_part = self.update_part.saturating_mul(2).min(MOST_UPDATES);
    }

    /// A frame with the limit was acknowledged.
    pub(super) fn on_update_acknowledged(&mut self) {
        self.update_part = (self.update_part / 2).max(FEWEST_UPDATES);
    }

    /// Doubles the window if half of it was consumed in too short a time.
    fn tune(&mut self, now: Timestamp, round_trip: Option<Duration>) {
        let Some(tuned) = self.tuned else { return };
        if self.consumed.saturating_sub(tuned.consumed) < self.window / 2 {
            return;
        }
        self.tuned = Some(Tuned { at: now, consumed: self.consumed });
        let took = now.saturating_since(tuned.at);
        if round_trip.is_some_and(|rtt| took < rtt.saturating_mul(TUNING_ROUND_TRIPS)) {
            self.grow(self.window.saturating_mul(2));
        }
    }

    /// Makes the window at least `window` bytes, as far as its maximum permits.
    pub(super) fn grow(&mut self, window: u64) {
        self.window = self.window.max(window.min(self.max_window));
    }

    /// Sets the most that the window may be. A larger one shrinks to that; the limit stays until as much was consumed.
    pub(super) fn limit_window(&mut self, max_window: u64) {
        self.max_window = max_window;
        self.window = self.window.min(max_window);
    }

    /// The peer reports that it is blocked at `limit`. Returns whether a higher limit has to be sent: an earlier update may
    /// have been lost. If the application is not the cause, and the peer has sent nothing since, the window is too small
    /// for the updates that arrive, and doubles.
    pub(super) fn on_peer_blocked(&mut self, limit: u64) -> bool {
        let is_current = limit >= self.received;
        // Of a window of a few bytes, and of none, nothing is left.
        let little = (self.window / FEWEST_UPDATES).max(1);
        if is_current && limit.saturating_sub(self.consumed) < little {
            let is_tiny = self.window < FEWEST_UPDATES;
            self.grow(if is_tiny { LEAST_GROWN } else { self.window.saturating_mul(2) });
        }
        self.renew();
        limit < self.limit
    }

    /// Sets the limit to a window beyond what was consumed; returns whether that raised it. This is repeated when the
    /// limit is sent, so that the frame contains the highest possible limit.
    pub(super) fn renew(&mut self) -> bool {
        let limit = self.consumed.saturating_add(self.window).min(clearway_wire::VarInt::MAX.get());
        let rises = limit > self.limit;
        self.limit = self.limit.max(limit);
        rises
    }
}

/// Flow control of the connection as a whole.
#[derive(Debug, Pack)]
pub(super) struct ConnectionFlow {
    /// The peer's limit on all streams together.
    pub(super) send: SendCredit,
    /// This endpoint's limit on all streams together.
    receive: ReceiveWindow,
    /// The smoothed round-trip time, once there is one.
    pub(super) round_trip: Option<Duration>,
    /// Whether a MAX_DATA is to be sent.
    pub(super) pending_max_data: bool,
}

impl ConnectionFlow {
    /// The state before the peer's limit is known. `receive` is this endpoint's.
    pub(super) fn new(receive: ReceiveWindow) -> Self {
        Self { send: SendCredit::default(), receive, round_trip: None, pending_max_data: false }
    }

    /// This endpoint's limit.
    pub(super) const fn receive_window(&self) -> &ReceiveWindow {
        &self.receive
    }

    /// The limit of the MAX_DATA to send, if any.
    pub(super) fn pending_max_data(&mut self) -> Option<u64> {
        self.pending_max_data.then(|| {
            self.receive.renew();
            self.receive.limit()
        })
    }

    /// Counts `bytes` that were received.
    pub(super) fn receive(&mut self, now: Timestamp, bytes: u64) -> Result<(), Exceeded> {
        self.receive.receive(now, bytes)
    }

    /// Returns the credit of `bytes` that were read or are never going to be.
    pub(super) fn give_back(&mut self, now: Timestamp, bytes: u64) {
        self.pending_max_data |= self.receive.consume(now, self.round_trip, bytes);
    }

    /// See [`ReceiveWindow::relieve`].
    pub(super) fn relieve(&mut self) {
        self.pending_max_data |= self.receive.relieve();
    }

    /// Keeps the window half as large again as any stream's, so that one stream alone cannot use it up.
    pub(super) fn fit_stream_window(&mut self, window: u64) {
        self.receive.grow(window.saturating_add(window / 2));
    }

    /// The same for a stream's window that grew although nothing was read, so that the limit is not raised for another reason:
    /// a stream that is not read from here on would otherwise use up what the connection permits.
    pub(super) fn fit_grown_window(&mut self, window: u64) {
        self.fit_stream_window(window);
        self.pending_max_data |= self.receive.renew();
    }

    /// Sets the most that the connection's window may be.
    pub(super) fn limit_window(&mut self, max_window: u64) {
        self.receive.limit_window(max_window);
    }

    /// A MAX_DATA was lost.
    pub(super) fn on_max_data_lost(&mut self) {
        self.receive.on_update_lost();
        self.pending_max_data = true;
    }

    /// A MAX_DATA was acknowledged.
    pub(super) fn on_max_data_acknowledged(&mut self) {
        self.receive.on_update_acknowledged();
    }

    /// The peer reports that it is blocked at `limit`.
    pub(super) fn on_peer_blocked(&mut self, limit: u64) {
        self.pending_max_data |= self.receive.on_peer_blocked(limit);
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
