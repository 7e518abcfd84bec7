use core::time::Duration;
use std::io::Read;
use std::path::Path;

use super::dialect::{Clock, FileHeader, TraceHeader, event_name};
use super::event::{Event, EventKind};
use super::number::Decimal;
use super::reading::{Damage, Reading};
use super::record::{Record, event_kind};
use super::source::{self, OpenError};
use super::split::{Part, Splitter};

/// What comes out of a file.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// Another trace begins. The first one begins without it.
    Trace,
    /// Something happened.
    Event(Event),
}

/// Reads a qlog file of any dialect, event by event.
///
/// It reads JSON text sequences, with the record separators of RFC 7464 or without, and single JSON
/// objects; plain, or compressed with gzip or Zstandard. Memory is bounded however long the file is.
/// Damage ends the reading; [`reading`](Self::reading) says where and what it was.
#[derive(Debug)]
pub struct QlogReader {
    raw: RawReader,
}

impl QlogReader {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be opened, or its beginning is not that of a qlog file.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Ok(Self { raw: RawReader::open(path)? })
    }

    /// Reads what `reader` gives.
    ///
    /// # Errors
    /// If it fails at once, or what it gives does not begin as a qlog file.
    pub fn new(reader: impl Read + Send + 'static) -> Result<Self, OpenError> {
        Ok(Self { raw: RawReader::new(reader)? })
    }

    /// What is known of the present trace so far; whole once there are no more items.
    pub const fn reading(&self) -> &Reading {
        &self.raw.reading
    }

    /// What was known of the trace before the present one, once.
    pub const fn take_finished(&mut self) -> Option<Reading> {
        self.raw.finished.take()
    }

    /// How many bytes were read, of the file as it is decompressed.
    pub fn offset(&self) -> u64 {
        self.raw.splitter.offset()
    }
}

impl Iterator for QlogReader {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        self.raw.next_with(|raw, reading| match raw {
            Raw::Trace => Item::Trace,
            Raw::Event { at, name, data } => {
                Item::Event(Event { at, kind: kind(name, data, reading) })
            }
        })
    }
}

fn kind(name: &str, data: &str, reading: &mut Reading) -> EventKind {
    match event_kind(event_name(name), name, data) {
        Ok(EventKind::Other(name)) => {
            reading.count_unused(&name);
            EventKind::Other(name)
        }
        Ok(kind) => kind,
        Err(_) => {
            reading.count_unused(&format!("{name} (its data are not as expected)"));
            EventKind::Other(name.into())
        }
    }
}

/// What comes out of a file before its events are understood.
pub(crate) enum Raw<'a> {
    Trace,
    Event { at: Duration, name: &'a str, data: &'a str },
}

/// Reads records of any dialect.
#[derive(Debug)]
pub(crate) struct RawReader {
    splitter: Splitter,
    pub(crate) reading: Reading,
    clock: Clock,
    groups: Groups,
    /// The trace before this one.
    pub(crate) finished: Option<Reading>,
    has_ended: bool,
}

/// What a part of the file came to.
enum Step<T> {
    Ready(T),
    Nothing,
    Broken(String),
}

impl RawReader {
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        Self::begin(source::open(path)?)
    }

    pub(crate) fn new(reader: impl Read + Send + 'static) -> Result<Self, OpenError> {
        let source =
            source::decompress(reader).map_err(|source| OpenError::Io { path: None, source })?;
        Self::begin(source)
    }

    fn begin(source: source::Source) -> Result<Self, OpenError> {
        let mut splitter = Splitter::new(source)?;
        let (mut reading, mut clock) = (Reading::default(), Clock::default());
        let part = splitter.next().map_err(|damage| not_qlog(damage.to_string()))?;
        let (Some(Part::Record(json)) | Some(Part::Header { json, .. })) = part else {
            return Err(not_qlog("its first record is too long".to_owned()));
        };
        let header: FileHeader<'_> =
            serde_json::from_slice(json).map_err(|error| not_qlog(error.to_string()))?;
        if !header.is_qlog() {
            return Err(not_qlog("it names neither a version nor a schema of qlog".to_owned()));
        }
        header.apply(&mut reading, &mut clock);
        Ok(Self {
            splitter,
            reading,
            clock,
            groups: Groups::default(),
            finished: None,
            has_ended: false,
        })
    }

    /// Gives the next of what there is to `take`. `None` at the end, and where the file is damaged.
    pub(crate) fn next_with<T>(
        &mut self,
        take: impl FnOnce(Raw<'_>, &mut Reading) -> T,
    ) -> Option<T> {
        let mut take = Some(take);
        while !self.has_ended {
            let Self { splitter, reading, clock, groups, finished, .. } = self;
            let mut trace = Trace { reading, clock, groups, finished };
            let step = match splitter.next() {
                Ok(Some(part)) => trace.part(part, &mut take),
                Ok(None) => {
                    self.has_ended = true;
                    return None;
                }
                Err(damage) => {
                    self.reading.damage = Some(damage);
                    self.has_ended = true;
                    return None;
                }
            };
            match step {
                Step::Ready(value) => return Some(value),
                Step::Nothing => {}
                Step::Broken(why) => {
                    let offset = self.splitter.offset();
                    self.reading.damage = Some(Damage { offset, why });
                    self.has_ended = true;
                }
            }
        }
        None
    }
}

