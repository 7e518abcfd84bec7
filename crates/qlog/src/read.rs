//! The reading half: any qlog file in, events of one vocabulary out.
//!
//! `source` opens and decompresses, `split` cuts the bytes into records (`lines` where each has a line
//! or a separator of its own, `contained` inside one JSON object), `dialect` knows the formats of time
//! and the names of events through the drafts, `envelope` reads what all events have, `data`, `frames` and `metrics` what
//! only some have, `event` is the vocabulary. `prepare` reads a part by itself, in `pool` by several threads, `state` knows the trace that
//! they are of, `records` and [`QlogReader`] put them together, and [`visit_traces`] is the loop over a whole file.
//!
//! Nothing is kept of what was read: memory is bounded by the longest record that is accepted.

mod contained;
mod controller_metrics;
mod data;
mod dialect;
mod envelope;
mod event;
mod frames;
mod lines;
mod number;
mod pool;
mod prepare;
mod reader;
mod reading;
mod records;
mod source;
mod split;
mod state;
mod visit;

pub use controller_metrics::{Metric, MetricUnit};
pub use event::{
    Blocked, BlockedUpdate, CongestionState, Event, EventKind, Frame, LossTrigger, Lost, Metrics,
    Packet, PacketSpace, PacketType, Parameters, RecoveryParameters, Timer, TimerEvent,
};
pub use reader::{Item, QlogReader};
pub use reading::{Damage, Reading, VantagePoint};
pub use source::OpenError;
pub use split::MAX_RECORD_BYTES;
pub use visit::{TraceVisitor, visit_traces};

pub(crate) use prepare::Content;
pub(crate) use records::{Record, Records};

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
