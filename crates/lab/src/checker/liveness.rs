//! Liveness properties: what must happen, and within which limit.

pub(super) mod armed;
pub(super) mod escape;
pub(super) mod estimate;
pub(super) mod growth;
pub(super) mod pacer;
pub(super) mod phase;
pub(super) mod retransmission;
pub(super) mod silence;
pub(super) mod suppressors;
pub(super) mod wake;
