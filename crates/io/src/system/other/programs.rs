//! No programs: a shard is alone at its address.

use std::io;

use super::super::steering::{AtAddress, Steering};
use crate::shard_ids::IdFormat;

pub(crate) fn steer(_: &[AtAddress<'_>], _: IdFormat, _: Steering) -> Steering {
    Steering::Hash
}

/// Leaves long headers where short ones are.
pub(crate) fn divide(_: &[AtAddress<'_>]) -> io::Result<()> {
    Ok(())
}
