//! Fc: CUBIC is Reno's equal where Reno does well (RFC 9438, Section 4.3).

use crate::across::{Property, Verdict};

/// Fc.
pub const PROPERTY: Property = Property {
    id: "Fc",
    meaning: "beside Reno, in the Reno-friendly region, CUBIC gets 0.7 to 1.3 times as much",
};

/// Judges what CUBIC and Reno received.
pub fn judge(cubic: u64, reno: u64) -> Verdict {
    let ratio = cubic as f64 / reno as f64;
    let figures = format!("{ratio:.3} times as much");
    Verdict { property: PROPERTY, holds: (0.7..=1.3).contains(&ratio), figures }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_too_much_nor_too_little() {
        assert!(judge(100, 100).holds);
        assert!(judge(71, 100).holds);
        assert!(!judge(69, 100).holds);
        assert!(!judge(131, 100).holds);
        assert!(!judge(1, 0).holds);
        assert!(!judge(0, 0).holds);
    }
}
