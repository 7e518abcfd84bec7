//! Checked sums: an overflow is a bug in this crate and returns an error.

use crate::TransportError;

/// Adds `amount`, or fails on overflow.
pub(super) fn add(sum: &mut u64, amount: u64) -> Result<(), TransportError> {
    *sum = sum.checked_add(amount).ok_or_else(|| broken("a ledger counter overflowed"))?;
    Ok(())
}

/// Subtracts `amount`, or fails on underflow.
pub(super) fn subtract(sum: &mut u64, amount: u64) -> Result<(), TransportError> {
    *sum = sum.checked_sub(amount).ok_or_else(|| broken("a ledger counter fell below zero"))?;
    Ok(())
}

/// Returns the error for a violated invariant of the ledger.
pub(super) const fn broken(reason: &'static str) -> TransportError {
    TransportError::internal(reason)
}
