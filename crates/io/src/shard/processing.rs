//! The phase between receiving and sending: applications, and the tasks of the shard's thread.

use clearway_units::Timestamp;

use super::Shard;

/// Maximum number of rounds in which tasks and applications respond to each other, at the end of a
/// turn and after each connection: enough for a task to respond and to end.
const MAX_TASK_ROUNDS: usize = 8;
const MAX_TASK_ROUNDS_BEFORE: usize = 2;

impl Shard {
    /// Runs the application of every dirty connection, and after each one the tasks that this
    /// unblocks: their shared data is still in the processor's cache then.
    pub(super) fn process(&mut self, now: Timestamp) {
        for _ in 0..self.connections.dirty_len() {
            self.connections.process_next(now);
            self.run_tasks(now, MAX_TASK_ROUNDS_BEFORE);
        }
        self.run_tasks(now, MAX_TASK_ROUNDS);
    }

    /// Runs the tasks of this thread, including those that applications have just started, then the
    /// applications of the connections that the tasks have used, then the tasks that this unblocks.
    /// The resulting data is sent in this turn: the first flight of a task that connects and makes
    /// requests contains them.
    fn run_tasks(&mut self, now: Timestamp, max_rounds: usize) {
        let others = self.connections.dirty_len();
        for _ in 0..max_rounds {
            self.carry_out_commands(now);
            if !self.tasks.run() {
                break;
            }
            self.carry_out_commands(now);
            self.process_after(others, now);
        }
        self.process_after(others, now);
    }

    /// Runs the application of every connection that became dirty after the first `others`, once.
    fn process_after(&mut self, others: usize, now: Timestamp) {
        for _ in others..self.connections.dirty_len() {
            self.connections.process_last(now);
        }
    }
}
