//! Reads qlog files: converts any dialect to events with one vocabulary.
//!
//! `source` opens and decompresses, `split` cuts the bytes into records (`lines` where each record
//! has its own line or separator, `contained` inside one JSON object), `layout` describes how the
//! events of a trace are written, `early` rewrites the events of drafts before 0.3, `header` reads
//! the part before the events, `clock` converts their times, `dialect` maps the event names of
//! later drafts, `envelope` reads the members that all events have, `data`, `frames` and
//! `controller_metrics` read the members that only some events have, and `event` defines the
//! vocabulary. `prepare` reads one part independently of the others, `pool` does so with several
//! threads, `state` tracks the trace that the parts belong to, `records` and [`QlogReader`] put
//! everything together, and [`visit_traces`] is the loop over a whole file.
//!
//! No records are kept after they are read: memory is bounded by the maximum record length.

mod any_text;
mod clock;
mod contained;
mod controller_metrics;
mod data;
mod dialect;
mod early;
mod envelope;
mod event;
mod frames;
mod header;
mod layout;
mod lines;
mod number;
mod part;
mod pool;
mod prepare;
mod reader;
mod reading;
mod records;
mod source;
mod split;
mod state;
mod visit;
mod window;

pub use controller_metrics::{Metric, MetricUnit};
pub use event::{
    Blocked, BlockedUpdate, Close, CongestionState, Event, EventKind, Frame, LossTrigger, Lost,
    Metrics, Packet, PacketSpace, PacketType, Parameters, RecoveryParameters, Timer, TimerEvent,
};
pub use part::MAX_RECORD_BYTES;
pub use reader::{Item, QlogReader};
pub use reading::{Damage, Reading, VantagePoint};
pub use source::OpenError;
pub use visit::{TraceVisitor, visit_traces};

pub(crate) use envelope::Content;
pub(crate) use records::{Record, Records};

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
