//! Safety properties: what must never happen. The records themselves check S7, S12 and S18.

pub(super) mod acknowledgement;
pub(super) mod bandwidth;
pub(super) mod burst;
pub(super) mod cubic;
pub(super) mod datagram_size;
pub(super) mod gate;
pub(super) mod growth;
pub(super) mod idle;
pub(super) mod in_flight;
pub(super) mod loss;
pub(super) mod new_path;
pub(super) mod probe_timeout;
pub(super) mod queue;
pub(super) mod range;
pub(super) mod reaction;
pub(super) mod response;
pub(super) mod rtt;
pub(super) mod slow_start;
pub(super) mod spin;
pub(super) mod time;
pub(super) mod undo;
pub(super) mod unnecessary;
