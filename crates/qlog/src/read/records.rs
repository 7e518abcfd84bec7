//! The events of a file, with the information about their trace.

use core::time::Duration;
use std::io::Read;
use std::path::Path;

use super::envelope::Content;
use super::header::FileHeader;
use super::part::Part;
use super::pool::{self, Pool};
use super::prepare::{Prepared, prepare};
use super::reading::Damage;
use super::source::{self, OpenError, Source};
use super::split::Splitter;
use super::state::{State, Step};

/// The maximum number of traces that are read from one file. The number is limited because each
/// trace results in a report or a page that is kept in memory.
const MAX_TRACES: usize = 256;

/// An item of a file: an event's content, or the beginning of a trace.
pub(crate) enum Record<T> {
    Trace,
    Event { at: Duration, content: T },
}

/// Reads records of any dialect.
#[derive(Debug)]
pub(crate) struct Records<T> {
    parts: Parts<T>,
    pub(crate) state: State,
    /// The number of traces that have begun.
    traces: usize,
    has_ended: bool,
}

/// The thread or threads that prepare the parts.
#[derive(Debug)]
enum Parts<T> {
    /// The reading thread prepares each part when it is needed.
    Here(Splitter),
    Pool(Pool<T>),
}

impl<T: Content> Parts<T> {
    fn next(&mut self) -> Result<Option<Prepared<T>>, Damage> {
        match self {
            Self::Here(splitter) => Ok(splitter.next()?.map(prepare)),
            Self::Pool(pool) => pool.next(),
        }
    }

    fn offset(&self) -> u64 {
        match self {
            Self::Here(splitter) => splitter.offset(),
            Self::Pool(pool) => pool.offset(),
        }
    }
}

impl<T: Content> Records<T> {
    /// Opens a file and reads it on several threads.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let (splitter, state) = begin(source::open(path)?)?;
        let parts = match pool::workers() {
            0 => Parts::Here(splitter),
            workers => Parts::Pool(Pool::new(splitter, workers)),
        };
        Ok(Self { parts, state, traces: 1, has_ended: false })
    }

    /// Reads from `reader` as its data arrives.
    pub(crate) fn new(reader: impl Read + Send + 'static) -> Result<Self, OpenError> {
        let source =
            source::decompress(reader).map_err(|source| OpenError::Io { path: None, source })?;
        let (splitter, state) = begin(source)?;
        Ok(Self { parts: Parts::Here(splitter), state, traces: 1, has_ended: false })
    }

    /// Returns the number of bytes that were read.
    pub(crate) fn offset(&self) -> u64 {
        self.parts.offset()
    }

    /// Returns the next item, or `None` at the end and where the file is damaged.
    pub(crate) fn next(&mut self) -> Option<Record<T>> {
        while !self.has_ended {
            let damage = match self.parts.next() {
                Ok(Some(part)) => match self.state.take(part) {
                    Step::Event { at, content } => return Some(Record::Event { at, content }),
                    Step::Trace if self.traces < MAX_TRACES => {
                        self.traces = self.traces.saturating_add(1);
                        return Some(Record::Trace);
                    }
                    Step::Trace => {
                        self.state.go_back();
                        let why = format!("the file contains more than {MAX_TRACES} traces");
                        Some(Damage { offset: self.parts.offset(), why })
                    }
                    Step::Nothing => continue,
                    Step::Broken(why) => Some(Damage { offset: self.parts.offset(), why }),
                },
                Ok(None) => None,
                Err(damage) => Some(damage),
            };
            self.has_ended = true;
            self.state.reading.damage = damage;
        }
        None
    }
}

/// Reads the beginning of a file, and checks that it is a qlog file.
fn begin(source: Source) -> Result<(Splitter, State), OpenError> {
    let mut splitter = Splitter::new(source)?;
    let part = splitter.next().map_err(|damage| not_qlog(damage.to_string()))?;
    let (Some(Part::Record { json, .. }) | Some(Part::Header { json, .. })) = part else {
        return Err(not_qlog("the first record is too long".to_owned()));
    };
    let header: FileHeader<'_> =
        serde_json::from_slice(json).map_err(|error| not_qlog(error.to_string()))?;
    let (is_qlog, state) = (header.is_qlog(), State::begin(&header));
    // The version may be among the members that follow the traces.
    if !is_qlog && !splitter.is_inside() {
        return Err(not_qlog("the header has neither a qlog version nor a qlog schema".to_owned()));
    }
    Ok((splitter, state))
}

fn not_qlog(why: String) -> OpenError {
    OpenError::NotQlog { why }
}
