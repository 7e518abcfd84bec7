//! UDP batches, shards and timers: the only crate with unsafe code.
