//! The properties that must hold for any bytes that are read as qlog. Used only by the fuzz target.

use std::io::Cursor;

use crate::findings::FindingsBuilder;
use crate::model::ModelBuilder;
use crate::read::{Item, QlogReader};

/// Checks that, for any `bytes`, events are returned in chronological order, findings and the
/// page's columns can be computed from them, and the converted file is a valid qlog file.
///
/// # Panics
/// Panics if a check fails.
pub fn check_file(bytes: &[u8]) {
    let bytes = bytes.to_vec();
    let Ok(mut reader) = QlogReader::new(Cursor::new(bytes.clone())) else { return };
    let (mut findings, mut model) = (FindingsBuilder::default(), ModelBuilder::default());
    let mut last = None;
    while let Some(item) = reader.next() {
        match item {
            Item::Trace => {
                let reading = reader.take_finished().unwrap_or_default();
                core::mem::take(&mut model).finish(&reading, None, &[]);
                core::mem::take(&mut findings).finish(reading);
                last = None;
            }
            Item::Event(event) => {
                assert!(last.is_none_or(|last| last <= event.at), "{last:?}, {:?}", event.at);
                last = Some(event.at);
                findings.on_event(&event);
                model.on_event(&event);
            }
        }
    }
    let report = findings.finish(reader.reading().clone());
    model.finish(&report.reading, Some(&report.ending), &[]);

    let mut converted = Vec::new();
    // The bytes may contain no events.
    let Ok(conversion) = crate::convert::bytes_to_0_3(bytes, &mut converted) else { return };
    let mut reader =
        QlogReader::new(Cursor::new(converted)).expect("the converted file is a valid qlog file");
    let events = reader.by_ref().filter(|item| matches!(item, Item::Event(_))).count();
    assert_eq!(reader.reading().damage, None);
    assert_eq!(events as u64, conversion.written);
}
