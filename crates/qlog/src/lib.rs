//! Events to qlog files, and qlog files of any dialect to events, to findings, and to the version that qvis reads.
//!
//! [`QlogObserver`] watches one connection and writes what it sees as a JSON text sequence
//! (RFC 7464) in the words of draft-ietf-quic-qlog-main-schema-14 and
//! draft-ietf-quic-qlog-quic-events-13. [`QlogDirectory`] makes observers whose files lie in one
//! folder and are named after the connection, as the `QLOGDIR` convention has it.
//!
//! Writing a log never disturbs a connection: when a file cannot be opened or a disk is full, the log
//! ends, one [`QlogError`] is reported, and the connection goes on.
//!
//! [`read::QlogReader`] reads what any stack wrote, [`findings::find`] says what is wrong with it, and
//! [`convert::to_0_3`] writes it anew for qvis, and [`model`] makes of it what the viewer's page draws.
//!
//! What the drafts have no words for is in a namespace of our own, `clearway`, whose schema is
//! [`CLEARWAY_SCHEMA`].
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails"))]

pub mod convert;
pub mod findings;
pub mod model;
pub mod read;
mod write;

pub use write::{
    CLEARWAY_SCHEMA, ErrorHandler, FILE_SCHEMA, LOGLEVEL_SCHEMA, Open, QUIC_SCHEMA, QlogDirectory,
    QlogError, QlogObserver, RecoveryParameters, ReferenceTime, SERIALIZATION_FORMAT, TraceOptions,
    file_name,
};
