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
//! What a peer decides, while logs are written:
//!
//! | what grows | bound | beyond it |
//! |---|---|---|
//! | logs of handshakes that fail before the peer's first Handshake packet | 16 at one time, one more each second, 1,000 in all ([`Admission`]) | [`QlogError::FailedHandshakes`]; counted in [`QlogSummary`] |
//! | logs of connections of which no packet could be opened | none | counted in [`QlogSummary`] |
//! | records held before it is decided that there is a log | 64 KiB for each connection; 16 MiB for all, beyond the first 4 KiB of each | dropped; the log says how many (`clearway:records_dropped`) |
//! | bytes that wait for the disk | 32 MiB for each [`WritingThread`] | dropped; the log says how many; [`QlogError::TooSlow`] |
//! | a log | [`TraceOptions::maximum_bytes`] | it ends and says so; [`QlogError::Limit`] |
//! | logs of one connection ID | 100 | [`QlogError::Open`] |
//!
//! What a file decides, while it is read, after decompression:
//!
//! | what grows | bound | beyond it |
//! |---|---|---|
//! | traces of a file | 256 | the reading ends; [`read::Damage`] |
//! | a record | [`read::MAX_RECORD_BYTES`] | left out; counted among what is unused |
//! | frames of a packet, ranges of an ACK frame | 65,536 | the first are kept |
//! | suppressors of an event | 64, names of 100 characters | the first are kept |
//! | title, writer, connection and dialect of a trace | 1,000 characters | cut off |
//! | names of what is unused | 256, of 100 characters | counted together |
//! | names that a connection had before | 64 | later ones are taken for its own |
//! | findings: packets in flight; lost packets that may yet arrive; streams | 131,072; 4,096; 4,096 | the oldest are forgotten, or streams with nothing to send |
//! | model: points of a series, packets, spans of a lane | 2,097,152 each; frames as text 256 MiB | thinned; the page says that packets are left out |
//! | model: packets outstanding; names of a lane; metrics of a controller | 65,536; 256, of 100 characters; 16, of 64 | the oldest, or the names beyond it, are left out |
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
