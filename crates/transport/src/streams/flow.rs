//! Flow control in both directions (RFC 9000 §4.1). The same two types serve a stream and the connection.

use core::time::Duration;

use clearway_units::Timestamp;
use clearway_units::packed::Pack;

/// Flow control credit for sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pack)]
pub(super) struct SendCredit {
    limit: u64,
    used: u64,
    reported_at: Option<u64>,
}

impl SendCredit {
    /// Creates an unused credit of `limit` bytes.
    pub(super) const fn new(limit: u64) -> Self {
        Self { limit, used: 0, reported_at: None }
    }

    /// Returns the peer's limit: the total number of bytes that may be sent.
    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the number of bytes used. For a stream, this is the offset of the first byte that
    /// was never sent.
    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    /// Returns how many more bytes may be sent.
    pub(super) const fn available(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// Uses `bytes`. If that would exceed the limit, changes nothing and returns false.
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

    /// Sets a new limit from the peer, and returns whether it is higher. A lower limit is from a
    /// reordered frame and is ignored (RFC 9000 §4.1).
    pub(super) fn raise(&mut self, limit: u64) -> bool {
        let rises = limit > self.limit;
        self.limit = self.limit.max(limit);
        rises
    }

    /// Returns whether a DATA_BLOCKED or STREAM_DATA_BLOCKED frame has to be sent: once per limit.
    pub(super) fn is_report_pending(&self) -> bool {
        self.available() == 0 && self.reported_at != Some(self.limit)
    }

    /// Records that the frame was sent.
    pub(super) fn on_reported(&mut self) {
        self.reported_at = Some(self.limit);
    }

    /// Records that the frame was lost.
    pub(super) fn on_report_lost(&mut self) {
        self.reported_at = None;
    }
}

/// The peer has exceeded a flow control limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Exceeded;

/// The credit granted to the peer, and how fast it is consumed.
///
/// The window adapts to the application: each time half of it is consumed in less than two round
/// trips, it doubles. It therefore settles at no less than four times the bytes consumed per round
/// trip. The limit is raised each time an eighth of the window is consumed (RFC 9000 §4.2 leaves
/// the frequency open): several updates in a row may be lost before the peer is blocked. A smaller
/// update is sent to a peer that has hardly any credit left if the application waits for its data.
/// Each update that is lost doubles the frequency, each that arrives halves it again.
#[derive(Clone, Copy, Debug, Pack)]
pub(super) struct ReceiveWindow {
    window: u64,
    max_window: u64,
    limit: u64,
    received: u64,
    consumed: u64,
    tuned: Option<Tuned>,
    /// The number of limit updates per window: the window divided by this is consumed between two
    /// updates.
    update_part: u64,
}

/// The state when the window was last compared with the consumed bytes.
#[derive(Clone, Copy, Debug, Pack)]
struct Tuned {
    at: Timestamp,
    consumed: u64,
}

/// The number of round trips that half a window must last. A window that is consumed faster is too
/// small.
const TUNING_ROUND_TRIPS: u32 = 2;
/// The number of updates per window on a path that loses none of them.
const FEWEST_UPDATES: u64 = 8;
/// The number of updates per window on a path that loses nearly all of them. If nine of ten are
/// lost, one window in a million loses all of its updates.
const MOST_UPDATES: u64 = 128;

/// The size to which a window of less than [`FEWEST_UPDATES`] bytes grows, in bytes: doubling would
/// leave a window of 0 unchanged.
const LEAST_GROWN: u64 = 1024;

impl ReceiveWindow {
    /// Creates a window of `initial` bytes, which is advertised to the peer in the transport
    /// parameters.
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

    /// Returns the limit to send to the peer.
    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the bytes received, each counted once; for a stream, its highest offset.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of bytes consumed.
    pub(super) const fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Returns the size of the window, in bytes.
    pub(super) const fn window(&self) -> u64 {
        self.window
    }

    /// Checks whether `bytes` more are within the limit.
    pub(super) fn check(&self, bytes: u64) -> Result<(), Exceeded> {
        match self.received.checked_add(bytes) {
            Some(received) if received <= self.limit => Ok(()),
            _ => Err(Exceeded),
        }
    }

    /// Counts `bytes` more, if they are within the limit.
    pub(super) fn receive(&mut self, now: Timestamp, bytes: u64) -> Result<(), Exceeded> {
        self.check(bytes)?;
        self.received = self.received.checked_add(bytes).ok_or(Exceeded)?;
        self.tuned.get_or_insert(Tuned { at: now, consumed: self.consumed });
        Ok(())
    }

    /// Returns to the peer the credit of `bytes` that it sent. Returns whether the limit rose.
    pub(super) fn consume(
        &mut self,
        now: Timestamp,
        round_trip: Option<Duration>,
        bytes: u64,
    ) -> bool {
        let consumed = self.consumed.checked_add(bytes).filter(|sum| *sum <= self.received);
        debug_assert!(consumed.is_some(), "credit is returned once, and only for received bytes");
        self.consumed = consumed.unwrap_or(self.received);
        self.tune(now, round_trip);
        let left = self.limit.saturating_sub(self.consumed);
        left <= self.window.saturating_sub(self.step()) && self.renew()
    }

    /// Returns how many more bytes the peer may send.
    pub(super) const fn available(&self) -> u64 {
        self.limit.saturating_sub(self.received)
    }

    /// Returns how many bytes are consumed between two updates.
    fn step(&self) -> u64 {
        self.window.checked_div(self.update_part).unwrap_or_default()
    }

