//! The order in which cells run: several tests at a time, then the measurements one by one.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, mpsc};

use crate::cell::Cell;
use crate::matrix::Done;
use crate::process::is_interrupted;
use crate::runner::Runner;

/// Runs the cells, and calls `report` for each as soon as it finishes. Returns the outcomes in the
/// given order. Cells that were not run because of an interruption are omitted.
pub(crate) fn run(
    runner: &Runner,
    cells: &[Cell],
    jobs: usize,
    mut report: impl FnMut(&Done),
) -> Vec<Done> {
    let numbered = cells.iter().copied().enumerate();
    let (measurements, tests): (Vec<_>, Vec<_>) =
        numbered.partition(|(_, cell)| cell.test.is_measurement());
    let mut done = Vec::new();
    for (queue, jobs) in [(tests, jobs), (measurements, 1)] {
        let queue = Mutex::new(VecDeque::from(queue));
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let (send, receive) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                let send = send.clone();
                scope.spawn(|| {
                    let send = send;
                    while let Some((number, cell)) = next().filter(|_| !is_interrupted()) {
                        if let Some(outcome) = runner.run(&cell) {
                            // The receiver lives until the end of the scope.
                            let _ = send.send((number, (cell, outcome)));
                        }
                    }
                });
            }
            drop(send);
            for (number, one) in receive {
                report(&one);
                done.push((number, one));
            }
        });
    }
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, one)| one).collect()
}
