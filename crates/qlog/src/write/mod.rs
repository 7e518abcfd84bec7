//! The writing half: observations in, records out.
//!
//! `observer` holds the life of a log, `trace` says which observation becomes which event, `records`
//! brings whole records to the file, and the rest writes the parts of events.

mod closing;
mod directory;
mod error;
mod figures;
mod frames;
mod header;
mod json;
mod metrics;
mod names;
mod observer;
mod packets;
mod parameters;
mod path;
mod records;
mod recovery_parameters;
mod reference_time;
mod trace;

pub use directory::{QlogDirectory, file_name};
pub use error::{ErrorHandler, QlogError};
pub use header::{
    CLEARWAY_SCHEMA, FILE_SCHEMA, LOGLEVEL_SCHEMA, QUIC_SCHEMA, SERIALIZATION_FORMAT, TraceOptions,
};
pub use observer::{Open, QlogObserver};
pub use recovery_parameters::RecoveryParameters;
pub use reference_time::ReferenceTime;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
