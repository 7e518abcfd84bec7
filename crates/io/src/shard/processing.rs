//! The phase of a turn between receiving and sending, which runs applications and the tasks on the
//! shard's thread.

use clearway_units::Timestamp;

use super::Shard;

/// Maximum number of rounds in which tasks and applications respond to each other, both at the end
/// of a turn and after each connection: enough for a task to respond and to end.
const MAX_TASK_ROUNDS: usize = 8;
const MAX_TASK_ROUNDS_BEFORE: usize = 2;

impl Shard {
    /// Runs the application of every dirty connection, and after each one the tasks that it
    /// unblocks, while the data that they share is still in the CPU cache.
    pub(super) fn process(&mut self, now: Timestamp) {
        for _ in 0..self.connections.dirty_len() {
            self.connections.process_next(now);
            self.run_tasks(now, MAX_TASK_ROUNDS_BEFORE);
        }
        self.run_tasks(now, MAX_TASK_ROUNDS);
    }

    /// Runs the tasks of this thread, including those that applications have just started, then the
    /// applications of the connections that the tasks have used, and then the tasks that these
    /// unblock. The resulting data is sent in this turn: if a task connects and makes requests, the
    /// first flight contains the requests.
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
