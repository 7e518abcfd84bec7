//! Sums that do not saturate: an overflow is a fault of this crate, and an error.

use crate::TransportError;

/// Adds, or fails.
pub(super) fn add(sum: &mut u64, amount: u64) -> Result<(), TransportError> {
    *sum = sum.checked_add(amount).ok_or_else(|| broken("a counter of the ledger overflowed"))?;
    Ok(())
}

/// Subtracts, or fails.
pub(super) fn subtract(sum: &mut u64, amount: u64) -> Result<(), TransportError> {
    *sum =
        sum.checked_sub(amount).ok_or_else(|| broken("a counter of the ledger fell below zero"))?;
    Ok(())
}

/// An invariant of the ledger does not hold.
pub(super) const fn broken(reason: &'static str) -> TransportError {
    TransportError::internal(reason)
}
