//! Fa: flows of one kind get the same.

use super::percentages;
use crate::across::{Property, Verdict};

/// Fa.
pub const PROPERTY: Property = Property {
    id: "Fa",
    meaning: "with one controller, one round-trip time and a queue of at least one path, Jain's \
              index over 60 s is 0.95 or more",
};

const LEAST_INDEX: f64 = 0.95;

/// Jain's index of fairness: 1 if all received the same, 1/n if one of n received everything, 0 if nobody
/// received anything. (R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.)
pub fn jain(received: &[u64]) -> f64 {
    let sum: f64 = received.iter().map(|bytes| *bytes as f64).sum();
    let squares: f64 = received.iter().map(|bytes| (*bytes as f64) * (*bytes as f64)).sum();
    let count = received.len() as f64;
    if squares > 0.0 { sum * sum / (count * squares) } else { 0.0 }
}

/// Judges what flows of one kind received.
pub fn judge(received: &[u64]) -> Verdict {
    let index = jain(received);
    let figures = format!("index {index:.4}, shares {}", percentages(received));
    Verdict { property: PROPERTY, holds: index >= LEAST_INDEX, figures }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index() {
        assert_eq!(jain(&[7, 7, 7]), 1.0);
        assert_eq!(jain(&[0, 9, 0, 0]), 0.25);
        assert_eq!(jain(&[0, 0]), 0.0);
        assert_eq!(jain(&[]), 0.0);
    }

    #[test]
    fn one_that_has_twice_as_much_is_too_much() {
        assert!(judge(&[100, 100]).holds);
        assert!(judge(&[100, 150]).holds);
        assert!(!judge(&[100, 200]).holds);
        assert!(!judge(&[0, 0]).holds);
    }
}