    /// Raises the limit by the bytes consumed, however few, if the peer has hardly any credit left.
    /// Returns whether the limit rose.
    pub(super) fn replenish(&mut self) -> bool {
        self.available() < self.step() && self.renew()
    }

    /// Handles the loss of a frame with the limit.
    pub(super) fn on_update_lost(&mut self) {
        self.update_part = self.update_part.saturating_mul(2).min(MOST_UPDATES);
    }

    /// Handles the acknowledgment of a frame with the limit.
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

    /// Grows the window to at least `window` bytes, limited by its maximum.
    pub(super) fn grow(&mut self, window: u64) {
        self.window = self.window.max(window.min(self.max_window));
    }

    /// Sets the maximum size of the window. A larger window shrinks to that; the limit stays until
    /// enough has been consumed.
    pub(super) fn limit_window(&mut self, max_window: u64) {
        self.max_window = max_window;
        self.window = self.window.min(max_window);
    }

    /// Handles the peer's report that it is blocked at `limit`. Returns whether a higher limit has
    /// to be sent, since an earlier update may have been lost. If the application is not the cause,
    /// and the peer has sent nothing since, the window is too small for the updates that arrive,
    /// and doubles.
    pub(super) fn on_peer_blocked(&mut self, limit: u64) -> bool {
        let is_current = limit >= self.received;
        // A window of a few bytes or zero would round down to nothing.
        let little = (self.window / FEWEST_UPDATES).max(1);
        if is_current && limit.saturating_sub(self.consumed) < little {
            let is_tiny = self.window < FEWEST_UPDATES;
            self.grow(if is_tiny { LEAST_GROWN } else { self.window.saturating_mul(2) });
        }
        self.renew();
        limit < self.limit
    }

    /// Sets the limit to a window beyond the consumed bytes; returns whether that raised it. This
    /// is repeated when the limit is sent, so that the frame contains the highest possible limit.
    pub(super) fn renew(&mut self) -> bool {
        let limit = self.consumed.saturating_add(self.window).min(clearway_wire::VarInt::MAX.get());
        let rises = limit > self.limit;
        self.limit = self.limit.max(limit);
        rises
    }
}

/// Connection-level flow control.
#[derive(Debug, Pack)]
pub(super) struct ConnectionFlow {
    /// The peer's connection-level flow control limit (MAX_DATA).
    pub(super) send: SendCredit,
    /// This endpoint's connection-level flow control limit.
    receive: ReceiveWindow,
    /// The largest window that the application permits.
    max_window: u64,
    /// A lower limit that applies while memory is scarce.
    scarce_window: Option<u64>,
    /// The smoothed round-trip time; `None` until there is a sample.
    pub(super) round_trip: Option<Duration>,
    /// Whether a MAX_DATA frame has to be sent.
    pub(super) pending_max_data: bool,
}

impl ConnectionFlow {
    /// Creates the state before the peer's limit is known. `receive` is this endpoint's window.
    pub(super) fn new(receive: ReceiveWindow) -> Self {
        Self {
            send: SendCredit::default(),
            receive,
            max_window: receive.max_window,
            scarce_window: None,
            round_trip: None,
            pending_max_data: false,
        }
    }

    /// Returns this endpoint's window.
    pub(super) const fn receive_window(&self) -> &ReceiveWindow {
        &self.receive
    }

    /// Returns the limit of the MAX_DATA frame to send, if any.
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

    /// Returns the credit of `bytes` that were read or never will be.
    pub(super) fn return_credit(&mut self, now: Timestamp, bytes: u64) {
        self.pending_max_data |= self.receive.consume(now, self.round_trip, bytes);
    }

    /// See [`ReceiveWindow::replenish`].
    pub(super) fn replenish(&mut self) {
        self.pending_max_data |= self.receive.replenish();
    }

    /// Keeps the window at least 1.5 times as large as any stream's, so that one stream alone
    /// cannot use it up.
    pub(super) fn fit_stream_window(&mut self, window: u64) {
        self.receive.grow(window.saturating_add(window / 2));
    }

    /// Like [`Self::fit_stream_window`], for a stream whose window grew although nothing was read.
    /// Also raises the limit, which nothing else would do then: a stream that is no longer read
    /// could otherwise use up the connection's credit.
    pub(super) fn fit_grown_window(&mut self, window: u64) {
        self.fit_stream_window(window);
        self.pending_max_data |= self.receive.renew();
    }

    /// Sets or removes a limit on the connection's window that applies in addition to its maximum.
    pub(super) fn limit_window(&mut self, limit: Option<u64>) {
        self.scarce_window = limit;
        self.apply_maximum();
    }

    /// Sets the maximum size of the connection's window. A smaller window grows to `initial` bytes,
    /// as far as the maximum permits it.
    pub(super) fn set_max_window(&mut self, max_window: u64, initial: u64) {
        self.max_window = max_window;
        self.apply_maximum();
        self.receive.grow(initial);
        self.pending_max_data |= self.receive.renew();
    }

    fn apply_maximum(&mut self) {
        let maximum = self.scarce_window.map_or(self.max_window, |it| it.min(self.max_window));
        self.receive.limit_window(maximum);
    }

    /// Handles the loss of a MAX_DATA frame.
    pub(super) fn on_max_data_lost(&mut self) {
        self.receive.on_update_lost();
        self.pending_max_data = true;
    }

    /// Handles the acknowledgment of a MAX_DATA frame.
    pub(super) fn on_max_data_acknowledged(&mut self) {
        self.receive.on_update_acknowledged();
    }

    /// Handles the peer's report that it is blocked at `limit`.
    pub(super) fn on_peer_blocked(&mut self, limit: u64) {
        self.pending_max_data |= self.receive.on_peer_blocked(limit);
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
