//! The buffered part of a file.

use std::io::{self, Read};

use super::reading::Damage;
use super::source::Source;

/// The maximum number of bytes that are inspected to distinguish the formats.
const PEEK: usize = 256 << 10;

/// A window into a source: the bytes that were read but not yet consumed.
pub(super) struct Window {
    source: Source,
    buffer: Vec<u8>,
    /// The number of bytes in the buffer that are already consumed.
    begin: usize,
    /// The offset in the file of the buffer's first byte.
    offset: u64,
    is_at_end: bool,
    failure: Option<io::Error>,
}

impl Window {
    /// The number of bytes to read at a time.
    const CHUNK: usize = 256 << 10;

    pub(super) fn new(source: Source) -> Self {
        Self { source, buffer: Vec::new(), begin: 0, offset: 0, is_at_end: false, failure: None }
    }

    /// Reads until `find` returns a position, but at most [`PEEK`] bytes.
    pub(super) fn fill_until(&mut self, find: impl Fn(&[u8]) -> Option<usize>) -> Option<usize> {
        loop {
            if let Some(place) = find(self.bytes()) {
                return Some(place);
            }
            if self.bytes().len() >= PEEK || !self.fill().is_ok_and(|more| more) {
                return None;
            }
        }
    }

    /// Skips the byte order mark that some editors write at the beginning of UTF-8 text (RFC 8259
    /// §8.1 permits ignoring it).
    pub(super) fn skip_byte_order_mark(&mut self) {
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

    /// Returns the offset in the file at which [`bytes`](Self::bytes) begin.
    pub(super) fn offset(&self) -> u64 {
        self.offset.saturating_add(self.begin as u64)
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.begin = self.begin.saturating_add(count).min(self.buffer.len());
    }

    /// Reads more bytes into the buffer. Returns `false` at the end of the file.
    ///
    /// # Errors
    /// Returns an error if the source fails, or has failed before. The error is kept.
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

    pub(super) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Returns the failure of the source as damage.
    pub(super) fn damage(&self) -> Damage {
        let offset = self.offset.saturating_add(self.buffer.len() as u64);
        let why = match &self.failure {
            Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                "the compressed data is truncated".to_owned()
            }
            Some(error) => format!("cannot read any more data: {error}"),
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
