use std::sync::Arc;

use super::layout::Layout;
use super::part::{MAX_RECORD_BYTES, Part, SharedLayout};
use super::reading::Damage;
use super::window::Window;

/// The byte that begins each record of a JSON text sequence (RFC 7464 §2.2).
pub(super) const RECORD_SEPARATOR: u8 = 0x1e;

/// Records that each have their own line, or each begin with a record separator (RFC 7464).
#[derive(Debug)]
pub(super) struct Lines {
    window: Window,
    separator: u8,
    /// The length of the last record with its terminator.
    used: usize,
    /// Whether the current record is too long, in which case its remainder is skipped.
    is_too_long: bool,
    /// The layout stated by the header, which is the first record.
    layout: SharedLayout,
    has_header: bool,
}

impl Lines {
    pub(super) const fn separated(window: Window) -> Self {
        Self::new(window, RECORD_SEPARATOR)
    }

    pub(super) const fn of_lines(window: Window) -> Self {
        Self::new(window, b'\n')
    }

    const fn new(window: Window, separator: u8) -> Self {
        Self { window, separator, used: 0, is_too_long: false, layout: None, has_header: false }
    }

    pub(super) fn offset(&self) -> u64 {
        self.window.offset()
    }

    pub(super) fn next(&mut self) -> Result<Option<Part<'_>>, Damage> {
        self.window.skip(core::mem::take(&mut self.used));
        let mut searched = 0;
        loop {
            let rest = self.window.bytes().get(searched..).unwrap_or_default();
            if let Some(found) = memchr::memchr(self.separator, rest) {
                let end = searched.saturating_add(found);
                if core::mem::take(&mut self.is_too_long) {
                    self.window.skip(end.saturating_add(1));
                    return Ok(Some(Part::TooLong));
                }
                if self.is_empty(end) {
                    self.window.skip(end.saturating_add(1));
                    searched = 0;
                    continue;
                }
                self.used = end.saturating_add(1);
                return Ok(Some(self.record(end)));
            }
            searched = self.window.bytes().len();
            if searched > MAX_RECORD_BYTES {
                self.is_too_long = true;
                self.window.skip(searched);
                searched = 0;
            }
            match self.window.fill() {
                Ok(true) => {}
                Ok(false) => return Ok(self.last()),
                Err(()) => return Err(self.window.damage()),
            }
        }
    }

    /// Returns the part after the last separator.
    fn last(&mut self) -> Option<Part<'_>> {
        let end = self.window.bytes().len();
        if core::mem::take(&mut self.is_too_long) {
            self.window.skip(end);
            return Some(Part::TooLong);
        }
        if self.is_empty(end) {
            return None;
        }
        self.used = end;
        Some(self.record(end))
    }

    /// Returns the record that ends at `end`.
    fn record(&mut self, end: usize) -> Part<'_> {
        let json = self.window.bytes().get(..end).unwrap_or_default();
        if !self.has_header {
            self.has_header = true;
            self.layout = Layout::of_header(json).map(Arc::new);
        }
        Part::Record { json, layout: &self.layout }
    }

    fn is_empty(&self, end: usize) -> bool {
        self.window.bytes().iter().take(end).all(u8::is_ascii_whitespace)
    }
}
