//! Changes to a connection's settings that tasks have requested and the shard has yet to make.

use clearway_transport::Connection;
use clearway_units::Timestamp;
use clearway_wire::Direction;

/// The newest value of each setting that a task has changed.
#[derive(Default)]
pub(crate) struct Requests {
    pub(crate) max_bidirectional: Option<u64>,
    pub(crate) max_unidirectional: Option<u64>,
    pub(crate) receive_window: Option<u64>,
    pub(crate) send_buffer: Option<u64>,
    /// Whether to update the packet protection keys.
    pub(crate) key_update: bool,
}

impl Requests {
    /// Makes the changes. Returns whether one of them is not possible yet and must be tried again.
    pub(crate) fn apply(&mut self, now: Timestamp, connection: &mut Connection) -> bool {
        let counts = [
            (Direction::Bidirectional, self.max_bidirectional.take()),
            (Direction::Unidirectional, self.max_unidirectional.take()),
        ];
        for (direction, count) in counts {
            if let Some(count) = count {
                connection.set_max_concurrent_streams(direction, count);
            }
        }
        if let Some(bytes) = self.receive_window.take() {
            connection.set_max_receive_window(bytes);
        }
        if let Some(bytes) = self.send_buffer.take() {
            connection.set_send_buffer(bytes);
        }
        // Fails before the handshake is confirmed, and while an earlier update is in progress.
        self.key_update = self.key_update && !connection.update_keys(now);
        self.key_update
    }
}
