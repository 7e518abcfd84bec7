use std::io::Read;
use std::path::Path;

use serde::de::Deserializer;

use super::data::event_kind;
use super::dialect::event_name;
use super::envelope::Content;
use super::event::{Event, EventKind, PacketType};
use super::reading::Reading;
use super::records::{Record, Records};
use super::source::OpenError;

/// An item of a qlog file.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Item {
    /// Another trace begins. The first trace begins without this item.
    Trace,
    /// An event of the current trace.
    Event(Event),
}

/// Reads a qlog file of any dialect, event by event.
///
/// Accepts JSON text sequences, with or without the record separators of RFC 7464, and single JSON
/// objects, either plain or compressed with gzip or Zstandard. Memory is bounded regardless of the
/// file's size. Damage ends reading; [`reading`](Self::reading) then contains its position and
/// kind.
#[derive(Debug)]
pub struct QlogReader {
    records: Records<Told>,
}

impl QlogReader {
    /// Opens a file. Its events are read by up to eight threads, depending on the number of cores.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, or does not begin like a qlog file.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Ok(Self { records: Records::open(path)? })
    }

    /// Reads from `reader`, without waiting for more data than needed: each event is returned as soon as it is
    /// available.
    ///
    /// # Errors
    /// Returns an error if the first read fails, or the data does not begin like a qlog file.
    pub fn new(reader: impl Read + Send + 'static) -> Result<Self, OpenError> {
        Ok(Self { records: Records::new(reader)? })
    }

    /// Returns the information about the current trace so far. It is complete once there are no
    /// more items.
    pub const fn reading(&self) -> &Reading {
        &self.records.state.reading
    }

    /// Takes the information about the previous trace. Returns `None` if it was already taken.
    pub const fn take_finished(&mut self) -> Option<Reading> {
        self.records.state.finished.take()
    }

    /// Returns the number of bytes that were read, after decompression.
    pub fn offset(&self) -> u64 {
        self.records.offset()
    }
}

impl Iterator for QlogReader {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let (at, content) = match self.records.next()? {
            Record::Trace => return Some(Item::Trace),
            Record::Event { at, content } => (at, content),
        };
        let reading = &mut self.records.state.reading;
        match &content.kind {
            EventKind::Other(name) if content.is_as_expected => reading.count_unused(name),
            EventKind::Other(name) => {
                reading.count_unused(&format!("{name} (unexpected data)"));
            }
            kind if lacks_packet_type(kind) => {
                reading.count_unused("(packets of unknown type)");
            }
            _ => {}
        }
        Some(Item::Event(Event { at, kind: content.kind }))
    }
}

/// Returns whether an event concerns a packet whose packet number space is unknown.
fn lacks_packet_type(kind: &EventKind) -> bool {
    match kind {
        EventKind::PacketSent(packet) | EventKind::PacketReceived(packet) => {
            packet.packet_type == PacketType::Unknown
        }
        EventKind::PacketLost(lost) => lost.packet_type == PacketType::Unknown,
        _ => false,
    }
}

/// The content of an event.
#[derive(Debug)]
struct Told {
    kind: EventKind,
    is_as_expected: bool,
}

impl Content for Told {
    fn read<'de, D: Deserializer<'de>>(name: &str, data: D) -> Result<Self, D::Error> {
        let kind = event_kind(event_name(name), name, data)?;
        Ok(Self { kind, is_as_expected: true })
    }

    fn of_name(name: &str) -> Self {
        Self { kind: EventKind::Other(name.into()), is_as_expected: false }
    }
}
