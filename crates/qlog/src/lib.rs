//! Writes qlog files, and reads qlog files of any dialect: as events, as findings, or converted to
//! the version that qvis reads.
//!
//! [`QlogObserver`] observes one connection and writes its events as a JSON text sequence (RFC 7464) with the
//! names of draft-ietf-quic-qlog-main-schema-14 and draft-ietf-quic-qlog-quic-events-13. [`QlogDirectory`]
//! creates observers whose files are in one folder and are named after the connection, following the `QLOGDIR`
//! convention.
//!
//! Logging never disturbs a connection: when a file cannot be opened or a disk is full, the log
//! ends, one [`QlogError`] is reported, and the connection continues.
//!
//! [`read::QlogReader`] reads the logs of any stack, [`findings::find`] reports problems of the
//! connections in them, [`convert::to_0_3`] converts them for qvis, and [`model`] turns them into
//! the data that the viewer's page draws.
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
//! While logs are written, a peer controls the size of the following:
//!
//! | what grows | bound | beyond it |
//! |---|---|---|
//! | logs of handshakes that fail before the peer's first Handshake packet | 16 at one time, one more each second, 1,000 in all ([`Admission`]) | [`QlogError::FailedHandshakes`]; counted in [`QlogSummary`] |
//! | logs of connections none of whose packets could be decrypted | none | counted in [`QlogSummary`] |
//! | records buffered until the decision whether the connection gets a log | 64 KiB for each connection; 16 MiB for all, beyond the first 4 KiB of each | dropped; the log states how many (`clearway:records_dropped`) |
//! | bytes queued for the disk | 32 MiB for each [`WritingThread`] | dropped; the log states how many; [`QlogError::TooSlow`] |
//! | a log | [`TraceOptions::maximum_bytes`] | it ends and says so; [`QlogError::Limit`] |
//! | logs of one connection ID | 100 | [`QlogError::Open`] |
//!
//! While a file is read, its contents (after decompression) control the size of the following:
//!
//! | what grows | bound | beyond it |
//! |---|---|---|
//! | traces of a file | 256 | reading ends; [`read::Damage`] |
//! | a record | [`read::MAX_RECORD_BYTES`] | left out; counted as unused |
//! | frames of a packet, ranges of an ACK frame | 65,536 | the first are kept |
//! | suppressors of an event | 64, names of 100 characters | the first are kept |
//! | title, writer, connection and dialect of a trace | 1,000 characters | truncated |
//! | name of a connection in an event, error and reason of a CONNECTION_CLOSE frame | 1,000 characters | truncated |
//! | columns of an event that is an array | 64 | the others are left out |
//! | names of unused events and members | 256, of 100 characters | the others are counted together |
//! | earlier names of a connection | 64 | additional ones are treated as the connection's own |
//! | findings: packets in flight; lost packets that may yet arrive; streams | 131,072; 4,096; 4,096 | the oldest are forgotten, or streams with nothing to send |
//! | findings: streams whose limits the peer has reached; whose limits were raised | 1,024 each | additional ones are ignored |
//! | model: points of a series, packets, spans of a lane | 2,097,152 each; frames as text 256 MiB | thinned; the page says that packets are left out |
//! | model: packets outstanding; names of a lane; metrics of a controller | 65,536; 256, of 100 characters; 16, of 64 | the oldest, or the names beyond it, are left out |
//!
//! # Features
//!
//! The `read` feature, which is enabled by default, provides everything except writing. Without it,
//! the crate has no additional dependencies.
//!
//! Events that the drafts do not define are in Clearway's own namespace, `clearway`, whose schema is
//! [`CLEARWAY_SCHEMA`].
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails"))]

#[cfg(feature = "read")]
pub mod convert;
#[cfg(feature = "read")]
pub mod findings;
#[cfg(fuzzing)]
pub mod fuzzing;
#[cfg(feature = "read")]
pub mod model;
#[cfg(feature = "read")]
pub mod read;
mod write;

pub use write::{
    Admission, CLEARWAY_SCHEMA, ErrorHandler, FILE_SCHEMA, Finished, LOGLEVEL_SCHEMA, Open,
    QUIC_SCHEMA, QlogDirectory, QlogError, QlogObserver, QlogSummary, RecoveryParameters,
    ReferenceTime, SERIALIZATION_FORMAT, TraceOptions, WritingThread, create_private, file_name,
};