fn not_qlog(why: String) -> OpenError {
    OpenError::NotQlog { why }
}

/// The connection that a trace is about, by the names that its events give it.
#[derive(Debug, Default)]
struct Groups {
    present: Option<String>,
    /// Names that it had before: quinn calls a connection by the ID of the moment.
    former: Vec<String>,
}

impl Groups {
    /// Names that are remembered.
    const MAX: usize = 64;

    /// Whether an event of `group` belongs to another connection: its name was given up before. A name that is new is
    /// one that the connection has now.
    fn is_of_another_connection(&mut self, group: Option<&str>) -> bool {
        let Some(group) = group.filter(|group| self.present.as_deref() != Some(group)) else {
            return false;
        };
        if self.former.iter().any(|former| former == group) {
            return true;
        }
        if self.former.len() < Self::MAX
            && let Some(former) = self.present.replace(group.to_owned())
        {
            self.former.push(former);
        }
        false
    }
}

/// What is known of the trace at hand.
struct Trace<'a> {
    reading: &'a mut Reading,
    clock: &'a mut Clock,
    groups: &'a mut Groups,
    finished: &'a mut Option<Reading>,
}

impl Trace<'_> {
    fn part<T, F>(&mut self, part: Part<'_>, take: &mut Option<F>) -> Step<T>
    where
        F: FnOnce(Raw<'_>, &mut Reading) -> T,
    {
        match part {
            Part::Event(json) => self.record(json, take),
            Part::Record(json) => match self.record(json, take) {
                // It has no name: not an event, but perhaps the beginning of another log.
                Step::Nothing => self.another_file(json, take),
                step => step,
            },
            Part::Trace => self.another_trace(take),
            Part::Header { of_trace, json } => {
                let applied = match of_trace {
                    true => serde_json::from_slice::<TraceHeader<'_>>(json)
                        .map(|header| header.apply(self.reading, self.clock)),
                    false => serde_json::from_slice::<FileHeader<'_>>(json)
                        .map(|header| header.apply(self.reading, self.clock)),
                };
                match applied {
                    Ok(()) => Step::Nothing,
                    Err(error) => Step::Broken(format!("a header is not as expected: {error}")),
                }
            }
            Part::TooLong => {
                self.reading.count_unused("(records that are too long)");
                Step::Nothing
            }
        }
    }

    fn record<T, F>(&mut self, json: &[u8], take: &mut Option<F>) -> Step<T>
    where
        F: FnOnce(Raw<'_>, &mut Reading) -> T,
    {
        let record: Record<'_> = match serde_json::from_slice(json) {
            Ok(record) => record,
            Err(error) if error.is_eof() => {
                return Step::Broken("the last record ends early".to_owned());
            }
            Err(error) => return Step::Broken(format!("a record is not as expected: {error}")),
        };
        let Some(name) = record.name.as_deref() else { return Step::Nothing };
        self.reading.events = self.reading.events.saturating_add(1);
        let time = record.time.unwrap_or(Decimal(0.0));
        let at = self.clock.read(time, record.time_format.as_deref());
        if self.groups.is_of_another_connection(record.group_id.as_deref()) {
            self.reading.count_unused("(events of other connections)");
            return Step::Nothing;
        }
        let data = record.data.map_or("{}", |data| data.get());
        match take.take() {
            Some(take) => Step::Ready(take(Raw::Event { at, name, data }, self.reading)),
            None => Step::Nothing,
        }
    }

    /// Whether a record without a name begins another log: files that were put one behind the other.
    fn another_file<T, F>(&mut self, json: &[u8], take: &mut Option<F>) -> Step<T>
    where
        F: FnOnce(Raw<'_>, &mut Reading) -> T,
    {
        let Ok(header) = serde_json::from_slice::<FileHeader<'_>>(json) else {
            return Step::Nothing;
        };
        if !header.is_qlog() {
            return Step::Nothing;
        }
        let step = self.another_trace(take);
        header.apply(self.reading, self.clock);
        step
    }

    fn another_trace<T, F>(&mut self, take: &mut Option<F>) -> Step<T>
    where
        F: FnOnce(Raw<'_>, &mut Reading) -> T,
    {
        let is_first = self.reading.events == 0;
        *self.clock = Clock::default();
        *self.groups = Groups::default();
        if is_first {
            return Step::Nothing;
        }
        let step = match take.take() {
            Some(take) => Step::Ready(take(Raw::Trace, self.reading)),
            None => Step::Nothing,
        };
        let dialect = self.reading.dialect.clone();
        let fresh = Reading { dialect, ..Reading::default() };
        *self.finished = Some(core::mem::replace(self.reading, fresh));
        step
    }
}
