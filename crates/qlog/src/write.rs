//! Writes qlog files: converts observations to records.
//!
//! `observer` manages the lifecycle of a log, `admission` decides which connections get a log,
//! `trace` maps observations to events, `records` passes complete records on to their
//! `destination`, `writing_thread` writes them to files, `folder` bounds their total size, and the
//! other modules write the parts of events.

mod admission;
mod closing;
mod controller_metrics;
mod destination;
mod directory;
mod error;
mod folder;
mod frames;
mod header;
mod json;
mod metrics;
mod names;
mod observer;
mod packets;
mod parameters;
mod path;
mod private;
mod records;
mod recovery_parameters;
mod reference_time;
mod trace;
mod writing_thread;

pub use admission::Admission;
pub use directory::{QlogDirectory, QlogSummary, file_name};
pub use error::{ErrorHandler, QlogError};
pub use header::{
    CLEARWAY_SCHEMA, FILE_SCHEMA, LOGLEVEL_SCHEMA, QUIC_SCHEMA, SERIALIZATION_FORMAT, TraceOptions,
};
pub use observer::{Open, QlogObserver};
pub use private::create_private;
pub use recovery_parameters::RecoveryParameters;
pub use reference_time::ReferenceTime;
pub use writing_thread::{Finished, WritingThread};

#[cfg(test)]
mod testing;
#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
