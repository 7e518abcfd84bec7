//! A close that waits until the datagrams before it have been sent.

use core::time::Duration;

use bytes::Bytes;
use clearway_transport::Connection;
use clearway_units::Timestamp;
use clearway_wire::VarInt;

/// All calls in a turn have the same time, and each turn has a later one.
const NEXT_TURN: Duration = Duration::from_nanos(1);

/// The error code and the reason of a close.
pub(crate) type Close = (VarInt, Bytes);

/// A close that an application has requested. A connection that is closed drops its queued
/// datagrams. If there are any, the close is postponed to the shard's next turn: this turn sends
/// them, unless the path permits no more.
#[derive(Default)]
pub(crate) struct PostponedClose(Option<Box<(Close, Timestamp)>>);

impl PostponedClose {
    /// Returns the close to carry out now, which is the postponed one or the one that was requested.
    pub(crate) fn next(
        &mut self,
        now: Timestamp,
        connection: &Connection,
        requested: Option<Close>,
    ) -> Option<Close> {
        let (close, due) = match self.0.take() {
            Some(postponed) => *postponed,
            None => (requested?, now + NEXT_TURN),
        };
        if now >= due || !connection.has_unsent_datagrams() {
            return Some(close);
        }
        self.0 = Some(Box::new((close, due)));
        None
    }

    /// Returns the time at which to continue, if a close is postponed.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.0.as_ref().map(|postponed| postponed.1)
    }
}
