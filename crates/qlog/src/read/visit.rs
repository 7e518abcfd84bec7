//! The one loop over the events of a file.

use super::event::Event;
use super::reader::{Item, QlogReader};
use super::reading::Reading;

/// Events between two reports of progress.
const INTERVAL: u32 = 1 << 14;

/// What takes the events of one trace and makes something of them.
pub trait TraceVisitor {
    /// What it makes.
    type Output;

    /// Takes an event. They come in the order of the file.
    fn on_event(&mut self, event: Event);

    /// The trace has ended. `reading` has its properties besides the events.
    fn finish(self, reading: Reading) -> Self::Output;
}

/// Reads a file to its end, or to where it is damaged. Each trace in it gets its own visitor from `begin`, which is called
/// with the properties of the trace that are known before its first event. `progress` is called from time to time with the
/// number of bytes read, after decompression.
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
