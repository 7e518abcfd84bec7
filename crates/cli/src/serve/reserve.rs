//! Reserved descriptors for opening files.
//!
//! Established connections need files even if all descriptors are used up by metrics clients, files
//! of slow clients, or a lowered limit. The server therefore reserves some descriptors at startup,
//! and releases them when no others are left.

use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::system;

/// Number of reserved descriptors. Opening a file temporarily takes two descriptors: the
/// directory's and the file's own.
pub(super) const SIZE: usize = 32;
/// Number of reserved descriptors to close at a time.
const STEP: usize = 2;

/// Reserved descriptors for opening files.
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

    /// Closes enough reserved descriptors for opening a file. Returns whether there were any.
    pub(super) fn release(&self) -> bool {
        let kept = &mut *self.lock();
        let rest = kept.len().saturating_sub(STEP);
        let had_any = !kept.is_empty();
        kept.truncate(rest);
        had_any
    }

    /// Refills the reserve by opening descriptors, as far as possible.
    pub(super) fn fill(&self) {
        let kept = &mut *self.lock();
        while kept.len() < SIZE {
            let next = match kept.last() {
                Some(file) => file.try_clone(),
                None => File::open(system::NULL_DEVICE),
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
