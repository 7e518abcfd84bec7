//! The parts of a file.

use std::sync::Arc;

use super::layout::Layout;

/// The maximum size of a record in bytes. A longer record is left out and counted.
pub const MAX_RECORD_BYTES: usize = 1 << 20;

/// The layout of events, if the header states one. It is shared because several threads read the events.
pub(super) type SharedLayout = Option<Arc<Layout>>;

/// A part of a file, borrowed from the buffer.
#[derive(Debug)]
pub(super) enum Part<'a> {
    /// A complete record of a sequence: the header or an event.
    Record { json: &'a [u8], layout: &'a SharedLayout },
    /// The beginning of a contained trace. Only the part of its header that precedes the events is
    /// known.
    Trace,
    /// An event of a contained trace.
    Event { json: &'a [u8], layout: &'a SharedLayout },
    /// Members of the file or of the current trace other than the events, as one JSON object.
    Header { of_trace: bool, json: &'a [u8] },
    /// A record that is longer than [`MAX_RECORD_BYTES`].
    TooLong,
}
