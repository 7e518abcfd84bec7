use std::sync::Arc;

use super::layout::Layout;
use super::part::{MAX_RECORD_BYTES, Part, SharedLayout};
use super::reading::Damage;
use super::window::Window;

/// A file that is one JSON object (main schema §4), processed without keeping it: returns the
/// elements of `traces[..].events` one by one, and all other members as headers. In version 0.1 the
/// traces are called `connections`, or the file is one trace.
#[derive(Debug)]
pub(super) struct Contained {
    window: Window,
    place: Place,
    /// The members other than traces and events, as a JSON object.
    header: Vec<u8>,
    /// The number of bytes of the window that the last part occupied.
    used: usize,
    /// The layout of the events in the current trace.
    layout: SharedLayout,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Start,
    /// The current position is between members of the file's top-level object.
    File,
    /// The current position is between elements of the `traces` array.
    Traces,
    /// The current position is between members of a trace object.
    Trace,
    /// The current position is between elements of a trace's `events` array.
    Events,
    /// The current position is between elements of the file's `events` array.
    FileEvents,
    End,
}

/// The extent of a value.
enum Extent {
    Whole(usize),
    TooLong,
}

impl Contained {
    pub(super) const fn new(window: Window) -> Self {
        Self { window, place: Place::Start, header: Vec::new(), used: 0, layout: None }
    }

    pub(super) fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// Returns whether the traces or events begin directly after the last part.
    pub(super) const fn is_inside(&self) -> bool {
        matches!(self.place, Place::Traces | Place::FileEvents)
    }

    pub(super) fn next(&mut self) -> Result<Option<Part<'_>>, Damage> {
        self.window.skip(core::mem::take(&mut self.used));
        loop {
            if self.place == Place::End {
                return Ok(None);
            }
            let byte = self.peek()?;
            match (self.place, byte) {
                (Place::Start, _) => {
                    self.window.skip(1);
                    self.place = Place::File;
                }
                (_, b',') => self.window.skip(1),
                (Place::File | Place::Trace, b'"') => {
                    if self.member()? {
                        return Ok(Some(self.take_header()));
                    }
                }
                (Place::File | Place::Trace, b'}') => {
                    let part = self.close_object();
                    return Ok(Some(part));
                }
                (Place::Traces, b'{') => {
                    self.window.skip(1);
                    self.header.clear();
                    self.place = Place::Trace;
                    return Ok(Some(Part::Trace));
                }
                (Place::Traces | Place::FileEvents, b']') => {
                    self.window.skip(1);
                    self.place = Place::File;
                }
                (Place::Events, b']') => {
                    self.window.skip(1);
                    self.place = Place::Trace;
                }
                (Place::Traces, _) => self.pass_over()?,
                (Place::Events | Place::FileEvents, _) => return self.event().map(Some),
                _ => return Err(self.broken("a member's name is missing")),
            }
        }
    }

    fn event(&mut self) -> Result<Part<'_>, Damage> {
        match self.extent()? {
            Extent::Whole(end) => {
                self.used = end;
                let json = self.window.bytes().get(..end).unwrap_or_default();
                Ok(Part::Event { json, layout: &self.layout })
            }
            Extent::TooLong => Ok(Part::TooLong),
        }
    }

    fn pass_over(&mut self) -> Result<(), Damage> {
        if let Extent::Whole(end) = self.extent()? {
            self.window.skip(end);
        }
        Ok(())
    }

    /// Ends the file or a trace. Returns the members that were added to the header after the events
    /// began.
    fn close_object(&mut self) -> Part<'_> {
        self.window.skip(1);
        let of_trace = self.place == Place::Trace;
        self.place = if of_trace { Place::Traces } else { Place::End };
        self.close_header();
        Part::Header { of_trace, json: &self.header }
    }

    /// Returns the members that precede the traces or the events, which may state the layout of the events.
    fn take_header(&mut self) -> Part<'_> {
        self.close_header();
        self.layout = Layout::of_header(&self.header).map(Arc::new);
        Part::Header { of_trace: self.place == Place::Events, json: &self.header }
    }

    /// Makes the header a valid JSON object, even if it has no members.
    fn close_header(&mut self) {
        if self.header.is_empty() {
            self.header.extend_from_slice(b"{}");
        }
    }

    /// Reads a member, and adds it to the header. If it is the array of traces or events, enters
    /// the array instead and returns `true`.
    fn member(&mut self) -> Result<bool, Damage> {
        let Extent::Whole(end) = self.extent()? else {
            return Err(self.broken("a member's name is too long"));
        };
        let name = self.window.bytes().get(..end).unwrap_or_default().to_vec();
        self.window.skip(end);
        if self.peek()? != b':' {
            return Err(self.broken("a colon is missing"));
        }
        self.window.skip(1);
        let inside = match (self.place, name.as_slice()) {
            (Place::File, b"\"traces\"" | b"\"connections\"") => Some(Place::Traces),
            (Place::File, b"\"events\"") => Some(Place::FileEvents),
            (Place::Trace, b"\"events\"") => Some(Place::Events),
            _ => None,
        };
        if let Some(inside) = inside
            && self.peek()? == b'['
        {
            self.window.skip(1);
            self.place = inside;
            return Ok(true);
        }
        self.peek()?;
        if let Extent::Whole(end) = self.extent()? {
            let value = self.window.bytes().get(..end).unwrap_or_default();
            let length = self.header.len().saturating_add(name.len()).saturating_add(end);
            if length < MAX_RECORD_BYTES {
                append(&mut self.header, &name, value);
            }
            self.window.skip(end);
        }
        Ok(false)
    }

    /// Returns the next byte that is not white space, without consuming it.
    fn peek(&mut self) -> Result<u8, Damage> {
        loop {
            let space = self.window.bytes().iter().take_while(|byte| byte.is_ascii_whitespace());
            let space = space.count();
            self.window.skip(space);
            if let Some(byte) = self.window.bytes().first() {
                return Ok(*byte);
            }
            self.more()?;
        }
    }

    /// Finds the end of the value that begins here. A value that is too long is skipped.
    fn extent(&mut self) -> Result<Extent, Damage> {
        let mut scanner = Scanner::default();
        let mut scanned = 0;
        let mut is_too_long = false;
        loop {
            let rest = self.window.bytes().get(scanned..).unwrap_or_default();
            if let Some(end) = scanner.feed(rest) {
                let end = scanned.saturating_add(end);
                if end == 0 && !is_too_long {
                    return Err(self.broken("a value is missing"));
                }
                if is_too_long {
                    self.window.skip(end);
                    return Ok(Extent::TooLong);
                }
                return Ok(Extent::Whole(end));
            }
            scanned = self.window.bytes().len();
            if scanned > MAX_RECORD_BYTES {
                is_too_long = true;
                self.window.skip(scanned);
                scanned = 0;
            }
            self.more()?;
        }
    }

    fn more(&mut self) -> Result<(), Damage> {
        match self.window.fill() {
            Ok(true) => Ok(()),
            Ok(false) | Err(()) => Err(self.window.damage()),
        }
    }

    fn broken(&self, why: &str) -> Damage {
        Damage { offset: self.window.offset(), why: why.to_owned() }
    }
}

