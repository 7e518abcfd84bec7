//! Fd: controllers of different kinds may get different shares, but nobody starves.

use super::{percentages, shares};
use crate::across::{Property, Verdict};

/// Fd.
pub const PROPERTY: Property = Property {
    id: "Fd",
    meaning: "with queues of 0.5 to 8 paths, of two flows with different controllers none gets less \
              than a tenth",
};

const LEAST_SHARE: f64 = 0.1;

/// Judges what two flows with different controllers received.
pub fn judge(received: [u64; 2]) -> Verdict {
    let holds = shares(&received).into_iter().all(|share| share >= LEAST_SHARE);
    Verdict { property: PROPERTY, holds, figures: format!("shares {}", percentages(&received)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_a_tenth_is_too_little() {
        assert!(judge([10, 90]).holds);
        assert!(!judge([91, 9]).holds);
        assert!(!judge([0, 0]).holds);
    }
}
