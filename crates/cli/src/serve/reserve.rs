//! Descriptors that are kept for opening files.
//!
//! Established connections need files while something else uses up the descriptors: readers of metrics, files that slow clients
//! read, or a limit that was lowered. So the server holds some descriptors from the beginning, and releases them when no other
//! is left.

use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many descriptors are kept. Opening a file takes two for a moment: the folder's and its own.
pub(super) const SIZE: usize = 32;
/// How many are closed at a time.
const STEP: usize = 2;

/// Descriptors that are kept for opening files.
#[derive(Debug, Default)]
pub(super) struct Reserve(Mutex<Vec<File>>);

impl Reserve {
    pub(super) fn new() -> Self {
        let reserve = Self::default();
        reserve.fill();
        reserve
    }

    fn lock(&self) -> MutexGuard<'_, Vec<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes enough descriptors for opening a file. Returns whether there were any.
    pub(super) fn release(&self) -> bool {
        let kept = &mut *self.lock();
        let rest = kept.len().saturating_sub(STEP);
        let had_any = !kept.is_empty();
        kept.truncate(rest);
        had_any
    }

    /// Opens again what was closed, as far as there are descriptors.
    pub(super) fn fill(&self) {
        let kept = &mut *self.lock();
        while kept.len() < SIZE {
            let next = match kept.last() {
                Some(file) => file.try_clone(),
                None => File::open("/dev/null"),
            };
            match next {
                Ok(file) => kept.push(file),
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_closed_in_steps_and_opened_again() {
        let reserve = Reserve::new();
        for left in (0..SIZE / STEP).rev() {
            assert!(reserve.release());
            assert_eq!(reserve.lock().len(), left * STEP);
        }
        assert!(!reserve.release());
        reserve.fill();
        assert_eq!(reserve.lock().len(), SIZE);
    }
}
