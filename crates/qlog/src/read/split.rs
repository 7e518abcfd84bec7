use std::io::{self, Read};
use std::sync::Arc;

use super::contained::Contained;
use super::layout::Layout;
use super::lines::Lines;
use super::reading::Damage;
use super::source::{OpenError, Source};

/// The most bytes of a record. A longer record is left out and counted.
pub const MAX_RECORD_BYTES: usize = 1 << 20;
/// The most bytes that are inspected to distinguish the formats.
const PEEK: usize = 256 << 10;
/// The byte that begins each record of a JSON text sequence (RFC 7464 §2.2).
pub(super) const RECORD_SEPARATOR: u8 = 0x1e;

/// The layout of events, if the header states one. It is shared because several threads read the events.
pub(super) type SharedLayout = Option<Arc<Layout>>;

/// A part of a file, borrowed from the buffer.
#[derive(Debug)]
pub(super) enum Part<'a> {
    /// A whole record of a sequence: the header or an event.
    Record { json: &'a [u8], layout: &'a SharedLayout },
    /// A contained trace begins. Its header is known as far as it precedes the events.
    Trace,
    /// An event of a contained trace.
    Event { json: &'a [u8], layout: &'a SharedLayout },
    /// Members of the file or of the current trace other than the events, as one JSON object.
    Header { of_trace: bool, json: &'a [u8] },
    /// A record that is longer than [`MAX_RECORD_BYTES`].
    TooLong,
}

/// A file cut into its parts.
#[derive(Debug)]
pub(super) enum Splitter {
    Lines(Lines),
    Contained(Box<Contained>),
}

impl Splitter {
    pub(super) fn new(source: Source) -> Result<Self, OpenError> {
        // No more is read than necessary: a file that is still being written may not grow for a while.
        let mut window = Window::new(source);
        window.skip_byte_order_mark();
        let start = window.fill_until(|bytes| bytes.iter().position(|byte| !is_space(*byte)));
        let Some(first) = start.and_then(|start| window.bytes().get(start)).copied() else {
            return match window.take_failure() {
                Some(failure) => Err(OpenError::Io { path: None, source: failure }),
                None => Err(OpenError::Empty),
            };
        };
        window.skip(start.unwrap_or_default());
        match first {
            RECORD_SEPARATOR => Ok(Self::Lines(Lines::separated(window))),
            b'{' if first_line_is_a_record(&mut window) => Ok(Self::Lines(Lines::of_lines(window))),
            b'{' => Ok(Self::Contained(Box::new(Contained::new(window)))),
            _ => Err(OpenError::NotQlog {
                why: "it starts with neither a JSON object nor a record separator".to_owned(),
            }),
        }
    }

    /// Returns the next part, or `None` at the end and after damage.
    pub(super) fn next(&mut self) -> Result<Option<Part<'_>>, Damage> {
        match self {
            Self::Lines(lines) => lines.next(),
            Self::Contained(contained) => contained.next(),
        }
    }

    /// Whether the file has an array of traces or of events, as every contained qlog file does.
    pub(super) fn is_inside(&self) -> bool {
        matches!(self, Self::Contained(contained) if contained.is_inside())
    }

    /// The offset in the (decompressed) file at which the last part began, in bytes.
    pub(super) fn offset(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.offset(),
            Self::Contained(contained) => contained.offset(),
        }
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Whether the first line is complete JSON, and not a contained file written in one line.
fn first_line_is_a_record(window: &mut Window) -> bool {
    #[derive(serde::Deserialize)]
    struct Line {
        traces: Option<serde::de::IgnoredAny>,
        /// The members of version 0.1.
        connections: Option<serde::de::IgnoredAny>,
        events: Option<serde::de::IgnoredAny>,
    }
    let Some(end) = window.fill_until(|bytes| memchr::memchr(b'\n', bytes)) else { return false };
    let line = window.bytes().get(..end).unwrap_or_default();
    serde_json::from_slice::<Line>(line).is_ok_and(|line| {
        line.traces.is_none() && line.connections.is_none() && line.events.is_none()
    })
}

/// A window on a source: the bytes that were read and not yet consumed.
pub(super) struct Window {
    source: Source,
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that are consumed.
    begin: usize,
    /// The offset in the file of the buffer's first byte.
    offset: u64,
    is_at_end: bool,
    failure: Option<io::Error>,
}

impl Window {
    /// The bytes that are read at a time.
    const CHUNK: usize = 256 << 10;

    fn new(source: Source) -> Self {
        Self { source, buffer: Vec::new(), begin: 0, offset: 0, is_at_end: false, failure: None }
    }

    /// Reads until `find` returns a position, but at most [`PEEK`] bytes.
    fn fill_until(&mut self, find: impl Fn(&[u8]) -> Option<usize>) -> Option<usize> {
        loop {
            if let Some(place) = find(self.bytes()) {
                return Some(place);
            }
            if self.bytes().len() >= PEEK || !self.fill().is_ok_and(|more| more) {
                return None;
            }
        }
    }

    /// Skips the mark that some editors put at the beginning of text in UTF-8 (RFC 8259 §8.1 allows to ignore it).
    fn skip_byte_order_mark(&mut self) {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        let differs = |bytes: &[u8]| bytes.iter().zip(MARK).any(|(byte, mark)| byte != mark);
        self.fill_until(|bytes| (differs(bytes) || bytes.len() >= MARK.len()).then_some(0));
        if self.bytes().starts_with(MARK) {
            self.skip(MARK.len());
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.begin..).unwrap_or_default()
    }

    /// The offset in the file of the first of [`bytes`](Self::bytes).
    pub(super) fn offset(&self) -> u64 {
        self.offset.saturating_add(self.begin as u64)
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.begin = self.begin.saturating_add(count).min(self.buffer.len());
    }

    /// Reads more. `false` at the end of the file.
    ///
    /// # Errors
    /// If the source fails or failed before. The error is kept.
    pub(super) fn fill(&mut self) -> Result<bool, ()> {
        if self.failure.is_some() {
            return Err(());
        }
        if self.is_at_end {
            return Ok(false);
        }
        self.buffer.drain(..self.begin);
        self.offset = self.offset.saturating_add(self.begin as u64);
        self.begin = 0;
        let length = self.buffer.len();
        self.buffer.resize(length.saturating_add(Self::CHUNK), 0);
        let result = loop {
            match self.source.read(self.buffer.get_mut(length..).unwrap_or_default()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let read = *result.as_ref().unwrap_or(&0);
        self.buffer.truncate(length.saturating_add(read));
        match result {
            Ok(0) => {
                self.is_at_end = true;
                Ok(false)
            }
            Ok(_) => Ok(true),
            Err(error) => {
                self.failure = Some(error);
                Err(())
            }
        }
    }

    fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// The failure of the source, as damage.
    pub(super) fn damage(&self) -> Damage {
        let offset = self.offset.saturating_add(self.buffer.len() as u64);
        let why = match &self.failure {
            Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                "the compressed data is truncated".to_owned()
            }
            Some(error) => format!("the rest cannot be read: {error}"),
            None => "the data is truncated".to_owned(),
        };
        Damage { offset, why }
    }
}

impl core::fmt::Debug for Window {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut debug = formatter.debug_struct("Window");
        debug.field("offset", &self.offset()).field("waiting", &self.bytes().len());
        debug.finish_non_exhaustive()
    }
}