/// Adds a member to an object. The bytes are empty if the object has no members yet.
fn append(header: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    // The closing brace is moved after the new member.
    header.pop();
    if header.len() > 1 {
        header.push(b',');
    } else {
        header.clear();
        header.push(b'{');
    }
    header.extend_from_slice(name);
    header.push(b':');
    header.extend_from_slice(value);
    header.push(b'}');
}

/// Finds the end of a JSON value whose bytes arrive in pieces. It does not check the value.
#[derive(Debug, Default)]
struct Scanner {
    depth: u64,
    is_in_string: bool,
    is_escaped: bool,
    has_begun: bool,
}

impl Scanner {
    /// Returns how many of `bytes` still belong to the value; `None` if the value continues beyond
    /// them.
    fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut position = 0;
        while let Some(rest) = bytes.get(position..).filter(|rest| !rest.is_empty()) {
            if self.is_in_string {
                match self.in_string(rest) {
                    Some(count) => position = position.saturating_add(count),
                    None => return None,
                }
                if self.depth == 0 {
                    return Some(position);
                }
                continue;
            }
            let byte = rest.first().copied().unwrap_or_default();
            match byte {
                b'"' => self.is_in_string = true,
                b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                b'}' | b']' | b',' if self.depth == 0 => return Some(position),
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(position.saturating_add(1));
                    }
                }
                byte if self.depth == 0 && self.has_begun && byte.is_ascii_whitespace() => {
                    return Some(position);
                }
                _ => {}
            }
            self.has_begun = true;
            position = position.saturating_add(1);
        }
        None
    }

    /// Returns the number of bytes up to and including the string's closing quotation mark; `None` if the string
    /// continues.
    fn in_string(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut position: usize = 0;
        if core::mem::take(&mut self.is_escaped) {
            position = 1;
        }
        loop {
            let rest = bytes.get(position..)?;
            let found = memchr::memchr2(b'"', b'\\', rest)?;
            position = position.saturating_add(found);
            if bytes.get(position) == Some(&b'"') {
                self.is_in_string = false;
                return Some(position.saturating_add(1));
            }
            position = position.saturating_add(2);
            if position > bytes.len() {
                self.is_escaped = true;
                return None;
            }
        }
    }
}

#[cfg(test)]
#[path = "contained_tests.rs"]
mod tests;
