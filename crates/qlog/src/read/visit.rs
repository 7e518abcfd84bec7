//! The single loop over the events of a file.

use super::event::Event;
use super::reader::{Item, QlogReader};
use super::reading::Reading;

/// The number of events between two progress reports.
const INTERVAL: u32 = 1 << 14;

/// A consumer of the events of one trace.
pub trait TraceVisitor {
    /// The result for the trace.
    type Output;

    /// Processes an event. Events arrive in the order of the file.
    fn on_event(&mut self, event: Event);

    /// Returns the result at the end of the trace. `reading` is the information about the trace
    /// apart from its events.
    fn finish(self, reading: Reading) -> Self::Output;
}

/// Reads a file to its end, or up to the point where it is damaged. `begin` creates a visitor for
/// each trace, and is called with the information that precedes the trace's first event. `progress`
/// is called periodically with the number of bytes read, after decompression.
pub fn visit_traces<V: TraceVisitor>(
    mut reader: QlogReader,
    mut begin: impl FnMut(&Reading) -> V,
    mut progress: impl FnMut(u64),
) -> Vec<V::Output> {
    let mut outputs = Vec::new();
    let mut visitor = begin(reader.reading());
    let mut items = 0_u32;
    while let Some(item) = reader.next() {
        match item {
            Item::Trace => {
                let finished = core::mem::replace(&mut visitor, begin(reader.reading()));
                outputs.push(finished.finish(reader.take_finished().unwrap_or_default()));
            }
            Item::Event(event) => visitor.on_event(event),
        }
        items = items.wrapping_add(1);
        if items.is_multiple_of(INTERVAL) {
            progress(reader.offset());
        }
    }
    outputs.push(visitor.finish(reader.reading().clone()));
    outputs
}
