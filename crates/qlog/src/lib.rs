//! Writes qlog files, reads those of any dialect, finds what is wrong with a connection, and converts files for qvis.
//!
//! [`QlogObserver`] observes one connection and writes its events as a JSON text sequence (RFC 7464), in the format of
//! draft-ietf-quic-qlog-main-schema-14 and draft-ietf-quic-qlog-quic-events-13. [`QlogDirectory`] creates observers whose
//! files are in one folder and named after the connection, as in the `QLOGDIR` convention.
//!
//! Writing a log never disturbs a connection: when a file cannot be opened or a disk is full, the log ends, one
//! [`QlogError`] is reported, and the connection continues.
//!
//! [`read::QlogReader`] reads the files of any stack, [`findings::find`] returns what is wrong with the connection,
//! [`convert::to_0_3`] writes a file for qvis, and [`model`] prepares what the viewer's page draws.
//!
//! ```
//! use clearway_qlog::findings;
//! use clearway_qlog::read::QlogReader;
//!
//! let begin = "\u{1e}{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\
//!     \"trace\":{\"vantage_point\":{\"type\":\"server\"}}}\n";
//! let event = "\u{1e}{\"time\":1.5,\"name\":\"quic:connection_closed\",\"data\":{}}\n";
//! let reader = QlogReader::new(std::io::Cursor::new([begin, event].concat()))?;
//! let reports = findings::find(reader, |_bytes| {});
//! assert!(reports[0].findings.is_empty());
//! # Ok::<(), clearway_qlog::read::OpenError>(())
//! ```
//!
//! # Bounds
//!
//! Limits on what a peer can cause while logs are written:
//!
//! | what grows | bound | beyond it |
//! |---|---|---|
//! | logs of handshakes that fail before the peer's first Handshake packet | 16 at one time, one more each second, 1,000 in all ([`Admission`]) | [`QlogError::FailedHandshakes`]; counted in [`QlogSummary`] |
//! | logs of connections without any packet that could be decrypted | none | counted in [`QlogSummary`] |
//! | records held before it is decided that there is a log | 64 KiB for each connection; 16 MiB for all, beyond the first 4 KiB of each | dropped; the log contains their number (`clearway:records_dropped`) |
//! | bytes queued for the disk | 32 MiB for each [`WritingThread`] | dropped; the log contains their number; [`QlogError::TooSlow`] |
//! | a log | [`TraceOptions::maximum_bytes`] | it ends with a record of that; [`QlogError::Limit`] |
//! | logs of one connection ID | 100 | [`QlogError::Open`] |
//!
//! Limits on what a file can cause while it is read, after decompression:
//!
//! | what grows | bound | beyond it |
//! |---|---|---|
//! | traces of a file | 256 | the reading ends; [`read::Damage`] |
//! | a record | [`read::MAX_RECORD_BYTES`] | left out; counted as unused |
//! | frames of a packet, ranges of an ACK frame | 65,536 | the first are kept |
//! | suppressors of an event | 64, names of 100 characters | the first are kept |
//! | title, writer, connection and dialect of a trace | 1,000 characters | truncated |
//! | names of unused events | 256, of 100 characters | counted together |
//! | names that a connection had before | 64 | later ones are taken for its own |
//! | findings: packets in flight; lost packets that may still arrive; streams | 131,072; 4,096; 4,096 | the oldest are removed, or streams with nothing to send |
//! | model: points of a series, packets, spans of a lane | 2,097,152 each; frames as text 256 MiB | thinned; the page shows that packets are left out |
//! | model: packets outstanding; names of a lane; metrics of a controller | 65,536; 256, of 100 characters; 16, of 64 | the oldest, or the names beyond it, are left out |
//!
//! Events that the drafts do not have are in our own namespace, `clearway`, whose schema is [`CLEARWAY_SCHEMA`].
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
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod model;
pub mod read;
mod write;

pub use write::{
    Admission, CLEARWAY_SCHEMA, ErrorHandler, FILE_SCHEMA, Finished, LOGLEVEL_SCHEMA, Open,
    QUIC_SCHEMA, QlogDirectory, QlogError, QlogObserver, QlogSummary, RecoveryParameters,
    ReferenceTime, SERIALIZATION_FORMAT, TraceOptions, WritingThread, create_private, file_name,
};
