//! There are no steering programs on these systems: a shard does not share its address.

use std::io;

use super::super::steering::{AtAddress, Steering};
use crate::shard_ids::IdFormat;

pub(crate) fn steer(_: &[AtAddress<'_>], _: IdFormat, _: Steering) -> Steering {
    Steering::Hash
}

/// Does nothing: long headers arrive at the same socket as short ones.
pub(crate) fn divide(_: &[AtAddress<'_>]) -> io::Result<()> {
    Ok(())
}
